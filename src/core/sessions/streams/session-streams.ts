import { Observable, type Observer, type Subscriber } from 'rxjs';
import { randomToken } from '../../common/random-token.js';
import { Retry } from '../../common/retry.js';
import type { McpReply, StreamFlow } from '../../calls/reply.js';
import type { ExchangeSink, SinkEntry } from '../../calls/exchange.js';
import {
  McpEventStoreError,
  McpSessionGoneError,
  McpStreamNotFoundError,
  StreamGivenUpError,
} from '../../log/event-store.errors.js';
import type { McpStoredEvent } from '../../log/event-store.js';
import { McpStream, type StreamObserver } from '../../log/mcp-stream.js';
import { NO_DATA } from '../../log/stream-reader.js';
import { McpError } from '../../protocol/errors.js';
import type { RequestId } from '../../protocol/json-rpc.js';
import { type Cursor, formatEventId, type McpEvent, parseEventId, STANDALONE_STREAM } from '../../protocol/events.js';
import type { McpSessionEvent } from '../session-events.js';
import { SESSION_OVER } from '../session.errors.js';
import type { SessionRuntime } from '../session-runtime.js';

/** Operators see this of a stream: its responses on this node, and the indexes of its latest delivered and logged event. */
export interface StreamDetails {
  readonly standalone: boolean;
  readonly readers: number;
  readonly delivered: number;
  readonly last: number;
}

/**
 * # The streams of a live session
 *
 * A {@link McpStream} exists while it is written or read. Its log outlives it: for a client that resumes later, a new
 * object is created over the same log.
 */
export class SessionStreams implements StreamObserver {
  #standalone: McpStream | undefined;
  /** The streams of POSTs by id; the map is made with the first one, because most sessions have none. */
  #posts: Map<string, McpStream> | undefined;
  /** The responses that wait until the log is available. */
  #held: Set<Subscriber<McpEvent>> | undefined;
  /** The commands to the log that no message waits for. */
  #bookkeeping: Set<Promise<unknown>> | undefined;
  #ended = false;

  constructor(
    private readonly sessionId: string,
    private readonly runtime: SessionRuntime,
    private readonly session: {
      readonly primes: boolean;
      streamFailed(stream: McpStream, error: unknown): void;
      streamLost?(stream: McpStream): void;
    },
  ) {}

  /** Returns stream `0`, whose messages belong to no request. */
  get standalone(): McpStream {
    return this.#standalone ?? this.#obtain(STANDALONE_STREAM);
  }

  get size(): number {
    return (this.#posts?.size ?? 0) + (this.#standalone ? 1 : 0);
  }

  get readers(): number {
    let readers = this.#held?.size ?? 0;
    for (const stream of this.#all) readers += stream.readers;
    return readers;
  }

  /** Describes the streams that are written or read here, for operators. @throws (rejects) a fault of the log */
  async details(): Promise<StreamDetails[]> {
    return Promise.all(
      this.#all.map(async (stream) => {
        const { delivered, last } = await stream.head();
        return { standalone: stream.id === STANDALONE_STREAM, readers: stream.readers, delivered, last };
      }),
    );
  }

  /** Tells whether a client reads the standalone stream, on this node or another. */
  async hasReader(): Promise<boolean> {
    return this.#stream(STANDALONE_STREAM).hasReader();
  }

  /** Ends the responses that read the standalone stream, on any node; their clients reconnect. */
  disconnectStandalone(): void {
    if (!this.#ended) this.#stream(STANDALONE_STREAM).disconnectReaders();
  }

  /** Makes the stream of a POST that is not answered as JSON. */
  begin(requests: readonly RequestId[]): LoggedSink {
    return new LoggedSink(this.#keep(new McpStream(randomToken(), this.sessionId, this.runtime, this, requests)), this);
  }

  /**
   * Answers a GET.
   *
   * @param lastEventId where the client stopped; `undefined`: the standalone stream, after the last delivered event
   * @throws McpError BAD_REQUEST for a cursor that is malformed, or of a stream that this session does not have (G3, G4);
   *   SESSION_NOT_FOUND when its log is gone
   */
  async open(lastEventId: string | undefined): Promise<McpReply> {
    const cursor = lastEventId === undefined ? undefined : parseEventId(lastEventId);
    if (lastEventId !== undefined && !cursor) {
      const shown = lastEventId.slice(0, 100);
      const text = `Last-Event-ID "${shown}" is not an event id of this server ("<stream>_<index>"). Send the id of the last event you received, or none.`;
      throw new McpError('BAD_REQUEST', text);
    }
    // The client knows the id of the stream before its first append is complete; or it was given the answers, and comes back.
    const { begun, ending } = this.#known(cursor?.stream ?? STANDALONE_STREAM) ?? {};
    const awaited = begun ?? ending;
    if (awaited) return { kind: 'events', open: (flow) => this.#held$(awaited, cursor, flow) };
    let start: Start | undefined;
    try {
      start = await this.#find(cursor);
    } catch (error) {
      if (error instanceof McpSessionGoneError) {
        // Its record may be there still, if a failover has lost the log alone: the client begins a new session.
        this.suspect(error);
        throw new McpError('SESSION_NOT_FOUND', SESSION_OVER);
      }
      if (error instanceof McpError || error instanceof McpEventStoreError) throw error;
      this.#event({ type: 'store-fault', streamId: '', fatal: false, error });
      return { kind: 'events', open: (flow) => this.#held$(undefined, cursor, flow) };
    }
    // After an empty 200 both official clients reconnect endlessly; after 405 neither reports an error (G2).
    if (!start) return { kind: 'empty', status: 405, headers: { Allow: 'GET, POST, DELETE' } };
    return { kind: 'events', open: (flow) => this.#resume(start, flow) };
  }

  /** @returns where a response begins; `undefined` when there is nothing left to send, now or ever */
  async #find(cursor: Cursor | undefined): Promise<Start | undefined> {
    const streamId = cursor?.stream ?? STANDALONE_STREAM;
    const stream = this.#stream(streamId);
    if (cursor && stream.hasAnswers) return { streamId, after: cursor.index, last: cursor.index, cursor };
    try {
      const { last, delivered, ended } = await stream.head();
      const after = Math.min(cursor?.index ?? delivered, last);
      return ended && after === last ? undefined : { streamId, after, last, cursor };
    } catch (error) {
      if (!(error instanceof McpStreamNotFoundError)) throw error;
      const id = formatEventId(streamId, cursor!.index);
      const text = `Last-Event-ID "${id}" names a stream that this session does not have: it was never started, or it finished and has expired. Repeat the request, or send no Last-Event-ID.`;
      throw new McpError('BAD_REQUEST', text);
    }
  }

  #resume({ streamId, after, ...rest }: Start, flow: StreamFlow): Observable<McpEvent> {
    return this.events$(this.#obtain(streamId), after, { flow, ...rest });
  }

  /**
   * Holds the response while the log is unavailable (G11): after two refused GETs the official clients never try again. If that
   * took so long that its client may have opened a newer one, it ends, and a client that still waits comes back: with its
   * cursor, which official clients forget unless the response has repeated it.
   *
   * @param awaited settles when the log may know the stream, or its end
   */
  #held$(awaited: Promise<void> | undefined, cursor: Cursor | undefined, flow: StreamFlow): Observable<McpEvent> {
    return new Observable((subscriber) => {
      if (this.#ended) return subscriber.complete();
      const { retry, clock } = this.runtime;
      const patience = { ...retry, giveUpAfterMs: Number.POSITIVE_INFINITY };
      const waiting = new Retry(patience, clock, (e) => e instanceof McpError || e instanceof McpEventStoreError);
      const held = (this.#held ??= new Set());
      held.add(subscriber);
      subscriber.add(() => {
        held.delete(subscriber);
        waiting.cancel();
      });
      subscriber.next(cursor ? this.#head(cursor.stream, cursor.index) : COMMENT);
      const since = clock.now();
      const find = () => waiting.run(() => this.#find(cursor));
      (awaited ? awaited.then(find) : find())
        .then((start) => {
          if (!start || clock.now() - since >= this.runtime.comeBackMs) return subscriber.complete();
          held.delete(subscriber);
          if (!subscriber.closed) subscriber.add(this.#resume(start, flow).subscribe(subscriber));
        })
        .catch(() => subscriber.complete());
    });
  }

  /** Tells whether a call that runs here is answered on this stream, which ends with the last answer. */
  isOfRunningCall(id: string): boolean {
    const stream = this.#known(id);
    return stream !== undefined && id !== STANDALONE_STREAM && !stream.settled;
  }

  /**
   * Returns the events of one response: the client's cursor, then the events after it. The id of a new stream is not
   * sent before the stream is in the log: a client that resumes on another node must find it there. A cursor that the client
   * has named is repeated at once: the client forgets it if the response ends before the log has made it the reader.
   */
  events$(stream: McpStream, after: number, { flow, headOnly, last, cursor }: ResponseOptions): Observable<McpEvent> {
    return new Observable((subscriber) => {
      const { begun } = stream;
      const events = new ResponseEvents(stream.id, subscriber, this, this.#head(stream.id, cursor?.index ?? after));
      const begin = (): void => events.begin();
      if (cursor) begin();
      const hidden = begun !== undefined && this.session.primes;
      void begun?.then(() => {
        begin();
        if (headOnly) subscriber.complete();
      });
      if (!headOnly) return stream.subscribe(events, after, flow, last, hidden ? undefined : begin);
      if (!hidden) begin();
      return begun ? undefined : subscriber.complete();
    });
  }

  /** Makes the priming event (G9), or a comment for clients of older revisions (G10). */
  #head(stream: string, index: number): McpEvent {
    if (!this.session.primes) return COMMENT;
    return { id: formatEventId(stream, index), data: NO_DATA, retry: this.runtime.options.retryMs };
  }

  /**
   * Makes the event that clients get. One without data only moves the cursor, and goes to clients with priming events.
   *
   * @internal
   */
  sent(stream: string, { index, data }: McpStoredEvent): McpEvent | undefined {
    if (data !== NO_DATA) return { id: formatEventId(stream, index), data };
    return this.session.primes ? this.#head(stream, index) : undefined;
  }

  /** Refreshes all streams, at each keep-alive tick. */
  refresh(): void {
    for (const stream of this.#all) stream.refresh();
  }

  /** Creates the streams that are written here in the log again, which may have lost them (G12). */
  reopen(): void {
    for (const stream of this.#all) stream.reopen();
  }

  /** Makes the reader of a stream look into the log, because another node has written to it. */
  look(stream: string): void {
    this.#known(stream)?.look();
  }

  /**
   * Silences the reader of a stream, because another node has a newer one.
   *
   * @param upTo given, the response of the older one ends now
   */
  replaced(stream: string, reader: string, upTo?: number): void {
    this.#known(stream)?.replaced(reader, upTo);
  }

  /** Settles when every message is in the log and with the readers here, or never will be; `undefined`: there are no streams. */
  flushed(): Promise<unknown> | undefined {
    const all = this.#all;
    return all.length > 0 ? Promise.all(all.map((stream) => stream.flushed())) : undefined;
  }

  /** Settles when the bookkeeping of a shared log is done: above all the release of its readers; `undefined`: there is none. */
  bookkept(): Promise<unknown> | undefined {
    return this.#bookkeeping && this.#bookkeeping.size > 0 ? Promise.all(this.#bookkeeping) : undefined;
  }

  /** Ends all responses and streams, because the session is over. */
  end(): void {
    this.#ended = true;
    for (const subscriber of Array.from(this.#held ?? [])) subscriber.complete();
    for (const stream of this.#all) stream.end();
    this.#standalone = undefined;
    this.#posts?.clear();
  }

  attached(stream: McpStream): void {
    this.#event({ type: 'stream-attached', streamId: stream.id });
  }
  detached(stream: McpStream): void {
    this.#event({ type: 'stream-detached', streamId: stream.id });
  }
  replacedHere(stream: McpStream): void {
    this.#event({ type: 'reader-replaced', streamId: stream.id });
  }
  evicted({ id: streamId }: McpStream, after: number, oldest: number): void {
    this.#event({ type: 'events-evicted', streamId, after, oldest });
  }
  idle(stream: McpStream): void {
    if (this.#known(stream.id) !== stream) return;
    if (stream === this.#standalone) this.#standalone = undefined;
    else this.#posts!.delete(stream.id);
  }
  failed(stream: McpStream, error: Error): void {
    // The end of a session has an event of its own.
    if (!(error instanceof McpSessionGoneError)) {
      // A fault of the store is the cause of the error that handlers get.
      this.#event({ type: 'store-fault', streamId: stream.id, fatal: true, error: error.cause ?? error });
    }
    this.session.streamFailed(stream, error);
    this.suspect(error);
  }
  lost(stream: McpStream): void {
    this.session.streamLost?.(stream);
  }
  ended({ id }: McpStream): void {
    // Stream 0 ends only with its session.
    if (id === STANDALONE_STREAM && !this.#ended) this.runtime.suspect(this.sessionId);
  }
  fault(stream: McpStream, error: unknown): void {
    if (!this.#ended) this.#event({ type: 'store-fault', streamId: stream.id, fatal: false, error });
  }
  background(done: Promise<unknown>): void {
    const all = (this.#bookkeeping ??= new Set());
    const settled = done.finally(() => all.delete(settled));
    all.add(settled);
  }

  /** Compares the session with its record after an error of the log which may mean that it has ended. @internal */
  suspect(error: unknown): void {
    if (error instanceof McpSessionGoneError && !this.#ended) this.runtime.suspect(this.sessionId);
  }

  #obtain(id: string): McpStream {
    return this.#keep(this.#stream(id));
  }

  /** Returns the open stream, or a new one that is not added. */
  #stream(id: string): McpStream {
    return this.#known(id) ?? new McpStream(id, this.sessionId, this.runtime, this);
  }

  #keep(stream: McpStream): McpStream {
    if (this.#ended) stream.end();
    else if (stream.id === STANDALONE_STREAM) this.#standalone = stream;
    else (this.#posts ??= new Map()).set(stream.id, stream);
    return stream;
  }

  #known(id: string): McpStream | undefined {
    return id === STANDALONE_STREAM ? this.#standalone : this.#posts?.get(id);
  }

  get #all(): McpStream[] {
    const posts = Array.from(this.#posts?.values() ?? []);
    return this.#standalone ? [this.#standalone, ...posts] : posts;
  }

  #event(event: WithoutSession<McpSessionEvent>): void {
    this.runtime.event({ sessionId: this.sessionId, ...event });
  }
}

/** Hands the events of a stream to one response. One object takes a third of the memory of three closures. */
class ResponseEvents implements Observer<McpStoredEvent> {
  constructor(
    private readonly streamId: string,
    private readonly response: Subscriber<McpEvent>,
    private readonly owner: SessionStreams,
    /** The event that comes first, when the log knows the stream. */
    private head: McpEvent | undefined,
  ) {}

  begin(): void {
    if (!this.head) return;
    this.response.next(this.head);
    this.head = undefined;
  }

  next(event: McpStoredEvent): void {
    this.begin();
    const sent = this.owner.sent(this.streamId, event);
    if (sent) this.response.next(sent);
  }

  error(error: unknown): void {
    if (error instanceof StreamGivenUpError) {
      // Without an id: the log has no such events, and a client that comes back does so with the last one that it has.
      for (const data of error.answers) this.response.next({ data });
      return this.response.complete();
    }
    this.owner.suspect(error);
    this.response.error(error);
  }

  complete(): void {
    this.response.complete();
  }
}

/** A logged stream as the sink of an exchange: its client can resume it. */
export class LoggedSink implements ExchangeSink {
  constructor(
    readonly stream: McpStream,
    private readonly streams: SessionStreams,
  ) {}

  write(entry: SinkEntry): Promise<void> {
    return this.stream.write(entry);
  }

  events$(flow: StreamFlow, headOnly: boolean): Observable<McpEvent> {
    return this.streams.events$(this.stream, 0, { flow, headOnly });
  }

  disconnect(): boolean {
    return this.stream.disconnectReaders();
  }

  /** Ends the stream, because its events are no longer needed. */
  end(): void {
    this.stream.write({ end: true }).catch(() => {});
  }
}

export interface ResponseOptions {
  readonly flow: StreamFlow;
  /** Limits the response to the first event, which has the client's cursor. */
  readonly headOnly?: boolean;
  /** Index of the newest event that was logged when the response was asked for; absent: there is none after the cursor. */
  readonly last?: number;
  /** The cursor that the client names, which may be past the end (G5). */
  readonly cursor?: Cursor | undefined;
}

interface Start {
  readonly streamId: string;
  readonly after: number;
  /** The log has events up to this index. */
  readonly last: number;
  /** The cursor that the client names. */
  readonly cursor: Cursor | undefined;
}

const COMMENT: McpEvent = {};

type WithoutSession<E> = E extends unknown ? Omit<E, 'sessionId'> : never;
