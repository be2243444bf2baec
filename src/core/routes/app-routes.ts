import { Inject, Injectable } from '@nestjs/common';
import { ApplicationConfig, HttpAdapterHost, ModulesContainer } from '@nestjs/core';
import type { ToolOptions } from '../handlers/decorators/handler-options.js';
import { isNoTool, toolsOf } from '../handlers/decorators/handler.decorators.js';
import { McpHandlerDefinitionError, namesText } from '../handlers/handlers.errors.js';
import { classOptionsOf, isValidated } from '../handlers/invocation/enhancers.js';
import type { ArgumentsStrategy } from '../handlers/invocation/invocation.js';
import {
  type MadeSchema,
  type MethodRoute,
  MethodRoutes,
  type ProviderMethod,
} from '../handlers/invocation/method-routes.js';
import type { ParamLayout } from '../handlers/invocation/params.js';
import type { SchemaCompiler } from '../handlers/schema/schema-compiler.js';
import type { SeenRoute } from './request-view.js';
import { HandWrittenArguments, RouteArguments } from './route-arguments.js';
import { assertCallable, ROUTE_PARAMS } from './route-handlers.js';
import { RouteMiddleware } from './route-middleware.js';
import { isRouteMethod, pathNamesOf, routePathsOf, verbOf, wildNamesOf } from './route-paths.js';
import { routeSchema } from './route-schema.js';
import { isReadRoute, routeToolOptions } from './route-tools.js';
import { RouteUrls } from './route-url.js';
import { parameterDocs } from './swagger.js';

/** The key that `@RouteConfig()` of @nestjs/platform-fastify writes is copied, as that package is optional. */
const FASTIFY_ROUTE_CONFIG = '__fastify_route_config__';

const NONE: ReadonlySet<string> = new Set();

/** Finds the routes of an app whose methods are handlers. @internal */
@Injectable()
export class AppRoutes extends MethodRoutes {
  constructor(
    @Inject(ApplicationConfig) private readonly config: ApplicationConfig,
    @Inject(ModulesContainer) private readonly modules: ModulesContainer,
    @Inject(HttpAdapterHost) private readonly adapterHost: Pick<HttpAdapterHost, 'httpAdapter'>,
    @Inject(RouteMiddleware) private readonly middleware: Pick<RouteMiddleware, 'assertRuns'>,
  ) {
    super();
  }

  routeOf(method: ProviderMethod): AppRoute | undefined {
    if (!isRouteMethod(method.method)) return undefined;
    assertCallable(method);
    const { config, modules } = this;
    const paths = routePathsOf(method.host, method.method, { config, modules, wrapper: method.wrapper });
    return new AppRoute(method, paths, config, this.adapterHost.httpAdapter?.getType() === 'express');
  }

  toolsOf(type: Parameters<MethodRoutes['toolsOf']>[0], names: readonly string[]): readonly string[] {
    const tools = toolsOf(type);
    if (!tools) return [];
    const routes = names.filter((name) => isRouteMethod(Reflect.get(type.prototype, name)));
    if (routes.length === 0) {
      throw new McpHandlerDefinitionError(
        type.name,
        'it has @Tools(), but no routes. Give its methods @Get(), @Post() and the like, or @Tool({ name }).',
      );
    }
    const { only = routes, except = [] } = tools;
    const unknown = [...only, ...except].find((name) => !routes.includes(name));
    if (unknown !== undefined) {
      throw new McpHandlerDefinitionError(
        type.name,
        `@Tools() names "${unknown}", which is no route of it. ${namesText(routes)}`,
      );
    }
    return only.filter((name) => !except.includes(name) && !isNoTool(Reflect.get(type.prototype, name) as object));
  }

  assertMiddlewareRuns(methods: readonly (ProviderMethod & { readonly isTool: boolean })[]): void {
    this.middleware.assertRuns(methods.filter(({ method }) => isRouteMethod(method)));
  }
}

/** A route whose method is a handler. */
class AppRoute implements MethodRoute {
  readonly params = ROUTE_PARAMS;

  constructor(
    private readonly of: ProviderMethod,
    private readonly paths: readonly string[],
    private readonly config: ApplicationConfig,
    private readonly isOnExpress: boolean,
  ) {}

  get reads(): boolean {
    return isReadRoute(this.of.method);
  }

  toolOptions(options: ToolOptions): ToolOptions {
    return routeToolOptions(options, this.of);
  }

  schemaOf(
    layout: ParamLayout,
    { maxValues, rename = {} }: Pick<ToolOptions, 'maxValues' | 'rename'>,
    compiler: SchemaCompiler,
  ): MadeSchema | undefined {
    const { config, paths } = this;
    const { host, method, origin } = this.of;
    const pathNames = pathNamesOf(paths);
    const params = layout.decorated ? layout.args : [];
    if (params.length === 0 && pathNames.size === 0) return undefined;
    const schema = routeSchema(params, {
      origin,
      compiler,
      pathNames,
      wildNames: wildNamesOf(paths),
      rename,
      piped: ({ pipes }) => isValidated(config, host, method, pipes),
      classes: ({ pipes }) => classOptionsOf(config, host, method, pipes),
      maxValues,
      documented: (place) => parameterDocs([method, host], place),
    });
    const { json, outdated } = schema;
    return { json, outdated, strategy: new RouteArguments(this.#seen(layout), schema) };
  }

  strategyOf(layout: ParamLayout): ArgumentsStrategy {
    return new HandWrittenArguments(this.#seen(layout), layout.args, [...pathNamesOf(this.paths).keys()]);
  }

  #seen({ args, decorated }: ParamLayout): SeenRoute {
    const { method } = this.of;
    return {
      urls: new RouteUrls(this.paths, verbOf(method)),
      hasArgumentsInUrl: pathNamesOf(this.paths).size > 0 || args.some(({ part }) => part !== 'body'),
      splitNames: this.isOnExpress ? wildNamesOf(this.paths) : NONE,
      verb: seenVerbOf(method, decorated && args.some(({ part }) => part === 'body')),
      config: Reflect.getMetadata(FASTIFY_ROUTE_CONFIG, method) as object | undefined,
    };
  }
}

/**
 * Returns the method that guards and interceptors of a route see: its own, so that they decide as on the route. The
 * request of a GET that takes arguments in a body stays a POST: a cache of GET answers by URL would mix such calls up.
 */
function seenVerbOf(method: object, hasBody: boolean): string | undefined {
  const verb = verbOf(method);
  return hasBody && (verb === 'GET' || verb === 'HEAD') ? 'POST' : verb;
}
