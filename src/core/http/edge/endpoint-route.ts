import 'reflect-metadata';
import type { IncomingMessage } from 'node:http';
import type { McpIncoming } from '../../eras/mcp-endpoint.js';
import type { IncomingBody } from '../../protocol/json-rpc.js';

/** Identifies one endpoint of an app; each `forRoot()` call makes one. @internal */
export type EndpointKey = symbol;

/** The injection token of the key of the endpoint, which marks its routes. */
export const ENDPOINT_KEY = Symbol('nestjs-mcp-streamable:endpoint-key');

/** The symbol is this library's, so that it cannot collide with a decorator of the app or a plugin of Fastify. */
const ENDPOINT = Symbol('nestjs-mcp-streamable:endpoint');

/** The key that `@RouteConfig()` of @nestjs/platform-fastify writes is copied, as that package is optional. */
const FASTIFY_ROUTE_CONFIG = '__fastify_route_config__';

/**
 * Marks a route method of an endpoint's controller, so that the edge finds the route in the app's router.
 *
 * Nest copies a method's metadata to the handler that it gives to the router, independent of global prefix, versioning
 * and RouterModule, so the edge does not need to compute paths. On Fastify it travels in the route's `config`, since
 * there the handler may be wrapped.
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

/** Returns the endpoint of a handler in Express' router, `undefined` for routes of the app. @internal */
export function endpointOfHandler(handler: unknown): EndpointKey | undefined {
  return typeof handler === 'function'
    ? (Reflect.getMetadata(ENDPOINT, handler) as EndpointKey | undefined)
    : undefined;
}

/** Returns the endpoint of a route's `config` in Fastify, `undefined` for routes of the app. @internal */
export function endpointOfConfig(config: unknown): EndpointKey | undefined {
  return (config as { [ENDPOINT]?: EndpointKey } | undefined)?.[ENDPOINT];
}

/*
 * The app's body parsers run before any guard, with the app's limits, and go by headers. So the edge hides those of the body until the
 * parsers are past, and the session guard can read the body from the raw stream.
 */

const STATE = Symbol('nestjs-mcp-streamable:request');

/**
 * What this room knows of a request, in one property of Node's request. A `WeakMap` of objects that live for one request would load
 * the garbage collector.
 */
export class RequestState {
  /** The endpoint whose edge has admitted the request. */
  endpoint: EndpointKey | undefined;
  /** What the headers were that are hidden; `undefined`: none are. */
  hidden: Partial<Record<Hidden, string>> | undefined;
  /** The messages, also of a request that was refused after they were read. */
  body: IncomingBody | undefined;
  /** The request, read and checked. */
  incoming: McpIncoming | undefined;
  /** Whether the controller has begun to serve it. */
  isServed = false;
}

type Hidden = (typeof OF_BODY)[number];
type StatefulRequest = IncomingMessage & { [STATE]?: RequestState };

/** Returns what this room knows of a request. @param request the raw one @internal */
export function stateOf(request: StatefulRequest): RequestState {
  return (request[STATE] ??= new RequestState());
}

/** Records that the edge of an endpoint has admitted a request. @internal */
export function markAdmitted(request: StatefulRequest, endpoint: EndpointKey): void {
  // If two endpoints share a path on Express, and a version in a header separates them, both edges decide.
  stateOf(request).endpoint = endpoint;
}

/** Returns whether the edge of this endpoint has admitted the request. @internal */
export function wasAdmitted(request: StatefulRequest, endpoint: EndpointKey): boolean {
  return request[STATE]?.endpoint === endpoint;
}

/**
 * Hides the media type of an admitted request from the app's parsers: those of every type skip an empty one.
 *
 * @param request the raw one
 * @internal
 */
export function hideMediaType(request: StatefulRequest): void {
  hide(request, MEDIA_TYPE, '');
}

/**
 * Hides that an admitted request has a body: without one Fastify looks for no parser.
 *
 * @param request the raw one
 * @internal
 */
export function hideBody(request: StatefulRequest): void {
  hide(request, OF_BODY, undefined);
}

const MEDIA_TYPE = ['content-type'] as const;
const OF_BODY = ['content-type', 'content-length', 'transfer-encoding'] as const;

/** Only headers that are there get another value, so that none is removed later: an object that loses properties is slow. */
function hide(request: StatefulRequest, names: readonly Hidden[], value: '' | undefined): void {
  const state = request[STATE];
  if (!state || state.hidden) return;
  const { headers } = request;
  state.hidden = {};
  for (const name of names) {
    if (headers[name] === undefined) continue;
    state.hidden[name] = headers[name];
    headers[name] = value;
  }
}

/** Restores what is hidden, if anything is. @internal */
export function restoreHeaders(request: StatefulRequest): void {
  const state = request[STATE];
  if (!state?.hidden) return;
  for (const name of OF_BODY) {
    if (state.hidden[name] !== undefined) request.headers[name] = state.hidden[name];
  }
  state.hidden = undefined;
}
