import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { Subject, type Observable, type Observer, type Subscription } from 'rxjs';
import type { StreamFlow } from '../context/mcp-exchange.js';
import { commentFrame } from '../wire/sse.js';

/*
 * # One response that streams
 *
 * There may be many thousands of them, idle nearly always: so one object, no timer and no closure per response. The
 * listeners are two functions for all, which find the object on the response; flushing and keep-alive are the responder's.
 *
 * Life: `open` → `ending` (the source has completed, its last bytes are on their way) → `closed`. `closed` is reached
 * exactly once, from whatever end comes first: everything is released there, and the owner is told.
 */

/** What a response needs of its responder. @internal */
export interface SseOwner {
  /** Above it, in bytes that wait behind the event that is being sent, a response is paused. */
  readonly maxBufferedBytes: number;
  now(): number;
  /** Called when the head is written. */
  opened(response: SseResponse): void;
  /** Asks for `flush()` at the end of this turn of the event loop. */
  flushSoon(response: SseResponse): void;
  /** Called once, when nothing is left of the response. */
  closed(response: SseResponse): void;
}

/** Fastify's reply, as far as it is needed. */
export interface FastifyReply {
  readonly raw: ServerResponse;
  hijack(): void;
  getHeaders(): OutgoingHttpHeaders;
}

/** Row P10; `Connection` is left to Node, which knows that HTTP/2 has none. */
const SSE_HEAD = Object.freeze({
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
});

const COMMENT = Buffer.from(commentFrame());

/** As much as is joined into one write. */
const JOINED_CHARACTERS = 64 * 1024;

const SSE = Symbol('nestjs-mcp-streamable:sse-response');

type RawResponse = ServerResponse & { [SSE]?: SseResponse };

/**
 * Whether the client has gone. The response of HTTP/2 has no `destroyed`, and one that waits behind others of a pipelining
 * client is not closed by Node 20 and 22 with its connection.
 */
export function hasGone(raw: ServerResponse): boolean {
  return raw.destroyed || (raw.req as IncomingMessage | undefined)?.socket?.destroyed === true;
}

/** @internal */
export class SseResponse implements StreamFlow, Observer<string> {
  paused = false;
  private state: 'open' | 'ending' | 'closed' = 'open';
  private subscription: Subscription | undefined;
  private resumed: Subject<void> | undefined;
  /** Frames that are joined into the next write. */
  private pending = '';
  /** Bytes given to Node so far. */
  private written = 0;
  /** Size of the write that found an empty buffer: it is being sent, and does not count (P13). */
  private beingSent = 0;
  /** How many bytes had left when last looked at, and since when none has. */
  private drained = 0;
  private stalledSince = 0;

  constructor(
    private readonly raw: RawResponse,
    private readonly owner: SseOwner,
    /** Given on Fastify, until the head is written. */
    private reply?: FastifyReply,
  ) {}

  get resumed$(): Observable<void> {
    return (this.resumed ??= new Subject<void>());
  }

  /** Writes the head, in one piece with the first frames, and subscribes to them. */
  start(frames$: Observable<string>): void {
    const { raw, reply } = this;
    // Fastify keeps headers apart from Node's response until it sends; those of @fastify/cors are among them.
    reply?.hijack();
    // Not `setHeader`, which keeps each of them for as long as the stream lasts.
    raw.writeHead(200, reply ? { ...reply.getHeaders(), ...SSE_HEAD } : SSE_HEAD);
    this.reply = undefined;
    this.owner.opened(this);
    raw[SSE] = this;
    raw.on('close', onClose);
    const subscription = frames$.subscribe(this);
    if (this.isClosed()) subscription.unsubscribe();
    else this.subscription = subscription;
    if (this.pending === '') raw.flushHeaders();
    else this.flush();
  }

  next(frames: string): void {
    if (this.state !== 'open') return;
    if (this.pending === '') this.owner.flushSoon(this);
    this.pending += frames;
    if (this.pending.length >= JOINED_CHARACTERS) this.flush();
  }

  error(): void {
    this.destroy();
  }

  complete(): void {
    if (this.state !== 'open') return;
    this.state = 'ending';
    this.stalledSince = this.owner.now();
    this.flush();
    // Responses that adapters of serverless platforms make finish, and often never close.
    this.raw.on('finish', onClose).end();
  }

  /** Writes what was joined. */
  flush(): void {
    const { pending } = this;
    if (pending === '' || this.state === 'closed') return;
    this.pending = '';
    this.write(Buffer.from(pending));
  }

  /**
   * One keep-alive tick.
   *
   * @param patienceMs how long nothing may drain from a response that is paused or ending
   */
  tick(patienceMs: number, comment: boolean): void {
    if (hasGone(this.raw)) return this.destroy();
    if (this.state === 'open' && !this.paused) {
      if (comment && this.pending === '') this.write(COMMENT);
      return;
    }
    const now = this.owner.now();
    if (this.noteProgress()) this.stalledSince = now;
    else if (now - this.stalledSince >= patienceMs) this.destroy();
  }

  /** Cuts the connection: a client that can will resume. */
  destroy(): void {
    this.raw.destroy();
    this.close();
  }

  /** @internal for the `drain` listener */
  drain(): void {
    this.raw.off('drain', onDrain);
    this.paused = false;
    this.resumed?.next();
  }

  /** @internal for the `close` listener */
  close(): void {
    if (this.state === 'closed') return;
    this.state = 'closed';
    this.pending = '';
    this.raw.off('close', onClose).off('finish', onClose).off('drain', onDrain);
    this.raw[SSE] = undefined;
    this.subscription?.unsubscribe();
    this.resumed?.complete();
    this.owner.closed(this);
  }

  private write(bytes: Buffer): void {
    const { raw } = this;
    if (hasGone(raw)) return;
    if (raw.writableLength === 0) this.beingSent = bytes.length;
    this.written += bytes.length;
    // `false` alone means that Node's own buffer, far smaller than ours, is full; but only after it comes a "drain".
    const full = !raw.write(bytes);
    // Responses that adapters of serverless platforms make have no length, and no "drain": they never pause.
    const tooMuch = raw.writableLength - this.beingSent > this.owner.maxBufferedBytes;
    if (!full || this.paused || !tooMuch) return;
    this.paused = true;
    this.stalledSince = this.owner.now();
    this.noteProgress();
    raw.on('drain', onDrain);
  }

  /** @returns whether bytes have left since the last call */
  private noteProgress(): boolean {
    const drained = this.written - this.raw.writableLength;
    const progress = drained > this.drained;
    this.drained = drained;
    return progress;
  }

  /** Apart from the field, which the compiler thinks it knows. */
  private isClosed(): boolean {
    return this.state === 'closed';
  }
}

function onClose(this: RawResponse): void {
  this[SSE]?.close();
}

function onDrain(this: RawResponse): void {
  this[SSE]?.drain();
}
