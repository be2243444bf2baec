import { NEVER, Observable, Subject } from 'rxjs';
import { deferred, type Deferred } from '../common/promises.js';
import { randomToken } from '../common/random-token.js';
import { Retry } from '../common/retry.js';
import type { StreamFlow } from '../context/mcp-exchange.js';
import type { RequestId } from '../wire/json-rpc.js';
import { DuplicateRequestError, EventStoreError, SessionGoneError, StreamEndedError } from './event-store.errors.js';
import type { ReaderRef, StoredEvent } from './event-store.js';
import { StreamReader } from './stream-reader.js';
import { StreamReaders, type ReadStream, type TurnStart } from './stream-readers.js';
import type { ReaderTurn, StreamEnvironment } from './stream.options.js';
import { StreamWriter, type StreamEntry, type StreamSignal } from './stream-writer.js';

const ALWAYS_FLOWING: StreamFlow = { paused: false, resumed$: NEVER };

/**
 * # One logical stream
 *
 * Messages of one POST, or of the standalone stream `0`, in the order in which they were sent; logged, so that a client
 * whose connection broke finds them again. One Subject per stream says that something was logged.
 *
 * Several responses may read one stream; which of them gets a message is up to {@link StreamReaders}.
 *
 *     open ──end() committed──▶ ended ──last reader left──▶ idle (the session lets go of it)
 *       └──append refused──▶ failed: its readers fail, its owner is told
 *
 * Most streams `0` are read and never written, others written and never read: what only one of them needs is made for it.
 */
export class McpStream implements ReadStream {
  #writer: StreamWriter | undefined;
  /** Heard by each reader here. */
  #signal$: Subject<StreamSignal> | undefined;
  readonly #readers: StreamReaders = new StreamReaders(this);
  /** @internal */
  readonly retry: Retry;
  #patience: Retry | undefined;
  /** Index of the newest event, when this object alone writes the stream. */
  #last: number | undefined;
  /** Of a stream that begins here: settles with its first append. `undefined` when it has begun. */
  #begun: Deferred<void> | undefined;
  #closed = false;
  /** How much the log is being told. */
  #telling = 0;
  /** Why the log refused, once it has. */
  #failure: unknown;
  /** An end is being put to what a failed stream has logged. */
  #abandoning = false;

  constructor(
    readonly id: string,
    /** @internal */
    readonly session: string,
    /** @internal */
    readonly environment: StreamEnvironment,
    private readonly observer: StreamObserver,
    /** Of a POST stream that begins here: the requests whose messages it carries. */
    private readonly requests?: readonly RequestId[],
  ) {
    this.retry = new Retry(environment.retry, environment.clock, isFinal);
    if (requests) {
      this.#last = 0;
      this.#begun = deferred();
    }
  }

  /** Responses that read it on this node. */
  get readers(): number {
    return this.#readers.size;
  }
  /** @internal */
  get patience(): Retry {
    const { retry, clock } = this.environment;
    return (this.#patience ??= new Retry({ ...retry, giveUpAfterMs: Number.POSITIVE_INFINITY }, clock, isFinal));
  }
  /**
   * Of a stream that begins here, in a log that other nodes write too: settles when it has begun, or failed.
   *
   * @throws (rejects) DuplicateRequestError when another node runs one of its requests
   */
  get accepted(): Promise<void> | undefined {
    return this.environment.store.scope === 'shared' ? this.begun : undefined;
  }
  /** @internal */
  get begun(): Promise<void> | undefined {
    return this.#begun?.promise;
  }
  /** @internal */
  get closed(): boolean {
    return this.#closed;
  }

  /** The log is still being told something, though nobody may need this object: it ends with the session, as that does. */
  get telling(): boolean {
    return this.#telling > 0;
  }

  /** Nobody needs this object to write: the stream is over, or nothing waits and any other object could go on with it. */
  get settled(): boolean {
    const state = this.#state;
    if (state === 'failed') return !this.#abandoning;
    return state === 'ended' || (state === 'idle' && this.#last === undefined);
  }

  /**
   * Logs a message, the settlement of a request, the end of the stream, or any of them in one step; with none of them
   * the stream merely begins to exist.
   *
   * @returns settles when it is in the log; rejects when it never will be
   */
  write(entry: StreamEntry): Promise<void> {
    return (this.#writer ??= this.#makeWriter()).push(entry);
  }

  /** Settles when everything that was said so far is in the log, and with those who read it here. */
  async flushed(): Promise<void> {
    await this.#writer?.flushed();
    await this.#readers.rested();
  }

  /**
   * The events after the cursor `after`: what is logged, then live, without a gap, a repeat or a change of order. Cold: each
   * subscriber is a reader, and the newest. Completes after the last event of a stream that has ended.
   *
   * @param start given, nothing is handed out before the reader whose turn it was, maybe on another node, is silent
   * @throws (errors) EventsEvictedError, StreamNotFoundError, SessionGoneError, or the fault of the log that outlasted all retries
   */
  events$(after: number, flow: StreamFlow = ALWAYS_FLOWING, start?: TurnStart): Observable<StoredEvent> {
    return new Observable((subscriber) => {
      if (this.#closed) return subscriber.complete();
      if (this.#state === 'failed') return subscriber.error(this.#failure);
      const { store } = this.environment;
      const log = { store, session: this.session, stream: this.id, retry: this.retry };
      // Of a stream that has ended no signal will tell: it may have, between the reply and its response.
      const fresh = after === this.#last && this.#state !== 'ended';
      const reader = new StreamReader(log, flow, subscriber, { after, fresh });
      subscriber.add(() => this.#detach(reader));
      subscriber.add((this.#signal$ ??= new Subject()).subscribe((signal) => reader.accept(signal)));
      this.#readers.attach(reader, start);
      this.observer.attached(this);
      reader.wake();
    });
  }

  /** Where a client that knows no cursor goes on: after what was handed out. */
  resumePoint(): Promise<number> {
    return this.#readers.resumePoint();
  }

  /** Makes room for one more reader. @returns `false` when there is none (409) */
  admitReader(): boolean {
    return this.#readers.admit();
  }

  /**
   * Ends the responses that read this stream, on any node; the stream goes on, and they may come back.
   *
   * @returns whether there were any on this node
   */
  disconnectReaders(): boolean {
    return this.#readers.disconnect();
  }

  /** Tells the log how far the reader has come, if that is news. */
  noteDelivered(): void {
    this.#readers.noteDelivered();
  }

  /** The log may hold more than was signalled here: another node wrote, or signals were lost. */
  poke(): void {
    this.#signal$?.next({ first: 0, events: [], ended: false });
  }

  /** Another node says something about a reader here. */
  turn(reader: string, turn: ReaderTurn): void {
    this.#readers.turn(reader, turn);
  }

  /** Looks into the log whether everything is as this node believes. To be called now and then. */
  reconcile(): void {
    this.#readers.reconcile();
  }

  /** The session is over: readers complete, retries end. */
  close(): void {
    this.#closed = true;
    this.retry.cancel();
    this.#patience?.cancel();
    this.#readers.finish();
    this.#signal$?.complete();
  }

  get #state(): StreamWriter['state'] {
    return this.#writer?.state ?? 'idle';
  }

  #makeWriter(): StreamWriter {
    const { environment, session, id: stream, retry, requests } = this;
    const { store, maxQueuedBytes, nodeId } = environment;
    return new StreamWriter({
      ...{ store, retry, maxQueuedBytes, session, stream },
      writer: randomToken(),
      ...(requests && { opens: { node: nodeId, requests } }),
      committed: (signal, reader) => this.#committed(signal, reader),
      rested: () => this.#settleDown(),
      failed: (error) => this.#fail(error),
    });
  }

  #committed(signal: StreamSignal, reader: ReaderRef | undefined): void {
    this.#hasBegun();
    if (reader && reader.node !== this.environment.nodeId) {
      this.environment.peers.appended(this.session, this.id, reader);
    }
    if (this.#last !== undefined) this.#last = signal.first + signal.events.length - 1;
    this.#signal$?.next(signal);
    if (signal.ended) this.#settleDown();
  }

  #hasBegun(): void {
    this.#begun?.resolve();
    this.#begun = undefined;
  }

  #fail(error: unknown): void {
    this.#failure = error;
    if (error instanceof DuplicateRequestError) this.#begun?.reject(error);
    else this.#hasBegun();
    this.retry.cancel();
    // First: until that is done this object is not to be let go of, though its readers are.
    this.#abandonLog(error);
    this.#readers.fail(error);
    this.observer.failed(this, error);
    this.#settleDown();
  }

  #detach(reader: StreamReader): void {
    reader.release();
    if (!this.#readers.detach(reader)) return;
    this.observer.detached(this);
    this.#settleDown();
  }

  /**
   * What a failed stream has logged is of no use: ended, it can be forgotten, its requests are settled, and no client that
   * comes back waits for what will never follow. Tried until the log is back, or the session is over.
   */
  #abandonLog(reason: unknown): void {
    // With its session the log goes anyway.
    if (this.#closed || this.#last === undefined) return;
    if (reason instanceof SessionGoneError || reason instanceof StreamEndedError) return;
    // It never began.
    if (reason instanceof DuplicateRequestError) return;
    this.#abandoning = true;
    const options = { writer: randomToken(), seq: 1, end: true };
    const { store, nodeId, peers } = this.environment;
    const ended = this.patience
      .run(() => store.append(this.session, this.id, [], options))
      .then(({ reader }) => {
        if (reader && reader.node !== nodeId) peers.appended(this.session, this.id, reader);
      });
    this.tell(
      ended.finally(() => {
        this.#abandoning = false;
        this.#settleDown();
      }),
    );
  }

  /** @internal */
  evicted(): void {
    this.observer.evicted(this);
  }

  /** @internal */
  fault(error: unknown): void {
    // That the log knows nothing of it is no wonder.
    if (this.#failure instanceof DuplicateRequestError) return;
    this.observer.fault(this, error);
  }

  #settleDown(): void {
    if (this.#readers.size === 0 && this.settled) this.observer.idle(this);
  }

  /** Bookkeeping of the log that nothing waits for: when it fails, the log is a little less well informed. @internal */
  tell(told: Promise<unknown>): void {
    this.#telling++;
    told
      .catch((error: unknown) => {
        // Of a session that is over there is nothing to keep.
        if (!(error instanceof SessionGoneError)) this.fault(error);
      })
      .finally(() => {
        if (--this.#telling === 0) this.observer.told?.(this);
      });
  }
}

function isFinal(error: unknown): boolean {
  return error instanceof EventStoreError;
}

/** Whoever owns the stream hears of it. */
export interface StreamObserver {
  attached(stream: McpStream): void;
  detached(stream: McpStream): void;
  /** The oldest reader had to make room. */
  evicted(stream: McpStream): void;
  /** Nothing to write and nobody to read: the object may go, what it logged stays. */
  idle(stream: McpStream): void;
  /** It is no longer `telling`. */
  told?(stream: McpStream): void;
  /** The log has refused a message: the stream is lost. Said once. */
  failed(stream: McpStream, error: unknown): void;
  /** The event store failed at bookkeeping. */
  fault(stream: McpStream, error: unknown): void;
}
