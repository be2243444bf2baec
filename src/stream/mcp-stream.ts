import { NEVER, type Observer, Subject, Subscription } from 'rxjs';
import { deferred, type Deferred, type MaybePromise } from '../common/promises.js';
import { randomToken } from '../common/random-token.js';
import { Retry } from '../common/retry.js';
import type { StreamFlow } from '../context/mcp-exchange.js';
import type { RequestId } from '../wire/json-rpc.js';
import { STANDALONE_STREAM } from '../wire/events.js';
import { isFinal, isOver, McpStreamNotFoundError } from './event-store.errors.js';
import type { McpClaimResult, McpReadResult, McpReaderRef, McpStoredEvent } from './event-store.js';
import { type AttachedReader, newReader, type ReadableLog, type StreamClaim, StreamReader } from './stream-reader.js';
import type { StreamEnvironment } from './stream.options.js';
import { StreamWriter, type StreamEntry, type StreamSignal } from './stream-writer.js';

const FLOWING: StreamFlow = { paused: false, resumed$: NEVER };
const LOOK: StreamSignal = { first: 0, events: [], ended: false };
const NONE: readonly never[] = [];

/**
 * # One logical stream
 *
 * Messages of one POST, or of the standalone stream `0`, in the order in which they were sent; logged, so that a client
 * that lost its connection can resume. One Subject per stream signals each append.
 *
 *     open ──end() committed──▶ ended ──last reader left──▶ idle (the session lets go of it)
 *       └──append refused──▶ failed: its owner is notified
 *
 * **One reader: the newest** (row G7). The log decides which one that is, by `claim`:
 *
 *     claimed ──response opened──▶ reading ──a newer one claims, here or on another node──▶ silent ──▶ ended
 *        └──not opened for a whole tick──▶ released
 *
 * A silent one ends at the next keep-alive tick, so that two readers of one client do not evict each other in a loop,
 * or when the newest leaves. Nodes notify each other of it; if the message is lost, `refresh` finds it.
 *
 * Most streams `0` are never written, and others are never read, so parts are created only when needed.
 */
export class McpStream implements ReadableLog {
  #writer: StreamWriter | undefined;
  /** For the readers here. */
  #signal$: Subject<StreamSignal> | undefined;
  #retry: Retry | undefined;
  /** The newest reader, if it is on this node, as far as messages of other nodes have arrived. */
  #newest: AttachedReader | undefined;
  #silent: readonly AttachedReader[] = NONE;
  /** Index of the newest event, when this object alone writes the stream. */
  #last: number | undefined;
  /** Of a stream that begins here: settles with its first append, or its failure. `undefined` when it has begun. */
  #begun: Deferred<void> | undefined;
  #closed = false;
  /** Claims that are under way. */
  #claims = 0;
  #looking = false;
  /** Index up to which events are acknowledged in the log. */
  #acknowledged = 0;
  /** Why the log refused, once it has. */
  #failure: unknown;
  /** While the log of a failed stream is being ended. */
  #abandoning: Retry | undefined;

  constructor(
    readonly id: string,
    private readonly session: string,
    private readonly environment: StreamEnvironment,
    private readonly observer?: StreamObserver,
    /** Of a POST stream that begins here: the requests whose messages it carries. */
    private readonly requests?: readonly RequestId[],
  ) {
    if (requests) {
      this.#last = 0;
      this.#begun = deferred();
    }
  }

  /** Responses that are open on it on this node. */
  get readers(): number {
    return this.#silent.length + (this.#newest?.reader ? 1 : 0);
  }

  /** Of a stream that begins here: settles when the log knows it, or never will. */
  get begun(): Promise<void> | undefined {
    return this.#begun?.promise;
  }

  /** Whether this object can be released: the stream is over, or nothing waits to be written. */
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

  /** Settles when every message so far is in the log, and with the reader here. */
  async flushed(): Promise<void> {
    await this.#writer?.flushed();
    // Other nodes write too, and drop.
    if (this.#shared) this.look();
    await this.#newest?.reader?.rested();
  }

  /**
   * Makes a response of this node the newest reader; the previous one gets no more events. Open it by `subscribe()`,
   * unless the claim came too late.
   *
   * @param heldMs milliseconds that its client has waited for the log
   * @throws (rejects) McpStreamNotFoundError, McpSessionGoneError, or a fault of the log
   */
  async claim(heldMs = 0): Promise<StreamClaim> {
    const attached = newReader(this.environment.nodeId);
    this.#claims++;
    try {
      const result = await this.environment.store.claim(this.session, this.id, attached.ref, heldMs);
      if (result.late) return { ...result, attached };
      const delivered = Math.max(result.delivered, this.#newest?.reader?.cursor ?? 0);
      if (this.#closed) this.#inBackground(this.environment.store.release(this.session, this.id, attached.ref));
      else this.#attach(attached);
      this.#claimed(attached, result);
      return { ...result, delivered, attached };
    } finally {
      this.#claims--;
      this.#settleDown();
    }
  }

  /** Releases a claim that no response will open. */
  disclaim({ attached }: StreamClaim): void {
    this.#detach(attached);
  }

  /**
   * Hands out the events after the cursor `after`: what is logged, then live, without a gap, a repeat or a change of order. The
   * observer is the newest reader. Completes after the last event of a stream that has ended.
   *
   * @param claim absent: it is made meanwhile; for a stream that begins here
   * @throws (errors) McpStreamNotFoundError, McpSessionGoneError, EventsEvictedError, or the fault of the log that outlasted all retries
   */
  subscribe(observer: Observer<McpStoredEvent>, after: number, flow = FLOWING, claim?: StreamClaim): Subscription {
    const failed = this.#state === 'failed' && !isOver(this.#failure);
    if (this.#closed || failed) {
      if (claim) this.#detach(claim.attached);
      if (this.#closed) observer.complete();
      else observer.error(this.#failure);
      return Subscription.EMPTY;
    }
    const attached = claim?.attached ?? this.#claimMeanwhile();
    // A stream that ended between the reply and its response signals nothing any more.
    const open = this.#state === 'idle' || this.#state === 'appending';
    const fresh = open && after === this.#last;
    const reader = new StreamReader(this, flow, observer, { after, last: claim?.last ?? after, fresh });
    attached.reader = reader;
    if (attached !== this.#newest) {
      reader.silence();
      if (!this.#silent.includes(attached)) this.#silent = [...this.#silent, attached];
    }
    const subscription = (this.#signal$ ??= new Subject()).subscribe(reader);
    subscription.add(() => this.#detach(attached));
    reader.subscription = subscription;
    this.observer?.attached(this);
    reader.wake();
    return subscription;
  }

  /**
   * Ends the response that reads this stream, on any node; the stream continues, and its client may resume.
   *
   * @returns whether there was one on this node
   */
  disconnectReaders(): boolean {
    const attached = this.#all();
    if (!this.#newest && this.#shared) {
      const notified = this.newestReader().then((reader) => reader && this.#notifyReplaced(reader, 0));
      this.#inBackground(notified);
    }
    for (const { reader } of attached) reader?.finish();
    return attached.length > 0;
  }

  /** The newest reader on any node. */
  async newestReader(): Promise<McpReaderRef | undefined> {
    return this.#newest?.ref ?? (await this.read(0, 0)).reader;
  }

  /** Makes the reader look into the log: another node wrote, or signals were lost. */
  look(): void {
    this.#signal$?.next(LOOK);
  }

  /** Another node has a newer reader than one here. @param upTo given, its response ends now */
  replaced(reader: string, upTo?: number): void {
    const attached = this.#all().find(({ ref }) => ref.reader === reader);
    if (!attached) return;
    if (upTo === undefined || !attached.reader) return attached === this.#newest ? this.#replace() : undefined;
    attached.reader.end(upTo);
    // The newest reader has left, and was on another node: the earlier ones on this node must be ended here.
    if (!this.#newest) this.#endSilent(upTo);
  }

  /**
   * At each keep-alive tick: ends the silent readers, acknowledges events in the log, and looks whether other nodes have a
   * newer reader, or have written without a signal coming through.
   */
  refresh(): void {
    const newest = this.#newest;
    if (newest && !newest.reader) {
      // Its client left before the response was opened.
      if (newest.waited) this.#detach(newest);
      newest.waited = true;
    }
    // A stream that is not in the log yet has not ended.
    if (this.#all().length === 0 || this.#closed || this.#begun) return;
    const cursor = newest?.reader?.cursor ?? 0;
    if (this.#looking || !(this.#shared || cursor > this.#acknowledged)) return this.#endSilent(cursor);
    const looked = this.#look(cursor);
    if (!this.#shared) this.#endSilent(cursor);
    const compared = looked.then((head) => {
      this.#compare(newest, head);
      this.#endSilent(Math.max(head.delivered, this.#newest?.reader?.cursor ?? 0));
    });
    const failed = (error: unknown): void => {
      this.#endSilent(cursor);
      if (!isFinal(error)) throw error;
      // The stream was removed: reading it gives the reader the reason.
      this.look();
    };
    this.#inBackground(compared.catch(failed));
  }

  /** The session is over: readers complete, retries end. */
  close(): void {
    this.#closed = true;
    this.#retry?.cancel();
    this.#abandoning?.cancel();
    for (const attached of this.#all()) {
      if (attached.reader) attached.reader.finish();
      else this.#detach(attached);
    }
    this.#signal$?.complete();
  }

  get #state(): StreamWriter['state'] {
    return this.#writer?.state ?? 'idle';
  }
  get #shared(): boolean {
    return this.environment.store.scope === 'shared';
  }

  #makeWriter(): StreamWriter {
    const { session, id: stream, requests } = this;
    const { store, maxQueuedBytes, nodeId } = this.environment;
    return new StreamWriter({
      store,
      retry: this.retry,
      maxQueuedBytes,
      session,
      stream,
      writer: randomToken(),
      ...(requests && { opens: { node: nodeId, requests } }),
      committed: (signal, reader) => this.#committed(signal, reader),
      rested: () => this.#settleDown(),
      failed: (error) => this.#fail(error),
    });
  }

  #committed(signal: StreamSignal, reader: McpReaderRef | undefined): void {
    this.#hasBegun();
    this.#notifyAppended(reader);
    if (this.#last !== undefined) this.#last = signal.first + signal.events.length - 1;
    if (this.#isReader(reader)) this.#signal$?.next(signal);
    if (signal.ended) this.#settleDown();
  }

  /** Whether events go to the reader here. If the log names another one, it is asked again; until then nothing is handed out. */
  #isReader(reader: McpReaderRef | undefined): boolean {
    const newest = this.#newest;
    if (!newest || newest.known === undefined || (newest.known && newest.ref.reader === reader?.reader)) return true;
    if (newest.known && this.#claims === 0) {
      newest.known = false;
      const look = this.retry.run(() => this.read(0, 0));
      const asked = look.finally(() => (newest.known = true));
      this.#inBackground(asked.then((head) => this.#compare(newest, head)));
    }
    return false;
  }

  #hasBegun(): void {
    this.#begun?.resolve();
    this.#begun = undefined;
  }

  #fail(error: unknown): void {
    this.#failure = error;
    this.#hasBegun();
    if (isOver(error)) {
      // Another node has ended it, and the missing events are in the log.
      this.look();
    } else {
      this.#retry?.cancel();
      // Comes first: until it is done, this object must not be released, although its readers are.
      this.#abandonLog();
      for (const { reader } of this.#all()) reader?.fail(error);
    }
    this.observer?.failed(this, error);
    this.#settleDown();
  }

  /**
   * Ends a failed stream in the log: so that it can be removed, its requests are settled, and no client that resumes
   * waits for events that never follow. Retries until the log is available, or the session is over.
   */
  #abandonLog(): void {
    // The log is removed with its session.
    if (this.#closed || this.#last === undefined) return;
    const { store, retry, clock } = this.environment;
    const abandoning = new Retry({ ...retry, giveUpAfterMs: Number.POSITIVE_INFINITY }, clock, isFinal);
    this.#abandoning = abandoning;
    const options = { writer: randomToken(), seq: 1, end: true };
    const ended = abandoning.run(() => store.append(this.session, this.id, [], options));
    const notified = ended.then(({ reader }) => this.#notifyAppended(reader));
    const settled = notified.finally(() => (this.#abandoning = undefined));
    this.#inBackground(settled.finally(() => this.#settleDown()));
  }

  #notifyAppended(reader: McpReaderRef | undefined): void {
    const { nodeId, peers } = this.environment;
    if (reader && reader.node !== nodeId) peers.appended(this.session, this.id, reader);
  }

  /** @internal for its reader; with a limit of 0 the head alone */
  read(after: number, limit: number): MaybePromise<McpReadResult> {
    return this.environment.store.read(this.session, this.id, after, limit, after);
  }
  /** @internal for its reader */
  evicted(after: number, oldest: number): void {
    this.observer?.evicted(this, after, oldest);
  }
  /** @internal for its reader: a GET without a cursor begins after the acknowledged events, and may come to another node. */
  caughtUp(cursor: number): void {
    if (this.#shared && this.id === STANDALONE_STREAM) this.#acknowledge(cursor);
  }

  /** At most one command under way: the next one acknowledges what is handed out meanwhile. */
  #acknowledge(cursor: number): void {
    if (cursor <= this.#acknowledged || this.#looking || this.#closed) return;
    this.#inBackground(this.#look(cursor).then(() => this.#acknowledge(this.#newest?.reader?.cursor ?? 0)));
  }

  /** Reads the head, and acknowledges events up to the cursor; `#looking` meanwhile. */
  async #look(cursor: number): Promise<McpReadResult> {
    this.#looking = true;
    try {
      const head = await this.read(cursor, 0);
      this.#acknowledged = Math.max(this.#acknowledged, head.delivered);
      return head;
    } finally {
      this.#looking = false;
    }
  }

  #all(): readonly AttachedReader[] {
    return this.#newest ? [...this.#silent, this.#newest] : this.#silent;
  }

  #attach(attached: AttachedReader): void {
    this.#replace();
    this.#newest = attached;
  }

  /** No other node can know a stream that begins here, so its events are handed out before the claim is complete. */
  #claimMeanwhile(): AttachedReader {
    const attached = newReader(this.environment.nodeId);
    this.#attach(attached);
    this.#claimAgain(attached);
    return attached;
  }

  #claimAgain(attached: AttachedReader): void {
    attached.known = undefined;
    const { store, clock } = this.environment;
    const since = clock.now();
    const claim = () => this.retry.run(() => store.claim(this.session, this.id, attached.ref, clock.now() - since));
    const claimed = this.#begun ? this.#begun.promise.then(claim) : claim();
    const failed = (error: unknown): void => {
      if (!isOver(error) && !(error instanceof McpStreamNotFoundError)) this.observer?.fault(this, error);
    };
    const known = claimed.then((result) => this.#claimed(attached, result), failed);
    attached.claiming = known.finally(() => (attached.claiming = undefined));
  }

  #claimed(attached: AttachedReader, { before, delivered, late }: McpClaimResult): void {
    attached.known = true;
    if (late && attached === this.#newest) return this.#replace();
    this.#acknowledged = Math.max(this.#acknowledged, delivered);
    if (!before || before.node === this.environment.nodeId) return;
    attached.before = before;
    this.#notifyReplaced(before);
  }

  /** The reader here is not the newest any more. */
  #replace(): void {
    const before = this.#newest;
    if (!before) return;
    this.#newest = undefined;
    if (!before.reader) return this.#detach(before);
    before.reader.silence();
    this.#silent = [...this.#silent, before];
    this.observer?.replacedHere(this);
  }

  #compare(mine: AttachedReader | undefined, { reader, last, ended }: McpReadResult): void {
    if (!mine || mine !== this.#newest || this.#closed) return;
    if (!mine.claiming && this.#claims === 0 && reader?.reader !== mine.ref.reader) {
      const { nodeId, store } = this.environment;
      if (reader && reader.node !== nodeId) return this.#replace();
      // The log has lost this reader, or still has one that left while the log was unavailable.
      if (reader) this.#inBackground(store.release(this.session, this.id, reader));
      this.#claimAgain(mine);
    }
    if (ended) this.observer?.ended?.(this);
    if (ended || last > (mine.reader?.cursor ?? last)) this.look();
  }

  #endSilent(upTo: number): void {
    for (const { reader } of this.#silent) reader?.end(upTo);
  }

  #detach(attached: AttachedReader): void {
    const { reader, before, ref } = attached;
    const isNewest = attached === this.#newest;
    if (isNewest) this.#newest = undefined;
    this.#silent = this.#silent.filter((other) => other !== attached);
    const cursor = reader?.cursor ?? 0;
    // Also one that seems to be replaced: signals come late. After its claim, or the log would keep it.
    const { store } = this.environment;
    const release = () => this.retry.run(() => store.release(this.session, this.id, ref, cursor));
    this.#inBackground(attached.claiming ? attached.claiming.then(release) : release());
    if (before) this.#notifyReplaced(before, cursor);
    if (reader) {
      reader.release();
      this.observer?.detached(this);
    }
    if (isNewest) this.#endSilent(cursor);
    this.#settleDown();
  }

  #notifyReplaced(reader: McpReaderRef, upTo?: number): void {
    const { nodeId, peers } = this.environment;
    if (reader.node !== nodeId) peers.replaced(this.session, this.id, reader, upTo);
  }

  #settleDown(): void {
    if (this.#all().length === 0 && this.#claims === 0 && this.settled) this.observer?.idle(this);
  }

  /** @internal for its reader */
  get retry(): Retry {
    this.#retry ??= new Retry(this.environment.retry, this.environment.clock, isFinal);
    if (this.#closed) this.#retry.cancel();
    return this.#retry;
  }

  /** For commands that no message waits for: if one fails, only the readers in the log are out of date. */
  #inBackground(done: Promise<unknown>): void {
    this.observer?.bookkeeping?.(done);
    done.catch((error: unknown) => {
      // The log of an ended session does not need them.
      if (!isOver(error)) this.observer?.fault(this, error);
    });
  }
}

/** The owner of a stream. */
export interface StreamObserver {
  attached(stream: McpStream): void;
  detached(stream: McpStream): void;
  /** A response here is not the newest any more. */
  replacedHere(stream: McpStream): void;
  /** A response continues with the oldest event that is kept. */
  evicted(stream: McpStream, after: number, oldest: number): void;
  /** The stream has nothing to write and no reader: the object may be released; its log stays. */
  idle(stream: McpStream): void;
  /** The log has refused a message: the stream is lost. Called once. */
  failed(stream: McpStream, error: unknown): void;
  /** Called when a tick finds that another node has ended the stream. */
  ended?(stream: McpStream): void;
  /** A command is under way that no message waits for. */
  bookkeeping?(done: Promise<unknown>): void;
  /** Such a command failed. */
  fault(stream: McpStream, error: unknown): void;
}
