import { NEVER, type Observer, Subject, Subscription } from 'rxjs';
import { deferred, type Deferred, isThenable, type MaybePromise } from '../common/promises.js';
import { randomToken } from '../common/random-token.js';
import { Retry } from '../common/retry.js';
import type { StreamFlow } from '../calls/reply.js';
import { errorResponse, REQUEST_FAILED } from '../protocol/errors.js';
import type { RequestId } from '../protocol/json-rpc.js';
import { ANSWER_LOST, isFinal, isOver, StreamGivenUpError } from './event-store.errors.js';
import {
  isShared,
  type McpSharedEventStore,
  type McpReaderRef,
  type McpReadResult,
  type McpStoredEvent,
} from './event-store.js';
import { SharedReaders, type SharedStream } from './shared-readers.js';
import { StreamReader } from './stream-reader.js';
import { LocalReaders, type StreamReaders } from './stream-readers.js';
import type { StreamEnvironment } from './stream.options.js';
import {
  type Settlement,
  StreamWriter,
  type StreamEntry,
  type StreamSignal,
  type WriterTarget,
} from './stream-writer.js';

const FLOWING: StreamFlow = { paused: false, resumed$: NEVER };
const LOOK: StreamSignal = { first: 0, events: [], ended: false };

/**
 * # One logical stream
 *
 * Messages of one POST, or of the standalone stream `0`, in the order in which they were sent; logged, so that a client
 * that lost its connection can resume. One Subject per stream signals each append to the {@link StreamReaders}.
 *
 *     open ──end() committed──▶ ended ──last reader left──▶ idle (the session lets go of it)
 *       └──append refused──▶ failed: its owner is notified
 *
 * A stream of a POST whose append was retried in vain is given up (G13): its readers end with an answer to each open
 * request, and its end is appended, with errors, as soon as the log takes it.
 *
 * Most streams `0` are never written, and others are never read, so parts are created only when needed.
 */
export class McpStream implements SharedStream, WriterTarget {
  #writer: StreamWriter | undefined;
  #readers: StreamReaders | undefined;
  /** Wakes the readers on this node. */
  #signal$: StreamSignals | undefined;
  #retry: Retry | undefined;
  /** The log does not know the stream yet, which begins here. */
  #begins: boolean;
  /** Settles with the first append, for those who wait for it: a log in memory answers at once. */
  #begun: Deferred<void> | undefined;
  #over = false;
  /** Is set when the log has refused an append. */
  #failure: Failure | undefined;

  constructor(
    readonly id: string,
    readonly session: string,
    readonly environment: StreamEnvironment,
    private readonly observer?: StreamObserver,
    /** The requests whose messages a POST stream carries that begins here, and that no other object writes. */
    private readonly requests?: readonly RequestId[],
  ) {
    this.#begins = requests !== undefined;
  }

  /** Counts the responses of this node that read it. */
  get readers(): number {
    return this.#readers?.size ?? 0;
  }
  /** Settles when the log knows a stream that begins here, or never will. */
  get begun(): Promise<void> | undefined {
    return this.#begins ? (this.#begun ??= deferred()).promise : undefined;
  }
  /** Tells whether this object can be released: the stream is over, or nothing waits to be written. */
  get settled(): boolean {
    const state = this.#state;
    if (state === 'failed') return !this.#failure?.ending;
    return state === 'ended' || (state === 'idle' && !this.requests);
  }
  get over(): boolean {
    return this.#over;
  }
  /** Returns whether the stream was given up, and the next reader gets the answers: no reader has got them, and the log has not. */
  get hasAnswers(): boolean {
    return this.#failure?.ending?.delivered === false;
  }
  /** Settles when the log has the end of a stream that was given up, whose answers a reader has got. */
  get ending(): Promise<void> | undefined {
    const { ending } = this.#failure ?? {};
    return ending?.delivered ? ending.done : undefined;
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

  /** Creates the stream in the log again if the log has lost it: other nodes must find it for clients that resume. */
  reopen(): void {
    const state = this.#state;
    if (this.requests && (state === 'idle' || state === 'appending')) this.write({ reopens: true }).catch(() => {});
  }

  /** Settles when every message so far is in the log, and with the reader here. */
  async flushed(): Promise<void> {
    await this.#writer?.flushed();
    await this.#readers?.rested();
  }

  /**
   * Reads the state of the stream, with `delivered` as far as this node knows.
   *
   * @throws (rejects) McpStreamNotFoundError, McpSessionGoneError, or a fault of the log
   */
  async head(): Promise<McpReadResult> {
    const head = await this.read(0, 0);
    return { ...head, delivered: Math.max(head.delivered, this.#readers?.cursor ?? 0) };
  }

  /**
   * Makes a response of this node the newest reader, and hands out the events after the cursor `after`: what is logged, then
   * live, without a gap, a repeat or a change of order. Completes after the last event of a stream that has ended.
   *
   * @param last index of the newest event that was logged when the response was asked for; absent: that is the cursor
   * @param started called when the response is known to be the newest reader, on all nodes
   * @throws (errors) McpStreamNotFoundError, McpSessionGoneError, EventsEvictedError, StreamGivenUpError, or the fault of the
   *   log that outlasted all retries
   */
  subscribe(
    observer: Observer<McpStoredEvent>,
    after: number,
    flow = FLOWING,
    last = after,
    started = () => {},
  ): Subscription {
    const failed = this.#failure && !isOver(this.#failure.error);
    if (this.#over || failed) {
      started();
      if (this.#over) observer.complete();
      else this.#failReader(this.#failure!, observer);
      return Subscription.EMPTY;
    }
    const open = this.#state === 'idle' || this.#state === 'appending';
    const fresh = open && this.requests !== undefined && after === (this.#writer?.last ?? 0);
    const reader = new StreamReader(this, flow, observer, { after, last, fresh });
    const first = this.requests !== undefined && !this.#readers;
    const readers = (this.#readers ??= this.#makeReaders());
    readers.add(reader, first);
    if (reader.held) reader.started = started;
    else started();
    (this.#signal$ ??= new StreamSignals()).subscribe(reader);
    this.observer?.attached(this);
    reader.wake();
    return reader;
  }

  /**
   * Ends the response that reads this stream, on any node; the stream continues, and its client may resume.
   *
   * @returns whether there was one on this node
   */
  disconnectReaders(): boolean {
    // Kept: from now on its client may come back to any node, and the next reader is not the first.
    return (this.#readers ??= this.#makeReaders()).disconnect();
  }

  /** Tells whether a client reads the stream, on any node. */
  hasReader(): MaybePromise<boolean> {
    return (this.#readers ?? this.#makeReaders()).exist();
  }

  /** Makes the reader look into the log: another node wrote, or signals were lost. */
  look(): void {
    this.#signal$?.next(LOOK);
  }

  /** Silences a reader here, because another node has a newer one. @param upTo given, the response ends now */
  replaced(reader: string, upTo?: number): void {
    this.#readers?.replaced(reader, upTo);
  }

  /** Ends readers that are not the newest, at each keep-alive tick. */
  refresh(): void {
    if (!this.#over) this.#readers?.refresh();
  }

  /** Completes the readers and ends the retries, because the session is over. */
  end(): void {
    this.#over = true;
    this.#retry?.cancel();
    this.#failure?.ending?.retry.cancel();
    this.#readers?.complete();
    this.#signal$?.complete();
  }

  get #state(): StreamWriter['state'] {
    return this.#writer?.state ?? 'idle';
  }

  #makeWriter(): StreamWriter {
    const { id, requests } = this;
    // No other object writes a stream that begins here, whose id is a token too.
    return requests
      ? new StreamWriter(this, id, { node: this.environment.nodeId, requests })
      : new StreamWriter(this, randomToken());
  }

  #makeReaders(): StreamReaders {
    return isShared(this.environment.store) ? new SharedReaders(this) : new LocalReaders(this);
  }

  #hasBegun(): void {
    this.#begins = false;
    this.#begun?.resolve();
    this.#begun = undefined;
  }

  /** @param reader the newest, as the log has it. @returns whether the reader here gets the events at once */
  #appended(reader: McpReaderRef | undefined): boolean {
    if (reader) this.#readers ??= this.#makeReaders();
    return this.#readers?.appended(reader) ?? false;
  }

  // ---- for its writer -------------------------------------------------------------------------------------------

  /** @internal */
  get maxQueuedBytes(): number {
    return this.environment.maxQueuedBytes;
  }
  /** @internal */
  committed(signal: StreamSignal, reader: McpReaderRef | undefined): void {
    this.#hasBegun();
    if (this.#appended(reader)) this.#signal$?.next(signal);
    if ('ended' in signal && signal.ended) this.#settleDown();
  }
  /** @internal */
  lost(): void {
    this.observer?.lost?.(this);
  }
  /** @internal */
  rested(): void {
    this.#settleDown();
  }
  /** @internal */
  failed(error: Error, unanswered: readonly Settlement[]): void {
    this.#failure = { error };
    this.#hasBegun();
    if (isOver(error)) {
      // Another node has ended it, and the missing events are in the log.
      this.look();
    } else {
      this.#retry?.cancel();
      // Comes first: until it is done, this object must not be released, although its readers are.
      if (this.requests && !this.#over) this.#giveUp(error, unanswered);
      else this.#readers?.fail(error);
    }
    this.observer?.failed(this, error);
    this.#settleDown();
  }

  /**
   * Ends a failed stream in the log: so that it can be removed, its requests are settled, and each client that resumes
   * gets an answer. Retries until the log is available, or the session is over, with which the log is removed.
   */
  #giveUp(error: Error, unanswered: readonly Settlement[]): void {
    const { store, clock } = this.environment;
    const patience = { ...this.environment.retry, giveUpAfterMs: Number.POSITIVE_INFINITY };
    const [retry, done] = [new Retry(patience, clock, isFinal), deferred()];
    const errors = unanswered.map(({ request }) => JSON.stringify(errorResponse(request, REQUEST_FAILED, ANSWER_LOST)));
    const settles = unanswered.map(({ request }) => request);
    const options = { writer: randomToken(), seq: 1, newest: this.#writer!.last, settles, end: true };
    const end = async (): Promise<void> => {
      try {
        const { reader } = await retry.run(() => store.append(this.session, this.id, errors, options));
        this.#appended(reader);
      } finally {
        this.#failure = { error };
        done.resolve();
        this.#settleDown();
      }
    };
    // Answers may be large, and the log may stay away: they are only for the clients that are connected now.
    const answers = unanswered.map(({ answer }, at) => answer ?? errors[at]!);
    const delivered = this.readers > 0;
    this.#failure = { error: new StreamGivenUpError(errors, error), ending: { retry, done: done.promise, delivered } };
    this.inBackground(end);
    this.#readers?.fail(new StreamGivenUpError(answers, error));
  }

  /** Fails a reader that comes after the stream has failed. */
  #failReader({ error, ending }: Failure, observer: Observer<McpStoredEvent>): void {
    if (ending) ending.delivered = true;
    observer.error(error);
  }

  #settleDown(): void {
    if (this.readers === 0 && this.settled) this.observer?.idle(this);
  }

  // ---- for its readers ------------------------------------------------------------------------------------------

  /** @internal with a limit of 0 the head alone */
  read(after: number, limit: number): MaybePromise<McpReadResult> {
    return this.environment.store.read(this.session, this.id, after, limit, after);
  }
  /** @internal */
  evicted(after: number, oldest: number): void {
    this.observer?.evicted(this, after, oldest);
  }
  /** @internal */
  left(reader: StreamReader): void {
    this.#readers!.remove(reader);
    this.observer?.detached(this);
    this.#settleDown();
  }
  /** @internal */
  caughtUp(cursor: number): void {
    this.#readers?.caughtUp(cursor);
  }
  /** @internal */
  replacedHere(): void {
    this.observer?.replacedHere(this);
  }
  /** @internal */
  endedElsewhere(): void {
    this.observer?.ended?.(this);
  }
  /** @internal */
  get retry(): Retry {
    this.#retry ??= new Retry(this.environment.retry, this.environment.clock, isFinal);
    if (this.#over) this.#retry.cancel();
    return this.#retry;
  }
  /** @internal */
  get store(): McpSharedEventStore {
    return this.environment.store as McpSharedEventStore;
  }

  /** Runs a command that no message waits for: if it fails, only the readers in the log are out of date. @internal */
  inBackground(command: () => MaybePromise<unknown>): void {
    try {
      const running = command();
      if (!isThenable(running)) return;
      const done = Promise.resolve(running).catch((error: unknown) => this.fault(error));
      this.observer?.background?.(done);
    } catch (error) {
      this.fault(error);
    }
  }

  /** The log of an ended session needs no bookkeeping. @internal */
  fault(error: unknown): void {
    if (!isOver(error)) this.observer?.fault(this, error);
  }
}

/** The Subject of a stream. Its only reader, as there nearly always is one, gets a signal without an iterator and a closure. */
class StreamSignals extends Subject<StreamSignal> {
  override observers: Observer<StreamSignal>[] = roomForOne();

  override next(signal: StreamSignal): void {
    const { observers } = this;
    if (observers.length === 1) observers[0]!.next(signal);
    else super.next(signal);
  }
}

/** Returns an empty array with room for one element: V8 gives room for 17 to a literal at its first `push`, which takes 136 bytes more. */
function roomForOne<T>(): T[] {
  const room: unknown[] = [undefined];
  room.pop();
  return room as T[];
}

interface Failure {
  readonly error: Error;
  /** The stream is still to be ended in the log. */
  readonly ending?: {
    readonly retry: Retry;
    readonly done: Promise<void>;
    /** A reader has got the answers. */
    delivered: boolean;
  };
}

export interface StreamObserver {
  attached(stream: McpStream): void;
  detached(stream: McpStream): void;
  /** A newer reader has replaced a response on this node. */
  replacedHere(stream: McpStream): void;
  /** A response continues with the oldest event that is kept. */
  evicted(stream: McpStream, after: number, oldest: number): void;
  /** The stream has nothing to write and no reader: the object may be released; its log stays. */
  idle(stream: McpStream): void;
  /** The log has refused a message, and the stream is lost. It is called once. */
  failed(stream: McpStream, error: Error): void;
  /** The log has lost events that were sent, maybe before a client got them. */
  lost?(stream: McpStream): void;
  /** A tick has found that another node has ended the stream. */
  ended?(stream: McpStream): void;
  /** A command is under way that no message waits for. @param done never rejects */
  background?(done: Promise<unknown>): void;
  /** A command that no message waits for has failed. */
  fault(stream: McpStream, error: unknown): void;
}
