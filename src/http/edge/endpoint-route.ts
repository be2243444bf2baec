import 'reflect-metadata';

/** Names one endpoint of an app: made once per `forRoot()` call. @internal */
export type EndpointKey = symbol;

/** The injection token of the key of the endpoint: the mark on its routes. */
export const ENDPOINT_KEY = Symbol('nestjs-mcp-streamable:endpoint-key');

/** Of our own, and a symbol, so that no decorator of the app and no plugin of Fastify can meet it by accident. */
const ENDPOINT = Symbol('nestjs-mcp-streamable:endpoint');

/** What `@RouteConfig()` of @nestjs/platform-fastify writes; imported by value, as that package is optional. */
const FASTIFY_ROUTE_CONFIG = '__fastify_route_config__';

/**
 * Marks a route method of an endpoint's controller, so that the edge finds the route in the app's router.
 *
 * Nest copies a method's metadata to the handler that it gives to the router, whatever the path became through global
 * prefix, versioning and RouterModule: the mark is what needs no knowledge of paths. On Fastify it travels in the route's
 * `config`, since there the handler may be wrapped.
 *
 * The mark is on the function. Methods inherited from a common base class would belong to the endpoint that was decorated
 * last: the class that declares them must be made per endpoint.
 *
 * @internal
 */
export function EndpointRoute(endpoint: EndpointKey): MethodDecorator {
  return (_target, _name, descriptor) => {
    const method = descriptor.value as object;
    const config = Reflect.getMetadata(FASTIFY_ROUTE_CONFIG, method) as object | undefined;
    Reflect.defineMetadata(ENDPOINT, endpoint, method);
    Reflect.defineMetadata(FASTIFY_ROUTE_CONFIG, { ...config, [ENDPOINT]: endpoint }, method);
  };
}

/** The endpoint of a handler in Express' router, `undefined` for routes of the app. @internal */
export function endpointOfHandler(handler: unknown): EndpointKey | undefined {
  return typeof handler === 'function'
    ? (Reflect.getMetadata(ENDPOINT, handler) as EndpointKey | undefined)
    : undefined;
}

/** Whether a handler in Express' router is a method of some controller, rather than middleware for one path. @internal */
export function isControllerRoute(handler: unknown): boolean {
  return typeof handler === 'function' && Reflect.hasMetadata('path', handler);
}

/** The endpoint of a route's `config` in Fastify, `undefined` for routes of the app. @internal */
export function endpointOfConfig(config: unknown): EndpointKey | undefined {
  return (config as { [ENDPOINT]?: EndpointKey } | undefined)?.[ENDPOINT];
}
