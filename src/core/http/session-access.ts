import { after, type MaybePromise } from '../common/promises.js';
import { type McpSessionInfo, routeText } from '../calls/mcp-call.js';
import { beginsSession, revisionOf, unknownSession } from '../eras/legacy/legacy-endpoint.js';
import type { McpIncoming } from '../eras/mcp-endpoint.js';
import type { KnownSession } from '../sessions/running/live-sessions.js';
import { McpError } from '../protocol/errors.js';
import { SESSION_ID_HEADER, singleHeader } from '../protocol/headers.js';
import { isInitializeRequest } from '../protocol/json-rpc.js';
import { isCrossOrigin } from './edge/host-origin.js';

/**
 * Finds the session that a legacy request names and its caller may use (S3–S7, S9, S10): for the session guard, and for
 * `serveMcpSession()`.
 *
 * @param sessions finds the session of an id
 * @param mayUse whether the caller may use a session that was found
 * @returns `undefined` for an `initialize` that begins a session
 * @throws McpError INVALID_REQUEST (E9, S4), BAD_REQUEST (S5, S10), SESSION_NOT_FOUND (S6, S7)
 * @internal
 */
export function sessionOf(
  incoming: McpIncoming,
  sessions: { lookup(id: string): MaybePromise<KnownSession | undefined> },
  mayUse: (session: McpSessionInfo) => MaybePromise<boolean>,
): MaybePromise<KnownSession | undefined> {
  const { headers, method, body } = incoming;
  const id = singleHeader(headers[SESSION_ID_HEADER]);
  const begins = method === 'POST' && beginsSession(body);
  if (!id) {
    if (begins) return undefined;
    throw withoutSessionId(incoming);
  }
  return after(sessions.lookup(id), (known) => {
    // A session of one tenant is unknown at the path of another.
    const { routeParams } = incoming;
    const began = known?.info.routeParams;
    const elsewhere = routeParams !== began && routeText(routeParams) !== routeText(began);
    if (!known || elsewhere) return used(undefined, begins, headers);
    return after(mayUse(known.info), (may) => used(may ? known : undefined, begins, headers));
  });
}

/** @param session the one that the request names, if its caller may use it */
function used(
  session: KnownSession | undefined,
  begins: boolean,
  headers: McpIncoming['headers'],
): KnownSession | undefined {
  if (begins) {
    // A client that has lost its session initializes again, often with the old id in its headers (S3).
    if (!session) return undefined;
    const text = 'This session is already initialized. Send "initialize" without Mcp-Session-Id to start another one.';
    throw new McpError('INVALID_REQUEST', text);
  }
  if (!session) throw unknownSession();
  revisionOf(headers, session.info.protocolVersion);
  return session;
}

function withoutSessionId({ headers, body }: McpIncoming): McpError {
  // The client has no session yet: the advice to send "initialize" first would mislead it (E9).
  if (body.messages.some(isInitializeRequest)) {
    return new McpError('INVALID_REQUEST', '"initialize" cannot be part of a batch. Send it alone.');
  }
  const authority = singleHeader(headers['host']) ?? singleHeader(headers[':authority']);
  // A web page cannot read the session id unless CORS exposes the header (S5).
  const advice = isCrossOrigin(singleHeader(headers['origin']), authority)
    ? ' A page of another origin can read that header only if CORS of this server exposes it: app.enableCors({ origin, ...mcpCors() }).'
    : '';
  const text = 'Mcp-Session-Id is missing. Send "initialize" first, and its Mcp-Session-Id with every request.';
  return new McpError('BAD_REQUEST', text + advice);
}
