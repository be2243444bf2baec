import { describe, expect, it, vi } from 'vitest';
import { Retry } from '../common/retry.js';
import { ManualClock } from '../../testing/index.js';
import {
  EventStoreFault,
  FaultyEventStore,
  randomFaults,
  type EventStoreCall,
  type EventStoreFaults,
} from '../../../test/support/faulty-event-store.js';
import {
  McpEventLogFullError,
  McpEventStoreError,
  McpSessionGoneError,
  McpStreamEndedError,
  McpStreamOverflowError,
} from './event-store.errors.js';
import { InMemoryEventStore } from './in-memory-event-store.js';
import type { McpAppendOptions } from './event-store.js';
import { type BatchSignal, StreamWriter, type StreamSignal, type WriterTarget } from './stream-writer.js';

const POLICY = { firstDelayMs: 10, maxDelayMs: 40, giveUpAfterMs: 150 };
const STREAM = 'stream';

/** What all writers here have in common. */
const TARGET = {
  id: STREAM,
  session: 's',
  maxQueuedBytes: 1_000,
  committed: () => {},
  lost: () => {},
  rested: () => {},
  failed: () => {},
} satisfies Partial<WriterTarget>;

async function setup(
  faults: EventStoreFaults = {},
  more: Partial<WriterTarget> = {},
  opens?: McpAppendOptions['opens'],
) {
  const clock = new ManualClock();
  // Its own time stands still: what it keeps for later is no concern of a writer.
  const log = new InMemoryEventStore({}, new ManualClock());
  await log.open('s');
  const append = vi.spyOn(log, 'append');
  const store = new FaultyEventStore(log, clock, faults);
  const retry = new Retry(POLICY, clock, (error) => error instanceof McpEventStoreError);
  const signals: BatchSignal[] = [];
  const failures: unknown[] = [];
  const target: WriterTarget = {
    ...TARGET,
    store,
    retry,
    committed: (signal) => signals.push(asBatch(signal)),
    failed: (error) => failures.push(error),
    ...more,
  };
  const writer = new StreamWriter(target, 'w', opens);
  return {
    clock,
    log,
    store,
    retry,
    writer,
    signals,
    failures,
    /** Events of each append that reached the log. */
    appends: () => append.mock.calls.map(([, , events]) => events),
    options: () => append.mock.calls.map(([, , , options]) => options),
    logged: async () => (await log.read('s', STREAM, 0, 1_000)).events.map(({ data }) => data),
  };
}

/** A lone event, as the batch that it is. */
function asBatch(signal: StreamSignal): BatchSignal {
  return 'data' in signal ? { first: signal.index, events: [signal.data], ended: false } : signal;
}

/** Whether a promise has settled, and how. */
function watch(promise: Promise<unknown>): { outcome: unknown } {
  const watched: { outcome: unknown } = { outcome: 'pending' };
  promise.then(
    () => (watched.outcome = 'logged'),
    (error: unknown) => (watched.outcome = error),
  );
  return watched;
}

const slow = (ms: number): EventStoreFaults => ({ delay: ({ method }) => (method === 'append' ? ms : 0) });
const outage: EventStoreFaults = { failBefore: ({ method }) => method === 'append' };
/** What callers get of a log that stayed away. */
const unavailable = expect.objectContaining({
  name: 'McpServerRequestError',
  code: 'STORE_UNAVAILABLE',
  cause: expect.any(EventStoreFault) as Error,
}) as Error;

describe('a writer', () => {
  it('a writer is idle, appending while an append is in flight, and idle again', async () => {
    const { clock, writer, signals, logged } = await setup(slow(10));
    expect(writer.state).toBe('idle');
    const pushed = writer.push({ data: '1' });
    expect(writer.state).toBe('appending');
    await clock.advance(10);
    await pushed;
    expect(writer.state).toBe('idle');
    expect(signals).toEqual([{ first: 1, events: ['1'], ended: false }]);
    expect(await logged()).toEqual(['1']);
  });

  it('a writer has one append in flight, and commits together what queues meanwhile', async () => {
    const { clock, writer, signals, appends } = await setup(slow(10));
    const outcomes = ['1', '2', '3', '4'].map((data) => watch(writer.push({ data })));
    await clock.advance(10);
    expect(appends()).toEqual([['1']]);
    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['logged', 'pending', 'pending', 'pending']);
    const late = watch(writer.push({ data: '5' }));
    await clock.advance(10);
    expect(appends()).toEqual([['1'], ['2', '3', '4']]);
    expect([...outcomes, late].map(({ outcome }) => outcome)).toEqual([...Array(4).fill('logged'), 'pending']);
    await clock.advance(10);
    expect(signals.map(({ first, events }) => [first, events.length])).toEqual([
      [1, 1],
      [2, 3],
      [5, 1],
    ]);
    expect(late.outcome).toBe('logged');
  });

  it('a writer commits a burst of entries with two appends', async () => {
    const { writer, appends } = await setup();
    await Promise.all(Array.from({ length: 100 }, (_, n) => writer.push({ data: `${n}` })));
    expect(appends().map(({ length }) => length)).toEqual([1, 99]);
  });

  it('a writer keeps the order of push, however slow and unreliable the log is', async () => {
    for (let seed = 1; seed <= 20; seed++) {
      const faults = randomFaults({ seed, maxDelayMs: 20, failBefore: 0.3, failAfter: 0.3 });
      const { clock, writer, logged } = await setup(faults);
      const pushes: Promise<void>[] = [];
      for (let n = 0; n < 50; n++) {
        pushes.push(writer.push({ data: `${n}` }));
        if (n % 3 === 0) await clock.advance(seed % 7);
      }
      await clock.advance(10_000);
      await Promise.all(pushes);
      expect(await logged()).toEqual(pushes.map((_, n) => `${n}`));
      expect(clock.pending).toBe(0);
    }
  });

  it('a writer numbers its appends, says which requests it opens with the first one only, and names its newest event', async () => {
    const opens = { node: 'n', requests: [1, 2] };
    const { writer, options, log } = await setup({}, {}, opens);
    await writer.push({});
    await writer.push({ data: 'a', settles: 1 });
    await writer.push({ data: 'b' });
    expect(options()).toEqual([
      { writer: 'w', seq: 1, opens, newest: 0 },
      { writer: 'w', seq: 2, settles: [1], newest: 0 },
      { writer: 'w', seq: 3, newest: 1 },
    ]);
    expect(await log.unfinished('n')).toMatchObject([{ requests: [2] }]);
  });

  it('a writer passes on which requests are settled, with an answer or without one', async () => {
    const { writer, options } = await setup();
    void writer.push({ data: 'in flight' });
    await Promise.all([
      writer.push({ data: 'progress' }),
      writer.push({ data: 'answer', settles: 'x' }),
      writer.push({ settles: 'cancelled' }),
      writer.push({ data: 'answer', settles: 7, end: true }),
    ]);
    expect(options()[1]).toEqual({ writer: 'w', seq: 2, end: true, settles: ['x', 'cancelled', 7] });
  });

  it('a writer lets a stream begin with an empty entry', async () => {
    const { writer, signals, log } = await setup();
    await writer.push({});
    expect(signals).toEqual([{ first: 1, events: [], ended: false }]);
    expect(await log.read('s', STREAM, 0, 0)).toMatchObject({ last: 0, ended: false });
  });

  it('a writer puts entries that a commit causes behind those that are queued already', async () => {
    const committed = (signal: StreamSignal): void => {
      if (asBatch(signal).events.includes('1')) void writer.push({ data: 'echo' });
    };
    const { writer, logged } = await setup({}, { committed });
    void writer.push({ data: '1' });
    await writer.push({ data: '2' });
    await writer.flushed();
    expect(await logged()).toEqual(['1', '2', 'echo']);
  });
});

describe('an eager entry', () => {
  it('an eager entry does not make its sender wait for the log, and a burst of them costs two appends', async () => {
    const { clock, writer, appends } = await setup(slow(10));
    for (const data of ['1', '2', '3', '4']) await writer.push({ data, eager: true });
    const answer = watch(writer.push({ data: '5', settles: 1, end: true }));
    await clock.advance(10);
    expect(appends()).toEqual([['1']]);
    expect(answer.outcome).toBe('pending');
    await clock.advance(10);
    expect(appends()).toEqual([['1'], ['2', '3', '4', '5']]);
    expect(answer.outcome).toBe('logged');
  });

  it('an eager entry makes its sender wait while more than 64 KiB wait for the log', async () => {
    const { clock, writer, appends } = await setup(slow(10), { maxQueuedBytes: 1_000_000 });
    const data = JSON.stringify('x'.repeat(16 * 1024 - 2));
    const outcomes = Array.from({ length: 4 }, () => watch(writer.push({ data, eager: true })));
    await clock.advance(0);
    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['logged', 'logged', 'pending', 'pending']);
    await clock.advance(10);
    expect(appends().map(({ length }) => length)).toEqual([1]);
    expect(outcomes.at(-1)!.outcome).toBe('pending');
    await clock.advance(10);
    expect(appends().map(({ length }) => length)).toEqual([1, 3]);
    expect(outcomes.map(({ outcome }) => outcome)).toEqual(Array(4).fill('logged'));
  });

  it('an eager entry that the log does not take makes the writer fail, and later ones reject', async () => {
    const { clock, writer, failures, appends } = await setup(outage);
    await writer.push({ data: '1', eager: true });
    await writer.push({ data: '2', eager: true });
    await clock.advance(1_000);
    expect([writer.state, failures, appends()]).toEqual(['failed', [unavailable], []]);
    await expect(writer.push({ data: '3', eager: true })).rejects.toEqual(unavailable);
  });

  it('an eager entry for a stream that has ended rejects', async () => {
    const { writer } = await setup();
    await writer.push({ end: true });
    await expect(writer.push({ data: '1', eager: true })).rejects.toThrow(McpStreamEndedError);
  });
});

describe('an unknown outcome', () => {
  it.each(['failBefore', 'failAfter'] as const)(
    '%s: the append is repeated as it was, and counts once',
    async (fails) => {
      const calls: EventStoreCall[] = [];
      const faults: EventStoreFaults = {
        [fails]: (call: EventStoreCall) => call.method === 'append' && calls.push(call) > 0 && call.attempt < 3,
      };
      const { clock, writer, signals, logged, options } = await setup(faults, {}, { node: 'n', requests: [1] });
      const first = writer.push({ data: '1' });
      const second = writer.push({ data: '2' });
      await clock.advance(1_000);
      await Promise.all([first, second]);
      expect(calls.map(({ attempt }) => attempt)).toEqual([1, 2, 3, 1, 2, 3]);
      expect(await logged()).toEqual(['1', '2']);
      expect(signals.map((signal) => signal.first)).toEqual([1, 2]);
      const seen = options();
      expect(seen.filter(({ seq }) => seq === 1).every(({ opens }) => opens !== undefined)).toBe(true);
      expect(seen.filter(({ seq }) => seq === 2).every(({ opens }) => opens === undefined)).toBe(true);
      expect(clock.pending).toBe(0);
    },
  );

  it('an unknown outcome that outlasts all retries fails the writer and all entries that wait', async () => {
    const { clock, writer, signals, failures } = await setup(outage);
    const outcomes = ['1', '2'].map((data) => watch(writer.push({ data })));
    await clock.advance(POLICY.giveUpAfterMs - 1);
    expect(writer.state).toBe('appending');
    await clock.advance(100);
    expect(writer.state).toBe('failed');
    expect(failures).toEqual([unavailable]);
    expect(outcomes.map(({ outcome }) => outcome)).toEqual([failures[0], failures[0]]);
    await expect(writer.push({ data: '3' })).rejects.toBe(failures[0]);
    expect(signals).toEqual([]);
    expect(clock.pending).toBe(0);
  });
});

describe('a writer that fails', () => {
  it('G13: a writer that fails names the requests that the log may not know as settled, with their answers', async () => {
    const failed = vi.fn<WriterTarget['failed']>();
    const opens = { node: 'n', requests: ['logged', 'in flight', 'cancelled', 'queued', 'open'] };
    const { clock, writer, store } = await setup({}, { failed }, opens);
    await writer.push({ data: '1', settles: 'logged' });
    store.faults = outage;
    void writer.push({ data: '2', settles: 'in flight' });
    void writer.push({ settles: 'cancelled' });
    void writer.push({ data: '3', settles: 'queued' });
    await clock.advance(POLICY.giveUpAfterMs + 100);
    const unanswered = [
      { request: 'in flight', answer: '2' },
      { request: 'queued', answer: '3' },
      { request: 'open', answer: undefined },
    ];
    expect(failed.mock.calls).toEqual([[unavailable, unanswered]]);
  });
});

describe('a failed append whose promise is not awaited', () => {
  it('a failed append whose promise is not awaited ends the stream, and not the process', async () => {
    const { clock, writer, failures } = await setup(outage);
    // Vitest fails the run for a rejection that is nobody's.
    void writer.push({ data: '1' });
    void writer.push({ data: '2' });
    await clock.advance(POLICY.giveUpAfterMs + 100);
    expect([writer.state, failures]).toEqual(['failed', [unavailable]]);
  });
});

describe('a refusal', () => {
  it.each([
    new McpSessionGoneError('s'),
    new McpStreamEndedError(STREAM),
    new McpEventLogFullError(STREAM, 'eventLog.maxEvents'),
  ])('$code is final: no second attempt, no timer', async (refusal) => {
    const calls: EventStoreCall[] = [];
    const refuse = (call: EventStoreCall) => (calls.push(call) > 1 ? refusal : undefined);
    const { clock, writer, failures } = await setup({ refuse, delay: () => 10 });
    const outcomes = ['1', '2', '3'].map((data) => watch(writer.push({ data })));
    await clock.advance(10);
    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['logged', refusal, refusal]);
    expect(calls).toHaveLength(2);
    expect([writer.state, failures, clock.pending]).toEqual(['failed', [refusal], 0]);
    await expect(writer.push({ data: '4' })).rejects.toBe(refusal);
  });

  it('a refusal also ends an append that is being retried', async () => {
    const faults: EventStoreFaults = {
      failAfter: ({ attempt }) => attempt === 1,
      refuse: ({ attempt }) => (attempt === 3 ? new McpSessionGoneError('s') : undefined),
      failBefore: ({ attempt }) => attempt === 2,
    };
    const { clock, writer, failures } = await setup(faults);
    const { outcome } = await settled(clock, watch(writer.push({ data: '1' })));
    expect(outcome).toBeInstanceOf(McpSessionGoneError);
    expect(failures).toEqual([outcome]);
    expect(clock.pending).toBe(0);
  });
});

describe('the end', () => {
  it('the end is final: later entries are refused without asking the log', async () => {
    const { writer, signals, appends, failures } = await setup();
    await writer.push({ data: 'answer', settles: 1, end: true });
    expect(writer.state).toBe('ended');
    expect(signals).toEqual([{ first: 1, events: ['answer'], ended: true }]);
    await expect(writer.push({ data: 'late' })).rejects.toThrow(McpStreamEndedError);
    expect(appends()).toHaveLength(1);
    expect(failures).toEqual([]);
  });

  it('the end refuses entries that are pushed while it is being logged', async () => {
    const { clock, writer, logged } = await setup(slow(10));
    const ending = watch(writer.push({ data: 'answer', end: true }));
    const late = watch(writer.push({ data: 'late' }));
    await clock.advance(10);
    expect(ending.outcome).toBe('logged');
    expect(late.outcome).toBeInstanceOf(McpStreamEndedError);
    expect(await logged()).toEqual(['answer']);
    expect(clock.pending).toBe(0);
  });

  it('the end may be an entry of its own', async () => {
    const { writer, signals } = await setup();
    await writer.push({ data: '1' });
    await writer.push({ settles: 1, end: true });
    expect(signals.at(-1)).toEqual({ first: 2, events: [], ended: true });
  });

  it('the end refuses entries that a subscriber pushes when it is notified of it', async () => {
    const late: { outcome: unknown }[] = [];
    const target: Partial<WriterTarget> = { committed: () => late.push(watch(writer.push({ data: 'late' }))) };
    const { writer } = await setup({}, target);
    await writer.push({ end: true });
    await writer.flushed();
    expect(late.map(({ outcome }) => outcome)).toEqual([expect.any(McpStreamEndedError)]);
  });
});

describe('the queue of entries for a failing log', () => {
  const big = { data: 'x'.repeat(200) };

  it('the queue of entries for a failing log is bounded: beyond its limit the writer fails with all entries in it', async () => {
    const { clock, writer, failures } = await setup(outage);
    const underWay = watch(writer.push({ data: '1' }));
    await clock.advance(15);
    const waiting = [watch(writer.push(big)), watch(writer.push(big))];
    await clock.advance(0);
    expect([writer.state, waiting[0]!.outcome]).toEqual(['appending', 'pending']);
    const tooMuch = watch(writer.push(big));
    await clock.advance(0);
    const overflow = expect.any(McpStreamOverflowError) as unknown;
    expect([writer.state, failures]).toEqual(['failed', [overflow]]);
    expect([...waiting, tooMuch].map(({ outcome }) => outcome)).toEqual([overflow, overflow, overflow]);
    await expect(writer.push({ data: 'more' })).rejects.toThrow(McpStreamOverflowError);
    // The append that is under way decides for itself.
    expect(underWay.outcome).toBe('pending');
    await clock.advance(1_000);
    expect(underWay.outcome).toEqual(overflow);
    expect(failures).toHaveLength(1);
    expect(clock.pending).toBe(0);
  });

  it('the queue of entries for a failing log is not bounded while the log is merely slow', async () => {
    const { clock, writer, failures, logged } = await setup(slow(1_000));
    for (let n = 0; n < 20; n++) void writer.push(big);
    await clock.advance(2_000);
    expect(failures).toEqual([]);
    expect(await logged()).toHaveLength(20);
  });

  it('the queue of entries for a failing log is unbounded again as soon as the log has answered', async () => {
    const committed = (signal: StreamSignal): void => {
      const { first } = asBatch(signal);
      if (first === 1) for (let n = 0; n < 5; n++) void writer.push(big);
    };
    const { clock, writer, failures, logged } = await setup(
      { failAfter: ({ attempt }) => attempt === 1 },
      { committed },
    );
    void writer.push({ data: '1' });
    await clock.advance(1_000);
    expect([writer.state, failures]).toEqual(['idle', []]);
    expect(await logged()).toHaveLength(6);
  });

  it('the queue of entries for a failing log counts no entries whose append is under way', async () => {
    let failing = true;
    const { clock, writer, failures } = await setup({ failBefore: () => failing });
    void writer.push({ data: '1' });
    for (let round = 0; round < 5; round++) {
      failing = true;
      await clock.advance(40);
      void writer.push(big);
      void writer.push(big);
      failing = false;
      await clock.advance(200);
    }
    expect([writer.state, failures]).toEqual(['idle', []]);
  });

  it.each([false, true])(
    'the queue of entries for a failing log stays failed when the append under way gets through after all (its end: %s)',
    async (end) => {
      const { clock, store, writer, failures, logged } = await setup(outage);
      const underWay = watch(writer.push({ data: '1', end }));
      await clock.advance(15);
      for (let n = 0; n < 4; n++) watch(writer.push(big));
      store.faults = {};
      await clock.advance(1_000);
      expect(underWay.outcome).toBe('logged');
      expect(await logged()).toEqual(['1']);
      expect(writer.state).toBe('failed');
      await expect(writer.push({ data: 'more' })).rejects.toThrow(McpStreamOverflowError);
      expect(failures).toHaveLength(1);
    },
  );
});

describe('flushed()', () => {
  it('flushed() resolves at once while nothing is in flight', async () => {
    const { writer } = await setup();
    await writer.flushed();
    await writer.push({ end: true });
    await writer.flushed();
  });

  it('flushed() resolves when all entries that were pushed are logged, batch after batch', async () => {
    const { clock, writer, appends } = await setup(slow(10));
    void writer.push({ data: '1' });
    void writer.push({ data: '2' });
    const flushed = watch(writer.flushed());
    await clock.advance(10);
    expect([appends().length, flushed.outcome]).toEqual([1, 'pending']);
    await clock.advance(10);
    expect([appends().length, flushed.outcome]).toEqual([2, 'logged']);
  });

  it('flushed() resolves also when the writer fails', async () => {
    const { clock, writer } = await setup(outage);
    watch(writer.push({ data: '1' }));
    const flushed = await settled(clock, watch(writer.flushed()));
    expect([flushed.outcome, writer.state]).toEqual(['logged', 'failed']);
  });

  it('flushed() resolves when the retries are cancelled', async () => {
    const { clock, writer, retry } = await setup(outage);
    const pushed = watch(writer.push({ data: '1' }));
    const flushed = watch(writer.flushed());
    await clock.advance(5);
    retry.cancel();
    await clock.advance(0);
    expect(flushed.outcome).toBe('logged');
    expect(pushed.outcome).toEqual(unavailable);
    expect(clock.pending).toBe(0);
  });
});

/** Lets all the time pass that the retries may take. */
async function settled<T>(clock: ManualClock, watched: T): Promise<T> {
  await clock.advance(1_000);
  return watched;
}

describe('a writer whose log answers synchronously', () => {
  async function atOnce(committed: (signal: BatchSignal, writer: StreamWriter) => void = () => {}) {
    const clock = new ManualClock();
    const store = new InMemoryEventStore({}, clock);
    await store.open('s');
    const retry = new Retry(POLICY, clock, (error) => error instanceof McpEventStoreError);
    const failures: unknown[] = [];
    const target: WriterTarget = {
      ...TARGET,
      store,
      retry,
      committed: (signal) => committed(asBatch(signal), writer),
      failed: (error) => failures.push(error),
    };
    const writer = new StreamWriter(target, 'w');
    return { store, retry, writer, failures };
  }

  it('a writer commits a lone message by appendNow, and by append what else is to be written', async () => {
    const signals: BatchSignal[] = [];
    const { store, writer } = await atOnce((signal) => signals.push(signal));
    const at = vi.spyOn(store, 'appendNow');
    const commits = ['1', '2', '3'].map((data) => writer.push({ data }));
    await Promise.all([...commits, writer.push({ settles: 1 }), writer.push({ data: '4', reopens: true })]);
    await Promise.all([writer.push({ data: '5' }), writer.push({ data: '6', end: true })]);
    expect(at.mock.calls.map(([, , data, , seq]) => [data, seq])).toEqual([
      ['1', 1],
      ['2', 2],
      ['3', 3],
      ['5', 6],
    ]);
    expect(at.mock.results.map(({ value }) => value as number)).toEqual([0, 2, 3, 5]);
    expect(signals.map(({ first, events, ended }) => [first, ...events, ended])).toEqual([
      [1, '1', false],
      [2, '2', false],
      [3, '3', false],
      [4, false],
      [4, '4', false],
      [5, '5', false],
      [6, '6', true],
    ]);
  });

  it('a writer appends, and tries again, what appendNow of a store has thrown at', async () => {
    const { store, writer, failures } = await atOnce();
    await writer.push({ data: '1' });
    vi.spyOn(store, 'appendNow').mockImplementationOnce(() => {
      throw new Error('The store is away.');
    });
    for (const data of ['2', '3']) await writer.push({ data });
    const { events } = await store.read('s', STREAM, 0, 9);
    expect([events.map(({ data }) => data), failures]).toEqual([['1', '2', '3'], []]);
  });

  it('a writer does not use appendNow of a proxy, which may make a promise of it', async () => {
    const { store, retry } = await atOnce();
    const at = vi.spyOn(store, 'appendNow');
    const proxy = new Proxy(store, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name);
        if (typeof member !== 'function') return member;
        return async (...args: unknown[]): Promise<unknown> => Reflect.apply(member, target, args) as unknown;
      },
    });
    const writer = new StreamWriter({ ...TARGET, store: proxy, retry }, 'w');
    for (const data of ['1', '2']) await writer.push({ data });
    expect(at).not.toHaveBeenCalled();
    expect(await store.read('s', STREAM, 0, 9)).toMatchObject({ last: 2 });
  });

  it('a writer whose log answers synchronously has an entry committed when the push returns', async () => {
    const signals: BatchSignal[] = [];
    const { writer } = await atOnce((signal) => signals.push(signal));
    const pushes = [writer.push({ data: '1' }), writer.push({ data: '2', end: true })];
    expect(signals.map(({ first, events }) => [first, events])).toEqual([
      [1, ['1']],
      [2, ['2']],
    ]);
    expect(writer.state).toBe('ended');
    await Promise.all(pushes);
    await writer.flushed();
  });

  it('a writer whose log answers synchronously keeps the order of entries that a commit causes', async () => {
    const signals: BatchSignal[] = [];
    const { writer } = await atOnce((signal, self) => {
      if (signal.first === 1) {
        void self.push({ data: 'caused' });
        void self.push({ data: 'caused too' });
      }
      signals.push(signal);
    });
    await Promise.all([writer.push({ data: '1' }), writer.push({ data: '2' })]);
    expect(signals.flatMap(({ events }) => events)).toEqual(['1', 'caused', 'caused too', '2']);
    expect(writer.state).toBe('idle');
  });

  it('a writer whose log answers synchronously fails when its log refuses an append', async () => {
    const { store, writer, failures } = await atOnce();
    await writer.push({ data: '1' });
    await store.drop('s');
    await expect(writer.push({ data: '2' })).rejects.toThrow(McpSessionGoneError);
    expect([writer.state, failures]).toEqual(['failed', [expect.any(McpSessionGoneError)]]);
  });
});
