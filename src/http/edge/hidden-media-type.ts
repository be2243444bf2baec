import type { IncomingMessage } from 'node:http';
import type { EndpointKey } from './endpoint-route.js';

/*
 * The app's body parsers run before any guard, with the app's limits, and go by the media type. So the edge hides it until
 * the parsers are past, and the body is still on the raw stream when our own guard wants it, counting.
 *
 * The state is one property of the request; it dies with it.
 */

const MARK = Symbol('nestjs-mcp-streamable:edge');

interface EdgeMark {
  /** Whose edge has let the request pass. */
  readonly endpoint: EndpointKey;
  /** The `Content-Type` while it is hidden; `null`: there was none. `undefined`: nothing is hidden. */
  hidden: string | null | undefined;
}

type EdgedRequest = IncomingMessage & { [MARK]?: EdgeMark };

/** Notes that the edge of an endpoint has decided in favour of a request. @internal */
export function markAdmitted(request: EdgedRequest, endpoint: EndpointKey): void {
  // Of two endpoints that share a path on Express, told apart by a version in a header, both edges decide.
  request[MARK] = { endpoint, hidden: request[MARK]?.hidden };
}

/** Whether the edge of this endpoint has decided in favour of the request. @internal */
export function wasAdmitted(request: EdgedRequest, endpoint: EndpointKey): boolean {
  return request[MARK]?.endpoint === endpoint;
}

/**
 * Hides the media type of an admitted request from the app's parsers. Instead of it they see an empty one, which not even
 * parsers of every type take.
 *
 * @param request the raw one
 * @internal
 */
export function hideMediaType(request: EdgedRequest): void {
  const mark = request[MARK];
  if (!mark || mark.hidden !== undefined) return;
  const { headers } = request;
  mark.hidden = headers['content-type'] ?? null;
  // Deleting it would make a dictionary of the headers, slow for everybody after us.
  if (mark.hidden !== null) headers['content-type'] = '';
}

/** Puts something else in the place of a hidden media type. @internal */
export function disguiseMediaType(request: EdgedRequest, disguise: string): void {
  if (request[MARK]?.hidden !== undefined) request.headers['content-type'] = disguise;
}

/** Undoes {@link hideMediaType}; does nothing when nothing is hidden. @internal */
export function restoreMediaType(request: EdgedRequest): void {
  const mark = request[MARK];
  if (!mark || mark.hidden === undefined) return;
  if (mark.hidden === null) delete request.headers['content-type'];
  else request.headers['content-type'] = mark.hidden;
  mark.hidden = undefined;
}
