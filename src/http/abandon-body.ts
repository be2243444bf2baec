import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { systemClock, type Clock, type ClockTimer } from '../base/clock.js';

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
 */

/** What a client may still send after it was refused. @internal */
export const ABANDONED_BODY = Object.freeze({ maxBytes: 16 * 1024 * 1024, timeoutMs: 2_000 });

/** Bodies that are declared this small are read to their end instead: the connection lives on. */
const NOT_WORTH_A_CONNECTION = 64 * 1024;

/**
 * For a refusal before the body was read: a body that may be long is thrown away, within bounds, and the connection with
 * it; a short one costs nobody the connection. To be called once, before the answer is written.
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
export function closeAfterAnswer(request: IncomingMessage, clock: Clock = systemClock): Record<string, string> {
  if (request.httpVersionMajor >= 2) {
    resetAfterAnswer(request);
    return {};
  }
  const socket = request.socket as Partial<Socket> | undefined;
  // Without one it is a request that was injected in a test.
  if (!request.complete && socket?.destroySoon) new LingeringClose(request, request.socket, clock);
  return { Connection: 'close' };
}

/** What the head says of the length; HTTP/2 needs neither header, its frames have an end of their own. */
function hasLongBody(request: MaybeHttp2): boolean {
  const { headers, stream } = request;
  if (headers['transfer-encoding'] !== undefined) return true;
  const declared = headers['content-length'];
  if (declared === undefined) return stream?.endAfterHeaders === false;
  return !(Number(declared) <= NOT_WORTH_A_CONNECTION);
}

/** HTTP/2: the unread part stays within the flow-control window; NO_ERROR after the answer tells the client to stop. */
function resetAfterAnswer({ stream }: MaybeHttp2): void {
  stream?.once('finish', () => stream.close(0));
}

/** The parts of `Http2ServerRequest` that are needed here. */
type MaybeHttp2 = IncomingMessage & {
  stream?: NodeJS.EventEmitter & { readonly endAfterHeaders: boolean; close(code: number): void };
};

/** One connection on its way out; released with the socket. */
class LingeringClose {
  /** Set once the answer is out. */
  private timer: ClockTimer | undefined;
  private bytes = 0;
  private readonly destroySoon: () => void;

  constructor(
    private readonly request: IncomingMessage,
    private readonly socket: Socket,
    private readonly clock: Clock,
  ) {
    this.destroySoon = socket.destroySoon.bind(socket);
    request.pause();
    // Node itself dumps a request that nobody has begun to read, out of sight of our counting.
    request.read(0);
    socket.destroySoon = () => this.begin();
  }

  private begin(): void {
    const { request, socket, clock } = this;
    if (this.timer || socket.destroyed) return;
    if (request.readableEnded || request.destroyed) {
      this.destroySoon();
      return;
    }
    this.timer = clock.setTimeout(() => socket.destroy(), ABANDONED_BODY.timeoutMs);
    socket.once('close', () => clock.clear(this.timer));
    socket.end();
    request.on('data', (chunk: Buffer) => this.discard(chunk.length));
    request.once('close', this.destroySoon);
    request.resume();
  }

  private discard(length: number): void {
    this.bytes += length;
    if (this.bytes > ABANDONED_BODY.maxBytes) this.socket.destroy();
  }
}
