import { NEVER, Observable, Subject } from 'rxjs';
import { randomToken } from '../base/random-token.js';
import { Retry } from '../base/retry.js';
import type { StreamFlow } from '../call/mcp-reply.js';
import type { RequestId } from '../wire/json-rpc.js';
import { EventStoreError } from './event-store.errors.js';
import type { ReaderRef, StoredEvent } from './event-store.js';
import { StreamReader } from './stream-reader.js';
import { MAX_READERS, READER_EVICTION_MS, type StreamEnvironment } from './stream.options.js';
import { StreamWriter, type StreamEntry, type StreamSignal } from './stream-writer.js';

const ALWAYS_FLOWING: StreamFlow = { paused: false, resumed$: NEVER };

/**
 * # One logical stream
 *
 * Messages of one POST, or of the standalone stream `0`, in the order in which they were sent; logged, so that a client
 * whose connection broke finds them again. One Subject per stream says that something was logged.
 *
 * Several responses may read one stream, but **each message goes to the newest only** (behaviour G7): the older ones
 * stay open, hand out nothing, and take their turn when the newer one is gone. Ending them at once would make two
 * readers of one client evict each other for ever.
 *
 *     open ──end() committed──▶ ended ──last reader left──▶ idle (the session lets go of it)
 *       └──append refused──▶ failed: its readers fail, its owner is told
 */
export class McpStream {
  readonly #signal$ = new Subject<StreamSignal>();
  readonly #writer: StreamWriter;
  readonly #retry: Retry;
  /** Oldest first; the last one is the reader, the others are muted. */
  readonly #readers: AttachedReader[] = [];
  #evictedAt = Number.NEGATIVE_INFINITY;
  /** Where the latest reader stopped. */
  #reached = 0;
  /** What the log was told of it. */
  #noted = 0;
  /** Index of the newest event, when this object alone writes the stream. */
  #last: number | undefined;
  #closed = false;

  constructor(
    readonly id: string,
    private readonly session: string,
    private readonly environment: StreamEnvironment,
    private readonly observer: StreamObserver,
    /** Of a POST stream that begins here: the requests whose messages it carries. */
    requests?: readonly RequestId[],
  ) {
    const { store, clock, retry, maxQueuedBytes, nodeId } = environment;
    this.#retry = new Retry(retry, clock, (error) => error instanceof EventStoreError);
    this.#writer = new StreamWriter({
      ...{ store, retry: this.#retry, maxQueuedBytes, session, stream: id },
      writer: randomToken(),
      ...(requests && { opens: { node: nodeId, requests } }),
      committed: (signal) => this.#committed(signal),
      failed: (error) => this.#fail(error),
    });
    if (requests) this.#last = 0;
  }

  get readers(): number {
    return this.#readers.length;
  }

  /** Nothing will be written by this object any more. */
  get settled(): boolean {
    const { state } = this.#writer;
    return this.#last === undefined ? state === 'idle' : state === 'ended' || state === 'failed';
  }

  /**
   * Logs a message, the settlement of a request, the end of the stream, or any of them in one step; with none of them
   * the stream merely begins to exist.
   *
   * @returns settles when it is in the log; rejects when it never will be
   */
  write(entry: StreamEntry): Promise<void> {
    return this.#writer.push(entry);
  }

  flushed(): Promise<void> {
    return this.#writer.flushed();
  }

  /**
   * The events after the cursor `after`: what is logged, then live, without a gap, a repeat or a change of order. Cold: each
   * subscriber is a reader, and the newest. Completes after the last event of a stream that has ended.
   *
   * @throws (errors) EventsEvictedError, StreamNotFoundError, SessionGoneError, or the fault of the log that outlasted all retries
   */
  events$(after: number, flow: StreamFlow = ALWAYS_FLOWING): Observable<StoredEvent> {
    return new Observable((subscriber) => {
      if (this.#closed) return subscriber.complete();
      const { store } = this.environment;
      const log = { store, session: this.session, stream: this.id, retry: this.#retry };
      const reader = new StreamReader(log, flow, subscriber, { after, fresh: after === this.#last });
      subscriber.add(() => this.#detach(reader));
      subscriber.add(this.#signal$.subscribe((signal) => reader.accept(signal)));
      subscriber.add(flow.resumed$.subscribe(() => reader.wake()));
      this.#attach(reader);
      reader.wake();
    });
  }

  /** Where a client that knows no cursor goes on: after what was handed out. */
  async resumePoint(): Promise<number> {
    const head = await this.environment.store.describe(this.session, this.id);
    return Math.max(head?.delivered ?? 0, this.#readers.at(-1)?.reader.cursor ?? 0, this.#reached);
  }

  /** Makes room for one more reader. @returns `false` when there is none (409) */
  admitReader(): boolean {
    if (this.#readers.length < MAX_READERS) return true;
    const now = this.environment.clock.now();
    if (now - this.#evictedAt < READER_EVICTION_MS) return false;
    this.#evictedAt = now;
    this.observer.evicted(this);
    this.#readers[0]!.reader.finish();
    return true;
  }

  /** Ends the responses that read this stream; the stream goes on, and they may come back. */
  disconnectReaders(): boolean {
    const attached = [...this.#readers];
    for (const { reader } of attached) reader.finish();
    return attached.length > 0;
  }

  /** Tells the log how far the reader has come, if that is news. */
  noteDelivered(): void {
    const newest = this.#readers.at(-1);
    if (newest) this.#reached = Math.max(this.#reached, newest.reader.cursor);
    if (this.#reached <= this.#noted) return;
    this.#noted = this.#reached;
    this.#tell(this.environment.store.delivered(this.session, this.id, this.#reached));
  }

  /** The log may hold more than was signalled here: another node wrote, or signals were lost. */
  poke(): void {
    this.#signal$.next({ first: 0, events: [], ended: false });
  }

  /** The session is over: readers complete, retries end. */
  close(): void {
    this.#closed = true;
    this.#retry.cancel();
    this.disconnectReaders();
    this.#signal$.complete();
  }

  #committed(signal: StreamSignal): void {
    if (this.#last !== undefined) this.#last = signal.first + signal.events.length - 1;
    this.#signal$.next(signal);
    if (signal.ended) this.#settleDown();
  }

  #fail(error: unknown): void {
    this.#retry.cancel();
    for (const { reader } of [...this.#readers]) reader.fail(error);
    this.observer.failed(this, error);
    this.#settleDown();
  }

  #attach(reader: StreamReader): void {
    this.#readers.at(-1)?.reader.mute();
    const ref = { node: this.environment.nodeId, reader: randomToken() };
    this.#readers.push({ reader, ref });
    this.#tell(this.environment.store.attach(this.session, this.id, ref));
    this.observer.attached(this);
  }

  #detach(reader: StreamReader): void {
    reader.release();
    const position = this.#readers.findIndex((attached) => attached.reader === reader);
    if (position < 0) return;
    this.noteDelivered();
    const [{ ref }] = this.#readers.splice(position, 1) as [AttachedReader];
    this.#tell(this.environment.store.detach(this.session, this.id, ref));
    this.observer.detached(this);
    const newest = this.#readers.at(-1)?.reader;
    if (newest?.muted) newest.promote(this.#reached);
    this.#settleDown();
  }

  #settleDown(): void {
    if (this.#readers.length === 0 && this.settled) this.observer.idle(this);
  }

  /** Bookkeeping of the log that nothing waits for: when it fails, the log is a little less well informed. */
  #tell(told: Promise<unknown>): void {
    told.catch((error: unknown) => this.observer.fault(this, error));
  }
}

/** Whoever owns the stream hears of it. */
export interface StreamObserver {
  attached(stream: McpStream): void;
  detached(stream: McpStream): void;
  /** The oldest reader had to make room. */
  evicted(stream: McpStream): void;
  /** Nothing to write and nobody to read: the object may go, what it logged stays. */
  idle(stream: McpStream): void;
  /** The log has refused a message: the stream is lost. Said once. */
  failed(stream: McpStream, error: unknown): void;
  /** The event store failed at bookkeeping. */
  fault(stream: McpStream, error: unknown): void;
}

interface AttachedReader {
  readonly reader: StreamReader;
  readonly ref: ReaderRef;
}
