import { Observable, type Subscriber } from 'rxjs';
import { randomToken } from '../common/random-token.js';
import { Retry } from '../common/retry.js';
import type { McpReply, StreamFlow } from '../context/mcp-exchange.js';
import type { ExchangeSink, SinkEntry } from '../exchange/exchange.js';
import {
  DuplicateRequestError,
  EventsEvictedError,
  EventStoreError,
  SessionGoneError,
} from '../stream/event-store.errors.js';
import type { StreamHead } from '../stream/event-store.js';
import { McpStream, type StreamObserver } from '../stream/mcp-stream.js';
import type { ReaderTurn } from '../stream/stream.options.js';
import { McpError } from '../wire/errors.js';
import type { RequestId } from '../wire/json-rpc.js';
import {
  commentFrame,
  type Cursor,
  formatEventId,
  parseEventId,
  primingFrame,
  STANDALONE_STREAM,
} from '../wire/sse.js';
import type { McpSessionEvent } from './session-events.js';
import { sessionMessages } from './session.messages.js';
import type { SessionEnvironment } from './session.options.js';
import { StreamFrames } from './stream-frames.js';

/** A stream that its client is told of before the log knows it. */
const JUST_BEGUN: StreamHead = { last: 0, oldest: 1, delivered: 0, ended: false, readers: 0 };

/**
 * # The streams of a live session
 *
 * A {@link McpStream} is here while something is written to it or somebody reads it. What it logged outlives it: a
 * client that comes back later gets a fresh object over the same log.
 */
export class SessionStreams implements StreamObserver {
  /** Made with the first: an idle session has none. */
  #streams: Map<string, McpStream> | undefined;
  /** Idle, but for what they have to tell a log that is slow, or away. */
  #leaving: Set<McpStream> | undefined;
  /** Responses that wait for the log to be back. */
  #held: Set<Subscriber<string>> | undefined;
  #closed = false;

  constructor(
    private readonly sessionId: string,
    private readonly environment: SessionEnvironment,
    private readonly session: { readonly primes: boolean; streamFailed(stream: McpStream, error: unknown): void },
  ) {}

  /** Stream `0`, for what belongs to no request. */
  get standalone(): McpStream {
    return this.#obtain(STANDALONE_STREAM);
  }

  get size(): number {
    return this.#streams?.size ?? 0;
  }

  get readers(): number {
    let readers = this.#held?.size ?? 0;
    for (const stream of this.#streams?.values() ?? []) readers += stream.readers;
    return readers;
  }

  /** Whether a client listens to the standalone stream, on this node or another. */
  async isHeard(): Promise<boolean> {
    if (this.#streams?.get(STANDALONE_STREAM)?.readers) return true;
    const head = await this.environment.store.describe(this.sessionId, STANDALONE_STREAM);
    return (head?.readers ?? 0) > 0;
  }

  /** Ends the responses that read the standalone stream, on any node; their clients come back. */
  disconnectStandalone(): void {
    if (!this.#closed) this.#find(STANDALONE_STREAM).disconnectReaders();
  }

  /** The stream of a POST that has become one. */
  begin(requests: readonly RequestId[]): LoggedSink {
    return new LoggedSink(
      this.#keep(new McpStream(randomToken(), this.sessionId, this.environment, this, requests)),
      this,
    );
  }

  /**
   * Answers a GET.
   *
   * @param lastEventId where the client stopped; `undefined`: the standalone stream, from what it did not get yet
   * @throws McpError BAD_REQUEST for a cursor that is malformed, foreign or lost (G3, G4, G6), CONFLICT (G7)
   */
  async open(lastEventId: string | undefined): Promise<McpReply> {
    let start: Start | undefined;
    try {
      start = await this.#start(lastEventId);
    } catch (error) {
      if (error instanceof McpError || error instanceof EventStoreError) throw error;
      this.#event({ type: 'store-fault', streamId: '', fatal: false, error });
      return { kind: 'stream', open: (flow) => this.#whenBack(lastEventId, flow) };
    }
    // An empty 200 makes both official clients come back for ever; 405 is quiet in both (G2).
    if (!start) return { kind: 'empty', status: 405, headers: { Allow: 'GET, POST, DELETE' } };
    return { kind: 'stream', open: (flow) => this.#read(start, flow) };
  }

  async #start(lastEventId: string | undefined): Promise<Start | undefined> {
    if (lastEventId === undefined) return { ...(await this.#undelivered()), skips: true };
    const cursor = await this.#resume(lastEventId);
    return cursor && { ...cursor, skips: false };
  }

  /**
   * Holds the response while the log is away (G11): after two refused GETs the official clients give up for good. What
   * would have been refused ends the response.
   */
  #whenBack(lastEventId: string | undefined, flow: StreamFlow): Observable<string> {
    return new Observable((subscriber) => {
      const { retry, clock } = this.environment;
      const patience = { ...retry, giveUpAfterMs: Number.POSITIVE_INFINITY };
      const waiting = new Retry(patience, clock, (e) => e instanceof McpError || e instanceof EventStoreError);
      const held = (this.#held ??= new Set());
      held.add(subscriber);
      subscriber.add(() => {
        held.delete(subscriber);
        waiting.cancel();
      });
      subscriber.next(commentFrame());
      waiting
        .run(() => this.#start(lastEventId))
        .then((start) => {
          if (!start) return subscriber.complete();
          held.delete(subscriber);
          if (!subscriber.closed) subscriber.add(this.#read(start, flow).subscribe(subscriber));
        })
        .catch(() => subscriber.complete());
    });
  }

  /** Only now that the response is certain: for a client that has left meanwhile nothing is kept, and nobody makes room. */
  #read({ stream: id, index, skips }: Start, flow: StreamFlow): Observable<string> {
    const stream = this.#obtain(id);
    if (!stream.admitReader()) throw new McpError('CONFLICT', sessionMessages.tooManyReaders(id));
    // The reader before it may be on another node, and say something yet.
    return this.frames$(stream, index, {
      flow,
      ...(this.environment.store.scope === 'shared' && { takesOver: { skips } }),
    });
  }

  /** Whether a call that runs here is answered on this stream: it ends with the last answer. */
  isOfRunningCall(id: string): boolean {
    const stream = this.#streams?.get(id);
    return stream !== undefined && id !== STANDALONE_STREAM && !stream.settled;
  }

  /** The frames of one response: where the client is, then what follows. */
  frames$(stream: McpStream, after: number, { flow, headOnly, takesOver }: FrameOptions): Observable<string> {
    return new Observable((subscriber) => {
      const begins = (cursor: number): void => subscriber.next(this.#headFrame(stream.id, cursor));
      if (!takesOver) begins(after);
      if (headOnly) return subscriber.complete();
      const frames = new StreamFrames(stream.id, subscriber, this);
      return stream.events$(after, flow, takesOver && { ...takesOver, begins }).subscribe(frames);
    });
  }

  #headFrame(stream: string, index: number): string {
    return this.session.primes ? primingFrame(formatEventId(stream, index), this.environment.retryMs) : commentFrame();
  }

  /** Now and then: tells the log how far the readers have come, and looks whether other nodes have said otherwise. */
  refresh(): void {
    const shared = this.environment.store.scope === 'shared';
    for (const stream of this.#streams?.values() ?? []) {
      stream.noteDelivered();
      if (shared) stream.reconcile();
    }
  }

  /** Another node has written to a stream. */
  poke(stream: string): void {
    this.#streams?.get(stream)?.poke();
  }

  /** Another node's reader has come to a stream, or left it. */
  turn(stream: string, reader: string, turn: ReaderTurn): void {
    // It may have left just now: whoever asks is answered all the same.
    if (!this.#closed) this.#find(stream).turn(reader, turn);
  }

  /** Settles when everything that was sent is in the log and with who reads it here, or never will be. */
  async flushed(): Promise<void> {
    await Promise.all([...(this.#streams?.values() ?? [])].map((stream) => stream.flushed()));
  }

  /** The session is over. */
  close(): void {
    this.#closed = true;
    for (const subscriber of [...(this.#held ?? [])]) subscriber.complete();
    for (const stream of [...(this.#streams?.values() ?? []), ...(this.#leaving ?? [])]) stream.close();
    this.#streams?.clear();
  }

  attached(stream: McpStream): void {
    this.#event({ type: 'stream-attached', streamId: stream.id });
  }
  detached(stream: McpStream): void {
    this.#event({ type: 'stream-detached', streamId: stream.id });
  }
  evicted(stream: McpStream): void {
    this.#event({ type: 'reader-evicted', streamId: stream.id });
  }
  idle(stream: McpStream): void {
    if (this.#streams?.get(stream.id) === stream) this.#streams.delete(stream.id);
    if (stream.telling && !this.#closed) (this.#leaving ??= new Set()).add(stream);
  }
  told(stream: McpStream): void {
    this.#leaving?.delete(stream);
    // What it has said last concerns those who read the stream by another object.
    const successor = this.#streams?.get(stream.id);
    if (successor !== stream) successor?.poke();
  }
  failed(stream: McpStream, error: unknown): void {
    // Of a duplicate the client is told; the log is right.
    if (!(error instanceof DuplicateRequestError)) {
      this.#event({ type: 'store-fault', streamId: stream.id, fatal: true, error });
    }
    this.session.streamFailed(stream, error);
    this.suspect(error);
  }
  fault(stream: McpStream, error: unknown): void {
    if (!this.#closed) this.#event({ type: 'store-fault', streamId: stream.id, fatal: false, error });
  }

  async #undelivered(): Promise<Cursor> {
    const { store } = this.environment;
    const index = await this.#find(STANDALONE_STREAM).resumePoint();
    const head = (await store.describe(this.sessionId, STANDALONE_STREAM)) ?? JUST_BEGUN;
    return { stream: STANDALONE_STREAM, index: this.#afterEviction(index, head) };
  }

  /** @returns `undefined` when there is nothing left to send, now or ever */
  async #resume(lastEventId: string): Promise<Cursor | undefined> {
    const cursor = parseEventId(lastEventId);
    if (!cursor) throw new McpError('BAD_REQUEST', sessionMessages.malformedCursor(lastEventId));
    const { stream } = cursor;
    const head = await this.environment.store.describe(this.sessionId, stream);
    if (!head && !this.#streams?.has(stream)) {
      throw new McpError('BAD_REQUEST', sessionMessages.unknownCursor(lastEventId));
    }
    const { last, ended } = head ?? JUST_BEGUN;
    const index = Math.min(cursor.index, last);
    if (ended && index === last) return undefined;
    if (stream === STANDALONE_STREAM) return { stream, index: this.#afterEviction(index, head ?? JUST_BEGUN) };
    if (index < last) await this.#assertKept(stream, index, lastEventId);
    return { stream, index };
  }

  /** There may be holes behind older events that are kept: answers that nobody has read. */
  async #assertKept(stream: string, index: number, lastEventId: string): Promise<void> {
    try {
      await this.environment.store.read(this.sessionId, stream, index, 1);
    } catch (error) {
      if (!(error instanceof EventsEvictedError)) throw error;
      throw new McpError('BAD_REQUEST', sessionMessages.evictedCursor(lastEventId, error.oldest));
    }
  }

  /** The standalone stream goes on with the oldest event that is left; the client cannot do anything about the rest. */
  #afterEviction(index: number, { oldest }: StreamHead): number {
    if (index + 1 >= oldest) return index;
    this.#event({ type: 'events-evicted', streamId: STANDALONE_STREAM, after: index, oldest });
    return oldest - 1;
  }

  /** The log may say by an error that the session is gone. @internal */
  suspect(error: unknown): void {
    if (error instanceof SessionGoneError && !this.#closed) this.environment.suspect(this.sessionId);
  }

  #obtain(id: string): McpStream {
    return this.#keep(this.#find(id));
  }

  /** For a moment; what is to stay is kept. */
  #find(id: string): McpStream {
    return this.#streams?.get(id) ?? new McpStream(id, this.sessionId, this.environment, this);
  }

  #keep(stream: McpStream): McpStream {
    if (this.#closed) stream.close();
    else (this.#streams ??= new Map()).set(stream.id, stream);
    return stream;
  }

  #event(event: WithoutSession<McpSessionEvent>): void {
    this.environment.event({ sessionId: this.sessionId, ...event });
  }
}

/** A stream in the log of a session as that of an exchange: its client comes back for what it did not get. */
export class LoggedSink implements ExchangeSink {
  constructor(
    readonly stream: McpStream,
    private readonly streams: SessionStreams,
  ) {}

  /** Only the log knows whether another node has begun the same request at the same moment (S11). */
  get accepted(): Promise<void> | undefined {
    return this.stream.accepted?.catch((error: unknown) => {
      const { request: requestId } = error as DuplicateRequestError;
      throw new McpError('INVALID_REQUEST', sessionMessages.duplicateId(requestId), { requestId });
    });
  }

  write(entry: SinkEntry): Promise<void> {
    return this.stream.write(entry);
  }

  frames$(flow: StreamFlow, headOnly: boolean): Observable<string> {
    return this.streams.frames$(this.stream, 0, { flow, headOnly });
  }

  disconnect(): boolean {
    return this.stream.disconnectReaders();
  }

  /** What was logged can be dropped. */
  abandon(): void {
    this.stream.write({ end: true }).catch(() => {});
  }
}

export interface FrameOptions {
  readonly flow: StreamFlow;
  /** What tells the client where it is, and no more. */
  readonly headOnly?: boolean;
  /** Another response may be reading; nothing is said before that one is silent, for a moment at most. */
  readonly takesOver?: { readonly skips: boolean };
}

/** Where a response begins; `skips`: its client knows no cursor. */
interface Start extends Cursor {
  readonly skips: boolean;
}

type WithoutSession<E> = E extends unknown ? Omit<E, 'sessionId'> : never;
