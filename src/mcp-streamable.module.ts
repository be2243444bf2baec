import {
  type DynamicModule,
  Inject,
  type MiddlewareConsumer,
  Module,
  type NestModule,
  type OnModuleInit,
  type Type,
} from '@nestjs/common';
import { ApplicationConfig, HttpAdapterHost, ModulesContainer } from '@nestjs/core';
import { HttpEdge } from './core/http/edge/http-edge.js';
import {
  assertOptions,
  ConfigurableModuleClass,
  type McpStreamableModuleAsyncOptions,
  type McpStreamableModuleOptions,
} from './mcp-streamable.module-definition.js';
import { featureModule } from './core/handlers/discovery/app-scan.js';
import { ENDPOINT_NAME, type EndpointName } from './core/calls/endpoint-name.js';
import { assertOwnName, assertOwnPath, routerPathOf } from './core/http/edge/shared-path.js';
import { OPTION_NAMES } from './mcp-streamable.options.js';
import { assertAsyncOptions } from './core/common/async-options.js';
import { EXTRA_NAMES } from './core/http/endpoint-extras.js';

/**
 * Makes an MCP endpoint in a NestJS app: the Streamable HTTP transport with sessions, resumable streams and Nest
 * guards.
 *
 * ```ts
 * imports: [McpStreamableModule.forRoot({ serverInfo: { name: 'orders', version: '1.0.0' } })];
 * ```
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
 * @publicApi
 */
@Module({})
export class McpStreamableModule extends ConfigurableModuleClass implements NestModule, OnModuleInit {
  constructor(
    @Inject(ENDPOINT_NAME) readonly endpointName: EndpointName,
    @Inject(HttpEdge) private readonly edge: HttpEdge,
    @Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost,
    @Inject(ModulesContainer) private readonly modules: ModulesContainer,
    @Inject(ApplicationConfig) private readonly config: ApplicationConfig,
  ) {
    super();
  }

  /**
   * Makes an MCP endpoint with these options. `serverInfo` is the only one that it needs; the handlers are the
   * decorated methods of the app's providers and controllers.
   *
   * ```ts
   * McpStreamableModule.forRoot({ serverInfo: { name: 'orders', version: '1.0.0' }, guards: [TokenGuard] })
   * ```
   *
   * @throws McpOptionError for an option that is unknown, or whose value cannot be used; in part at start
   */
  static override forRoot(options: McpStreamableModuleOptions): DynamicModule {
    assertOptions(options);
    return super.forRoot(options);
  }

  /**
   * Does what `forRoot` does, with options from a factory; options that Nest needs earlier are given beside it.
   *
   * ```ts
   * McpStreamableModule.forRootAsync({
   *   guards: [TokenGuard],
   *   inject: [ConfigService],
   *   useFactory: (config: ConfigService) => ({ serverInfo: config.getOrThrow('mcp.server') }),
   * })
   * ```
   *
   * @throws McpOptionError as `forRoot` does
   */
  static override forRootAsync(options: McpStreamableModuleAsyncOptions): DynamicModule {
    assertAsyncOptions('McpStreamableModule', options, { early: EXTRA_NAMES, made: OPTION_NAMES });
    return super.forRootAsync(options);
  }

  /**
   * Assigns the handlers of some classes to an endpoint, in an app with several. The classes stay in the `providers` of
   * their module, next to their dependencies.
   *
   * ```ts
   * imports: [McpStreamableModule.forFeature([AdminTools], 'admin')];
   * ```
   *
   * @param providers classes with decorated methods
   * @param name the option `name` of the endpoint; without it, the handlers belong to the same endpoint as without
   *   `forFeature()`
   * @throws McpHandlerDefinitionError for a value that is not a class; at start for a class that no module provides, and for a name that
   *   no endpoint has
   */
  static forFeature(providers: readonly Type[], name?: string): DynamicModule {
    return featureModule(providers, name);
  }

  /**
   * Installs the edge in front of the app's router, before routes are declared.
   *
   * @throws McpOptionError when another endpoint of the app has the same path
   * @internal
   */
  configure(_consumer: MiddlewareConsumer): void {
    const versioning = this.config.getVersioning();
    const { applicationId } = this.modules;
    for (const other of this.#others()) {
      const paths = [routerPathOf(this, applicationId), routerPathOf(other, applicationId)] as const;
      assertOwnPath([this.endpointName, other.endpointName], paths, versioning);
    }
    this.edge.install(this.adapterHost.httpAdapter);
  }

  /** @throws McpOptionError when another endpoint of the app has the same name @internal */
  onModuleInit(): void {
    for (const { endpointName: other } of this.#others()) assertOwnName(this.endpointName, other);
  }

  /** Returns all endpoints of the app. */
  #endpoints(): McpStreamableModule[] {
    const instances = [...this.modules.values()].map(({ instance }): unknown => instance);
    return instances.filter((instance): instance is McpStreamableModule => instance instanceof McpStreamableModule);
  }

  #others(): McpStreamableModule[] {
    // Not by `this`: Nest's option `instrument` may put a proxy around each instance.
    return this.#endpoints().filter(({ endpointName }) => endpointName !== this.endpointName);
  }
}
