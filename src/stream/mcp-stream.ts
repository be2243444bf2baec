import { NEVER, Observable, Subject } from 'rxjs';
import { deferred, type Deferred } from '../base/deferred.js';
import { randomToken } from '../base/random-token.js';
import { Retry } from '../base/retry.js';
import type { StreamFlow } from '../call/mcp-reply.js';
import type { RequestId } from '../wire/json-rpc.js';
import { EventStoreError, SessionGoneError, StreamEndedError } from './event-store.errors.js';
import type { ReaderRef, StoredEvent, StreamHead } from './event-store.js';
import { StreamReader, type HandedOut } from './stream-reader.js';
import { MAX_READERS, READER_EVICTION_MS, type ReaderTurn, type StreamEnvironment } from './stream.options.js';
import { StreamWriter, type StreamEntry, type StreamSignal } from './stream-writer.js';

const DONE = Promise.resolve();
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
  /** For what nobody else will do: ends with the session. */
  readonly #patience: Retry;
  /** Oldest first; the last one is the reader, the others are muted. */
  readonly #readers: AttachedReader[] = [];
  #evictedAt = Number.NEGATIVE_INFINITY;
  /** Where the latest reader stopped. */
  #reached = 0;
  /** What the log was told of it. */
  #noted = 0;
  /** Index of the newest event, when this object alone writes the stream. */
  #last: number | undefined;
  /** Of a stream that begins here: settles with its first append, from which on the log knows it. */
  readonly #begun: Deferred<void> | undefined;
  #closed = false;
  /** How much the log is being told. */
  #telling = 0;
  /** The log is being asked how it sees this stream. */
  #reconciling = false;
  /** Why the log refused, once it has. */
  #failure: unknown;
  /** An end is being put to what a failed stream has logged. */
  #abandoning = false;

  constructor(
    readonly id: string,
    private readonly session: string,
    private readonly environment: StreamEnvironment,
    private readonly observer: StreamObserver,
    /** Of a POST stream that begins here: the requests whose messages it carries. */
    requests?: readonly RequestId[],
  ) {
    const { store, clock, retry, maxQueuedBytes, nodeId } = environment;
    this.#retry = new Retry(retry, clock, isFinal);
    this.#patience = new Retry({ ...retry, giveUpAfterMs: Number.POSITIVE_INFINITY }, clock, isFinal);
    this.#writer = new StreamWriter({
      ...{ store, retry: this.#retry, maxQueuedBytes, session, stream: id },
      writer: randomToken(),
      ...(requests && { opens: { node: nodeId, requests } }),
      committed: (signal, reader) => this.#committed(signal, reader),
      rested: () => this.#settleDown(),
      failed: (error) => this.#fail(error),
    });
    if (requests) {
      this.#last = 0;
      this.#begun = deferred();
    }
  }

  get readers(): number {
    return this.#readers.length;
  }

  /** The log is still being told something, though nobody may need this object: it ends with the session, as that does. */
  get telling(): boolean {
    return this.#telling > 0;
  }

  /** Nobody needs this object to write: the stream is over, or nothing waits and any other object could go on with it. */
  get settled(): boolean {
    const { state } = this.#writer;
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
      if (this.#writer.state === 'failed') return subscriber.error(this.#failure);
      const { store } = this.environment;
      const log = { store, session: this.session, stream: this.id, retry: this.#retry };
      // Of a stream that has ended no signal will tell: it may have, between the reply and its response.
      const fresh = after === this.#last && this.#writer.state !== 'ended';
      const reader = new StreamReader(log, flow, subscriber, { after, fresh });
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
    const before = this.#noted;
    this.#noted = this.#reached;
    const told = this.environment.store.delivered(this.session, this.id, this.#reached);
    this.#tell(
      told.catch((error: unknown) => {
        // Said again the next time.
        this.#noted = before;
        throw error;
      }),
    );
  }

  /** The log may hold more than was signalled here: another node wrote, or signals were lost. */
  poke(): void {
    this.#signal$.next({ first: 0, events: [], ended: false });
  }

  /** One of the readers has become the newest of all nodes, or is no longer. */
  turn(reader: string, turn: ReaderTurn): void {
    const attached = this.#readers.find(({ ref }) => ref.reader === reader);
    // Of the readers here the newest alone can be the newest of all.
    if (!attached || attached !== this.#readers.at(-1)) return;
    if (turn.is === 'muted') return attached.reader.mute();
    // Whoever says so may not know what was handed out last: the log does, nearly.
    if (!turn.handedOut) return this.reconcile();
    attached.reader.passOver(turn.handedOut);
    attached.reader.promote();
  }

  /**
   * Looks into the log whether everything is as this node believes: signals get lost. To be called now and then, where other
   * nodes share the log. While the log is away nothing happens: a reader that waits for nothing needs no log.
   */
  reconcile(): void {
    const newest = this.#readers.at(-1);
    if (!newest || newest.pending || this.#reconciling || this.#closed) return;
    this.#reconciling = true;
    const described = this.environment.store.describe(this.session, this.id).finally(() => {
      this.#reconciling = false;
    });
    this.#tell(described.then((head) => this.#compare(newest, head)));
  }

  #compare(mine: AttachedReader, head: StreamHead | undefined): void {
    if (mine !== this.#readers.at(-1) || mine.pending || this.#closed) return;
    // The stream is gone: reading it, the reader learns why.
    if (!head) return this.poke();
    const { newest, delivered, last, ended } = head;
    // What others have handed out meanwhile.
    if (mine.reader.muted) mine.reader.passOver({ after: 0, upTo: delivered });
    if (!mine.known || !newest) return this.#announce(mine, { again: true });
    if (newest.reader === mine.ref.reader) {
      mine.reader.promote();
      if (ended || last > mine.reader.cursor) this.poke();
    } else if (newest.node === this.environment.nodeId) {
      // It was here, and left while the log was away.
      this.#tell(this.#takeAway(newest));
    } else mine.reader.mute();
  }

  /** The session is over: readers complete, retries end. */
  close(): void {
    this.#closed = true;
    this.#retry.cancel();
    this.#patience.cancel();
    this.disconnectReaders();
    this.#signal$.complete();
  }

  #committed(signal: StreamSignal, reader: ReaderRef | undefined): void {
    this.#begun?.resolve();
    if (reader && reader.node !== this.environment.nodeId) {
      this.environment.peers.appended(this.session, this.id, reader);
    }
    if (this.#last !== undefined) this.#last = signal.first + signal.events.length - 1;
    this.#signal$.next(signal);
    if (signal.ended) this.#settleDown();
  }

  #fail(error: unknown): void {
    this.#failure = error;
    this.#begun?.resolve();
    this.#retry.cancel();
    // First: until that is done this object is not to be let go of, though its readers are.
    this.#abandonLog(error);
    for (const { reader } of [...this.#readers]) reader.fail(error);
    this.observer.failed(this, error);
    this.#settleDown();
  }

  #attach(reader: StreamReader): void {
    this.#readers.at(-1)?.reader.mute();
    const ref = { node: this.environment.nodeId, reader: randomToken() };
    const attached: AttachedReader = { reader, ref, pending: true, known: false, told: DONE };
    this.#readers.push(attached);
    this.#announce(attached);
    this.observer.attached(this);
  }

  /** Tells the log that a reader is the newest, and the node whose reader was it before. */
  #announce(attached: AttachedReader, { again = false } = {}): void {
    const { store } = this.environment;
    const attach = () => this.#retry.run(() => store.attach(this.session, this.id, attached.ref));
    const told = this.#begun ? this.#begun.promise.then(attach) : attach();
    attached.pending = true;
    attached.told = told
      .finally(() => {
        attached.pending = false;
      })
      .then((before) => {
        attached.known = true;
        if (before) this.#turned(before, { is: 'muted' });
        if (attached !== this.#readers.at(-1)) return;
        if (again) attached.reader.promote();
        // What was logged before the log knew of this reader was signalled to others.
        if (again || store.scope === 'shared') this.poke();
      });
    this.#tell(attached.told);
  }

  /**
   * Takes a reader away from the log, and tells the node whose reader is the newest now. Until then messages go to nobody, so
   * it is tried for as long as the session lasts.
   */
  async #takeAway(reader: ReaderRef, handedOut?: HandedOut): Promise<void> {
    const { store } = this.environment;
    const detach = () => store.detach(this.session, this.id, reader);
    const next = await this.#retry.run(detach).catch((error: unknown) => {
      if (isFinal(error) || this.#closed) throw error;
      this.observer.fault(this, error);
      return this.#patience.run(detach);
    });
    if (next) this.#turned(next, { is: 'promoted', ...(handedOut && { handedOut }) });
  }

  #turned(reader: ReaderRef, turn: ReaderTurn): void {
    const { nodeId, peers } = this.environment;
    if (reader.node !== nodeId) peers.turned(this.session, this.id, reader, turn);
    // Here older readers are muted at once, and promoted as soon as the log agrees.
    else if (turn.is === 'promoted') this.turn(reader.reader, turn);
  }

  #detach(reader: StreamReader): void {
    reader.release();
    const position = this.#readers.findIndex((attached) => attached.reader === reader);
    if (position < 0) return;
    this.noteDelivered();
    for (const { reader: older } of this.#readers.slice(0, position)) older.passOver(reader.handedOut);
    const [{ ref, told }] = this.#readers.splice(position, 1) as [AttachedReader];
    // Not before the log has heard of it: the other way round it would be attached for ever.
    const takeAway = () => this.#takeAway(ref, reader.handedOut);
    this.#tell(told.then(takeAway, takeAway));
    this.observer.detached(this);
    // Where the log is this node's own, nobody else can be newer.
    const newest = this.#readers.at(-1)?.reader;
    if (newest?.muted && this.environment.store.scope === 'node') newest.promote();
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
    this.#abandoning = true;
    const options = { writer: randomToken(), seq: 1, end: true };
    const { store, nodeId, peers } = this.environment;
    const ended = this.#patience
      .run(() => store.append(this.session, this.id, [], options))
      .then(({ reader }) => {
        if (reader && reader.node !== nodeId) peers.appended(this.session, this.id, reader);
      });
    this.#tell(
      ended.finally(() => {
        this.#abandoning = false;
        this.#settleDown();
      }),
    );
  }

  #settleDown(): void {
    if (this.#readers.length === 0 && this.settled) this.observer.idle(this);
  }

  /** Bookkeeping of the log that nothing waits for: when it fails, the log is a little less well informed. */
  #tell(told: Promise<unknown>): void {
    this.#telling++;
    told
      .catch((error: unknown) => {
        // Of a session that is over there is nothing to keep.
        if (!(error instanceof SessionGoneError)) this.observer.fault(this, error);
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

interface AttachedReader {
  readonly reader: StreamReader;
  readonly ref: ReaderRef;
  /** The log is being told of it. */
  pending: boolean;
  /** The log has been told of it. */
  known: boolean;
  /** Settles when the log has been told of it. */
  told: Promise<unknown>;
}
