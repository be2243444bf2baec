import { PROTOCOL_VERSION_META_KEY } from '../wire/era.js';
import {
  LAST_EVENT_ID_HEADER,
  METHOD_HEADER,
  NAME_HEADER,
  PROTOCOL_VERSION_HEADER,
  SESSION_ID_HEADER,
} from '../wire/headers.js';
import type { JsonRpcMessage } from '../wire/json-rpc.js';
import { mirrorHeaders } from '../wire/modern-headers.js';

/** Headers by their names in lower case. */
export type HeaderMap = Record<string, string>;

/** Decided by the message and the session; whoever else names them is not heard. */
const OWN = [
  ...['accept', 'content-type', 'content-length', 'host', LAST_EVENT_ID_HEADER],
  ...[SESSION_ID_HEADER, PROTOCOL_VERSION_HEADER, METHOD_HEADER, NAME_HEADER],
];

/** Not for a single message to decide either. */
const RESERVED: ReadonlySet<string> = new Set([...OWN, 'authorization', 'dpop']);

/** The session as HTTP sees it. */
export interface SessionHeaders {
  readonly sessionId: string | undefined;
  readonly protocolVersion: string | undefined;
}

/**
 * The revision that a message claims for itself by its `_meta`; only 2026-07-28 and later do that.
 *
 * @returns `undefined` for a message of the 2025 revisions
 */
export function claimedRevision(message: JsonRpcMessage): string | undefined {
  const { params } = message as { params?: { _meta?: Record<string, unknown> } };
  const claim = params?._meta?.[PROTOCOL_VERSION_META_KEY];
  return typeof claim === 'string' ? claim : undefined;
}

/** Headers of a POST of the 2025 revisions. `initialize` belongs to no session yet. */
export function legacyPostHeaders(message: JsonRpcMessage, session: SessionHeaders, extra: object = {}): HeaderMap {
  const initialize = 'method' in message && message.method === 'initialize';
  return { ...permitted(extra), ...POST, ...(initialize ? {} : sessionHeaders(session)) };
}

/**
 * Headers of a POST of 2026-07-28: the revision, the method, and what it is applied to, repeated for whoever routes
 * without reading bodies. `extra` (the `Mcp-Param-*` headers of the SDK's client) is sent as it is.
 */
export function modernPostHeaders(message: JsonRpcMessage, revision: string, extra: object = {}): HeaderMap {
  const mirrored = 'method' in message ? mirrorHeaders(message) : {};
  return { ...permitted(extra), ...POST, ...mirrored, [PROTOCOL_VERSION_HEADER]: revision };
}

/** Headers of a GET (2025 revisions only). */
export function getHeaders(session: SessionHeaders, cursor: string | undefined): HeaderMap {
  return {
    accept: 'text/event-stream',
    ...sessionHeaders(session),
    ...(cursor !== undefined && { [LAST_EVENT_ID_HEADER]: cursor }),
  };
}

export function sessionHeaders({ sessionId, protocolVersion }: SessionHeaders): HeaderMap {
  return {
    ...(sessionId !== undefined && { [SESSION_ID_HEADER]: sessionId }),
    ...(protocolVersion !== undefined && { [PROTOCOL_VERSION_HEADER]: protocolVersion }),
  };
}

const POST: HeaderMap = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };

/** The headers of one HTTP request: those of the caller, and above them ours. */
export function allHeaders(given: Readonly<Record<string, string>>, ours: HeaderMap): Headers {
  const all = new Headers(given);
  for (const name of OWN) all.delete(name);
  for (const [name, value] of Object.entries(ours)) all.set(name, value);
  return all;
}

function permitted(extra: object): HeaderMap {
  const entries = Object.entries(extra as Record<string, string>).map(
    ([name, value]) => [name.toLowerCase(), value] as const,
  );
  return Object.fromEntries(entries.filter(([name]) => !RESERVED.has(name)));
}
