import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { systemClock, type Clock, type ClockTimer } from '../common/clock.js';

/*
 * # Answering before the body has arrived
 *
 * An HTTP/1.1 connection whose request is not read to its end cannot be used again. Node then has two ways, both bad: with
 * `Connection: close` it destroys the socket right after the answer, the client's unread bytes make that a RST, and the
 * client often loses the answer; without, it reads and throws away whatever comes, for as long as it comes.
 *
 * So: `Connection: close`, and where Node would close (`socket.destroySoon()`, once the answer is out), we shut down our
 * half, throw away a bounded number of bytes for a bounded time, and destroy the socket when the client is done or the
 * bounds are reached. Should a later Node close some other way, the connection merely ends earlier.
 *
 * On HTTP/2 only the stream is given up. Node resets one that nobody has begun to read as soon as the answer is out; one
 * that was read in part would stay until the client is done, so there the bounds are ours again.
 */

/** What a client may still send after it was refused. @internal */
export const ABANDONED_BODY = Object.freeze({ maxBytes: 16 * 1024 * 1024, timeoutMs: 2_000 });

/** Bodies that are declared this small are read to their end instead: the connection lives on. */
const NOT_WORTH_A_CONNECTION = 64 * 1024;

/**
 * For a refusal before the body was read: a body that may be long is thrown away, within bounds, and the connection with
 * it; a short one costs nobody the connection. To be called before the answer is written; a second time it changes nothing.
 *
 * @param request the raw one
 * @returns the headers that the answer needs besides its own
 * @internal
 */
export function abandonBody(request: IncomingMessage, clock: Clock = systemClock): Record<string, string> {
  return request.complete || request.destroyed || !hasLongBody(request) ? {} : closeAfterAnswer(request, clock);
}

/**
 * The same for a request whose connection must not go on: it sent too much, or too slowly.
 *
 * @internal
 */
export function closeAfterAnswer(request: MaybeHttp2, clock: Clock = systemClock): Record<string, string> {
  const { stream } = request;
  if (stream) {
    if (request.readableDidRead) resetAfterAnswer(request, stream, clock);
    return {};
  }
  const socket = request.socket as Partial<Socket> | undefined;
  // It has none when it was injected by a test, and one of its own when it is on its way out already.
  if (!request.complete && socket?.destroySoon && !Object.hasOwn(socket, 'destroySoon')) {
    lingerBeforeClose(request, request.socket, clock);
  }
  return { Connection: 'close' };
}

/** `Http2ServerRequest`, as far as it is needed, or a request of HTTP/1. */
type MaybeHttp2 = IncomingMessage & { readonly stream?: Http2Stream };

interface Http2Stream extends NodeJS.EventEmitter {
  readonly endAfterHeaders: boolean;
  close(): void;
}

/** What the head says of the length; HTTP/2 needs neither header, its frames have an end of their own. */
function hasLongBody({ headers, stream }: MaybeHttp2): boolean {
  if (headers['transfer-encoding'] !== undefined) return true;
  const declared = headers['content-length'];
  if (declared === undefined) return stream?.endAfterHeaders === false;
  return !(Number(declared) <= NOT_WORTH_A_CONNECTION);
}

function resetAfterAnswer(request: IncomingMessage, stream: Http2Stream, clock: Clock): void {
  const rest = new Rest(request, stream, clock, () => stream.close());
  stream.once('finish', () => rest.discard());
}

function lingerBeforeClose(request: IncomingMessage, socket: Socket, clock: Clock): void {
  const destroySoon = socket.destroySoon.bind(socket);
  const rest = new Rest(request, socket, clock, () => socket.destroy());
  // Node itself dumps a request that nobody has begun to read, out of sight of our counting.
  request.read(0);
  socket.destroySoon = () => {
    socket.destroySoon = destroySoon;
    if (request.readableEnded || request.destroyed) return destroySoon();
    socket.end();
    request.once('close', destroySoon);
    rest.discard();
  };
}

/** What a request still sends. Nothing is read of it before `discard()`; released when what carries it has closed. */
class Rest {
  private bytes = 0;

  constructor(
    private readonly request: IncomingMessage,
    /** The connection, or the stream of HTTP/2. */
    private readonly carrier: NodeJS.EventEmitter,
    private readonly clock: Clock,
    /** Ends it by force. */
    private readonly cut: () => void,
  ) {
    request.pause();
  }

  discard(): void {
    const { request, carrier, clock, cut } = this;
    if (request.readableEnded || request.destroyed) return;
    const timer: ClockTimer = clock.setTimeout(cut, ABANDONED_BODY.timeoutMs);
    carrier.once('close', () => clock.clear(timer));
    request.on('data', (chunk: Buffer) => {
      this.bytes += chunk.length;
      if (this.bytes > ABANDONED_BODY.maxBytes) cut();
    });
    request.resume();
  }
}
