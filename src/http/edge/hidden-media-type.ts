import type { IncomingMessage } from 'node:http';
import type { EndpointKey } from './endpoint-route.js';

/*
 * The app's body parsers run before any guard, with the app's limits, and go by the media type. So the edge hides it until
 * the parsers are past, and the body is still on the raw stream when our own guard wants it, counting.
 *
 * The state is two properties of the request; it dies with it.
 */

const ADMITTED = Symbol('nestjs-mcp-streamable:admitted');
const HIDDEN = Symbol('nestjs-mcp-streamable:hidden-media-type');

interface EdgedRequest extends IncomingMessage {
  /** Which endpoint's edge has let the request pass. */
  [ADMITTED]?: EndpointKey;
  /** The `Content-Type` while it is hidden; `null`: there was none. `undefined`: nothing is hidden. */
  [HIDDEN]?: string | null;
}

/** Notes that the edge of an endpoint has decided in favour of a request. @internal */
export function markAdmitted(request: EdgedRequest, endpoint: EndpointKey): void {
  request[ADMITTED] = endpoint;
}

/** Whether the edge of this endpoint has decided on the request. @internal */
export function wasAdmitted(request: EdgedRequest, endpoint: EndpointKey): boolean {
  return request[ADMITTED] === endpoint;
}

/**
 * Hides the media type of a request from the app's parsers: nothing stands there meanwhile, since not even parsers of
 * every type take a body that has none.
 *
 * @param request the raw one
 * @internal
 */
export function hideMediaType(request: EdgedRequest): void {
  if (request[HIDDEN] !== undefined) return;
  request[HIDDEN] = request.headers['content-type'] ?? null;
  setMediaType(request, undefined);
}

/** Puts something else in the place of a hidden media type. @internal */
export function disguiseMediaType(request: EdgedRequest, disguise: string): void {
  if (request[HIDDEN] !== undefined) setMediaType(request, disguise);
}

/** Undoes {@link hideMediaType}; does nothing when nothing is hidden. @internal */
export function restoreMediaType(request: EdgedRequest): void {
  const hidden = request[HIDDEN];
  if (hidden === undefined) return;
  request[HIDDEN] = undefined;
  setMediaType(request, hidden ?? undefined);
}

function setMediaType(request: IncomingMessage, value: string | undefined): void {
  if (value === undefined) delete request.headers['content-type'];
  else request.headers['content-type'] = value;
}
