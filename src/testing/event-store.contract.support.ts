import assert from 'node:assert/strict';
import { randomToken } from '../core/common/random-token.js';
import { type McpEventStoreError, McpStreamNotFoundError } from '../core/log/event-store.errors.js';
import {
  isShared,
  type McpAppendOptions,
  type McpEventStoreStats,
  type McpEventStore,
  type McpSharedEventStore,
  type McpReaderRef,
  type McpReadResult,
  type McpStoredEvent,
} from '../core/log/event-store.js';

import type { ContractTests } from './contract.js';

/** Holds an event store under test. Each test gets one with nothing in it. @publicApi */
export interface McpEventStoreHarness {
  readonly store: McpEventStore;
  /** Reaches the same log as another node sees it, for calls that run concurrently. Absent: `store` itself. */
  readonly peer?: McpEventStore;
  /** Advances the clock of the store. Absent: expiry is not tested. */
  readonly advance?: (ms: number) => Promise<void>;
  /** Returns the current counts. Absent: cleanup is not tested. */
  readonly count?: () => Promise<McpEventStoreStats>;
  /** The limits of the store are small, so that the tests can exceed them. */
  readonly limits: McpEventStoreLimits;
  dispose(): Promise<void>;
}

/** Holds a store of scope `shared`. */
export type SharedHarness = McpEventStoreHarness & {
  readonly store: McpSharedEventStore;
  readonly peer?: McpSharedEventStore;
};

/** Restricts sentences to stores of scope `shared`; others need not keep them. */
export function ofShared(tests: ContractTests<SharedHarness>): ContractTests<McpEventStoreHarness> {
  const checked = Object.entries(tests).map(([sentence, check]) => [
    sentence,
    async (harness: McpEventStoreHarness) => (isShared(harness.store) ? check(harness as SharedHarness) : undefined),
  ]);
  return Object.fromEntries(checked) as ContractTests<McpEventStoreHarness>;
}

/** @publicApi */
export interface McpEventStoreLimits {
  /** A stream holds so many events: 100 to 1000. */
  maxEvents: number;
  /**
   * A session holds so many bytes, UTF-16 code units times two; at least 100 for each of `maxEvents`. Absent: bytes are
   * not bounded.
   */
  maxBytes?: number;
  finishedStreamMs: number;
}

export const SESSION = 'session-under-test';
/** No stream of the tests has so many events. */
export const ALL = 1_000_000;

/** Writes to one stream, and counts its appends. */
export class TestWriter {
  seq = 0;
  readonly id = randomToken();

  constructor(
    private readonly store: McpEventStore,
    readonly stream: string = randomToken(),
    private readonly session: string = SESSION,
  ) {}

  /** Appends events, as a stream does: one alone by `appendNow`, if the store takes it. @returns the index of the first event */
  async append(events: readonly string[], options: Partial<McpAppendOptions> = {}): Promise<number> {
    this.seq++;
    const { newest, ...more } = options;
    const [event] = events;
    const isAlone = event !== undefined && events.length === 1 && Object.keys(more).length === 0;
    return (isAlone && this.now(event, newest)) || this.again(events, options);
  }

  /** @returns the index of the event; 0: nothing was done, or the store cannot do it */
  now(event: string, newest = 0): number {
    return this.store.appendNow?.(this.session, this.stream, event, this.id, this.seq, newest) ?? 0;
  }

  /** Repeats the last append, as after an unknown outcome. */
  async again(events: readonly string[], options: Partial<McpAppendOptions> = {}): Promise<number> {
    const { first } = await this.store.append(this.session, this.stream, events, {
      writer: this.id,
      seq: this.seq,
      ...options,
    });
    return first;
  }
}

export function event(label: string | number, paddingBytes = 0): string {
  return JSON.stringify(paddingBytes > 0 ? [label, 'x'.repeat(paddingBytes / 2)] : [label]);
}

export function events(count: number, from = 1): string[] {
  return Array.from({ length: count }, (_, position) => event(from + position));
}

export function bytesOf(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + text.length * 2, 0);
}

export function stored(texts: readonly string[], first = 1): McpStoredEvent[] {
  return texts.map((data, position) => ({ index: first + position, data }));
}

/** Appends one event after the other to a stream of its own, or to that of `writer`. */
export async function flood(harness: McpEventStoreHarness, count: number, writer?: TestWriter): Promise<TestWriter> {
  const flooding = writer ?? new TestWriter(harness.store);
  for (let n = 1; n <= count; n++) await flooding.append([event(`flood ${n}`)]);
  return flooding;
}

/** Returns the events of a stream after the cursor, whatever the size of a page. */
export async function readAll(harness: McpEventStoreHarness, stream: string, after = 0): Promise<McpStoredEvent[]> {
  const { events, more } = await harness.store.read(SESSION, stream, after, ALL);
  assert.equal(more, false);
  return [...events];
}

/** Returns what is known of a stream, without its events. */
export async function look(store: McpEventStore, stream: string, session: string = SESSION): Promise<McpReadResult> {
  return store.read(session, stream, 0, 0);
}

/** Returns the index of the oldest event of a stream; `undefined` when it does not exist. */
export async function oldestOf(store: McpEventStore, stream: string): Promise<number | undefined> {
  try {
    return (await look(store, stream)).oldest;
  } catch (error) {
    if (error instanceof McpStreamNotFoundError) return undefined;
    throw error;
  }
}

export async function readerOf(store: McpEventStore, stream: string): Promise<McpReaderRef | undefined> {
  return (await look(store, stream)).reader;
}

export async function holds(harness: McpEventStoreHarness, expected: Partial<McpEventStoreStats>): Promise<void> {
  const counted = await harness.count?.();
  if (counted) assert.deepEqual({ ...counted, ...expected }, counted);
}

export const NOTHING: McpEventStoreStats = { sessions: 0, streams: 0, events: 0, bytes: 0 };

export async function refuses<E extends McpEventStoreError>(
  call: () => unknown,
  kind: abstract new (...args: never[]) => E,
): Promise<E> {
  try {
    await call();
  } catch (error) {
    assert.ok(error instanceof kind, `expected ${kind.name}, but it was refused with ${String(error)}`);
    return error;
  }
  assert.fail(`expected ${kind.name}, but it was accepted`);
}
