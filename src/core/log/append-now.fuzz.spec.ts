import { NEVER, type Subscription } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../testing/index.js';
import { seededRandom, share } from '../../../test/support/share.js';
import { InMemoryEventStore } from './in-memory-event-store.js';
import { McpStream } from './mcp-stream.js';
import type { StreamEntry } from './stream-writer.js';

/**
 * # The same traffic, over a log with `appendNow` and over one without it
 *
 * Each seed writes random entries to streams of some sessions, which are read, ended and dropped meanwhile. Whatever is heard of
 * it, and whatever the log keeps, must be the same.
 *
 * A failure names its seed: `FUZZ_SEED=<seed> FUZZ_RUNS=1 npx vitest run src/core/log/append-now.fuzz.spec.ts`
 */
const SEED = Number(process.env['FUZZ_SEED'] ?? 1);
const RUNS = share(400, process.env['FUZZ_RUNS']);

const STEPS = 300;
const LIMITS = { maxEvents: 100, maxBytes: 20_000, maxTotalBytes: 30_000, finishedStreamMs: 60_000 };
const SESSIONS = ['s', 't', 'u'];

const turn = () => new Promise((next) => setImmediate(next));

/** One log, and its streams. */
class Side {
  readonly clock = new ManualClock();
  readonly store: InMemoryEventStore;
  /** What writers and readers have got, in order. */
  readonly heard: string[] = [];
  /** Events that the log took by `appendNow`. */
  atOnce = 0;
  readonly #streams = new Map<string, McpStream>();
  readonly #readers = new Map<string, Subscription>();

  constructor(scope: 'node' | 'shared', appendsNow: boolean) {
    const store = new InMemoryEventStore(LIMITS, this.clock, scope);
    this.store = store;
    const appendNow = store.appendNow.bind(store);
    const counted: typeof appendNow = (...args) => {
      const index = appendNow(...args);
      this.atOnce += Math.sign(index);
      return index;
    };
    Object.assign(store, { appendNow: appendsNow ? counted : undefined });
  }

  write(session: string, id: string, entry: StreamEntry): void {
    const label = `${session} ${id} ${JSON.stringify(entry)}`;
    this.#streamOf(session, id)
      .write(entry)
      .then(
        () => this.heard.push(`${label} is logged`),
        (error: Error) => this.heard.push(`${label} ${error.name}`),
      );
  }

  /** Opens or closes the response that reads a stream. */
  read(session: string, id: string): void {
    const key = `${session} ${id}`;
    const reader = this.#readers.get(key);
    this.#readers.delete(key);
    if (reader) return reader.unsubscribe();
    const hear = (what: string): void => void this.heard.push(`${key} ${what}`);
    const observer = {
      next: ({ index, data }: { index: number; data: string }) => {
        hear(`${index} ${data}`);
        // Subscribers may write in turn.
        if (data.length % 7 === 0) this.write(session, id, { data: `"echo ${index}"` });
      },
      error: (error: Error) => hear(error.name),
      complete: () => hear('complete'),
    };
    const flow = { paused: false, resumed$: NEVER };
    this.#readers.set(key, this.#streamOf(session, id).subscribe(observer, 0, flow));
  }

  async drop(session: string): Promise<void> {
    for (const [key, stream] of this.#streams) {
      if (stream.session !== session) continue;
      this.#streams.delete(key);
      stream.end();
    }
    await this.store.drop(session, { code: -1, message: 'over' });
    await this.store.open(session);
  }

  #streamOf(session: string, id: string): McpStream {
    const key = `${session} ${id}`;
    const known = this.#streams.get(key);
    if (known) return known;
    const ignore = (): void => {};
    const observer = {
      attached: ignore,
      detached: ignore,
      replacedHere: ignore,
      evicted: ignore,
      failed: ignore,
      fault: ignore,
      // The session lets go of it.
      idle: () => this.#streams.delete(key),
    };
    const environment = {
      store: this.store,
      clock: this.clock,
      nodeId: 'node',
      nodes: { appended: ignore, replaced: ignore },
      retry: { firstDelayMs: 1, maxDelayMs: 1, giveUpAfterMs: 10 },
      maxQueuedBytes: 1_000_000,
      comeBackMs: 10_000,
    };
    const stream = new McpStream(id, session, environment, observer, id === '0' ? undefined : [1, 2]);
    this.#streams.set(key, stream);
    return stream;
  }
}

describe('a log with appendNow', () => {
  it(`a log with appendNow keeps, and says, what one without it does, in ${RUNS} random schedules`, async () => {
    let atOnce = 0;
    for (let seed = SEED; seed < SEED + RUNS; seed++) {
      const random = seededRandom(seed);
      const int = (below: number): number => Math.floor(random() * below);
      const scope = random() < 0.7 ? 'node' : 'shared';
      const sides = [new Side(scope, true), new Side(scope, false)] as const;
      const both = async (step: (side: Side) => unknown): Promise<void> => {
        for (const side of sides) await step(side);
      };
      await both((side) => Promise.all(SESSIONS.map((session) => side.store.open(session))));
      for (let step = 0; step < STEPS; step++) {
        const session = SESSIONS[int(SESSIONS.length)]!;
        // Streams of calls come and go.
        const id = int(3) === 0 ? '0' : `call ${Math.floor(step / 60)} ${int(2)}`;
        const data = `"${step}${'x'.repeat(int(4) === 0 ? int(800) : 0)}"`;
        const what = random();
        const passedMs = int(20_000);
        if (what < 0.72) await both((side) => side.write(session, id, { data, eager: step % 2 === 0 }));
        else if (what < 0.8) await both((side) => side.write(session, id, { data, settles: (step % 2) + 1 }));
        else if (what < 0.84 && id !== '0') await both((side) => side.write(session, id, { data, end: true }));
        else if (what < 0.94) await both((side) => side.read(session, id));
        else if (what < 0.95) await both((side) => side.drop(session));
        else await both((side) => side.clock.advance(passedMs));
        // Writers hear of their writes.
        await turn();
        const at = `FUZZ_SEED=${seed} FUZZ_RUNS=1, step ${step}`;
        const [one, other] = sides.map(({ store, heard }) => ({ at, log: store.dump(), heard: heard.splice(0) }));
        expect(one).toEqual(other);
      }
      expect(sides[1].atOnce).toBe(0);
      atOnce += sides[0].atOnce;
    }
    expect(atOnce).toBeGreaterThan((RUNS * STEPS) / 4);
  });
});
