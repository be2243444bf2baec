import type { ClockTimer } from '../common/clock.js';
import { randomToken } from '../common/random-token.js';
import type { Retry } from '../common/retry.js';
import { EventStoreError } from './event-store.errors.js';
import type { ReaderRef, StreamHead } from './event-store.js';
import type { HandedOut, StreamReader } from './stream-reader.js';
import { MAX_READERS, READER_EVICTION_MS, type ReaderTurn, type StreamEnvironment } from './stream.options.js';

const DONE = Promise.resolve();
/** Milliseconds that a reader waits for the one before it, on another node, to fall silent: it may be dead. */
const TAKE_OVER_MS = 1_000;

/**
 * # The readers of one stream on this node, and whose turn it is
 *
 * Several responses may read one stream, but **each message goes to the newest only**, of all nodes (behaviour G7): the older
 * ones stay open, hand out nothing, and take their turn when the newer one is gone. Ending them at once would make two readers
 * of one client evict each other for ever. Who is the newest is decided by the log; nodes tell each other of it:
 *
 *     waiting ──attached, and the one before has yielded──▶ newest ⇄ muted ──▶ gone
 *        └─────after a second, whatever the others say────────▲
 *
 * - `muted`: a newer one has come. Whoever waits for that is told what was handed out until then (`yielded`).
 * - `promoted`: the newer one has left, after handing out so much.
 * - `closed`: the application ends the responses of this stream, wherever they are.
 *
 * Words may be lost: `reconcile` looks now and then what the log says.
 */
export class StreamReaders {
  /** Oldest first; the last one is the reader, the others are muted. */
  #readers: readonly AttachedReader[] = [];
  #evictedAt = Number.NEGATIVE_INFINITY;
  /** Where the latest reader stopped. */
  #reached = 0;
  /** What the log was told of it. */
  #noted = 0;
  /** The log is being asked how it sees this stream. */
  #reconciling = false;

  constructor(private readonly stream: ReadStream) {}

  get size(): number {
    return this.#readers.length;
  }

  /** Where a client that knows no cursor goes on: after what was handed out. */
  async resumePoint(): Promise<number> {
    const head = await this.#describe();
    return Math.max(head?.delivered ?? 0, this.#newest?.reader.cursor ?? 0, this.#reached);
  }

  /** Makes room for one more reader. @returns `false` when there is none (409) */
  admit(): boolean {
    if (this.#readers.length < MAX_READERS) return true;
    const now = this.stream.environment.clock.now();
    if (now - this.#evictedAt < READER_EVICTION_MS) return false;
    this.#evictedAt = now;
    this.stream.evicted();
    this.#readers[0]!.reader.finish();
    return true;
  }

  /** Makes a reader the newest. @param start given, it hands out nothing before its turn has come */
  attach(reader: StreamReader, start?: TurnStart): void {
    if (this.#newest) this.#mute(this.#newest);
    const { nodeId: node, clock } = this.stream.environment;
    const attached: AttachedReader = {
      ...{ reader, ref: { node, reader: randomToken() } },
      ...{ pending: true, known: false, closing: false, told: DONE, waits: undefined },
    };
    if (start) {
      reader.mute();
      attached.waits = { start, timer: clock.setTimeout(() => this.#promote(attached), TAKE_OVER_MS) };
    }
    // An array that is pushed to keeps room for sixteen more.
    this.#readers = [...this.#readers, attached];
    this.#announce(attached);
  }

  /** @returns whether it was attached */
  detach(reader: StreamReader): boolean {
    const position = this.#readers.findIndex((attached) => attached.reader === reader);
    const attached = this.#readers[position];
    if (!attached) return false;
    this.noteDelivered();
    for (const { reader: older } of this.#readers.slice(0, position)) older.passOver(reader.handedOut);
    this.#readers = this.#readers.filter((other) => other !== attached);
    this.stream.environment.clock.clear(attached.waits?.timer);
    // Not before the log has heard of it: the other way round it would be attached for ever.
    const takeAway = () => this.#takeAway(attached.ref, attached);
    this.stream.tell(attached.told.then(takeAway, takeAway));
    // Where the log is this node's own, nobody else can be newer.
    const newest = this.#newest;
    if (newest?.reader.muted && !this.#shared) this.#promote(newest);
    return true;
  }

  /** Tells the log how far the reader has come, if that is news. */
  noteDelivered(): void {
    const newest = this.#newest;
    if (newest) this.#reached = Math.max(this.#reached, newest.reader.cursor);
    if (this.#reached <= this.#noted) return;
    const before = this.#noted;
    this.#noted = this.#reached;
    const { environment, session, id } = this.stream;
    const told = environment.store.delivered(session, id, this.#reached);
    this.stream.tell(
      told.catch((error: unknown) => {
        // Said again the next time.
        this.#noted = before;
        throw error;
      }),
    );
  }

  /** Ends the responses on all nodes; their clients may come back. @returns whether there were any on this one */
  disconnect(): boolean {
    const attached = this.#readers;
    // Those of other nodes first: the log is asked before a client can have come back.
    if (this.#shared) this.stream.tell(this.#disconnectElsewhere());
    this.#end(attached);
    return attached.length > 0;
  }

  /** Settles when the responses here have been handed all that they can take. */
  async rested(): Promise<void> {
    await Promise.all(this.#readers.map(({ reader }) => reader.rested()));
  }

  /** Ends the responses here, for good. */
  finish(): void {
    for (const { reader } of this.#readers) reader.finish();
  }

  fail(error: unknown): void {
    for (const { reader } of this.#readers) reader.fail(error);
  }

  /** Another node says something about a reader here. */
  turn(reader: string, turn: ReaderTurn): void {
    const position = this.#readers.findIndex(({ ref }) => ref.reader === reader);
    const attached = this.#readers[position];
    if (turn.is === 'closed') return this.#end(this.#readers.slice(0, position + 1));
    // Of the readers here the newest alone can be the newest of all.
    const newest = attached && attached === this.#newest ? attached : undefined;
    switch (turn.is) {
      case 'muted':
        if (newest) this.#mute(newest);
        if (turn.by)
          this.#tellPeer(turn.by, { is: 'yielded', ...(attached && { handedOut: attached.reader.handedOut }) });
        return;
      case 'yielded':
        return newest?.waits && this.#relieve(newest, turn.handedOut);
      case 'promoted':
        // Whoever says so may not know what was handed out last: the log does, nearly.
        if (!newest || !turn.handedOut) return newest && this.reconcile();
        newest.reader.passOver(turn.handedOut);
        return this.#promote(newest);
    }
  }

  /**
   * Looks into the log whether everything is as this node believes: signals get lost. To be called now and then, where other
   * nodes share the log. While the log is away nothing happens: a reader that waits for nothing needs no log.
   */
  reconcile(): void {
    const newest = this.#newest;
    if (!newest || newest.pending || this.#reconciling || this.stream.closed) return;
    this.#reconciling = true;
    const described = this.#describe().finally(() => {
      this.#reconciling = false;
    });
    this.stream.tell(described.then((head) => this.#compare(newest, head)));
  }

  get #newest(): AttachedReader | undefined {
    return this.#readers.at(-1);
  }

  get #shared(): boolean {
    return this.stream.environment.store.scope === 'shared';
  }

  #compare(mine: AttachedReader, head: StreamHead | undefined): void {
    if (mine !== this.#newest || mine.pending || this.stream.closed) return;
    // The stream is gone: reading it, the reader learns why.
    if (!head) return mine.waits ? this.#promote(mine) : this.stream.poke();
    const { newest, delivered, last, ended } = head;
    // What others have handed out meanwhile.
    if (mine.reader.muted && mine.waits?.start.skips !== false) mine.reader.passOver({ after: 0, upTo: delivered });
    if (!mine.known || !newest) return this.#announce(mine, { again: true });
    if (newest.reader === mine.ref.reader) {
      this.#promote(mine);
      if (ended || last > mine.reader.cursor) this.stream.poke();
    } else if (newest.node === this.stream.environment.nodeId) {
      // It was here, and left while the log was away.
      this.stream.tell(this.#takeAway(newest));
    } else this.#mute(mine);
  }

  /** Tells the log that a reader is the newest, and the node whose reader was it before. */
  #announce(attached: AttachedReader, { again = false } = {}): void {
    const { session, id, begun, environment, retry } = this.stream;
    const attach = () => retry.run(() => environment.store.attach(session, id, attached.ref));
    attached.pending = true;
    attached.told = (begun ? begun.then(attach) : attach())
      .finally(() => {
        attached.pending = false;
      })
      .then((before) => {
        attached.known = true;
        if (before) this.#turned(before, { is: 'muted', ...(attached.waits && { by: attached.ref }) });
        if (attached !== this.#newest) return;
        const mayBegin = attached.waits && (!before || before.node === environment.nodeId);
        if (again || mayBegin) this.#promote(attached);
        // What was logged before the log knew of this reader was signalled to others.
        if (again || this.#shared) this.stream.poke();
      });
    this.stream.tell(attached.told);
  }

  /**
   * Takes a reader away from the log, and tells the node whose reader is the newest now. Until then messages go to nobody, so
   * it is tried for as long as the session lasts.
   */
  async #takeAway(ref: ReaderRef, left?: AttachedReader): Promise<void> {
    const { session, id, environment, retry, patience } = this.stream;
    const detach = () => environment.store.detach(session, id, ref);
    const next = await retry.run(detach).catch((error: unknown) => {
      if (error instanceof EventStoreError || this.stream.closed) throw error;
      this.stream.fault(error);
      return patience.run(detach);
    });
    if (!next) return;
    if (left?.closing) this.#turned(next, { is: 'closed' });
    else this.#turned(next, { is: 'promoted', ...(left && { handedOut: left.reader.handedOut }) });
  }

  #turned(reader: ReaderRef, turn: ReaderTurn): void {
    if (reader.node !== this.stream.environment.nodeId) this.#tellPeer(reader, turn);
    // Here older readers are muted at once, and promoted as soon as the log agrees.
    else if (turn.is === 'promoted') this.turn(reader.reader, turn);
  }

  #tellPeer(reader: ReaderRef, turn: ReaderTurn): void {
    const { environment, session, id } = this.stream;
    environment.peers.turned(session, id, reader, turn);
  }

  /** The one before has fallen silent. A client that named its cursor gets all that follows, whoever had it already. */
  #relieve(attached: AttachedReader, handedOut: HandedOut | undefined): void {
    if (attached.waits!.start.skips) {
      if (!handedOut) return this.reconcile();
      attached.reader.passOver(handedOut);
    }
    this.#promote(attached);
  }

  #promote(attached: AttachedReader): void {
    if (attached !== this.#newest) return;
    this.#begin(attached);
    attached.reader.promote();
  }

  #mute(attached: AttachedReader): void {
    attached.reader.mute();
    this.#begin(attached);
  }

  /** Its turn has come, or passed: its client is told where it is. */
  #begin(attached: AttachedReader): void {
    const { waits, reader } = attached;
    this.stream.environment.clock.clear(waits?.timer);
    attached.waits = undefined;
    waits?.start.begins(reader.cursor);
  }

  #end(readers: readonly AttachedReader[]): void {
    for (const attached of readers) {
      attached.closing = true;
      attached.reader.finish();
    }
  }

  async #disconnectElsewhere(): Promise<void> {
    const newest = (await this.#describe())?.newest;
    if (newest) this.#turned(newest, { is: 'closed' });
  }

  #describe(): Promise<StreamHead | undefined> {
    const { environment, session, id } = this.stream;
    return environment.store.describe(session, id);
  }
}

/** What readers need of their stream. */
export interface ReadStream {
  readonly id: string;
  readonly session: string;
  readonly environment: StreamEnvironment;
  /** Settles when the log knows the stream, if that is not so from the beginning. */
  readonly begun: Promise<void> | undefined;
  readonly retry: Retry;
  /** For what nobody else will do: ends with the session. */
  readonly patience: Retry;
  /** The session is over. */
  readonly closed: boolean;
  /** There may be more in the log than was signalled. */
  poke(): void;
  /** Bookkeeping of the log that nothing waits for. */
  tell(told: Promise<unknown>): void;
  /** The oldest reader has to make room. */
  evicted(): void;
  fault(error: unknown): void;
}

/** How a reader begins that waits until the one before it, maybe on another node, is silent. */
export interface TurnStart {
  /** The client knows no cursor: what an older reader handed out, this one need not. */
  readonly skips: boolean;
  /** It waits no more: what it hands out comes after `cursor`. Said before that, once. */
  begins(cursor: number): void;
}

interface AttachedReader {
  readonly reader: StreamReader;
  readonly ref: ReaderRef;
  /** The log is being told of it. */
  pending: boolean;
  /** The log has been told of it. */
  known: boolean;
  /** The application ends it, and the older ones too. */
  closing: boolean;
  /** Settles when the log has been told of it. */
  told: Promise<unknown>;
  /** It has handed out nothing yet. */
  waits: { readonly start: TurnStart; readonly timer: ClockTimer } | undefined;
}
