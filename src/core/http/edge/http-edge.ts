import type { IncomingMessage, ServerResponse } from 'node:http';
import type { HttpServer } from '@nestjs/common';
import { systemClock, type McpClock } from '../../common/clock.js';
import { McpError, shown } from '../../protocol/errors.js';
import { discardBody } from './body-reader.js';
import { McpOptionError } from '../../common/options.js';
import type { AdapterEdge, AroundRoute, EdgeAnswer, EdgeDecision, EdgePolicy } from './edge-policy.js';
import { expressEdge } from './express-edge.js';
import { fastifyEdge } from './fastify-edge.js';
import { type EndpointKey, markAdmitted, wasAdmitted } from './endpoint-route.js';
import { isVisit, VISIT_HEADERS, VISIT_TYPE, visitText } from './visit.js';

/*
 * # The edge
 *
 * Its checks come before a parser or a guard of the app sees a request to one of our routes: global guards run before any
 * guard of ours, and parsers before any guard at all. So the edge sits in the router itself: the first layer of Express,
 * `onRequest` hooks of our routes on Fastify. It decides from the head, answers what it refuses on the raw response, and
 * hides headers of the rest from the app's parsers until they are past.
 */

/**
 * Applies the policy of one endpoint to its routes in the app's router, and stands around what Nest runs for their requests.
 *
 * @internal
 */
export class HttpEdge {
  /** Returns the paths of the endpoint in the app's router; none before its routes are declared. */
  paths: () => string[] = () => [];

  constructor(
    private readonly endpoint: EndpointKey,
    private readonly policy: EdgePolicy,
    private readonly around?: AroundRoute,
    private readonly clock: McpClock = systemClock,
    private readonly onRefused?: (request: IncomingMessage, refusal: McpError) => void,
  ) {}

  /**
   * Puts the edge in front of all routes marked with `@EndpointRoute(endpoint)`, also when they are declared later.
   *
   * A module calls it in `configure()`: the adapter exists by then, also in apps made by a `TestingModule`, and no
   * route does, which Fastify needs. One app may have several endpoints.
   *
   * @throws McpOptionError for an adapter other than Express' and Fastify's
   */
  install(adapter: HttpServer): void {
    const { endpoint, policy } = this;
    const decide: EdgeDecision = (request, response) => {
      const refusal = refusalOf(request, policy);
      if (refusal) void this.refuse(request, response, refusal);
      else markAdmitted(request, endpoint);
      return refusal === undefined;
    };
    this.paths = EDGES[typeOf(adapter)].install(adapter, endpoint, decide, this.around);
  }

  /** Returns why the endpoint refuses the Host or the Origin of a request; `undefined` if it does not (E1). */
  hostRefusalOf(request: IncomingMessage): McpError | undefined {
    return this.policy.admit(request);
  }

  /**
   * Answers some requests in front of the app's routes, whatever their path is: with a document that is independent of
   * the global prefix, guards and interceptors of the app. A module calls it in `onModuleInit()` at the latest. On
   * Fastify, `onRequest` hooks of the app and `app.use()` middleware come before it.
   *
   * @param answer answers a request on the raw response, or returns `false`
   */
  answerFirst(adapter: HttpServer, answer: EdgeAnswer): void {
    EDGES[typeOf(adapter)].answerFirst(adapter, answer);
  }

  /** Returns whether the app declares a route for GET with exactly this path; all routes must be declared. */
  hasRoute(adapter: HttpServer, path: string): boolean {
    return EDGES[typeOf(adapter)].hasRoute(adapter, path);
  }

  private async refuse(request: IncomingMessage, response: ServerResponse, refusal: McpError): Promise<void> {
    this.onRefused?.(request, refusal);
    // A body in the same packet as its head arrives one turn later.
    await Promise.resolve();
    discardBody(request, response, this.clock);
    const { status, headers, message } = refusal;
    const visited = isVisit(request);
    const body = visited ? visitText(status, message) : JSON.stringify(refusal.toResponse());
    response.writeHead(status, {
      ...headers,
      ...(visited && VISIT_HEADERS),
      'Content-Type': visited ? VISIT_TYPE : 'application/json',
      'Content-Length': Buffer.byteLength(body),
    });
    response.end(body);
  }
}

const EDGES: Readonly<Record<'express' | 'fastify', AdapterEdge>> = { express: expressEdge, fastify: fastifyEdge };

/** Returns the type of an adapter. @throws McpOptionError for an adapter other than Express' and Fastify's */
function typeOf(adapter: HttpServer): keyof typeof EDGES {
  const type = adapter.getType();
  if (type === 'express' || type === 'fastify') return type;
  const text = `The HTTP adapter ${shown(type)} is not supported. Use @nestjs/platform-express or @nestjs/platform-fastify.`;
  throw new McpOptionError('adapter', text);
}

/**
 * Decides again in the endpoint's first guard, in case the request bypassed the edge. That happens when the
 * routes are hidden from it, as by the route tracing of Nest 11 (`setOnRouteTriggered`), which drops their metadata.
 *
 * @param request the raw one
 * @returns why the request is refused, or `undefined`
 * @internal
 */
export function admittedOrRefused(
  request: IncomingMessage,
  endpoint: EndpointKey,
  policy: EdgePolicy,
): McpError | undefined {
  return wasAdmitted(request, endpoint) ? undefined : refusalOf(request, policy);
}

/** Returns the edge's refusal of a request, if any (E1, E2). @internal */
export function refusalOf(request: IncomingMessage, policy: EdgePolicy): McpError | undefined {
  const refusal = policy.admit(request);
  const { method } = request;
  if (refusal || method === 'OPTIONS' || policy.allow.includes(method!)) return refusal;
  return methodNotAllowed(method, policy.allow);
}

/** Returns the answer to a method that is not served (E2). @internal */
export function methodNotAllowed(method: string | undefined, allow: readonly string[]): McpError {
  const text = `The method ${shown(method)} is not served here. Use one of: ${allow.join(', ')}.`;
  return new McpError('METHOD_NOT_ALLOWED', text, { headers: { Allow: allow.join(', ') } });
}
