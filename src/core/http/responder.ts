import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { Subject, type Observable, type Observer } from 'rxjs';
import type { McpClock, ClockTimer } from '../common/clock.js';
import { IdleSubscription } from '../common/idle-subscription.js';
import { isThenable, lastly, type MaybePromise } from '../common/promises.js';
import type { McpEventsReply, McpReply, PendingReply, StreamFlow } from '../calls/reply.js';
import type { McpEvent } from '../protocol/events.js';
import { VISIT_TYPE } from './edge/visit.js';

/*
 * # The responder
 *
 * Writes every reply, on both adapters. JSON and empty answers go through Fastify, so that the app's hooks and headers
 * apply. On Express, hooks and headers are on Node's response, so answers are written to it directly, without the work
 * of `response.send()`, such as a hash of the body for an `ETag`. Streams are written to Node's response, since neither
 * framework supports them (Fastify needs `hijack()`).
 *
 * It owns the set of open streams, one keep-alive interval, which exists only while the set is not empty, and one flush
 * per turn of the event loop.
 */

/** Options of the {@link McpResponder}. @internal */
export interface ResponderOptions {
  /**
   * Period of the keep-alive comments on every stream, in milliseconds. Keep it below the shortest idle timeout of
   * proxies, often 60 s; 0 writes none.
   */
  readonly keepAliveMs: number;
  /**
   * When more bytes than this wait behind the event that is being sent, the source of a stream is asked to pause. Node's
   * own buffer (`writableHighWaterMark`, 16 or 64 KiB) is the smallest value that takes effect.
   */
  readonly maxBufferedBytes: number;
  readonly clock: McpClock;
}

const JSON_TYPE = 'application/json';

/** An answer for a person (E19). */
interface McpTextReply {
  readonly kind: 'text';
  readonly body: string;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
}

/** Stalled responses are checked in this interval when no comments are written. */
const WITHOUT_COMMENTS_MS = 15_000;

/** @internal */
export class McpResponder {
  private readonly streams = new Set<SseResponse>();
  /** Holds the streams with events that were emitted in this turn of the event loop. */
  private unflushed: SseResponse[] = [];
  private keepAlive: ClockTimer | undefined;
  private readonly drained: (() => void)[] = [];

  constructor(private readonly options: ResponderOptions) {}

  /** @internal for the streams */
  get maxBufferedBytes(): number {
    return this.options.maxBufferedBytes;
  }

  /** Counts the open streams: from their head until their response has closed. */
  get open(): number {
    return this.streams.size;
  }

  /** Counts the open streams that wait for their client to read. */
  get paused(): number {
    return [...this.streams].filter((stream) => stream.paused).length;
  }

  /**
   * Waits for the reply to a POST. When the client disconnects meanwhile, the exchange is cancelled.
   *
   * @param response Express' `Response` or Fastify's `FastifyReply`
   */
  replyOf(exchange: PendingReply, response: object): MaybePromise<McpReply> {
    const raw = rawResponse(response);
    // The response may have closed while the request was read, guarded, or its session looked up.
    if (hasGone(raw)) exchange.cancel();
    const { reply } = exchange;
    return isThenable(reply) ? whileOpen(raw, exchange, reply) : reply;
  }

  /** Returns whether the head of a response is written. */
  isAnswered(response: object): boolean {
    return rawResponse(response).headersSent;
  }

  /** Returns whether a client waits for a response that has not begun. */
  isOpen(response: object): boolean {
    const raw = rawResponse(response);
    return !raw.headersSent && !hasGone(raw) && !(response as Partial<FastifyReply>).sent;
  }

  /**
   * Writes a reply that is not a stream, unless the client has disconnected or the app has already answered (by a
   * timeout).
   */
  send(response: object, reply: Exclude<McpReply, McpEventsReply> | McpTextReply): void {
    const raw = rawResponse(response);
    if (hasGone(raw) || raw.headersSent) return;
    const status = reply.kind === 'accepted' ? 202 : (reply.status ?? 200);
    const headers = reply.kind === 'accepted' ? undefined : reply.headers;
    const body = reply.kind === 'json' || reply.kind === 'text' ? reply.body : undefined;
    const isText = reply.kind === 'text';
    if (raw === response) {
      raw.statusCode = status;
      for (const name in headers) raw.setHeader(name, headers[name]!);
      if (body !== undefined) raw.setHeader('Content-Type', isText ? VISIT_TYPE : JSON_TYPE);
      raw.end(body);
    } else {
      const fastify = response as FastifyReply;
      fastify.code(status);
      if (headers) fastify.headers(headers);
      // Fastify would parse the value to add the parameter.
      if (body !== undefined) fastify.header('Content-Type', isText ? VISIT_TYPE : `${JSON_TYPE}; charset=utf-8`);
      fastify.send(body);
    }
  }

  /**
   * Writes a response that is not part of the protocol, such as a page, without the app's hooks. The given headers
   * replace headers of the same name.
   */
  write(response: object, status: number, headers: Readonly<Record<string, string>>, body: string): void {
    const raw = rawResponse(response);
    if (hasGone(raw) || raw.headersSent) return;
    if (raw !== response) (response as FastifyReply).hijack();
    raw.writeHead(status, { ...headers, 'Content-Length': String(Buffer.byteLength(body)) }).end(body);
  }

  /**
   * Returns a response for events. It writes nothing before its `start()`, so that an error can still be answered.
   *
   * @returns `undefined` when the client has disconnected, or the app has already answered
   */
  stream(response: object): SseResponse | undefined {
    const raw = rawResponse(response);
    if (hasGone(raw) || raw.headersSent) return undefined;
    return new SseResponse(raw, this, raw === response ? undefined : (response as FastifyReply));
  }

  /**
   * Waits for the open streams to end; it does not end them.
   *
   * @param graceMs responses that are still open then are destroyed
   * @returns when the last one has closed
   */
  drain(graceMs: number): Promise<void> {
    if (this.streams.size === 0) return Promise.resolve();
    const { clock } = this.options;
    const timer = clock.setTimeout(() => this.streams.forEach((stream) => stream.destroy()), graceMs);
    return new Promise<void>((resolve) => this.drained.push(resolve)).finally(() => clock.clear(timer));
  }

  /** @internal for the streams */
  now(): number {
    return this.options.clock.now();
  }

  /** @internal for the streams */
  flushSoon(stream: SseResponse): void {
    if (this.unflushed.push(stream) === 1) setImmediate(this.flush);
  }

  /** @internal for the streams */
  closed(stream: SseResponse): void {
    this.streams.delete(stream);
    if (this.streams.size > 0) return;
    this.options.clock.clear(this.keepAlive);
    this.keepAlive = undefined;
    for (const resolve of this.drained.splice(0)) resolve();
  }

  /** @internal for the streams */
  opened(stream: SseResponse): void {
    this.streams.add(stream);
    this.keepAlive ??= this.armKeepAlive();
  }

  private armKeepAlive(): ClockTimer {
    const { keepAliveMs, clock } = this.options;
    const periodMs = keepAliveMs > 0 ? keepAliveMs : WITHOUT_COMMENTS_MS;
    return clock.setInterval(() => {
      for (const stream of this.streams) stream.tick(2 * periodMs, keepAliveMs > 0);
    }, periodMs);
  }

  private readonly flush = (): void => {
    const streams = this.unflushed;
    this.unflushed = [];
    for (const stream of streams) stream.flush();
  };
}

function whileOpen(raw: ServerResponse, exchange: PendingReply, reply: Promise<McpReply>): MaybePromise<McpReply> {
  // The response is watched: the request's own "close" comes when its body is read.
  const cancel = (): void => exchange.cancel();
  raw.on('close', cancel);
  return lastly(
    () => reply,
    () => raw.off('close', cancel),
  );
}

/** Returns Node's response behind the adapter's. */
export function rawResponse(response: object): ServerResponse {
  return (response as Partial<FastifyReply>).raw ?? (response as ServerResponse);
}

/*
 * # One response that streams
 *
 * There may be many thousands of them, mostly idle, so each is one object without a timer or closure. Two listener
 * functions serve all responses and find the object on the response; the responder does flushing and keep-alive.
 *
 * It alone writes events as SSE text, for the endpoint and for the live page.
 *
 * Life: `open` → `ending` (the source has completed, its last bytes are on their way) → `closed`. `closed` is reached
 * exactly once, by the end that comes first: everything is released there, and the owner is notified.
 */

/** Fastify's reply, with the methods that are needed. */
interface FastifyReply {
  readonly raw: ServerResponse;
  readonly sent: boolean;
  hijack(): void;
  getHeaders(): OutgoingHttpHeaders;
  code(status: number): this;
  header(name: string, value: string): this;
  headers(headers: Readonly<Record<string, string>>): this;
  send(body: string | undefined): void;
}

/** The head of row P10; `Connection` is left to Node, which knows that HTTP/2 has none. */
const SSE_HEAD = Object.freeze({
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
});

const COMMENT = ':\n\n';

/** At most so many characters are joined into one write. */
const JOINED_CHARACTERS = 64 * 1024;

const SSE = Symbol('nestjs-mcp-streamable:sse-response');

type RawResponse = ServerResponse & { [SSE]?: SseResponse };

/**
 * Returns whether the client has disconnected. The response of HTTP/2 has no `destroyed`, and one that waits behind others of a
 * pipelining client is not closed by Node 20 and 22 with its connection.
 */
export function hasGone(raw: ServerResponse): boolean {
  return raw.destroyed || (raw.req as IncomingMessage | undefined)?.socket?.destroyed === true;
}

/** @internal */
export class SseResponse extends IdleSubscription implements StreamFlow, Observer<McpEvent> {
  paused = false;
  private state: 'open' | 'ending' | 'closed' = 'open';
  private resumed: Subject<void> | undefined;
  /** Holds the text of the events that are joined into the next write. */
  private pending = '';
  /** Counts what was given to Node so far. */
  private written = 0;
  /** The size of the write that found an empty buffer: it is being sent, and does not count (P13). */
  private beingSent = 0;
  /** Records how much had been sent at the last check, and since when nothing was sent. */
  private drained = 0;
  private stalledSince = 0;

  constructor(
    private readonly raw: RawResponse,
    private readonly owner: McpResponder,
    /** Present on Fastify, until the head is written. */
    private reply?: FastifyReply,
  ) {
    super();
  }

  get resumed$(): Observable<void> {
    return (this.resumed ??= new Subject<void>());
  }

  /** Writes the head, in one piece with the first events, and subscribes to them. */
  start(events$: Observable<McpEvent>): void {
    const { raw, reply } = this;
    // Fastify keeps headers apart from Node's response until it sends; those of @fastify/cors are among them.
    reply?.hijack();
    // `setHeader` would keep each of them for as long as the stream lasts.
    raw.writeHead(200, reply ? { ...reply.getHeaders(), ...SSE_HEAD } : SSE_HEAD);
    this.reply = undefined;
    this.owner.opened(this);
    raw[SSE] = this;
    raw.on('close', onClose);
    events$.subscribe(this);
    if (this.pending === '') raw.flushHeaders();
    else this.flush();
  }

  next(event: McpEvent): void {
    if (this.state !== 'open') return;
    if (this.pending === '') this.owner.flushSoon(this);
    this.pending += frameOf(event);
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
    // Adapters of serverless platforms make responses that finish, and often never close.
    this.raw.on('finish', onClose).end();
    this.unsubscribe();
  }

  /** Writes the joined events. */
  flush(): void {
    const { pending } = this;
    if (pending === '' || this.state === 'closed') return;
    this.pending = '';
    this.write(pending);
  }

  /**
   * Runs one keep-alive tick.
   *
   * @param patienceMs how long a response that is paused or ending may send nothing
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

  /** Destroys the connection; the client can resume. */
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
    this.unsubscribe();
    this.resumed?.complete();
    this.owner.closed(this);
  }

  /** Node counts text that waits in UTF-16 units, which is about what it takes in memory, and encodes it when it is sent. */
  private write(text: string): void {
    const { raw } = this;
    // A response whose connection alone has gone drops the text, or buffers it: the next tick finds that.
    if (raw.destroyed) return;
    if (raw.writableLength === 0) this.beingSent = text.length;
    this.written += text.length;
    // `false` alone means that Node's own buffer, far smaller than ours, is full; but a "drain" follows only then.
    if (raw.write(text) || this.paused) return;
    // Adapters of serverless platforms make responses that have no length, and no "drain": they never pause.
    const tooMuch = raw.writableLength - this.beingSent > this.owner.maxBufferedBytes;
    if (!tooMuch) return;
    this.paused = true;
    this.stalledSince = this.owner.now();
    this.noteProgress();
    raw.on('drain', onDrain);
  }

  /** Notes how much was sent. @returns whether bytes were sent since the last call */
  private noteProgress(): boolean {
    const drained = this.written - this.raw.writableLength;
    const progress = drained > this.drained;
    this.drained = drained;
    return progress;
  }
}

/**
 * Returns an event as SSE text (P11).
 *
 * The data is not escaped, as there is nothing to escape: `JSON.stringify` without indentation writes line breaks inside
 * strings as `\n` and `\r`, and U+2028 and U+2029 end no line in SSE.
 */
export function frameOf({ id, data, retry }: McpEvent): string {
  if (data === undefined) return COMMENT;
  if (data === '') return `${lineOf('id', id)}${lineOf('retry', retry)}data:\n\n`;
  // One template serves each case: joining the lines first costs a sixth more for an event of a replay.
  return id === undefined ? `event: message\ndata: ${data}\n\n` : `event: message\nid: ${id}\ndata: ${data}\n\n`;
}

function lineOf(field: string, value: string | number | undefined): string {
  return value === undefined ? '' : `${field}: ${value}\n`;
}

function onClose(this: RawResponse): void {
  this[SSE]?.close();
}

function onDrain(this: RawResponse): void {
  this[SSE]?.drain();
}
