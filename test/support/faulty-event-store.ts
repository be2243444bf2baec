import {
  type McpClock,
  McpEventStoreError,
  type McpAppendOptions,
  type McpAppendResult,
  type McpClaimResult,
  type McpEventStoreStats,
  type McpLastError,
  type McpEventStore,
  type McpSharedEventStore,
  type McpReaderRef,
  type McpReadResult,
  type McpUnfinishedStream,
} from 'nestjs-mcp-streamable/stores';
import { seededRandom } from './share.js';

/**
 * # An event store that is deliberately slow and failing
 *
 * A decorator of another store. The steps of a call:
 *
 *     refuse ─▶ delay ─▶ failBefore ─▶ the call itself ─▶ delayAnswer ─▶ failAfter
 *
 * A failure *after* the call is the unknown outcome: it was carried out, and the caller gets a fault. Refusals are
 * final errors, as the other store would throw them; faults are {@link EventStoreFault}, which is no `McpEventStoreError`, so that the
 * caller has to repeat the call.
 *
 * The schedule can be changed while calls are under way: `store.faults = {}` lets everything through again.
 */
export class FaultyEventStore implements Omit<McpSharedEventStore, 'scope'> {
  /** How often each call has been tried and has not succeeded yet. */
  readonly #attempts = new Map<string, number>();

  constructor(
    private readonly store: McpEventStore,
    private readonly clock: McpClock,
    public faults: EventStoreFaults = {},
  ) {}

  get scope(): 'node' | 'shared' {
    return this.store.scope;
  }

  get #shared(): McpSharedEventStore {
    return this.store as McpSharedEventStore;
  }

  open(session: string): Promise<void> {
    return this.#call({ method: 'open', session }, () => this.store.open(session));
  }

  append(
    session: string,
    stream: string,
    events: readonly string[],
    options: McpAppendOptions,
  ): Promise<McpAppendResult> {
    const { writer, seq } = options;
    const effect = () => this.store.append(session, stream, events, options);
    return this.#call({ method: 'append', session, stream }, effect, `${seq} ${writer}`);
  }

  read(session: string, stream: string, after: number, limit: number, delivered?: number): Promise<McpReadResult> {
    const effect = () => this.store.read(session, stream, after, limit, delivered);
    return this.#call({ method: 'read', session, stream }, effect);
  }

  claim(session: string, stream: string, reader: McpReaderRef, first?: boolean): Promise<McpClaimResult> {
    const effect = () => this.#shared.claim(session, stream, reader, first);
    return this.#call({ method: 'claim', session, stream }, effect, reader.reader);
  }

  release(session: string, stream: string, reader: McpReaderRef, delivered?: number): Promise<void> {
    const effect = () => this.#shared.release(session, stream, reader, delivered);
    return this.#call({ method: 'release', session, stream }, effect, reader.reader);
  }

  unfinished(node: string): Promise<McpUnfinishedStream[]> {
    return this.#call({ method: 'unfinished' }, () => this.#shared.unfinished(node), node);
  }

  drop(session: string, lastError?: McpLastError): Promise<void> {
    return this.#call({ method: 'drop', session }, () => this.store.drop(session, lastError));
  }

  stats(): Promise<McpEventStoreStats> {
    return this.#call({ method: 'stats' }, async () => (await this.store.stats?.()) ?? UNCOUNTED);
  }

  /** @param identity what makes a repeated call the same call, besides method, session and stream */
  async #call<T>(of: Omit<EventStoreCall, 'attempt'>, effect: () => T | Promise<T>, identity = ''): Promise<T> {
    const key = JSON.stringify([of.method, of.session, of.stream, identity]);
    const attempt = (this.#attempts.get(key) ?? 0) + 1;
    this.#attempts.set(key, attempt);
    const call: EventStoreCall = { ...of, attempt };
    try {
      const result = await this.#suffer(call, effect);
      this.#attempts.delete(key);
      return result;
    } catch (error) {
      // What is refused for good is not tried again.
      if (error instanceof McpEventStoreError) this.#attempts.delete(key);
      throw error;
    }
  }

  async #suffer<T>(call: EventStoreCall, effect: () => T | Promise<T>): Promise<T> {
    const refusal = this.faults.refuse?.(call);
    if (refusal) throw refusal;
    await this.#pause(this.faults.delay?.(call));
    if (this.faults.failBefore?.(call)) throw new EventStoreFault(call, 'not carried out');
    const result = await effect();
    await this.#pause(this.faults.delayAnswer?.(call));
    if (this.faults.failAfter?.(call)) throw new EventStoreFault(call, 'carried out');
    return result;
  }

  async #pause(ms = 0): Promise<void> {
    if (ms <= 0) return;
    await new Promise<void>((resolve) => {
      this.clock.setTimeout(resolve, ms);
    });
  }
}

const UNCOUNTED: McpEventStoreStats = { sessions: 0, streams: 0, events: 0, bytes: 0 };

/** The schedule of faults, by call. Absent functions have no effect. */
export interface EventStoreFaults {
  /** Milliseconds of the clock before the call takes effect; 0: at once. */
  delay?: (call: EventStoreCall) => number;
  /** Milliseconds of the clock between the effect and the answer. */
  delayAnswer?: (call: EventStoreCall) => number;
  /** The call fails, and changes nothing. */
  failBefore?: (call: EventStoreCall) => boolean;
  /** The call is carried out, and fails all the same: its outcome is unknown to the caller. */
  failAfter?: (call: EventStoreCall) => boolean;
  /** The call is refused for good with this error; usually an `McpEventStoreError`. */
  refuse?: (call: EventStoreCall) => Error | undefined;
}

export interface EventStoreCall {
  readonly method: Exclude<keyof McpSharedEventStore, 'scope'>;
  /** Absent for calls about no session in particular. */
  readonly session?: string;
  readonly stream?: string;
  /** 1 for the first attempt, counted until one succeeds; an append is recognised by its writer and `seq`. */
  readonly attempt: number;
}

/** A passing fault of a {@link FaultyEventStore}. */
export class EventStoreFault extends Error {
  readonly code = 'EVENT_STORE_FAULT';
  override readonly name = 'EventStoreFault';

  constructor(
    readonly call: EventStoreCall,
    readonly effect: 'carried out' | 'not carried out',
  ) {
    super(`"${call.method}" on stream "${call.stream ?? ''}" failed as scheduled, attempt ${call.attempt}, ${effect}.`);
  }
}

interface RandomFaultsOptions {
  seed: number;
  /** Longest delay in milliseconds, before and after the effect. @default 0 */
  maxDelayMs?: number;
  /** How likely a call fails before it takes effect, 0 to 1. @default 0 */
  failBefore?: number;
  /** How likely a call fails after it took effect, 0 to 1. @default 0 */
  failAfter?: number;
  /** From this attempt on a call succeeds, so that every schedule comes to an end. @default 5 */
  succeedFromAttempt?: number;
}

/** A random schedule, the same for the same seed. */
export function randomFaults(options: RandomFaultsOptions): EventStoreFaults {
  const { seed, maxDelayMs = 0, failBefore = 0, failAfter = 0, succeedFromAttempt = 5 } = options;
  const random = seededRandom(seed);
  const delay = () => Math.floor(random() * (maxDelayMs + 1));
  const happens = (likelihood: number) => (call: EventStoreCall) => {
    const drawn = random() < likelihood;
    return drawn && call.attempt < succeedFromAttempt;
  };
  return { delay, delayAnswer: delay, failBefore: happens(failBefore), failAfter: happens(failAfter) };
}

/** Notifies no other node of a stream. */
export const NO_OTHER_NODES = { appended: (): void => {}, replaced: (): void => {} };
