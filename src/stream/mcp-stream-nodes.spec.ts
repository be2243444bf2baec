import { describe, expect, it, vi } from 'vitest';
import { FaultyEventStore, ManualClock, type EventStoreFaults } from '../testing/index.js';
import type { McpEventStore } from './event-store.js';
import { InMemoryEventStore } from './in-memory-event-store.js';
import { McpStream, type StreamObserver } from './mcp-stream.js';
import type { ReaderTurn, StreamEnvironment } from './stream.options.js';

const RETRY = { firstDelayMs: 10, maxDelayMs: 40, giveUpAfterMs: 100 };
const ignore = (): void => {};
const SILENT: StreamObserver = {
  ...{ attached: ignore, detached: ignore, evicted: ignore, idle: ignore, failed: ignore, fault: ignore },
};

/** Stream 0 on several nodes over one log, whose signals the test hands over, or does not. */
async function setup(faults: EventStoreFaults = {}) {
  const clock = new ManualClock();
  const log = new InMemoryEventStore({}, new ManualClock());
  await log.open('s');
  const faulty = new FaultyEventStore(log, clock, faults);
  const store = new Proxy<McpEventStore>(faulty, {
    get: (target, key) => {
      if (key === 'scope') return 'shared';
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
  const signals: [node: string, reader: string, turn?: ReaderTurn][] = [];
  const node = (nodeId: string) => {
    const peers: StreamEnvironment['peers'] = {
      appended: (_, __, to) => signals.push([to.node, to.reader]),
      turned: (_, __, to, turn) => signals.push([to.node, to.reader, turn]),
    };
    const environment = { store, clock, nodeId, retry: RETRY, maxQueuedBytes: 10_000, peers };
    const stream = new McpStream('0', 's', environment, SILENT);
    const read = (after = 0) => {
      const got: number[] = [];
      const subscription = stream.events$(after).subscribe(({ index }) => got.push(index));
      return { got, leave: () => subscription.unsubscribe() };
    };
    /** The same, after the reader before it; what it began with comes first. */
    const takeOver = (after: number, skips: boolean) => {
      const got: (number | string)[] = [];
      const begins = (cursor: number) => void got.push(`after ${cursor}`);
      const events$ = stream.events$(after, undefined, { skips, begins });
      const subscription = events$.subscribe(({ index }) => got.push(index));
      return { got, leave: () => subscription.unsubscribe() };
    };
    return { stream, read, takeOver };
  };
  const write = async (stream: McpStream, count = 1): Promise<void> => {
    for (let n = 0; n < count; n++) await stream.write({ data: '"x"' });
    await clock.advance(0);
  };
  const head = () => log.describe('s', '0');
  return { clock, log, faulty, signals, node, write, head };
}

describe('reconcile', () => {
  it('reads what was not signalled, and nothing when there is nothing', async () => {
    const { clock, log, node, write } = await setup();
    const [a, b] = [node('a'), node('b')];
    const reading = a.read();
    await clock.advance(0);
    const reads = vi.spyOn(log, 'read');
    a.stream.reconcile();
    await clock.advance(0);
    expect(reads).not.toHaveBeenCalled();
    await write(b.stream, 2);
    expect(reading.got).toEqual([]);
    a.stream.reconcile();
    await clock.advance(0);
    expect(reading.got).toEqual([1, 2]);
  });

  it('asks a slow log once at a time, and leaves readers alone while it is away', async () => {
    const { clock, log, faulty, node } = await setup();
    const { stream, read } = node('a');
    const reading = read();
    await clock.advance(0);
    const asked = vi.spyOn(log, 'describe');
    faulty.faults = { delay: () => 1_000 };
    for (let n = 0; n < 5; n++) stream.reconcile();
    await clock.advance(1_000);
    expect(asked).toHaveBeenCalledTimes(1);
    faulty.faults = { failBefore: () => true };
    for (let n = 0; n < 100; n++) {
      stream.reconcile();
      await clock.advance(1_000);
    }
    expect([stream.readers, reading.got, clock.pending]).toEqual([1, [], 0]);
  });

  it('gives and takes the turn as the log says, and repeats nothing that was handed out meanwhile', async () => {
    const { clock, signals, node, write, head } = await setup();
    const [a, b] = [node('a'), node('b')];
    const older = a.read();
    await clock.advance(0);
    await write(a.stream);
    const newer = b.read(1);
    await clock.advance(0);
    expect(signals).toMatchObject([['a', expect.any(String), { is: 'muted' }]]);
    a.stream.reconcile();
    await clock.advance(0);
    await write(b.stream, 2);
    await write(a.stream);
    b.stream.reconcile();
    await clock.advance(0);
    expect([older.got, newer.got]).toEqual([[1], [2, 3, 4]]);
    newer.leave();
    await clock.advance(0);
    expect(await head()).toMatchObject({ readers: 1, delivered: 4, newest: { node: 'a' } });
    a.stream.reconcile();
    await clock.advance(0);
    await write(a.stream);
    expect(older.got).toEqual([1, 5]);
  });

  it('tells the log of a reader that it does not know: one that it never heard of, or has lost', async () => {
    const { clock, log, faulty, node, write, head } = await setup({ failBefore: ({ method }) => method === 'attach' });
    const [a, b] = [node('a'), node('b')];
    await log.attach('s', '0', { node: 'c', reader: 'older' });
    const reading = a.read();
    await clock.advance(10 * RETRY.giveUpAfterMs);
    faulty.faults = {};
    a.stream.reconcile();
    await clock.advance(0);
    expect(await head()).toMatchObject({ readers: 2, newest: { node: 'a' } });
    await log.detachNode('a');
    await log.detachNode('c');
    await write(b.stream);
    a.stream.reconcile();
    await clock.advance(0);
    expect(await head()).toMatchObject({ readers: 1, newest: { node: 'a' } });
    expect(reading.got).toEqual([1]);
  });

  it('takes away a reader that left unnoticed', async () => {
    const { clock, log, node, write, head } = await setup();
    const { stream, read } = node('a');
    const reading = read();
    await clock.advance(0);
    await log.attach('s', '0', { node: 'a', reader: 'ghost' });
    stream.reconcile();
    await clock.advance(0);
    expect(await head()).toMatchObject({ readers: 1 });
    await write(stream);
    expect(reading.got).toEqual([1]);
  });

  it('fails the readers of a log that is gone', async () => {
    const { clock, log, node } = await setup();
    const { stream } = node('a');
    const errors: unknown[] = [];
    stream.events$(0).subscribe({ error: (error: unknown) => errors.push(error) });
    await clock.advance(0);
    await log.drop('s');
    stream.reconcile();
    await clock.advance(0);
    expect(errors).toMatchObject([{ code: 'SESSION_GONE' }]);
    expect(stream.telling).toBe(false);
  });
});

describe('a reader that leaves', () => {
  it('is taken out of the log however long that takes, unless the session ends first', async () => {
    const { clock, faulty, node, head } = await setup();
    const [a, b] = [node('a'), node('b')];
    const readings = [a.read(), b.read()];
    await clock.advance(0);
    faulty.faults = { failBefore: ({ method }) => method === 'detach' };
    for (const { leave } of readings) leave();
    await clock.advance(100 * RETRY.giveUpAfterMs);
    expect([a.stream.telling, b.stream.telling, (await head())?.readers]).toEqual([true, true, 2]);
    b.stream.close();
    faulty.faults = {};
    await clock.advance(RETRY.maxDelayMs);
    expect([a.stream.telling, b.stream.telling, clock.pending]).toEqual([false, false, 0]);
    expect(await head()).toMatchObject({ readers: 1, newest: { node: 'b' } });
  });

  it('says what it handed out, so that the next one goes on there', async () => {
    const { clock, signals, node, write } = await setup();
    const [a, b] = [node('a'), node('b')];
    const older = a.read();
    await clock.advance(0);
    const newer = b.read();
    await clock.advance(0);
    const [[, reader]] = signals as [[string, string]];
    a.stream.turn(reader, { is: 'muted' });
    await write(b.stream, 2);
    newer.leave();
    await clock.advance(0);
    const promoted = signals.at(-1)!;
    expect(promoted).toEqual(['a', reader, { is: 'promoted', handedOut: { after: 0, upTo: 2 } }]);
    a.stream.turn('somebody else', { is: 'promoted' });
    a.stream.turn(reader, promoted[2]!);
    a.stream.turn(reader, promoted[2]!);
    await write(a.stream);
    expect([older.got, newer.got]).toEqual([[3], [1, 2]]);
  });
});

describe('a reader that takes over', () => {
  /** Two events are with a reader on a, and a reader on b has come. */
  async function taken(after: number, skips: boolean) {
    const nodes = await setup();
    const [a, b] = [nodes.node('a'), nodes.node('b')];
    const older = a.read();
    await nodes.clock.advance(0);
    await nodes.write(a.stream, 2);
    const newer = b.takeOver(after, skips);
    await nodes.clock.advance(0);
    const [to, reader, muted] = nodes.signals.at(-1)!;
    expect([to, muted]).toEqual(['a', { is: 'muted', by: { node: 'b', reader: expect.any(String) } }]);
    const hear = () => a.stream.turn(reader, muted!);
    /** What the older one has answered reaches the newer one. */
    const answer = () => {
      const [node, asking, turn] = nodes.signals.at(-1)!;
      expect([node, turn!.is]).toEqual(['b', 'yielded']);
      b.stream.turn(asking, turn!);
      return nodes.clock.advance(0);
    };
    return { ...nodes, a, b, older, newer, hear, answer };
  }

  it.each([
    ['no cursor goes on after what the older one handed out', 0, true, ['after 2', 3]],
    ['a cursor goes on there', 1, false, ['after 1', 2, 3]],
  ])('with %s, once that one is silent', async (_, after, skips, expected) => {
    const { clock, b, older, newer, hear, answer, write } = await taken(after, skips);
    expect(newer.got).toEqual([]);
    hear();
    await answer();
    await write(b.stream);
    expect([older.got, clock.pending]).toEqual([[1, 2], 0]);
    expect(newer.got).toEqual(expected);
  });

  it('waits a second at most, and repeats then what it may', async () => {
    const { clock, newer } = await taken(0, true);
    await clock.advance(999);
    expect(newer.got).toEqual([]);
    await clock.advance(1);
    expect([newer.got, clock.pending]).toEqual([['after 0', 1, 2], 0]);
  });

  it('asks the log when the older one has left meanwhile', async () => {
    const { newer, older, hear, answer } = await taken(0, true);
    older.leave();
    hear();
    await answer();
    expect(newer.got).toEqual(['after 2']);
  });

  it('says where it is, and is silent, when a newer one has come before its turn', async () => {
    const { clock, b, newer, hear, answer } = await taken(0, true);
    const newest = b.read(2);
    expect(newer.got).toEqual(['after 0']);
    hear();
    await answer();
    await clock.advance(1_000);
    expect([newer.got, newest.got, clock.pending]).toEqual([['after 0'], [], 0]);
  });

  it('leaves no timer when it leaves before', async () => {
    const { clock, newer, hear, signals, b } = await taken(0, true);
    newer.leave();
    expect(clock.pending).toBe(0);
    hear();
    const [, reader, turn] = signals.at(-1)!;
    b.stream.turn(reader, turn!);
    expect(newer.got).toEqual([]);
  });
});

describe('disconnectReaders', () => {
  /** A reader on each of three nodes; another comes to the last one right afterwards, or does not. */
  async function disconnected(comesAgain: boolean) {
    const { clock, node, signals, head } = await setup();
    const nodes = ['a', 'b', 'c'].map(node);
    const ended: string[] = [];
    const read = (n: number, name: string) =>
      nodes[n]!.stream.events$(0).subscribe({ complete: () => ended.push(name) });
    for (const [n, name] of ['older', 'newer', 'newest'].entries()) {
      read(n, name);
      await clock.advance(0);
    }
    signals.length = 0;
    expect(nodes[0]!.stream.disconnectReaders()).toBe(true);
    if (comesAgain) read(2, 'late');
    await clock.advance(0);
    for (let said = signals.shift(); said; said = signals.shift()) {
      const [to, reader, turn] = said;
      if (turn) nodes['abc'.indexOf(to)]!.stream.turn(reader, turn);
      await clock.advance(0);
    }
    return { ended, head: await head() };
  }

  it('ends those of other nodes too, one node telling the next', async () => {
    const { ended, head } = await disconnected(false);
    expect(ended).toEqual(['older', 'newest', 'newer']);
    expect(head).toMatchObject({ readers: 0 });
  });

  it('leaves alone one that comes afterwards, and whoever is silent before it', async () => {
    const { ended, head } = await disconnected(true);
    expect(ended).toEqual(['older', 'newest']);
    expect(head).toMatchObject({ readers: 2, newest: { node: 'c' } });
  });
});
