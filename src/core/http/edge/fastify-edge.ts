import type { IncomingMessage, ServerResponse } from 'node:http';
import type { HttpServer } from '@nestjs/common';
import { whenArrived } from './body-reader.js';
import { type AdapterEdge, type AroundRoute, type EdgeDecision, SESSION_METHODS } from './edge-policy.js';
import { endpointOfConfig, type EndpointKey, hideBody, restoreHeaders } from './endpoint-route.js';

/*
 * The edge on Fastify: hooks of the endpoint's routes, known by the mark in their config. They run after the `onRequest`
 * hooks of the app, and after the `app.use()` middleware that middie runs in one of those; before parsers and guards.
 *
 * Fastify looks for a parser of the body between their last two hooks, and finds no header that speaks of a body: so no parser of the app
 * reads it, whatever types it takes, and the body stays on the raw stream.
 *
 * Methods that the controller does not declare also get a route, so that the edge can refuse them. So does each path with a
 * slash at its end, which Express serves by itself (E18).
 */

interface FastifyRequest {
  readonly raw: IncomingMessage;
}

interface FastifyReply {
  readonly raw: ServerResponse;
  hijack(): void;
  callNotFound(): void;
  then(...settle: unknown[]): void;
}

type Done = (error?: Error | null) => void;
type RequestHook = (request: FastifyRequest, reply: FastifyReply, done: Done) => void;
type PayloadHook = (request: FastifyRequest, reply: FastifyReply, payload: unknown, done: Done) => void;

interface SlashOptions {
  readonly ignoreTrailingSlash?: boolean;
}

interface RouteDeclaration {
  readonly method: string | readonly string[];
  readonly url: string;
  readonly path?: string;
  readonly handler: (request: FastifyRequest, reply: FastifyReply) => void;
  readonly config?: unknown;
  readonly constraints?: object;
  onRequest?: RequestHook | RequestHook[];
  preParsing?: PayloadHook | PayloadHook[];
  preValidation?: RequestHook | RequestHook[];
}

interface Fastify {
  readonly supportedMethods: readonly string[];
  readonly initialConfig: SlashOptions & { readonly routerOptions?: SlashOptions };
  route(route: RouteDeclaration): void;
  addHook(name: 'onRequest', hook: RequestHook): void;
  addHook(name: 'onRoute', hook: (route: RouteDeclaration) => void): void;
  hasRoute(route: { readonly url: string; readonly method: string }): boolean;
}

/** @internal */
export const fastifyEdge: AdapterEdge = {
  install: installFastifyEdge,
  answerFirst: (adapter, answer) =>
    (adapter.getInstance() as Fastify).addHook('onRequest', (request, reply, done) => {
      if (answer(request.raw, reply.raw)) reply.hijack();
      else done();
    }),
  hasRoute: (adapter, url) => (adapter.getInstance() as Fastify).hasRoute({ url, method: 'GET' }),
};

function installFastifyEdge(
  adapter: HttpServer,
  endpoint: EndpointKey,
  decide: EdgeDecision,
  around?: AroundRoute,
): () => string[] {
  const fastify = adapter.getInstance() as Fastify;
  const urls = new Set<string>();
  const edge: RequestHook = (request, reply, done) => {
    const { raw } = request;
    if (!decide(raw, reply.raw)) reply.hijack();
    // Then the guards need not wait for the body.
    else if (raw.method === 'POST') whenArrived(done);
    else done();
  };
  const restore: RequestHook = (request, reply, done) => {
    restoreHeaders(request.raw);
    if (around) surround(request, reply, around);
    done();
  };
  fastify.addHook('onRoute', (route) => {
    if (endpointOfConfig(route.config) !== endpoint) return;
    const { url } = route;
    const isOther = url.endsWith('/') && urls.has(url.slice(0, -1));
    if (!isOther) urls.add(url);
    const withSlash = { ...route, url: `${url}/`, path: `${url}/` };
    route.onRequest = [edge, ...[route.onRequest ?? []].flat()];
    // The hook runs around the parser: hooks of a route run after those of the app.
    route.preParsing = [...[route.preParsing ?? []].flat(), hide];
    route.preValidation = [restore, ...[route.preValidation ?? []].flat()];
    if (route.method === 'POST') declareOthers(fastify, route);
    if (!isOther && url !== '/' && isDeclared(route) && !ignoresSlash(fastify)) fastify.route(withSlash);
  });
  return () => [...urls];
}

/**
 * Nest returns the reply when it has done all. The promise of the route then calls `then()` of the reply, which waits for a response,
 * and perhaps for ever: the controller may not have run.
 */
function surround(request: FastifyRequest, reply: FastifyReply, around: AroundRoute): void {
  around.begins(request);
  if (!around.watches()) return;
  const settled = reply.then.bind(reply);
  // oxlint-disable-next-line unicorn/no-thenable -- a reply has one already
  reply.then = (...settle) => {
    void around.ended(request, reply);
    settled(...settle);
  };
}

const hide: PayloadHook = (request, _reply, _payload, done) => {
  hideBody(request.raw);
  done();
};

/** Returns whether the controller declares a route; Fastify and the edge declare the others, at each path. */
function isDeclared({ method }: RouteDeclaration): boolean {
  return typeof method === 'string' && SESSION_METHODS.includes(method);
}

/** Returns whether the router of the app finds a route with a slash at its end anyway, and would refuse a second one. */
function ignoresSlash({ initialConfig: { ignoreTrailingSlash, routerOptions } }: Fastify): boolean {
  return (routerOptions?.ignoreTrailingSlash ?? false) || (ignoreTrailingSlash ?? false);
}

/**
 * Declares the methods that the controller does not. The edge admits `OPTIONS` for the CORS of the app; without CORS
 * there is no such route (E2).
 */
function declareOthers(fastify: Fastify, { url, config, constraints }: RouteDeclaration): void {
  const method = fastify.supportedMethods.filter((one) => !DECLARED.includes(one));
  fastify.route({ method, url, config, constraints, handler: (_request, reply) => reply.callNotFound() });
}

/** The controller's routes have these methods; Fastify declares `HEAD` with `GET`. */
const DECLARED: readonly string[] = [...SESSION_METHODS, 'HEAD'];
