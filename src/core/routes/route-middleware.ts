import { Inject, Injectable, RequestMethod, type Type, VersioningType } from '@nestjs/common';
import { ApplicationConfig, HttpAdapterHost, MetadataScanner, MiddlewareBuilder, ModulesContainer } from '@nestjs/core';
import { McpHandlerDefinitionError } from '../handlers/handlers.errors.js';
import type { ProviderWrapper } from '../handlers/invocation/enhancers.js';
import { mountedOnFastify } from '../handlers/invocation/older-nest.js';
import { isRouteMethod, routePathsOf, verbOf } from './route-paths.js';
import { EndpointMark } from '../handlers/discovery/app-scan.js';
import { covers, coversAll, meets, type Pattern, patternOf } from './path-pattern.js';

/*
 * # Middleware of a route whose method is a handler too
 *
 * `consumer.apply(Auth).forRoutes(OrdersController)` stands in front of the route. A call of the tool comes by the POST
 * of the endpoint, so that middleware runs for it only if it also matches the path of the endpoint, as `forRoutes('*')`
 * does. Otherwise the app does not start.
 *
 * Nest keeps to itself what `configure()` of the app's modules mounts, so its builder is watched. What `app.use(path, …)` mounts is
 * not known.
 */

/** Nest's method of a route that was given as a text. */
const EVERY = -1;

interface RouteInfo {
  readonly path: string;
  readonly method: RequestMethod | typeof EVERY;
  readonly version?: unknown;
}

/** Includes the private members that are read. */
interface Builder {
  getHttpAdapter(): { getType(): string };
  build(): readonly { readonly forRoutes: readonly RouteInfo[] }[];
  readonly routeInfoPathExtractor: { extractPathsFrom(route: RouteInfo): string[] };
}

interface ConfigProxy {
  forRoutes(...routes: unknown[]): unknown;
  getExcludedRoutes(): readonly RouteInfo[];
}

/** One call of `forRoutes()`. */
interface Noted {
  readonly builder: Builder;
  readonly middleware: readonly unknown[];
  readonly routes: readonly RouteInfo[];
  readonly excluded: readonly RouteInfo[];
}

/** Holds the calls by the adapter of their app. */
const NOTED = new WeakMap<object, Noted[]>();

let isWatched = false;

/** Notes what modules mount from here on, by the adapter of their app. */
function watchBuilders(): void {
  if (isWatched) return;
  isWatched = true;
  const prototype = MiddlewareBuilder.prototype as unknown as {
    apply: (this: Builder, ...middleware: unknown[]) => ConfigProxy;
  };
  const { apply } = prototype;
  prototype.apply = function (...middleware) {
    const proxy = apply.call(this, ...middleware);
    const forRoutes = proxy.forRoutes.bind(proxy);
    proxy.forRoutes = (...routes) => {
      const returned = forRoutes(...routes);
      const adapter = this.getHttpAdapter();
      const noted: Noted = {
        builder: this,
        middleware: middleware.flat(),
        routes: this.build().at(-1)!.forRoutes,
        excluded: proxy.getExcludedRoutes(),
      };
      NOTED.set(adapter, [...(NOTED.get(adapter) ?? []), noted]);
      return returned;
    };
    return proxy;
  };
}

interface Mount {
  readonly method: RouteInfo['method'];
  readonly pattern: Pattern;
}

/** Where middleware runs, with prefix and version in the paths. */
interface Mounted {
  readonly middleware: readonly unknown[];
  readonly mounts: readonly Mount[];
  /** It does not run for these. */
  readonly excluded: readonly (Mount & {
    /** Whether it is excluded only for requests with some version of the API. */
    readonly isOfVersion: boolean;
  })[];
}

function mountedBy({ builder, middleware, routes, excluded }: Noted, config: ApplicationConfig): Mounted {
  const isExpress = builder.getHttpAdapter().getType() === 'express';
  const versioning = config.getVersioning();
  const isInPath = !versioning || versioning.type === VersioningType.URI;
  const prefix = `/${config.getGlobalPrefix().replace(/^\//, '')}`;
  return {
    middleware,
    mounts: routes.flatMap((route) => {
      const { method } = route;
      const paths = builder.routeInfoPathExtractor.extractPathsFrom(route);
      return paths.map((path) => {
        // Express runs middleware of a path that was given as a text for all paths below it.
        const pattern = isExpress
          ? patternOf(path, method === EVERY)
          : patternOf(prefix === '/' ? path : mountedOnFastify(path, prefix));
        return { method, pattern };
      });
    }),
    excluded: excluded.map(({ path, method, version }) => {
      return { method, pattern: patternOf(path), isOfVersion: version !== undefined && !isInPath };
    }),
  };
}

/** A handler whose method is a route. */
export interface RouteHandler {
  readonly wrapper: ProviderWrapper;
  readonly methodName: string;
  readonly origin: string;
  readonly isTool: boolean;
}

interface Served {
  readonly paths: readonly string[];
  /** `undefined`: any. */
  readonly verb: string | undefined;
}

/** Finds middleware that runs for a route, and not for the POST that carries calls of its handler. @internal */
@Injectable()
export class RouteMiddleware {
  constructor(
    @Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost,
    @Inject(ApplicationConfig) private readonly config: ApplicationConfig,
    @Inject(ModulesContainer) private readonly modules: ModulesContainer,
    @Inject(MetadataScanner) private readonly scanner: MetadataScanner,
    @Inject(EndpointMark) private readonly endpoint: EndpointMark,
  ) {
    // Nest calls `configure()` of the modules when all providers exist.
    watchBuilders();
  }

  /** @throws McpHandlerDefinitionError for the first handler that middleware of its route would not protect */
  assertRuns(handlers: readonly RouteHandler[]): void {
    const { httpAdapter } = this.adapterHost;
    const noted = (httpAdapter && NOTED.get(httpAdapter)) ?? [];
    if (noted.length === 0 || handlers.length === 0) return;
    const mounted = noted.map((each) => mountedBy(each, this.config));
    const post = this.#post();
    const routes = this.#routes();
    const all = new Set(mounted.flatMap(({ middleware }) => middleware));
    for (const { wrapper, methodName, origin, isTool } of handlers) {
      // A provider with the decorators of routes has none.
      if (!wrapper.host?.controllers.has(wrapper.token)) continue;
      const route = this.#served(wrapper, methodName);
      for (const middleware of all) {
        const uses = mounted.filter((each) => each.middleware.includes(middleware));
        if (!uses.some((use) => runsFor(use, route, routes)) || runsForAll(uses, post)) continue;
        throw new McpHandlerDefinitionError(origin, reasonOf(middleware, route, post, isTool));
      }
    }
  }

  /** Returns the route of the endpoint that takes calls. */
  #post(): Served {
    const module = [...this.modules.values()].find(({ providers }) =>
      [...providers.values()].some(({ instance }) => instance === this.endpoint),
    );
    const controllers = module ? [...module.controllers.values()] : [];
    return controllers.flatMap((wrapper) => this.#routesOf(wrapper)).find(({ verb }) => verb === 'POST')!;
  }

  #routes(): Served[] {
    const modules = [...this.modules.values()];
    return modules.flatMap(({ controllers }) => [...controllers.values()].flatMap((each) => this.#routesOf(each)));
  }

  #routesOf(wrapper: ProviderWrapper): Served[] {
    const prototype = (wrapper.metatype as Type<object>).prototype as object;
    const names = this.scanner.getAllMethodNames(prototype);
    return names
      .filter((name) => isRouteMethod(Reflect.get(prototype, name)))
      .map((name) => this.#served(wrapper, name));
  }

  #served(wrapper: ProviderWrapper, methodName: string): Served {
    const { config, modules } = this;
    const host = wrapper.metatype as Type<object>;
    const method = Reflect.get(host.prototype as object, methodName) as object;
    return { paths: routePathsOf(host, method, { config, modules, wrapper }), verb: verbOf(method) };
  }
}

function reasonOf(middleware: unknown, { verb = 'ALL', paths }: Served, post: Served, isTool: boolean): string {
  const { name } = middleware as { readonly name?: string };
  const named = name ? `the middleware ${name}` : 'a middleware function';
  const options = isTool ? '@Tool(), @Tools() or McpStreamableModule.forRoot()' : 'McpStreamableModule.forRoot()';
  return `${named} runs for its route ${verb} ${paths.join(', ')}, but not for POST ${post.paths.join(', ')}, with which clients call it. So a call would bypass the middleware. Add the path of the endpoint to forRoutes() of the middleware, or remove it from exclude(); or use a guard, which runs for both. If only the route needs the middleware, give ${options} the option middleware: 'ignore'.`;
}

/** Returns whether middleware runs for requests of a route. @param routes all of the app */
function runsFor({ mounts, excluded }: Mounted, { paths, verb }: Served, routes: readonly Served[]): boolean {
  const isExcluded = (path: Pattern): boolean =>
    excluded.some((each) => !each.isOfVersion && isFor(each, verb) && coversAll(each.pattern, path));
  return paths
    .map((path) => patternOf(path))
    .filter((path) => !isExcluded(path))
    .some((path) =>
      mounts.some((mount) => {
        if (!mayBeFor(mount, verb)) return false;
        if (path.some((each) => covers(mount.pattern, each))) return true;
        // A path such as `orders/archive` is that of another route, or one value of `orders/:id`.
        return meets(mount.pattern, path) && !routes.some((other) => isOf(mount, other));
      }),
    );
}

function isOf(mount: Mount, { paths, verb }: Served): boolean {
  const isPath = paths.some((path) => patternOf(path).some((each) => covers(mount.pattern, each)));
  return isPath && mayBeFor(mount, verb);
}

/** Returns whether middleware runs for each request of a route, by one mount or another. */
function runsForAll(uses: readonly Mounted[], { paths, verb }: Served): boolean {
  return paths
    .map((path) => patternOf(path))
    .every((path) =>
      uses.some(({ mounts, excluded }) => {
        if (excluded.some((each) => mayBeFor(each, verb) && meets(each.pattern, path))) return false;
        return mounts.some((mount) => isFor(mount, verb) && coversAll(mount.pattern, path));
      }),
    );
}

/** Returns whether what is mounted for a method runs for each request with the verb. */
function isFor({ method }: Mount, verb: string | undefined): boolean {
  return method === EVERY || method === RequestMethod.ALL || RequestMethod[method] === verb;
}

/** The same for some requests: Nest 12 runs what is mounted for GET for HEAD too. */
function mayBeFor(mount: Mount, verb: string | undefined): boolean {
  return isFor(mount, verb) || verb === undefined || (verb === 'HEAD' && mount.method === RequestMethod.GET);
}
