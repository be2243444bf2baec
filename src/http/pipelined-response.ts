import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Responses without a connection, by the one that they wait for; none that has closed. */
const waiting = new WeakMap<Socket, Set<ServerResponse>>();

/**
 * A response that waits behind others of a pipelining client has no connection yet, and Node never closes it if none comes:
 * its request would be served for ever, to nobody. It closes with the connection that it waits for.
 *
 * To be called before the response's "close" is waited for, or whether it is destroyed is asked. Idempotent.
 *
 * @internal
 */
export function closeWithConnection(response: ServerResponse): void {
  const socket = response.socket ? undefined : response.req.socket;
  if (!socket) return;
  if (socket.destroyed) return closeUnsent(response);
  const responses = waiting.get(socket) ?? waitFor(socket);
  if (responses.has(response)) return;
  responses.add(response);
  response.once('close', () => responses.delete(response));
}

/** One listener for all of a connection: its client says how many there are. */
function waitFor(socket: Socket): Set<ServerResponse> {
  const responses = new Set<ServerResponse>();
  waiting.set(socket, responses);
  socket.once('close', () => responses.forEach(closeUnsent));
  return responses;
}

function closeUnsent(response: ServerResponse): void {
  if (response.socket || response.destroyed || response.writableFinished) return;
  response.destroy();
  response.emit('close');
}
