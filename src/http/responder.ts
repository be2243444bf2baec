import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { Clock, ClockTimer } from '../base/clock.js';
import type { McpReply, McpStreamReply } from '../context/mcp-reply.js';
import { closeWithConnection } from './pipelined-response.js';
import { hasGone, SseResponse, type SseOwner } from './sse-response.js';

/*
 * # The responder
 *
 * Writes every reply, on both adapters. JSON and empty answers go through Fastify, so that the app's hooks and headers apply.
 * On Express those hang on Node's response, which is Express' own: there answers are written to it, without what
 * `response.send()` does first, such as a hash of the body for an `ETag`. Streams go to Node's response, since neither framework
 * has a place for them (Fastify wants to be told: hijack).
 *
 * It owns what open streams share: the set of them, one keep-alive interval, which exists only while the set is not empty,
 * and one flush per turn of the event loop. Nothing of a response outlives it.
 */

/** Options of the {@link McpResponder}. @internal */
export interface ResponderOptions {
  /**
   * Period of the keep-alive comments on every stream, in milliseconds. Longer than the shortest idle timeout on the way,
   * often 60 s, and proxies cut idle streams; 0 writes none.
   */
  readonly keepAliveMs: number;
  /**
   * Above it, in bytes that wait behind the event that is being sent, the source of a stream is asked to pause. Node's own
   * buffer (`writableHighWaterMark`, 16 or 64 KiB) is the least that takes effect.
   */
  readonly maxBufferedBytes: number;
  readonly clock: Clock;
}

/** While there are no comments, how often stalled responses are looked for. */
const WITHOUT_COMMENTS_MS = 15_000;

/** Row P10; `Connection` is left to Node, which knows that HTTP/2 has none. */
const SSE_HEAD = Object.freeze({
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
});

/** Fastify's reply, as far as it is needed. */
interface FastifyReply {
  readonly raw: ServerResponse;
  hijack(): void;
  getHeaders(): OutgoingHttpHeaders;
}

/** What is needed of an app's adapter. */
interface ReplyWriter {
  setHeader?(response: unknown, name: string, value: string): unknown;
  reply(response: unknown, body: string | undefined, status: number): unknown;
}

/** @internal */
export class McpResponder implements SseOwner {
  readonly maxBufferedBytes: number;
  private readonly streams = new Set<SseResponse>();
  /** Streams with frames that were emitted in this turn of the event loop. */
  private unflushed: SseResponse[] = [];
  private keepAlive: ClockTimer | undefined;
  private readonly drained: (() => void)[] = [];

  constructor(private readonly options: ResponderOptions) {
    this.maxBufferedBytes = options.maxBufferedBytes;
  }

  /** How many streams are open: from their head until their response has closed. */
  get open(): number {
    return this.streams.size;
  }

  /** How many of them wait for their client to read. */
  get paused(): number {
    return [...this.streams].filter((stream) => stream.paused).length;
  }

  /**
   * Writes a reply; returns as soon as the head is written, however long the stream lasts.
   *
   * @param adapter of the app
   * @param response Express' `Response` or Fastify's `FastifyReply`
   * @returns whether the reply was taken. If not, the client has gone or something else has answered (a timeout of the
   *   app), and a stream was not opened
   */
  send(adapter: ReplyWriter, response: unknown, reply: McpReply): boolean {
    const raw = (response as Partial<FastifyReply>).raw ?? (response as ServerResponse);
    closeWithConnection(raw);
    if (hasGone(raw) || raw.headersSent) return false;
    if (reply.kind === 'stream') this.stream(raw, response, reply);
    else sendBody(raw === response ? plainNode : adapter, response, reply);
    return true;
  }

  /**
   * Waits for the open streams to end; it does not end them.
   *
   * @param graceMs what is still open then is destroyed
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

  private stream(raw: ServerResponse, response: unknown, reply: McpStreamReply): void {
    const stream = new SseResponse(raw, this);
    // First, since what it throws must still find an unwritten response.
    const frames$ = reply.open(stream);
    // Not `setHeader`, which keeps each of them for as long as the stream lasts.
    raw.writeHead(200, raw === response ? SSE_HEAD : { ...takenOver(response as FastifyReply), ...SSE_HEAD });
    this.streams.add(stream);
    this.keepAlive ??= this.armKeepAlive();
    stream.start(frames$);
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

/** How a response of Node's is spoken to, for who speaks to the adapter of an app. */
export const plainNode: ReplyWriter = {
  setHeader: (response: ServerResponse, name, value) => response.setHeader(name, value),
  reply: (response: ServerResponse, body, status) => {
    response.statusCode = status;
    response.end(body);
  },
};

function sendBody(adapter: ReplyWriter, response: unknown, reply: Exclude<McpReply, McpStreamReply>): void {
  if (reply.kind === 'accepted') {
    adapter.reply(response, undefined, 202);
    return;
  }
  for (const [name, value] of Object.entries(reply.headers ?? {})) adapter.setHeader?.(response, name, value);
  if (reply.kind === 'empty') {
    adapter.reply(response, undefined, reply.status);
    return;
  }
  adapter.setHeader?.(response, 'Content-Type', 'application/json');
  adapter.reply(response, reply.body, reply.status ?? 200);
}

/** Fastify keeps headers apart from Node's response until it sends; those of @fastify/cors are among them. */
function takenOver(reply: FastifyReply): OutgoingHttpHeaders {
  reply.hijack();
  return reply.getHeaders();
}
