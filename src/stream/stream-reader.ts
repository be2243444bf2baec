import type { Subscriber } from 'rxjs';
import { deferred, type Deferred } from '../common/promises.js';
import type { Retry } from '../common/retry.js';
import type { StreamFlow } from '../context/mcp-exchange.js';
import type { McpEventStore, ReadResult, StoredEvent } from './event-store.js';
import type { StreamSignal } from './stream-writer.js';

/** Events per read of the log: enough to make a read worth its price, few enough to notice back-pressure. */
const PAGE = 64;
const RESTED = Promise.resolve();

/**
 * # The reader of one stream, for one response
 *
 * The log is the truth, a signal only says that there may be more. The cursor moves to `cursor + 1` and nowhere else:
 *
 * - a signal that carries exactly what comes next is emitted as it is, without a look into the log;
 * - anything else (a gap, an empty signal, a signal while busy or held) means *behind*: the log is read from the cursor,
 *   again and again while behind.
 *
 * So no order of signals, lost or doubled ones included, can lose, repeat or reorder an event. What must hold:
 *
 * - it listens to signals before its first read;
 * - `#busy` is set whenever events are handed out, so that a signal caused by handing one out is not overtaken;
 * - held (a newer reader took over, or the response is full) it reads nothing, and stays behind until it is let go.
 *
 * States: reading → (held ⇄ reading) → done. Done is final: the stream ended and everything was handed out, the log
 * refused, or nobody listens any more.
 */
export class StreamReader {
  readonly #start: number;
  #cursor: number;
  #behind: boolean;
  #busy = false;
  #muted = false;
  #done = false;
  /** To when its response has room again. */
  #listens = false;
  /** The log has failed, and is asked again. */
  #retrying = false;
  /** Of whoever waits for it to rest. */
  #resting: Deferred<void> | undefined;

  constructor(
    private readonly log: ReadableLog,
    private readonly flow: StreamFlow,
    private readonly sink: Subscriber<StoredEvent>,
    start: ReaderStart,
  ) {
    this.#start = start.after;
    this.#cursor = start.after;
    this.#behind = !start.fresh;
  }

  /** Index of the last event that was handed out. */
  get cursor(): number {
    return this.#cursor;
  }

  get muted(): boolean {
    return this.#muted;
  }

  accept(signal: StreamSignal): void {
    const next = !this.#busy && !this.#behind && this.#ready && signal.first === this.#cursor + 1;
    if (!next) {
      this.#behind = true;
      return this.wake();
    }
    this.#busy = true;
    for (let i = 0; i < signal.events.length && !this.#behind; i++) {
      if (this.#ready) this.#emit(this.#cursor + 1, signal.events[i]!);
      else this.#behind = true;
    }
    this.#busy = false;
    if (this.#behind) return this.wake();
    if (signal.ended) this.finish();
    this.#rest();
  }

  /** Goes on where it stopped, if it may. */
  wake(): void {
    if (!this.#behind || this.#busy) return;
    if (this.#ready) void this.#catchUp();
    else this.#awaitRoom();
  }

  /**
   * Settles when it has handed out what it was behind with, or cannot: neither a response that is full nor a log that fails
   * is waited for.
   */
  rested(): Promise<void> {
    return this.#busy && !this.#retrying ? (this.#resting ??= deferred()).promise : RESTED;
  }

  /** A newer reader has taken over: this one hands out nothing. */
  mute(): void {
    this.#muted = true;
    this.#behind = true;
  }

  /**
   * While it is muted: a newer reader has left. What that one handed out this one need not; but if it began further on,
   * something lies between that nobody handed out, and to repeat is better than to lose.
   */
  passOver({ after, upTo }: HandedOut): void {
    if (after <= this.#cursor) this.#cursor = Math.max(this.#cursor, upTo);
  }

  /** What it has handed out: the events after `after`, up to `upTo`. */
  get handedOut(): HandedOut {
    return { after: this.#start, upTo: this.#cursor };
  }

  /** It is the newest again. */
  promote(): void {
    this.#muted = false;
    this.wake();
  }

  /** Completes. */
  finish(): void {
    if (this.#done) return;
    this.#done = true;
    this.sink.complete();
  }

  /** Fails: the response is cut, the client may resume. */
  fail(error: unknown): void {
    if (this.#done) return;
    this.#done = true;
    this.sink.error(error);
  }

  /** Nobody listens any more. */
  release(): void {
    this.#done = true;
  }

  get #ready(): boolean {
    return !this.#done && !this.#muted && !this.flow.paused;
  }

  async #catchUp(): Promise<void> {
    this.#busy = true;
    try {
      while (this.#behind && this.#ready) {
        this.#behind = false;
        if (await this.#readPage()) return this.finish();
      }
    } catch (error) {
      this.fail(error);
    } finally {
      this.#busy = false;
      this.#rest();
      this.wake();
    }
  }

  /** Most responses are never full: one that is listens from then on. */
  #awaitRoom(): void {
    if (this.#listens || this.#done || !this.flow.paused) return;
    this.#listens = true;
    this.sink.add(this.flow.resumed$.subscribe(() => this.wake()));
  }

  /** @returns whether the end was reached */
  async #readPage(): Promise<boolean> {
    const after = this.#cursor;
    const page = await this.#read(after);
    if (!page) return false;
    for (const { index, data } of page.events) {
      // Passed over while the log was read.
      if (index <= this.#cursor) continue;
      if (!this.#ready) {
        this.#behind = true;
        return false;
      }
      this.#emit(index, data);
    }
    if (page.more) this.#behind = true;
    return page.ended && !this.#behind;
  }

  async #read(after: number): Promise<ReadResult | undefined> {
    const { store, session, stream, retry } = this.log;
    const read = (): Promise<ReadResult> => store.read(session, stream, after, PAGE);
    const failed = (error: unknown): never => {
      this.#retrying = true;
      this.#rest();
      throw error;
    };
    try {
      return await retry.run(() => read().catch(failed));
    } catch (error) {
      // Passed over while the log was read: what it no longer holds, this reader no longer needs.
      if (this.#cursor === after) throw error;
      this.#behind = true;
      return undefined;
    } finally {
      this.#retrying = false;
    }
  }

  #rest(): void {
    this.#resting?.resolve();
    this.#resting = undefined;
  }

  #emit(index: number, data: string): void {
    this.#cursor = index;
    this.sink.next({ index, data });
  }
}

export interface HandedOut {
  readonly after: number;
  readonly upTo: number;
}

export interface ReaderStart {
  /** Index of the last event that the client knows. */
  after: number;
  /** Nothing was written yet, and everything that will be is signalled: the first read can be spared. */
  fresh?: boolean;
}

export interface ReadableLog {
  readonly store: McpEventStore;
  readonly session: string;
  readonly stream: string;
  readonly retry: Retry;
}
