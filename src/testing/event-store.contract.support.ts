import assert from 'node:assert/strict';
import { randomToken } from '../common/random-token.js';
import { type EventStoreError } from '../stream/event-store.errors.js';
import type { AppendOptions, McpEventStore, StoredEvent } from '../stream/event-store.js';

/** An event store under test. Each test gets one with nothing in it. @publicApi */
export interface EventStoreHarness {
  readonly store: McpEventStore;
  /** The same log as another node sees it, for calls that run concurrently. Absent: `store` itself. */
  readonly peer?: McpEventStore;
  /** Lets the store's time pass. Absent: what takes time is not tested. */
  readonly advance?: (ms: number) => Promise<void>;
  /** What the store was made with; small, so that the tests can exceed it. */
  readonly limits: EventStoreLimits;
  dispose(): Promise<void>;
}

/** @publicApi */
export interface EventStoreLimits {
  /** Events per session; 50 to 1000. */
  maxEvents: number;
  /** Bytes per session, UTF-16 code units times two; at least 100 for each of `maxEvents`. */
  maxBytes: number;
  finishedStreamMs: number;
}

export const SESSION = 'session-under-test';
/** More than any stream of the tests has. */
export const ALL = 1_000_000;

/** One writer of one stream, counting its appends. */
export class TestWriter {
  seq = 0;
  readonly id = randomToken();

  constructor(
    private readonly store: McpEventStore,
    readonly stream: string = randomToken(),
    private readonly session: string = SESSION,
  ) {}

  /** @returns the index of the first event */
  async append(events: readonly string[], options: Partial<AppendOptions> = {}): Promise<number> {
    this.seq++;
    return this.again(events, options);
  }

  /** The last append once more, as after an unknown outcome. */
  async again(events: readonly string[], options: Partial<AppendOptions> = {}): Promise<number> {
    const { first } = await this.store.append(this.session, this.stream, events, {
      ...{ writer: this.id, seq: this.seq },
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

export function stored(texts: readonly string[], first = 1): StoredEvent[] {
  return texts.map((data, position) => ({ index: first + position, data }));
}

/** Appends one event after the other to a stream of its own, or to that of `writer`. */
export async function flood(harness: EventStoreHarness, count: number, writer?: TestWriter): Promise<TestWriter> {
  const flooding = writer ?? new TestWriter(harness.store);
  for (let n = 1; n <= count; n++) await flooding.append([event(`flood ${n}`)]);
  return flooding;
}

/** The events of a stream after the cursor, whatever the size of a page. */
export async function readAll(harness: EventStoreHarness, stream: string, after = 0): Promise<StoredEvent[]> {
  const { events, more } = await harness.store.read(SESSION, stream, after, ALL);
  assert.equal(more, false);
  return [...events];
}

/** Whether the event is still there, by its being read. */
export async function isKept(harness: EventStoreHarness, stream: string, index: number): Promise<boolean> {
  try {
    const { events } = await harness.store.read(SESSION, stream, index - 1, 1);
    return events[0]?.index === index;
  } catch {
    return false;
  }
}

export async function refuses<E extends EventStoreError>(
  call: Promise<unknown>,
  kind: abstract new (...args: never[]) => E,
): Promise<E> {
  try {
    await call;
  } catch (error) {
    assert.ok(error instanceof kind, `expected ${kind.name}, but it was refused with ${String(error)}`);
    return error;
  }
  assert.fail(`expected ${kind.name}, but it was accepted`);
}
