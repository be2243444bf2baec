import type { IncomingMessage, ServerResponse } from 'node:http';
import type { HttpServer } from '@nestjs/common';
import type { AdapterEdge, EdgeDecision } from './edge-policy.js';
import {
  disguiseMediaType,
  endpointOfConfig,
  type EndpointKey,
  hideMediaType,
  restoreMediaType,
} from './endpoint-route.js';

/*
 * The edge on Fastify: one `onRequest` hook in front of those of the app, of Nest and of middie, which runs `app.use()`
 * middleware. Fastify has found the route by then, and the mark is in the route's config.
 *
 * Methods that the controller does not declare end in the not-found handler or in a wildcard of the app or of
 * @fastify/cors; those requests are known by their path.
 */

/**
 * Fastify refuses bodies that no parser is there for. The parser of this type reads nothing, so that the body stays on the
 * raw stream; the type is exact, hence stronger than the app's patterns and `*`.
 */
const DISGUISE = 'application/vnd.nestjs-mcp-streamable';

interface FastifyRequest {
  readonly raw: IncomingMessage;
  readonly routeOptions: { readonly config?: { readonly url?: string } };
}

interface FastifyReply {
  readonly raw: ServerResponse;
  hijack(): void;
}

type Done = (error?: Error | null) => void;
type RequestHook = (request: FastifyRequest, reply: FastifyReply, done: Done) => void;
type PayloadHook = (request: FastifyRequest, reply: FastifyReply, payload: unknown, done: Done) => void;

interface RouteDeclaration {
  readonly url: string;
  readonly config?: unknown;
  preParsing?: PayloadHook | PayloadHook[];
  preValidation?: RequestHook | RequestHook[];
}

interface Fastify {
  readonly initialConfig: object;
  addHook(name: 'onRequest', hook: RequestHook): void;
  addHook(name: 'onRoute', hook: (route: RouteDeclaration) => void): void;
  after(task: () => void): void;
  hasContentTypeParser(type: string): boolean;
  hasRoute(route: { readonly url: string; readonly method: string }): boolean;
  addContentTypeParser(type: string, parser: (request: unknown, body: unknown, done: Done) => void): void;
}

/** @internal */
export const fastifyEdge: AdapterEdge = {
  install: installFastifyEdge,
  answerFirst(adapter, answer) {
    const fastify = adapter.getInstance() as Fastify;
    const hook: RequestHook = (request, reply, done) => {
      if (answer(request.raw, reply.raw)) reply.hijack();
      else done();
    };
    fastify.addHook('onRequest', hook);
    fastify.after(() => moveToFront(fastify, hook));
  },
  hasRoute: (adapter, url) => (adapter.getInstance() as Fastify).hasRoute({ url, method: 'GET' }),
};

function installFastifyEdge(adapter: HttpServer, endpoint: EndpointKey, decide: EdgeDecision): () => string[] {
  const fastify = adapter.getInstance() as Fastify;
  const patterns = new Map<string, RegExp>();

  const isUndeclared = (config: { readonly url?: string } | undefined, url: string): boolean => {
    const declared = config?.url !== undefined && !config.url.endsWith('*');
    return !declared && matchesOne(patterns, url);
  };
  const edge: RequestHook = (request, reply, done) => {
    // Made anew each time that it is asked for.
    const { config } = request.routeOptions;
    const isRouted = endpointOfConfig(config) === endpoint;
    if (!isRouted && !isUndeclared(config, request.raw.url!)) return done();
    if (!decide(request.raw, reply.raw)) return reply.hijack();
    // Not of a version of the API that the endpoint does not have: the parser would answer 415 instead of 404.
    if (isRouted && hasParser(request.raw)) hideMediaType(request.raw);
    done();
  };

  if (!fastify.hasContentTypeParser(DISGUISE)) {
    fastify.addContentTypeParser(DISGUISE, (_request, _body, done) => done(null));
  }
  fastify.addHook('onRequest', edge);
  // Hooks are added in their turn, which is when "after" is called.
  fastify.after(() => moveToFront(fastify, edge));
  fastify.addHook('onRoute', (route) => {
    if (endpointOfConfig(route.config) !== endpoint) return;
    patterns.set(route.url, routePattern(route.url, fastify.initialConfig));
    // Around the parser: hooks of a route run after those of the app.
    route.preParsing = [...[route.preParsing ?? []].flat(), disguise];
    route.preValidation = [restore, ...[route.preValidation ?? []].flat()];
  });
  return () => [...patterns.keys()];
}

const disguise: PayloadHook = (request, _reply, _payload, done) => {
  disguiseMediaType(request.raw, DISGUISE);
  done();
};

const restore: RequestHook = (request, _reply, done) => {
  restoreMediaType(request.raw);
  done();
};

/** Whether Fastify may run a body parser. The one for JSON takes an empty body for an error: 400, where OPTIONS is 405 (E2). */
function hasParser({ method }: IncomingMessage): boolean {
  return method === 'POST' || method === 'DELETE' || method === 'OPTIONS';
}

function matchesOne(patterns: ReadonlyMap<string, RegExp>, url: string): boolean {
  const path = url.split(/[?#]/, 1)[0]!;
  for (const pattern of patterns.values()) if (pattern.test(path)) return true;
  return false;
}

/**
 * There is no public way to the front. Without it the edge still comes before the parsers, but after the app's
 * middleware, so a missing hook list is no reason to fail.
 */
function moveToFront(fastify: Fastify, edge: RequestHook): void {
  const key = Object.getOwnPropertySymbols(fastify).find(({ description }) => description === 'fastify.hooks');
  const hooks = key && (fastify as unknown as Record<symbol, { onRequest?: RequestHook[] }>)[key]?.onRequest;
  const position = hooks?.indexOf(edge) ?? -1;
  if (position > 0) hooks!.unshift(...hooks!.splice(position, 1));
}

/**
 * A route of find-my-way, Fastify's router, as a RegExp over request paths. Only for requests that the router has already
 * found no route of ours for: parameters match any text of a segment, whatever pattern they have.
 *
 * @param url such as `/tenants/:tenant/mcp`; `::` is a colon, `*` is anything
 * @param options Fastify's `initialConfig`, whose router options may be one level down
 * @internal
 */
export function routePattern(url: string, options: RouterOptions): RegExp {
  const { caseSensitive, ignoreTrailingSlash } = { ...options, ...options.routerOptions };
  const source = url.replace(/::|:[^/(.-]+(?:\([^/]*\))?\??|\*|[^:*]+/g, (part) => {
    if (part === '::') return ':';
    if (part === '*') return '.*';
    return part.startsWith(':') ? '[^/]*' : part.replace(/[\\^$.|?*+()[\]{}]/g, '\\$&');
  });
  return new RegExp(`^${source}${ignoreTrailingSlash ? '/?' : ''}$`, caseSensitive === false ? 'i' : '');
}

interface RouterOptions {
  readonly caseSensitive?: boolean;
  readonly ignoreTrailingSlash?: boolean;
  readonly routerOptions?: RouterOptions;
}
