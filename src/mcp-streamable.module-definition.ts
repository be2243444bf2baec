import { type ConfigurableModuleAsyncOptions, ConfigurableModuleBuilder, type DynamicModule } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { getMcpToken } from './core/calls/inject-mcp.js';
import { McpBearerGuard } from './auth/bearer.guard.js';
import { MCP_OPTIONS, McpOptionError } from './core/common/options.js';
import { createEndpointController } from './core/http/endpoint-controller.js';
import { ENDPOINT_KEY } from './core/http/edge/endpoint-route.js';
import { loadSdk } from './core/protocol/spec.js';
import { type McpStreamableOptions, resolveEndpointOptions } from './mcp-streamable.options.js';
import { DEFAULTS, type McpStreamableExtras, resolveExtras } from './core/http/endpoint-extras.js';
import { McpHealthIndicator } from './core/nodes/mcp-health.indicator.js';
import { ENDPOINT_NAME } from './core/calls/endpoint-name.js';
import { interceptorNames } from './core/handlers/invocation/enhancers.js';
import { nameOfEnhancer } from './core/calls/operator-log.js';
import { endpointParts } from './mcp-streamable.providers.js';
import { EndpointMark } from './core/handlers/discovery/app-scan.js';
import { McpRegistry } from './core/handlers/registry/mcp-registry.js';
import { McpConfirmations } from './effects/mcp-confirmations.js';
import { McpToolCaller } from './core/methods/mcp-tool-caller.js';
import { McpEventStore } from './core/log/event-store.js';
import { McpStateStore } from './core/questions/state/state-store.js';
import { McpSessionStore } from './core/sessions/store/session-store.js';
import { McpSessionService } from './core/sessions/mcp-session.service.js';
import { McpShutdownModule } from './core/http/endpoint-shutdown.js';

const STORES = [McpSessionStore, McpEventStore, McpStateStore];
const SERVICES = [McpSessionService, McpRegistry, McpHealthIndicator, McpToolCaller, McpConfirmations];

/** The options and extras that `McpStreamableModule.forRoot()` takes. @publicApi */
export interface McpStreamableModuleOptions extends McpStreamableOptions, Partial<McpStreamableExtras> {}

/**
 * `McpStreamableModule.forRootAsync()` takes a factory of the options, and beside it the options that Nest needs
 * earlier.
 *
 * @publicApi
 */
export interface McpStreamableModuleAsyncOptions
  extends
    ConfigurableModuleAsyncOptions<McpStreamableOptions, 'createMcpStreamableOptions'>,
    Omit<Partial<McpStreamableExtras>, 'imports'> {}

/** `forRoot` and `forRootAsync`: each call creates a module with its own controller. */
export const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN } = new ConfigurableModuleBuilder<McpStreamableOptions>({
  moduleName: 'McpStreamable',
})
  .setClassMethodName('forRoot')
  .setFactoryMethodName('createMcpStreamableOptions')
  .setExtras<McpStreamableExtras>(DEFAULTS, endpointModule)
  .build();

function endpointModule(definition: DynamicModule, extras: McpStreamableExtras): DynamicModule {
  const resolved = resolveExtras(extras);
  const { path, version, guards, imports, isGlobal, name } = resolved;
  const guarded = guards.length > 0;
  const endpoint = Symbol(`mcp endpoint "${name ?? path}"`);
  const all = isWithoutAuth(definition) ? guards : [McpBearerGuard, ...guards];
  const controller = createEndpointController(endpoint, { ...resolved, guards: all });
  const interceptors = interceptorNames(controller);
  // With a name, the services are provided by name only: by class, an app with several endpoints would silently get one of them.
  const services = SERVICES.map((part) => ({ provide: getMcpToken<object>(part, name), useClass: part }));
  const stores = STORES.map((part) => ({ provide: getMcpToken<unknown>(part, name), useExisting: part }));
  return {
    ...definition,
    global: isGlobal,
    imports: [...new Set([DiscoveryModule, McpShutdownModule, ...(definition.imports ?? []), ...imports])],
    controllers: [controller],
    providers: [
      ...(definition.providers ?? []),
      { provide: ENDPOINT_KEY, useValue: endpoint },
      {
        provide: ENDPOINT_NAME,
        useValue: { name, path, version, guarded, guards: guards.map(nameOfEnhancer), interceptors },
      },
      {
        provide: MCP_OPTIONS,
        useFactory: async (options: unknown) => {
          const resolved = resolveEndpointOptions(options, { guarded });
          await loadSdk();
          return resolved;
        },
        inject: [MODULE_OPTIONS_TOKEN],
      },
      { provide: EndpointMark, useValue: new EndpointMark(name) },
      ...endpointParts,
      ...services,
      ...(name === undefined ? [] : [{ provide: McpSessionService, useExisting: services[0]!.provide }, ...stores]),
    ],
    exports: [...services, ...stores].map(({ provide }) => provide),
  };
}

/** Whether the options have no `auth`; those of a factory are not known yet. */
function isWithoutAuth({ providers = [] }: DynamicModule): boolean {
  return providers.some(
    (provider) =>
      'useValue' in provider &&
      provider.provide === MODULE_OPTIONS_TOKEN &&
      (provider.useValue as { auth?: unknown }).auth === undefined,
  );
}

/** Checks the argument of `forRoot()` before Nest reads it. @throws McpOptionError */
export function assertOptions(options: unknown): void {
  if (typeof options === 'object' && options !== null) return;
  const text = `McpStreamableModule.forRoot() takes an object of options; got ${String(options)}. Give "serverInfo" at least: { serverInfo: { name: "orders", version: "1.0.0" } }.`;
  throw new McpOptionError('options', text);
}
