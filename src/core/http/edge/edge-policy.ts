import type { IncomingMessage, ServerResponse } from 'node:http';
import type { HttpServer } from '@nestjs/common';
import type { McpError } from '../../protocol/errors.js';
import type { EndpointKey } from './endpoint-route.js';
import { checkHostAndOrigin, compileHostRules, type HostOriginOptions, type RequestFacts } from './host-origin.js';

/** The injection token of the {@link EdgePolicy} of an endpoint. */
export const EDGE_POLICY = Symbol('nestjs-mcp-streamable:edge-policy');

/** Decides for one endpoint which requests pass the edge. @internal */
export interface EdgePolicy {
  /**
   * Lists the methods that are served; every other is answered 405, `OPTIONS` excepted, which is left to the app (E2).
   */
  readonly allow: readonly string[];

  /**
   * Decides on a request of any method before guards, parsers and handlers see it, from its head alone: the body must not be touched.
   *
   * @returns the reason for the refusal, or `undefined`
   */
  admit(request: IncomingMessage): McpError | undefined;
}

/**
 * Called by an adapter's edge for each request to the endpoint.
 *
 * @returns whether the request may go on; if not, it has been answered
 * @internal
 */
export type EdgeDecision = (request: IncomingMessage, response: ServerResponse) => boolean;

/** Stands around what Nest runs for a request: guards, interceptors and the controller. @internal */
export interface AroundRoute {
  /** Called before the guards with the request that they will see. */
  begins(request: object): void;
  /** Returns whether a request may end without an answer: watching for it takes a fifth of a call. */
  watches(): boolean;
  /** Called when Nest has done all, whether or not there is an answer, if it watched when the request began. */
  ended(request: object, response: object): void | Promise<void>;
}

/** Answers requests in front of the app. @returns whether the request was answered; it goes on otherwise @internal */
export type EdgeAnswer = (request: IncomingMessage, response: ServerResponse) => boolean;

/** Implements what differs between the adapters. @internal */
export interface AdapterEdge {
  /** Puts the edge in front of the routes. @returns a function that lists the paths of the endpoint's routes */
  install(adapter: HttpServer, endpoint: EndpointKey, decide: EdgeDecision, around?: AroundRoute): () => string[];
  answerFirst(adapter: HttpServer, answer: EdgeAnswer): void;
  hasRoute(adapter: HttpServer, path: string): boolean;
}

/** An endpoint that serves sessions has these methods. @internal */
export const SESSION_METHODS: readonly string[] = Object.freeze(['GET', 'POST', 'DELETE']);

/** An endpoint that serves 2026-07-28 only has these methods (row M12). @internal */
export const STATELESS_METHODS: readonly string[] = Object.freeze(['POST']);

/**
 * Returns the policy of rows E1 and E2.
 *
 * @param options the allow-lists, and the methods, by default {@link SESSION_METHODS}
 * @param onUnlisted called at most once: at the first request that did not arrive on loopback, when no host is listed
 * @throws McpOptionError for an entry of the lists that could never match
 * @internal
 */
export function hostOriginPolicy(
  options: HostOriginOptions & { readonly allow?: readonly string[] },
  onUnlisted: (facts: RequestFacts) => void,
): EdgePolicy {
  const rules = compileHostRules(options);
  let warned = false;
  const warnOnce = (facts: RequestFacts) => {
    if (warned) return;
    warned = true;
    onUnlisted(facts);
  };
  // Most clients of a server send the same host: facts that have passed are not parsed again.
  let passed: RequestFacts | undefined;
  return {
    allow: options.allow ?? SESSION_METHODS,
    admit: ({ headers, socket }) => {
      const host = headers.host ?? (headers[':authority'] as string | undefined);
      const { origin } = headers;
      const localAddress = socket?.localAddress;
      if (passed && passed.host === host && passed.origin === origin && passed.localAddress === localAddress) {
        return undefined;
      }
      const facts: RequestFacts = { host, origin, localAddress };
      const refusal = checkHostAndOrigin(facts, rules, warnOnce);
      if (!refusal) passed = facts;
      return refusal;
    },
  };
}
