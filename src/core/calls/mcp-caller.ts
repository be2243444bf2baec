import { authOf, type RouteParams } from './mcp-call.js';

/**
 * The caller for whom tools are listed: all that a list may depend on. A list that depends on more, such as the time or a
 * header, would be kept for callers whom it is not for.
 *
 * @publicApi
 */
export interface McpCaller {
  /** The result of the option `principal`; `undefined`: anonymous. */
  readonly principal: string | undefined;
  /** The scopes of the access token, sorted; `undefined` without a token. */
  readonly scopes: readonly string[] | undefined;
  /** The parameters of the path, such as `{ tenant: 'acme' }`; `undefined` without any. */
  readonly routeParams: RouteParams | undefined;
}

/** The parts of a call, or of its context, that say who calls. */
export interface CallerSource {
  readonly principal: string | undefined;
  readonly request: unknown;
  readonly routeParams: RouteParams | undefined;
}

export function callerOf({ principal, request, routeParams }: CallerSource): McpCaller {
  const scopes: unknown = authOf(request)?.scopes;
  const texts = Array.isArray(scopes) ? scopes.filter((scope) => typeof scope === 'string') : undefined;
  return Object.freeze({
    principal,
    scopes: texts && Object.freeze([...new Set(texts)].toSorted()),
    routeParams: routeParams && Object.freeze({ ...routeParams }),
  });
}
