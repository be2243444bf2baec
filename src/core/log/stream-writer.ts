import { types } from 'node:util';
import { deferred, DONE, type Deferred, isThenable, type MaybePromise, quiet } from '../common/promises.js';
import type { Retry } from '../common/retry.js';
import { storeUnavailable } from '../calls/server-request.error.js';
import type { RequestId } from '../protocol/json-rpc.js';
import { isFinal, McpStreamEndedError, McpStreamOverflowError } from './event-store.errors.js';
import type { McpAppendOptions, McpAppendResult, McpEventStore, McpReaderRef, McpStoredEvent } from './event-store.js';

/**
 * # The writer of one stream
 *
 * One append is in flight at a time; what arrives meanwhile is committed together in the next. So the order is that of
 * `push`, even with a slow log, and a burst costs two appends. Each append is identified by (writer, seq), so that it
 * can be repeated when its outcome is unknown. A log in memory answers at once: then a push is committed when it
 * returns, and there is no promise to wait for.
 *
 * The writer is independent of readers: a slow reader does not delay it.
 *
 *     idle ──push──▶ appending ──committed, queue empty──▶ idle
 *                        │ └──committed with `end`───────▶ ended
 *                        └──refused, or retried in vain──▶ failed
 *
 * `ended` and `failed` are final. While an append is being retried the queue is bounded by `maxQueuedBytes`. A writer that
 * has failed says which requests the log may not know as settled, with their answers if it has them.
 */
export class StreamWriter {
  #state: WriterState = IDLE;
  /** The entries of the append in flight, or of the last one. */
  #batch: Batch | undefined;
  /** The entries that wait for the append in flight, and their promise. */
  #queued: QueuedBatch | undefined;
  /** Settles with the append that is in flight. */
  #done = DONE;
  #seq = 0;
  #opens: McpAppendOptions['opens'];
  /** The requests of the stream that are not settled in the log. */
  #unsettled: readonly RequestId[];
  /** The index of the newest event that it has written. */
  #last = 0;
  readonly #takesAtOnce: boolean;

  /** @param opens given for a stream that begins here, and that no other object writes */
  constructor(
    private readonly target: WriterTarget,
    private readonly writer: string,
    private readonly opens?: McpAppendOptions['opens'],
  ) {
    // A proxy of an app may make a promise of each result.
    this.#takesAtOnce = target.store.appendNow !== undefined && !types.isProxy(target.store);
    this.#opens = opens;
    this.#unsettled = opens?.requests ?? [];
  }

  get state(): WriterState['is'] {
    return this.#state.is;
  }

  get last(): number {
    return this.#last;
  }

  /**
   * Queues an entry.
   *
   * @returns settles when the entry is in the log; for an eager one, when there is room for more. What fails it then makes the
   *   writer fail
   * @throws (rejects) McpStreamEndedError, McpStreamOverflowError, another McpEventStoreError, or McpServerRequestError
   *   STORE_UNAVAILABLE with the error of the store as its cause
   */
  push(entry: StreamEntry): Promise<void> {
    const logged = this.#push(entry);
    const waits = this.#state.is !== 'appending' || this.#unloggedBytes > EAGER_BYTES;
    if (!entry.eager || waits) return logged;
    void quiet(logged);
    return DONE;
  }

  /** Counts the bytes of the append in flight, and of those that wait for it. */
  get #unloggedBytes(): number {
    return (this.#batch?.bytes ?? 0) + (this.#queued?.batch.bytes ?? 0);
  }

  #push(entry: StreamEntry): Promise<void> {
    switch (this.#state.is) {
      case 'failed':
        return Promise.reject(this.#state.error);
      case 'ended':
        return Promise.reject(new McpStreamEndedError(this.target.id));
      case 'idle':
        return this.#commitNow(entry) ? DONE : this.#commit(batchOf(entry));
      case 'appending':
        return this.#enqueue(entry, this.#state.retrying);
    }
  }

  /** Settles when everything that was pushed so far is in the log, or never will be. */
  async flushed(): Promise<void> {
    while (this.#state.is === 'appending') await this.#done.catch(() => {});
  }

  #enqueue(entry: StreamEntry, retrying: boolean): Promise<void> {
    const { id, maxQueuedBytes } = this.target;
    if (this.#queued) add(entry, this.#queued.batch);
    else this.#queued = { batch: batchOf(entry), done: deferred() };
    const { batch, done } = this.#queued;
    if (retrying && batch.bytes > maxQueuedBytes) this.#fail(new McpStreamOverflowError(id, maxQueuedBytes));
    return done.promise;
  }

  /**
   * Appends a batch. It uses callbacks, not an `async` loop: it runs for each event, and nearly always the queue is
   * empty.
   */
  #commit(batch: Batch): Promise<void> {
    this.#state = APPENDING;
    this.#batch = batch;
    const options = this.#optionsOf(batch);
    const first = this.#append(batch, options);
    if (!isThenable(first)) {
      this.#committed(batch, first);
      return DONE;
    }
    let attempts = 0;
    const attempt = (): PromiseLike<McpAppendResult> | McpAppendResult => {
      this.#noteRetrying(++attempts > 1);
      return attempts === 1 ? first : this.#append(batch, options);
    };
    const appended = this.target.retry.runThen(
      attempt,
      (result) => this.#committed(batch, result),
      (error) => {
        // Even if no caller awaits it.
        void quiet(appended);
        throw this.#fail(error);
      },
    );
    this.#done = appended;
    return appended;
  }

  /**
   * Commits a lone message to a log that takes it at once, without the objects of a batch: most messages are committed here.
   *
   * @returns whether it did
   */
  #commitNow({ data, settles, end, reopens }: StreamEntry): boolean {
    if (!this.#takesAtOnce || this.#opens || data === undefined || settles !== undefined || end || reopens)
      return false;
    const index = this.#appendNow(data);
    if (index === 0) return false;
    this.#seq++;
    this.#last = index;
    // Readers may write in turn.
    this.#state = APPENDING;
    this.target.committed({ index, data }, undefined);
    this.#next();
    return true;
  }

  /** @returns the index of the event; 0: it is appended, and tried again, as a batch, which has the same place in the order of its writer */
  #appendNow(data: string): number {
    const { store, session, id } = this.target;
    try {
      return store.appendNow!(session, id, data, this.writer, this.#seq + 1, this.opens ? this.#last : 0);
    } catch {
      return 0;
    }
  }

  #append({ events }: Batch, options: McpAppendOptions): MaybePromise<McpAppendResult> {
    const { store, session, id } = this.target;
    try {
      return store.append(session, id, events, options);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #committed({ events, settles, end }: Batch, { first, lost, reader }: McpAppendResult): void {
    // Before readers get it: they may write in turn, and the log works again.
    this.#noteRetrying(false);
    this.#last = first + events.length - 1;
    // An overflow while the append was under way has made the stream fail: entries of the successful append are in the
    // log nevertheless.
    if (this.#state.is === 'failed') return;
    if (end) this.#end();
    else if (settles) this.#unsettled = this.#unsettled.filter((id) => !settles.some(({ request }) => request === id));
    this.target.committed({ first, events, ended: end }, reader);
    if (lost) this.target.lost();
    if (!end) this.#next();
  }

  /** Commits what has queued meanwhile, or rests. */
  #next(): void {
    if (this.#queued) return this.#commitQueued(this.#queued);
    this.#state = IDLE;
    this.target.rested();
  }

  #commitQueued({ batch, done }: QueuedBatch): void {
    this.#queued = undefined;
    this.#commit(batch).then(done.resolve, done.reject);
  }

  #optionsOf(batch: Batch): McpAppendOptions {
    const { settles, end } = batch;
    const options: McpAppendOptions = { writer: this.writer, seq: ++this.#seq };
    const opens = batch.reopens ? this.opens : this.#opens;
    if (opens) options.opens = opens;
    if (this.opens) options.newest = this.#last;
    if (settles) options.settles = settles.map(({ request }) => request);
    if (end) options.end = true;
    this.#opens = undefined;
    return options;
  }

  #noteRetrying(retrying: boolean): void {
    if (this.#state.is === 'appending') this.#state = retrying ? RETRYING : APPENDING;
  }

  #end(): void {
    this.#state = { is: 'ended' };
    this.#queued?.done.reject(new McpStreamEndedError(this.target.id));
    this.#queued = undefined;
  }

  /** @returns what the callers of `push` get */
  #fail(cause: unknown): Error {
    if (this.#state.is === 'failed') return this.#state.error;
    const error = isFinal(cause) ? cause : storeUnavailable(cause);
    this.#state = { is: 'failed', error };
    const lost = [this.#batch, this.#queued?.batch].flatMap((batch) => batch?.settles ?? []);
    this.#queued?.done.reject(error);
    this.#queued = undefined;
    const unanswered = this.#unsettled.flatMap((request): Settlement[] => {
      const settled = lost.find((one) => one.request === request);
      // A request that was cancelled is settled without an answer, and gets none.
      return settled && settled.answer === undefined ? [] : [settled ?? { request, answer: undefined }];
    });
    this.target.failed(error, unanswered);
    return error;
  }
}

/**
 * A writer commits it in one step: a message, the settlement of a request, the end of the stream, or any of them
 * together.
 */
export interface StreamEntry {
  /** The message as JSON on one line. */
  data?: string;
  /**
   * Its sender does not wait for the log while few bytes do: a burst costs two appends then, and one for each event if its
   * sender waits.
   */
  eager?: boolean;
  /** The request that this settles: by `data` if there is any, otherwise without an answer. */
  settles?: RequestId;
  end?: boolean;
  /** Names the requests of the stream to the log again, because the log may have lost the stream. */
  reopens?: boolean;
}

/** A stream emits it after each commit: a lone event, or what a batch has appended. */
export type StreamSignal = McpStoredEvent | BatchSignal;

export interface BatchSignal {
  /** `events` begins with this index; without events it is that of the next one. */
  first: number;
  events: readonly string[];
  ended: boolean;
}

/** The stream of a writer. */
export interface WriterTarget {
  readonly id: string;
  readonly session: string;
  readonly store: McpEventStore;
  readonly retry: Retry;
  /** Bytes that may queue while the log cannot be written. */
  readonly maxQueuedBytes: number;
  /** @param reader the newest, maybe on another node */
  committed(signal: StreamSignal, reader: McpReaderRef | undefined): void;
  /** Is called when the log has lost events that were committed. */
  lost(): void;
  /** Is called when everything is committed and nothing waits. */
  rested(): void;
  /** @param unanswered the requests that the log may not know as settled, with their answers if there are any */
  failed(error: Error, unanswered: readonly Settlement[]): void;
}

/** A request that is settled by its answer, or without one. */
export interface Settlement {
  readonly request: RequestId;
  readonly answer: string | undefined;
}

type WriterState =
  | { readonly is: 'idle' }
  | { readonly is: 'appending'; readonly retrying: boolean }
  | { readonly is: 'ended' }
  | { readonly is: 'failed'; readonly error: Error };

/** Senders of eager entries wait while more than so many bytes do. */
const EAGER_BYTES = 64 * 1024;

const IDLE: WriterState = { is: 'idle' };
const APPENDING: WriterState = { is: 'appending', retrying: false };
const RETRYING: WriterState = { is: 'appending', retrying: true };

interface Batch {
  readonly events: string[];
  /** The size of the events as UTF-16. */
  bytes: number;
  settles: Settlement[] | undefined;
  end: boolean;
  reopens: boolean;
}

interface QueuedBatch {
  readonly batch: Batch;
  readonly done: Deferred<void>;
}

function batchOf({ data, settles, end = false, reopens = false }: StreamEntry): Batch {
  return {
    events: data === undefined ? [] : [data],
    bytes: bytesOf(data),
    settles: settles === undefined ? undefined : [{ request: settles, answer: data }],
    end,
    reopens,
  };
}

function add({ data, settles, end, reopens }: StreamEntry, batch: Batch): void {
  if (data !== undefined) batch.events.push(data);
  batch.bytes += bytesOf(data);
  if (settles !== undefined) (batch.settles ??= []).push({ request: settles, answer: data });
  if (end) batch.end = true;
  if (reopens) batch.reopens = true;
}

const bytesOf = (data = ''): number => data.length * 2;
