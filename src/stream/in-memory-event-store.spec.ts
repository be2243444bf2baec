import { describe, expect, it } from 'vitest';
import { Retry } from '../common/retry.js';
import {
  eventStoreContract,
  FaultyEventStore,
  ManualClock,
  randomFaults,
  seededRandom,
  type EventStoreCall,
} from '../testing/index.js';
import { EventLogFullError, EventsEvictedError, EventStoreError, SessionGoneError } from './event-store.errors.js';
import type { AppendOptions, McpEventStore } from './event-store.js';
import { InMemoryEventStore, type InMemoryEventStoreOptions } from './in-memory-event-store.js';

const limits = { maxEvents: 100, maxBytes: 64 * 1024, finishedStreamMs: 60_000 };
const NOTHING = { sessions: 0, streams: 0, events: 0, bytes: 0 };

eventStoreContract(
  'InMemoryEventStore',
  async () => {
    const clock = new ManualClock();
    const store = new InMemoryEventStore(limits, clock);
    return { store, limits, advance: (ms) => clock.advance(ms), dispose: async () => store.close() };
  },
  { describe, it },
);

eventStoreContract(
  'a slow InMemoryEventStore',
  async () => {
    const clock = new ManualClock();
    const inner = new InMemoryEventStore(limits, clock);
    const slowness = new ManualClock({ runsByItself: true });
    const store = new FaultyEventStore(inner, slowness, randomFaults({ seed: 7, maxDelayMs: 5 }));
    return { store, peer: inner, limits, advance: (ms) => clock.advance(ms), dispose: async () => inner.close() };
  },
  { describe, it },
);

eventStoreContract(
  'a failing InMemoryEventStore whose calls are repeated',
  async () => {
    const clock = new ManualClock();
    const inner = new InMemoryEventStore(limits, clock);
    const outages = new ManualClock({ runsByItself: true });
    const { failBefore, failAfter } = randomFaults({ seed: 7, failBefore: 0.3, failAfter: 0.3 });
    // Who is told of whom depends on who came in between: `attach` and `detach` may be repeated, but their answers differ.
    const tells = ({ method }: EventStoreCall) => method === 'attach' || method === 'detach';
    const faults = { failBefore, failAfter: (call: EventStoreCall) => !tells(call) && failAfter!(call) };
    const store = repeating(new FaultyEventStore(inner, outages, faults), outages);
    return { store, peer: inner, limits, advance: (ms) => clock.advance(ms), dispose: async () => inner.close() };
  },
  { describe, it },
);

/** What every caller of a store that may fail has to do. */
function repeating(store: McpEventStore, clock: ManualClock): McpEventStore {
  const policy = { firstDelayMs: 1, maxDelayMs: 1, giveUpAfterMs: 1_000 };
  const retry = new Retry(policy, clock, (error) => error instanceof EventStoreError);
  return new Proxy(store, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== 'function') return member;
      return (...args: unknown[]) => retry.run(() => Reflect.apply(member, target, args) as Promise<unknown>);
    },
  });
}

function setup(options: InMemoryEventStoreOptions = {}) {
  const clock = new ManualClock();
  const store = new InMemoryEventStore({ ...limits, ...options }, clock);
  const seqs = new Map<string, number>();
  /** Appends as the one writer of the stream. */
  const append = (session: string, stream: string, events: string[], more: Partial<AppendOptions> = {}) => {
    const key = JSON.stringify([session, stream]);
    const seq = (seqs.get(key) ?? 0) + 1;
    const appended = store.append(session, stream, events, { writer: key, seq, ...more });
    // A refused append was none.
    void appended.then(() => seqs.set(key, seq)).catch(() => {});
    return appended;
  };
  const oldest = async (session: string, stream: string) => (await store.describe(session, stream))?.oldest;
  return { clock, store, append, oldest };
}

const KIB = 'x'.repeat(512);

describe('the bytes of all sessions', () => {
  it('who floods loses their own events first', async () => {
    const { store, append, oldest } = setup({ maxTotalBytes: 64 * 1024 });
    for (const quiet of ['a', 'b', 'c', 'd']) {
      await store.open(quiet);
      for (let n = 0; n < 6; n++) await append(quiet, '0', [KIB]);
    }
    await store.open('flood');
    for (let n = 0; n < 500; n++) await append('flood', '0', [KIB]);
    expect((await store.stats()).bytes).toBeLessThanOrEqual(64 * 1024);
    for (const quiet of ['a', 'b', 'c', 'd']) expect(await oldest(quiet, '0')).toBe(1);
    expect(await oldest('flood', '0')).toBeGreaterThan(400);
  });

  it('a newcomer takes from whoever holds the most, not from itself', async () => {
    const { store, append, oldest } = setup({ maxTotalBytes: 48 * 1024 });
    for (const session of ['large', 'small', 'new']) await store.open(session);
    for (let n = 0; n < 44; n++) await append('large', '0', [KIB]);
    for (let n = 0; n < 4; n++) await append('small', '0', [KIB]);
    for (let n = 0; n < 4; n++) await append('new', '0', [KIB]);
    expect(await oldest('large', '0')).toBe(5);
    expect(await oldest('small', '0')).toBe(1);
    expect(await oldest('new', '0')).toBe(1);
    expect((await store.stats()).bytes).toBe(48 * 1024);
  });

  it('many sessions of one size share the loss', async () => {
    const { store, append } = setup({ maxTotalBytes: 100 * 1024 });
    const sessions = Array.from({ length: 20 }, (_, n) => `s${n}`);
    for (const session of sessions) await store.open(session);
    for (let n = 0; n < 40; n++) for (const session of sessions) await append(session, '0', [KIB]);
    const kept = await Promise.all(sessions.map(async (session) => 41 - (await store.describe(session, '0'))!.oldest));
    // 5 each would be even.
    expect(Math.max(...kept)).toBeLessThanOrEqual(9);
    expect(Math.min(...kept)).toBeGreaterThanOrEqual(2);
  });

  it('is full only when nothing may be evicted anywhere', async () => {
    const { store, append } = setup({ maxTotalBytes: 8 * 1024 });
    await store.open('s');
    await store.open('t');
    for (let n = 0; n < 8; n++) await append(n % 2 ? 's' : 't', `stream ${n}`, [KIB]);
    const refused = append('s', 'one more', [KIB]);
    await expect(refused).rejects.toThrow(EventLogFullError);
    await expect(refused).rejects.toThrow('eventLog.maxTotalBytes');
    await append('t', 'stream 0', [], { end: true });
    await append('s', 'yet another', [KIB]);
    expect(await store.describe('t', 'stream 0')).toMatchObject({ last: 1, oldest: 2 });
  });

  it('counts down to nothing', async () => {
    const { clock, store, append } = setup({ maxTotalBytes: 20 * 1024 });
    for (const session of ['s', 't']) {
      await store.open(session);
      for (let n = 0; n < 30; n++) await append(session, `stream ${n % 7}`, [KIB, '"small"'], { end: n > 22 });
    }
    await clock.advance(limits.finishedStreamMs);
    expect(await store.stats()).toEqual({ sessions: 2, streams: 0, events: 0, bytes: 0 });
    await append('s', '0', [KIB]);
    await store.drop('s');
    await store.drop('t');
    expect(await store.stats()).toEqual(NOTHING);
  });
});

describe('the timer', () => {
  it('is armed only while a finished stream waits to be forgotten', async () => {
    const { clock, store, append } = setup();
    await store.open('s');
    await append('s', 'a', ['1']);
    await append('s', '0', ['1'], { end: true });
    expect(clock.pending).toBe(0);
    await append('s', 'a', ['2'], { end: true });
    await clock.advance(40_000);
    await append('s', 'b', ['1'], { end: true });
    expect(clock.pending).toBe(1);
    await clock.advance(20_000);
    expect(await store.describe('s', 'a')).toBeUndefined();
    expect(await store.describe('s', 'b')).toBeDefined();
    expect(clock.pending).toBe(1);
    await clock.advance(40_000);
    expect(await store.describe('s', 'b')).toBeUndefined();
    expect(clock.pending).toBe(0);
  });

  it('is one, for however many streams, and gone with the last session that needs it', async () => {
    const { clock, store, append } = setup();
    for (const session of ['s', 't']) {
      await store.open(session);
      for (let n = 0; n < 50; n++) await append(session, `stream ${n}`, ['1'], { end: true });
    }
    expect(clock.pending).toBe(1);
    await store.drop('s');
    expect(clock.pending).toBe(1);
    await store.drop('t');
    expect(clock.pending).toBe(0);
    expect(await store.stats()).toEqual(NOTHING);
  });

  it('is gone after close, with everything else', async () => {
    const { clock, store, append } = setup();
    await store.open('s');
    await append('s', 'a', ['1'], { end: true });
    store.close();
    expect(clock.pending).toBe(0);
    expect(await store.stats()).toEqual(NOTHING);
    await expect(append('s', 'b', ['1'])).rejects.toThrow(SessionGoneError);
  });
});

describe('eviction', () => {
  it('stays cheap with many events that must not go, and many streams that come and go', async () => {
    const { clock, store, append } = setup({ maxEvents: 1_000 });
    await store.open('s');
    for (let n = 0; n < 900; n++) await append('s', `open ${n}`, ['"pinned"']);
    for (let n = 0; n < 100_000; n++) await append('s', '0', ['"flood"']);
    expect(await store.stats()).toMatchObject({ streams: 901, events: 1_000 });
    for (let n = 0; n < 20_000; n++) {
      await append('s', `call ${n}`, ['"answer"'], { settles: [{ id: n, answer: 0 }], end: true });
      await store.delivered('s', `call ${n}`, 1);
      if (n % 50 === 49) await clock.advance(limits.finishedStreamMs);
    }
    expect((await store.stats()).events).toBeLessThanOrEqual(1_000);
    expect((await store.read('s', 'open 0', 0, 9)).events).toHaveLength(1);
  });

  it('forgets finished streams before their time, when all their events are gone and there are too many', async () => {
    const { clock, store, append } = setup({ maxEvents: 10 });
    await store.open('s');
    await append('s', '0', ['1'], { end: true });
    for (let n = 0; n < 100; n++) await append('s', `call ${n}`, ['1', '2'], { end: true });
    for (let n = 0; n < 100; n++) await append('s', `without events ${n}`, [], { end: true });
    expect(await store.stats()).toMatchObject({ streams: 1 + 5 + 10, events: 10 });
    expect(await store.describe('s', 'call 99')).toMatchObject({ last: 2, oldest: 1 });
    expect(await store.describe('s', 'without events 89')).toBeUndefined();
    expect(await store.describe('s', '0')).toMatchObject({ last: 1, oldest: 2 });
    await clock.advance(limits.finishedStreamMs);
    expect(await store.stats()).toMatchObject({ streams: 1, events: 0 });
    expect(clock.pending).toBe(0);
  });

  it('gives what was written first, among what is released at different times', async () => {
    const { store, append, oldest } = setup({ maxEvents: 10 });
    await store.open('s');
    for (const stream of ['a', 'b', 'c']) await append('s', stream, ['1'], { settles: [{ id: 1, answer: 0 }] });
    for (const stream of ['a', 'b', 'c']) await append('s', stream, [], { end: true });
    for (let n = 0; n < 20; n++) await append('s', '0', ['1']);
    await store.delivered('s', 'b', 1);
    await append('s', '0', ['1']);
    expect([await oldest('s', 'a'), await oldest('s', 'b'), await oldest('s', 'c')]).toEqual([1, 2, 1]);
    expect((await store.stats()).events).toBe(10);
  });
});

describe('a random schedule', () => {
  it.each([1, 2, 3, 4, 5, 6, 7, 8])('keeps what must be kept, and no more than is allowed (seed %i)', async (seed) => {
    const random = seededRandom(seed);
    const pick = (count: number) => Math.floor(random() * count);
    const { store, append } = setup({ maxEvents: 12, maxBytes: 600, finishedStreamMs: 60_000 });
    const streams = Array.from({ length: 6 }, () => new ModelStream());
    await store.open('s');
    for (let step = 0; step < 2_000; step++) {
      const position = pick(streams.length);
      const id = `${position} ${streams[position]!.generation}`;
      const model = streams[position]!;
      if (model.ended || random() < 0.3) {
        const index = pick(model.events.length + 2);
        await store.delivered('s', id, index);
        model.deliver(index);
      } else {
        const events = Array.from({ length: pick(4) }, (_, n) => `"${step}.${n}${'x'.repeat(pick(40))}"`);
        const answer = random() < 0.3 && events.length > 0 ? pick(events.length) : undefined;
        const end = random() < 0.1;
        const full = pinnedOf(streams).events >= 12 || pinnedOf(streams).bytes >= 600;
        const appended = append('s', id, events, {
          end,
          ...(answer !== undefined && { settles: [{ id: 1, answer }] }),
        });
        if (full && events.length > 0) await expect(appended).rejects.toThrow(EventLogFullError);
        else {
          expect(await appended).toEqual({ first: model.events.length + 1 });
          model.append(events, answer, end);
        }
      }
      await agree();
      if (model.ended && model.pinned().length === 0) streams[position] = new ModelStream(model.generation + 1);
    }

    /** What the model says must be there is there, what is there is right, and the sums are. */
    async function agree() {
      const stats = await store.stats();
      const pinned = pinnedOf(streams);
      expect(stats.events <= 12 || stats.events === pinned.events).toBe(true);
      expect(stats.bytes <= 600 || stats.bytes === pinned.bytes).toBe(true);
      for (const [position, model] of streams.entries()) {
        for (const index of model.pinned()) {
          const { events } = await store.read('s', `${position} ${model.generation}`, index - 1, 1);
          expect(events).toEqual([{ index, data: model.events[index - 1] }]);
        }
      }
    }
  });

  it('reads without gaps from every cursor, and goes on where the refusal says', async () => {
    const { store, append } = setup({ maxEvents: 10 });
    await store.open('s');
    for (let n = 1; n <= 200; n++) {
      await append('s', '0', [String(n)], n % 40 === 3 ? { settles: [{ id: n, answer: 0 }] } : {});
    }
    const found: number[] = [];
    for (let cursor = 0; cursor < 200;) {
      try {
        const { events } = await store.read('s', '0', cursor, 3);
        for (const { index, data } of events) expect(data).toBe(String(index));
        found.push(...events.map(({ index }) => index));
        cursor = events.at(-1)!.index;
      } catch (error) {
        expect(error).toBeInstanceOf(EventsEvictedError);
        cursor = (error as EventsEvictedError).oldest - 1;
      }
    }
    expect(found).toEqual([3, 43, 83, 123, 163, 196, 197, 198, 199, 200]);
  });
});

/** A stream as the contract describes it. */
class ModelStream {
  readonly events: string[] = [];
  readonly #answers = new Set<number>();
  #delivered = 0;
  ended = false;

  constructor(readonly generation = 0) {}

  append(events: readonly string[], answer: number | undefined, end: boolean) {
    if (answer !== undefined) this.#answers.add(this.events.length + 1 + answer);
    this.events.push(...events);
    this.ended ||= end;
  }

  deliver(index: number) {
    this.#delivered = Math.max(this.#delivered, Math.min(index, this.events.length));
  }

  pinned(): number[] {
    const newest = this.ended || this.events.length === 0 ? [] : [this.events.length];
    return [...new Set([...[...this.#answers].filter((index) => index > this.#delivered), ...newest])];
  }
}

function pinnedOf(streams: readonly ModelStream[]) {
  const texts = streams.flatMap((stream) => stream.pinned().map((index) => stream.events[index - 1]!));
  return { events: texts.length, bytes: texts.reduce((sum, text) => sum + text.length * 2, 0) };
}
