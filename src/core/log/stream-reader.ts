import type { Observer } from 'rxjs';
import { IdleSubscription } from '../common/idle-subscription.js';
import { deferred, type Deferred, DONE, isThenable, type MaybePromise } from '../common/promises.js';
import type { Retry } from '../common/retry.js';
import type { StreamFlow } from '../calls/reply.js';
import { STANDALONE_STREAM } from '../protocol/events.js';
import { EventsEvictedError } from './event-store.errors.js';
import type { McpReadResult, McpStoredEvent } from './event-store.js';
import type { StreamSignal } from './stream-writer.js';

/** A read of the log takes this many events: enough to be efficient, few enough to react to back-pressure. */
const PAGE = 64;

/**
 * # The reader of one stream, for one response
 *
 * The log is authoritative; a signal only means that there may be more. The cursor moves forward only, by one event at
 * a time:
 *
 * - a signal that carries exactly what comes next is emitted as it is, without a look into the log;
 * - anything else (a gap, an empty signal, a signal while busy or full) means *behind*: the log is read from the cursor,
 *   again and again while behind.
 *
 * So no order of signals, lost or doubled ones included, can lose, repeat or reorder an event. Invariants:
 *
 * - it listens to signals before its first read;
 * - `#busy` is set whenever events are handed out, so that a signal caused by handing one out is not overtaken;
 * - while the response is full it reads nothing, and stays behind until there is room.
 *
 * Events that were evicted before its first one are passed over (rule G6), and so are those that the log has lost (G12).
 * When later ones are evicted, the response was too slow: it is destroyed, and its client reconnects (P13).
 *
 *     reading ──replaced: a newer reader has the stream──▶ silent ──ended──▶ done
 *        └────the stream ended and all was handed out, the log refused, the response closed────▲
 */
export class StreamReader extends IdleSubscription implements Observer<StreamSignal> {
  #cursor: number;
  #behind: boolean;
  #busy = false;
  #silent = false;
  /** The log has not named it the newest yet. */
  #held = false;
  #done = false;
  /** It has read a page: from there on nothing may be missing. */
  #begun: boolean;
  /** No newer reader can have handed out an event up to this index in its place: those were logged before. */
  #own: number;
  /** It listens for the response to have room again. */
  #listens = false;
  /** The log has failed, and the read is being retried. */
  #retrying = false;
  #resting: Deferred<void> | undefined;

  constructor(
    private readonly log: ReadableLog,
    private readonly flow: StreamFlow,
    private readonly sink: Observer<McpStoredEvent>,
    { after, last = after, fresh = false }: ReaderStart,
  ) {
    super();
    this.#own = last;
    this.#cursor = after;
    this.#behind = !fresh;
    this.#begun = fresh;
  }

  /** Returns the index of the last event that was handed out, or passed over. */
  get cursor(): number {
    return this.#cursor;
  }

  next(signal: StreamSignal): void {
    const isLone = 'data' in signal;
    const first = isLone ? signal.index : signal.first;
    const next = !this.#busy && !this.#behind && this.#ready && first === this.#cursor + 1;
    if (!next) {
      this.#behind = true;
      return this.wake();
    }
    this.#busy = true;
    if (isLone) this.#emit(signal);
    else this.#emitAll(signal.events);
    this.#busy = false;
    if (this.#behind) return this.wake();
    if (!isLone && signal.ended) this.complete();
    this.#rest();
  }

  #emitAll(events: readonly string[]): void {
    for (let i = 0; i < events.length && !this.#behind; i++) {
      if (this.#ready) this.#emit({ index: this.#cursor + 1, data: events[i]! });
      else this.#behind = true;
    }
  }

  /** Continues where it stopped, if possible. */
  wake(): void {
    if (!this.#behind || this.#busy) return;
    if (this.#ready) this.#catchUp();
    else this.#awaitRoom();
  }

  /**
   * Settles when it has caught up, or cannot: it waits neither for a full response nor for a failing log.
   */
  rested(): Promise<void> {
    return this.#busy && !this.#retrying ? (this.#resting ??= deferred()).promise : DONE;
  }

  get held(): boolean {
    return this.#held;
  }

  /** Is called when it begins to hand out events. */
  started: (() => void) | undefined;

  /** Keeps the reader from handing out events until `start`. */
  hold(): void {
    this.#held = true;
  }

  /**
   * Lets the reader hand out events: it is the newest now.
   *
   * @param last index of the newest event that was logged before
   */
  start(last: number): void {
    if (!this.#held) return;
    this.#held = false;
    this.#own = Math.max(this.#own, last);
    this.started?.();
    this.wake();
  }

  /** Ends the handing out, because a newer reader has the stream. */
  silence(): void {
    this.#silent = true;
  }

  /**
   * Ends the response of a silent reader. A client may read stream `0` twice, so it gets no event again. Of a call it gets an event
   * rather twice than never: claims of two nodes may cross, and the newest in the log be a response that no client reads (G7).
   *
   * @param upTo index up to which the newer reader has handed out events
   */
  end(upTo: number): void {
    if (this.#done) return;
    const moves = this.log.id === STANDALONE_STREAM && this.#cursor >= this.#own;
    this.#emit({ index: moves ? Math.max(this.#cursor, upTo) : this.#cursor, data: NO_DATA });
    this.complete();
  }

  /** Completes the response. */
  complete(): void {
    if (this.#done) return;
    this.#done = true;
    this.sink.complete();
    this.unsubscribe();
  }

  /** Fails the response, which is destroyed; its client may resume. */
  error(error: unknown): void {
    if (this.#done) return;
    this.#done = true;
    this.sink.error(error);
    this.unsubscribe();
  }

  /** Ends the subscription of the response, which has closed, and that to the signals of the stream. */
  override unsubscribe(): void {
    if (this.closed) return;
    this.#done = true;
    super.unsubscribe();
    this.log.left(this);
  }

  get #ready(): boolean {
    return !this.#done && !this.#silent && !this.#held && !this.flow.paused;
  }

  /** Reads until nothing is left. A log in memory answers at once, and nothing is awaited. */
  #catchUp(): void {
    this.#busy = true;
    try {
      while (this.#behind && this.#ready) {
        this.#behind = false;
        const page = this.#readPage();
        if (isThenable(page)) return void this.#goOnAfter(page);
        this.#handOut(page);
      }
    } catch (error) {
      this.error(error);
    }
    this.#pause();
  }

  async #goOnAfter(page: Promise<McpReadResult>): Promise<void> {
    try {
      this.#handOut(await page);
    } catch (error) {
      this.error(error);
    }
    this.#retrying = false;
    if (this.#behind && this.#ready) this.#catchUp();
    else this.#pause();
  }

  #pause(): void {
    this.#busy = false;
    this.#rest();
    this.wake();
  }

  /** Subscribes on the first time that the response is full: most never are. */
  #awaitRoom(): void {
    if (this.#listens || this.#done || !this.flow.paused) return;
    this.#listens = true;
    this.add(this.flow.resumed$.subscribe(() => this.wake()));
  }

  #readPage(): MaybePromise<McpReadResult> {
    const { log } = this;
    const after = this.#cursor;
    const page = log.read(after, PAGE);
    if (!isThenable(page)) return page;
    return log.retry.goOn(
      page,
      () => log.read(after, PAGE),
      () => {
        this.#retrying = true;
        this.#rest();
      },
    );
  }

  #handOut({ events, more, ended, oldest, last }: McpReadResult): void {
    const after = this.#cursor;
    // The newest event is never evicted: the log has lost all after the cursor, and the next one comes behind them (G12).
    const lost = events.length === 0 && more;
    if (lost) {
      this.log.evicted(after, last + 1);
      this.#cursor = last;
    } else if (oldest > after + 1) {
      if (this.#begun) throw new EventsEvictedError(this.log.id, after, oldest);
      this.log.evicted(after, oldest);
    }
    this.#begun = true;
    for (const event of events) {
      const { index } = event;
      if (!this.#ready) {
        this.#behind = true;
        return;
      }
      // The log has lost events (G12); those before the oldest were reported above.
      if (index > this.#cursor + 1 && index > oldest) this.log.evicted(this.#cursor, index);
      this.#emit(event);
    }
    if (more && !lost) this.#behind = true;
    // Also if a signal came meanwhile: nothing follows the end, and after a failover the log may not know it any more (G12).
    else if (ended && !this.#silent) this.complete();
  }

  #rest(): void {
    this.#resting?.resolve();
    this.#resting = undefined;
    this.log.caughtUp(this.#cursor);
  }

  #emit(event: McpStoredEvent): void {
    this.#cursor = event.index;
    this.sink.next(event);
  }
}

/** An event with this data has no message and only moves the client's cursor. No message is empty. */
export const NO_DATA = '';

export interface ReaderStart {
  /** Index of the last event that the client knows. */
  after: number;
  /** Index of the last event that was logged when it became the newest; absent: there is none after the cursor. */
  last?: number;
  /** Says that nothing was written yet and each append will be signalled, so that the first read can be spared. */
  fresh?: boolean;
}

/** A reader uses this part of the log of its stream. */
export interface ReadableLog {
  readonly id: string;
  readonly retry: Retry;
  /** Returns the events after the cursor `after`, and acknowledges that cursor. */
  read(after: number, limit: number): MaybePromise<McpReadResult>;
  /**
   * Is called when there are no events between the cursor and this index: they were evicted, or the log has lost them.
   */
  evicted(after: number, oldest: number): void;
  /** The response of a reader has closed. */
  left(reader: StreamReader): void;
  /** The reader has caught up to this index. */
  caughtUp(cursor: number): void;
}
