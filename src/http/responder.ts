import type { ServerResponse } from 'node:http';
import type { Clock, ClockTimer } from '../common/clock.js';
import type { McpReply, McpStreamReply, PendingReply } from '../context/mcp-exchange.js';
import { type FastifyReply, hasGone, SseResponse, type SseOwner } from './sse-response.js';

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

const JSON_TYPE = 'application/json';

/** While there are no comments, how often stalled responses are looked for. */
const WITHOUT_COMMENTS_MS = 15_000;

/** What is needed of an app's adapter. */
export interface ReplyWriter {
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

  constructor(
    private readonly options: ResponderOptions,
    /** Of the app. */
    private readonly adapter: () => ReplyWriter = () => plainNode,
  ) {
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
   * Waits for the reply to a POST. When the client goes away meanwhile, the exchange hears of it.
   *
   * @param response Express' `Response` or Fastify's `FastifyReply`
   */
  async replyOf(exchange: PendingReply, response: object): Promise<McpReply> {
    const raw = rawResponse(response);
    // Of the response: the request's own "close" comes when its body is read.
    const abandon = (): void => exchange.abandon();
    raw.on('close', abandon);
    // It may have closed while the request was read, guarded, or its session looked up.
    if (hasGone(raw)) abandon();
    try {
      return await exchange.reply;
    } finally {
      raw.off('close', abandon);
    }
  }

  /** Writes a reply that is no stream, unless the client has gone or something else has answered (a timeout of the app). */
  send(response: object, reply: Exclude<McpReply, McpStreamReply>): void {
    const raw = rawResponse(response);
    if (!hasGone(raw) && !raw.headersSent) sendBody(raw === response ? plainNode : this.adapter(), response, reply);
  }

  /**
   * A response for events. Nothing of it is written before its `start()`, so that an error can still be answered.
   *
   * @returns `undefined` when the client has gone, or something else has answered
   */
  stream(response: object): SseResponse | undefined {
    const raw = rawResponse(response);
    if (hasGone(raw) || raw.headersSent) return undefined;
    return new SseResponse(raw, this, raw === response ? undefined : (response as FastifyReply));
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
  // Fastify would add the parameter, and takes the value apart to do so.
  adapter.setHeader?.(response, 'Content-Type', adapter === plainNode ? JSON_TYPE : `${JSON_TYPE}; charset=utf-8`);
  adapter.reply(response, reply.body, reply.status ?? 200);
}

/** Node's response behind the adapter's. */
export function rawResponse(response: object): ServerResponse {
  return (response as Partial<FastifyReply>).raw ?? (response as ServerResponse);
}
