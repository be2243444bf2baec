import { describe, expect, it } from 'vitest';
import { isThenable } from '../common/promises.js';
import { Retry } from '../common/retry.js';
import { eventStoreContract, ManualClock } from '../../testing/index.js';
import { type EventStoreCall, FaultyEventStore, randomFaults } from '../../../test/support/faulty-event-store.js';
import { McpEventStoreError, McpSessionGoneError, McpStreamNotFoundError } from './event-store.errors.js';
import type { McpAppendOptions, McpAppendResult, McpEventStore } from './event-store.js';
import { InMemoryEventStore } from './in-memory-event-store.js';
import type { McpEventLogOptions } from './stream.options.js';
import { seededRandom, share } from '../../../test/support/share.js';
import { JumpingClock } from '../../../test/support/tracked-clock.js';

const limits = { maxEvents: 100, maxBytes: 20_000, finishedStreamMs: 60_000 };
const NOTHING = { sessions: 0, streams: 0, events: 0, bytes: 0 };

for (const [name, scope, appendsNow] of [
  ['InMemoryEventStore of scope node', 'node', true],
  ['InMemoryEventStore of scope shared', 'shared', true],
  ['InMemoryEventStore without appendNow', 'node', false],
] as const) {
  eventStoreContract(
    name,
    async () => {
      const clock = new ManualClock();
      const store = new InMemoryEventStore(limits, clock, scope);
      if (!appendsNow) Object.assign(store, { appendNow: undefined });
      const count = () => store.stats();
      return { store, limits, count, advance: (ms) => clock.advance(ms), dispose: async () => {} };
    },
    { describe, it },
  );
}

eventStoreContract(
  'a slow InMemoryEventStore',
  async () => {
    const clock = new ManualClock();
    const peer = new InMemoryEventStore(limits, clock, 'shared');
    const slowness = new JumpingClock();
    const store = new FaultyEventStore(peer, slowness, randomFaults({ seed: 7, maxDelayMs: 5 }));
    const count = () => peer.stats();
    return { store, peer, limits, count, advance: (ms) => clock.advance(ms), dispose: async () => {} };
  },
  { describe, it },
);

eventStoreContract(
  'a failing InMemoryEventStore whose calls are repeated',
  async () => {
    const clock = new ManualClock();
    const peer = new InMemoryEventStore(limits, clock, 'shared');
    const outages = new JumpingClock();
    const { failBefore, failAfter } = randomFaults({ seed: 7, failBefore: 0.3, failAfter: 0.3 });
    // Who was before depends on who came in between: a claim may be repeated, but its answer differs.
    const tells = ({ method }: EventStoreCall) => method === 'claim';
    const faults = { failBefore, failAfter: (call: EventStoreCall) => !tells(call) && failAfter!(call) };
    const store = repeating(new FaultyEventStore(peer, outages, faults), outages);
    const count = () => peer.stats();
    return { store, peer, limits, count, advance: (ms) => clock.advance(ms), dispose: async () => {} };
  },
  { describe, it },
);

/** What every caller of a store that may fail has to do. */
function repeating(store: McpEventStore, clock: ManualClock): McpEventStore {
  const policy = { firstDelayMs: 1, maxDelayMs: 1, giveUpAfterMs: 1_000 };
  const retry = new Retry(policy, clock, (error) => error instanceof McpEventStoreError);
  return new Proxy(store, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== 'function') return member;
      return (...args: unknown[]) => retry.run(() => Reflect.apply(member, target, args) as Promise<unknown>);
    },
  });
}

function setup(options: McpEventLogOptions = {}) {
  const clock = new ManualClock();
  const store = new InMemoryEventStore({ ...limits, ...options }, clock);
  const seqs = new Map<string, number>();
  /** Appends as the one writer of the stream. */
  const append = (session: string, stream: string, events: string[], more: Partial<McpAppendOptions> = {}) => {
    const key = JSON.stringify([session, stream]);
    const seq = (seqs.get(key) ?? 0) + 1;
    seqs.set(key, seq);
    return store.append(session, stream, events, { writer: key, seq, ...more }) as McpAppendResult;
  };
  const head = async (session: string, stream: string) => store.read(session, stream, 0, 0);
  const oldest = async (session: string, stream: string) => (await head(session, stream)).oldest;
  return { clock, store, append, head, oldest };
}

const KIB = 'x'.repeat(512);

describe('an append', () => {
  it('an append is carried out synchronously', async () => {
    const { store, append } = setup();
    await store.open('s');
    const result = append('s', '0', ['1']);
    expect(isThenable(result)).toBe(false);
    expect(result).toEqual({ first: 1 });
    expect(() => append('unknown', '0', ['1'])).toThrow(McpSessionGoneError);
  });

  it('appendNow does nothing if the app has replaced append, which must see each event', async () => {
    const { store, append } = setup();
    await store.open('s');
    append('s', '0', ['1']);
    const writer = JSON.stringify(['s', '0']);
    expect(store.appendNow('s', '0', '2', writer, 2, 0)).toBe(2);
    const original = store.append.bind(store);
    store.append = (...args) => original(...args);
    expect(store.appendNow('s', '0', '3', writer, 3, 0)).toBe(0);
    class Observed extends InMemoryEventStore {
      override append(...args: Parameters<InMemoryEventStore['append']>) {
        return super.append(...args);
      }
    }
    const observed = new Observed();
    await observed.open('s');
    void observed.append('s', '0', ['1'], { writer, seq: 1 });
    expect(observed.appendNow('s', '0', '2', writer, 2, 0)).toBe(0);
  });

  it('an append costs the same, however much is kept', async () => {
    const { store, append } = setup({ maxEvents: 1_000, maxBytes: 2 ** 40 });
    await store.open('s');
    for (let n = 0; n < 30_000; n++) append('s', '0', ['"flood"']);
    expect(await store.stats()).toMatchObject({ streams: 1, events: 1_000, bytes: 14_000 });
  });
});

describe('the bytes of a session', () => {
  it('beyond the limit are evicted from finished streams, oldest first, and each keeps its newest event', async () => {
    const { store, append, oldest } = setup({ maxBytes: 10 * 1024 });
    await store.open('s');
    for (const stream of ['a', 'b']) append('s', stream, [KIB, KIB, KIB, '"answer"'], { end: true });
    append('s', 'open', [KIB, KIB, KIB]);
    append('s', 'open', [KIB, KIB]);
    expect([await oldest('s', 'a'), await oldest('s', 'b'), await oldest('s', 'open')]).toEqual([3, 1, 1]);
    append('s', 'open', [KIB, KIB, KIB]);
    expect([await oldest('s', 'a'), await oldest('s', 'b'), await oldest('s', 'open')]).toEqual([4, 3, 1]);
    expect((await store.stats()).bytes).toBeLessThanOrEqual(10 * 1024);
  });

  it('beyond the limit are evicted from the largest open stream next, and last from finished streams as a whole', async () => {
    const { store, append, oldest, head } = setup({ maxBytes: 4 * 1024 });
    await store.open('s');
    append('s', 'finished', ['"answer"'], { end: true });
    append('s', 'small', ['1', '2']);
    append('s', 'large', [KIB, KIB, KIB, KIB, KIB]);
    expect([await oldest('s', 'finished'), await oldest('s', 'small'), await oldest('s', 'large')]).toEqual([1, 1, 3]);
    append('s', 'huge', ['x'.repeat(10_000)]);
    expect([await oldest('s', 'small'), await oldest('s', 'large')]).toEqual([2, 5]);
    await expect(head('s', 'finished')).rejects.toThrow(McpStreamNotFoundError);
  });

  it('finished streams without events are bounded by their number', async () => {
    const { store, append, head } = setup();
    await store.open('s');
    for (let n = 0; n < 250; n++) append('s', `call ${n}`, [], { end: true });
    expect((await store.stats()).streams).toBe(limits.maxEvents);
    expect(await head('s', 'call 249')).toMatchObject({ ended: true });
  });
});

describe('the bytes of all sessions', () => {
  it('beyond the limit are evicted first from the session that floods the store', async () => {
    const { store, append, oldest } = setup({ maxBytes: 2 ** 20, maxTotalBytes: 64 * 1024 });
    for (const quiet of ['a', 'b', 'c', 'd']) {
      await store.open(quiet);
      for (let n = 0; n < 6; n++) append(quiet, '0', [KIB]);
    }
    await store.open('flood');
    for (let n = 0; n < 500; n++) {
      append('flood', '0', [KIB]);
      expect((await store.stats()).bytes).toBeLessThanOrEqual(64 * 1024);
    }
    for (const quiet of ['a', 'b', 'c', 'd']) expect(await oldest(quiet, '0')).toBe(1);
    expect(await oldest('flood', '0')).toBeGreaterThan(400);
  });

  it('beyond the limit are evicted from the largest session, not from the one that appends', async () => {
    const { store, append, oldest } = setup({ maxBytes: 2 ** 20, maxTotalBytes: 48 * 1024 });
    for (const session of ['large', 'small', 'new']) await store.open(session);
    for (let n = 0; n < 44; n++) append('large', '0', [KIB]);
    for (let n = 0; n < 4; n++) append('small', '0', [KIB]);
    for (let n = 0; n < 4; n++) append('new', '0', [KIB]);
    expect(await oldest('large', '0')).toBeGreaterThan(4);
    expect([await oldest('small', '0'), await oldest('new', '0')]).toEqual([1, 1]);
  });

  it('the bytes of all sessions refuse no append when nothing can be evicted, and return to zero when sessions are dropped', async () => {
    const { clock, store, append } = setup({ maxTotalBytes: 8 * 1024 });
    for (const session of ['s', 't']) await store.open(session);
    for (let n = 0; n < 20; n++) append(n % 2 ? 's' : 't', `stream ${n}`, [KIB]);
    expect(await store.stats()).toMatchObject({ streams: 20, events: 20, bytes: 20 * 1024 });
    for (let n = 0; n < 20; n++) append(n % 2 ? 's' : 't', `stream ${n}`, ['1'], { end: true });
    await clock.advance(limits.finishedStreamMs);
    expect(await store.stats()).toEqual({ ...NOTHING, sessions: 2 });
    for (const session of ['s', 't']) await store.drop(session);
    expect(await store.stats()).toEqual(NOTHING);
  });
});

describe('expiry of finished streams', () => {
  it('expiry of finished streams needs no timer: streams that are due are forgotten when any stream of any session ends', async () => {
    const { clock, store, append } = setup();
    for (const session of ['s', 't']) await store.open(session);
    for (let n = 0; n < 50; n++) append('s', `stream ${n}`, ['1'], { end: true });
    expect(clock.pending).toBe(0);
    await clock.advance(limits.finishedStreamMs);
    append('t', 'a', ['1'], { end: true });
    expect(await store.stats()).toMatchObject({ streams: 1, events: 1 });
  });
});

describe('a random schedule', () => {
  it.each(Array.from({ length: share(80) }, (_, at) => at + 1))(
    'a random schedule keeps the newest of each stream, and the sums are right (seed %i)',
    async (seed) => {
      const random = seededRandom(seed);
      const pick = (count: number) => Math.floor(random() * count);
      const { store, append } = setup({ maxBytes: 12_000 });
      await store.open('s');
      const streams = Array.from({ length: 5 }, () => ({ generation: 0, events: [] as string[], ended: false }));
      for (let step = 0; step < 500; step++) {
        const position = pick(streams.length);
        const model = streams[position]!;
        if (model.ended) {
          Object.assign(model, { generation: model.generation + 1, events: [], ended: false });
          continue;
        }
        const texts = Array.from({ length: pick(8) }, (_, n) => `"${step}.${n}${'x'.repeat(pick(60))}"`);
        const end = random() < 0.02;
        const result = append('s', `${position} ${model.generation}`, texts, { end });
        expect(result).toEqual({ first: model.events.length + 1 });
        model.events.push(...texts);
        model.ended = end;
        if (step % 10 > 0) continue;
        let [events, bytes] = [0, 0];
        for (const [at, { generation, events: written, ended }] of streams.entries()) {
          if (written.length === 0 || ended) continue;
          const page = await store.read('s', `${at} ${generation}`, 0, 1_000);
          expect([page.last, page.events.at(-1)?.index]).toEqual([written.length, written.length]);
          for (const { index, data } of page.events) expect(data).toBe(written[index - 1]);
          expect(page.events.length).toBeLessThanOrEqual(limits.maxEvents);
          events += page.events.length;
          bytes += page.events.reduce((sum, { data }) => sum + data.length * 2, 0);
        }
        const stats = await store.stats();
        expect(stats.bytes).toBeLessThanOrEqual(12_000);
        expect(stats.events).toBeGreaterThanOrEqual(events);
        expect(stats.bytes).toBeGreaterThanOrEqual(bytes);
      }
      await store.drop('s');
      expect(await store.stats()).toEqual(NOTHING);
    },
  );
});
