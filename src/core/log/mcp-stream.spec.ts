import { describe, expect, it, vi } from 'vitest';
import { ManualClock } from '../../testing/index.js';
import { FaultyEventStore, type EventStoreFaults } from '../../../test/support/faulty-event-store.js';
import { MCP_DROPPED_SESSION_MS, type McpStoredEvent } from './event-store.js';
import { InMemoryEventStore } from './in-memory-event-store.js';
import { McpStream, type StreamObserver } from './mcp-stream.js';
import { NO_DATA } from './stream-reader.js';
import type { StreamEnvironment } from './stream.options.js';

const RETRY = { firstDelayMs: 10, maxDelayMs: 40, giveUpAfterMs: 100 };
const ignore = (): void => {};
const SILENT: StreamObserver = {
  attached: ignore,
  detached: ignore,
  replacedHere: ignore,
  evicted: ignore,
  idle: ignore,
  failed: ignore,
  fault: ignore,
};

/** What one node says to another. */
interface Signal {
  readonly to: string;
  readonly reader: string;
  readonly is: 'appended' | 'replaced';
  readonly upTo?: number | undefined;
}

/** Stream 0 on several nodes over one log, whose signals the test hands over, or does not. */
async function setup(faults: EventStoreFaults = {}) {
  const clock = new ManualClock();
  const logClock = new ManualClock();
  const log = new InMemoryEventStore({}, logClock, 'shared');
  await log.open('s');
  const store = new FaultyEventStore(log, clock, faults);
  const signals: Signal[] = [];
  const streams = new Map<string, McpStream>();
  const node = (nodeId: string) => {
    const nodes: StreamEnvironment['nodes'] = {
      appended: (_, __, { node: to, reader }) => signals.push({ to, reader, is: 'appended' }),
      replaced: (_, __, { node: to, reader }, upTo) => signals.push({ to, reader, is: 'replaced', upTo }),
    };
    const environment = { store, clock, nodeId, retry: RETRY, maxQueuedBytes: 10_000, comeBackMs: 10_000, nodes };
    const stream = new McpStream('0', 's', environment, SILENT);
    streams.set(nodeId, stream);
    const get = async (after?: number) => {
      const head = await stream.head();
      const reading = { got: [] as number[], told: undefined as number | undefined, end: undefined as unknown };
      const subscription = stream.subscribe(
        {
          next: ({ index, data }) => {
            if (data === NO_DATA) reading.told = index;
            else reading.got.push(index);
          },
          error: (error: unknown) => (reading.end = error),
          complete: () => (reading.end = 'complete'),
        },
        after ?? head.delivered,
        undefined,
        head.last,
      );
      await clock.advance(0);
      return Object.assign(reading, { leave: () => subscription.unsubscribe() });
    };
    return { stream, get, environment };
  };
  const write = async (stream: McpStream, count = 1): Promise<void> => {
    for (let n = 0; n < count; n++) await stream.write({ data: '"x"' });
    await clock.advance(0);
  };
  /** Signals arrive. */
  const deliver = async (): Promise<void> => {
    for (const { to, reader, is, upTo } of signals.splice(0)) {
      if (is === 'appended') streams.get(to)!.look();
      else streams.get(to)!.replaced(reader, upTo);
    }
    await clock.advance(0);
  };
  const head = () => log.read('s', '0', 0, 0);
  return { clock, log, logClock, store, signals, node, write, deliver, head };
}

describe('a tick', () => {
  it('a tick delivers events whose signal was lost', async () => {
    const { clock, node, write, signals } = await setup();
    const [a, b] = [node('a'), node('b')];
    const reading = await a.get();
    await write(b.stream, 2);
    signals.length = 0;
    a.stream.refresh();
    await clock.advance(0);
    expect(reading.got).toEqual([1, 2]);
  });

  it('a tick fails the reader of a log that is gone', async () => {
    const { clock, log, logClock, node } = await setup();
    const { stream, get } = node('a');
    const reading = await get();
    await log.drop('s');
    await logClock.advance(MCP_DROPPED_SESSION_MS);
    stream.refresh();
    await clock.advance(0);
    expect(reading.end).toMatchObject({ code: 'SESSION_GONE' });
  });

  it.each(['read', 'claim'] as const)('a tick reports a fault of the log: %s', async (method) => {
    const { clock, node } = await setup({ failBefore: (call) => call.method === method });
    const fault = vi.fn();
    const stream = new McpStream('0', 's', node('a').environment, { ...SILENT, fault });
    const reading = stream.subscribe({ next: ignore, error: ignore, complete: ignore }, 0, undefined, 0);
    stream.refresh();
    await clock.advance(10 * RETRY.giveUpAfterMs);
    expect(fault).toHaveBeenCalledWith(stream, expect.any(Error));
    reading.unsubscribe();
  });
});

describe('answers of the log that cross', () => {
  it('McpStream takes back no newer reader of another node for a claim that failed, and whose client has gone', async () => {
    const { clock, store, signals, node, write, deliver, head } = await setup();
    const [a, b] = [node('a'), node('b')];
    store.faults = { failBefore: ({ method }) => method === 'claim' };
    const gone = await a.get();
    gone.leave();
    store.faults = {};
    const reading = await b.get();
    await clock.advance(1_000);
    expect([signals, (await head()).reader?.node]).toEqual([[], 'b']);
    await write(a.stream);
    await deliver();
    expect(reading.got).toEqual([1]);
  });

  it('McpStream ends the reader before one that left while its claim was under way', async () => {
    const { clock, store, node, deliver, head } = await setup();
    const [a, b] = [node('a'), node('b')];
    const older = await b.get();
    store.faults = { delayAnswer: ({ method }) => (method === 'claim' ? 10 : 0) };
    const gone = await a.get();
    gone.leave();
    await clock.advance(10);
    await deliver();
    expect([older.told, older.end]).toEqual([0, 'complete']);
    expect(await head()).not.toHaveProperty('reader');
  });

  it('claims a stream no more for a reader that a newer one of its node has replaced', async () => {
    const { clock, store, node, write, head } = await setup();
    const { stream, get } = node('a');
    store.faults = { failBefore: ({ method }) => method === 'claim' };
    const older = await get();
    store.faults = {};
    const newer = await get();
    const claimed = (await head()).reader;
    await clock.advance(1_000);
    expect((await head()).reader).toEqual(claimed);
    await write(stream);
    expect([older.got, newer.got]).toEqual([[], [1]]);
  });

  it('McpStream releases a reader whose claim had an unknown outcome', async () => {
    const { clock, store, node, head } = await setup({ failAfter: ({ method }) => method === 'claim' });
    const gone = await node('a').get();
    gone.leave();
    store.faults = {};
    await clock.advance(1_000);
    expect(await head()).not.toHaveProperty('reader');
  });

  it('McpStream keeps a reader whose claim overtook a look into the log', async () => {
    const { clock, store, node, write, head } = await setup();
    const [a, b] = [node('a'), node('b')];
    await b.get();
    store.faults = { delay: ({ method }) => (method === 'claim' ? 10 : 0) };
    const reading = await a.get();
    store.faults = { delayAnswer: ({ method }) => (method === 'read' ? 20 : 0) };
    a.stream.refresh();
    await clock.advance(30);
    store.faults = {};
    await write(a.stream);
    expect([reading.got, (await head()).reader?.node]).toEqual([[1], 'a']);
  });

  it('McpStream asks a slow log for the newest reader once at a time, and ends no reader while the log is unavailable', async () => {
    const { clock, log, store, node } = await setup();
    const { stream, get } = node('a');
    const reading = await get();
    const asked = vi.spyOn(log, 'read');
    store.faults = { delay: () => 1_000 };
    for (let n = 0; n < 5; n++) stream.refresh();
    await clock.advance(1_000);
    expect(asked).toHaveBeenCalledTimes(1);
    store.faults = { failBefore: () => true };
    for (let n = 0; n < 100; n++) {
      stream.refresh();
      await clock.advance(1_000);
    }
    expect([stream.readers, reading.got, reading.end, clock.pending]).toEqual([1, [], undefined, 0]);
  });

  it('McpStream registers the response of a POST as soon as the stream is in the log, though writing continues', async () => {
    const { clock, log, store, node } = await setup();
    store.faults = { delay: ({ method }) => (method === 'append' ? 10 : 0) };
    const post = new McpStream('post', 's', node('a').environment, SILENT, [1]);
    void post.write({});
    const reading = post.subscribe({ next: ignore, error: ignore, complete: ignore }, 0);
    for (let n = 0; n < 10; n++) {
      void post.write({ data: '"x"' });
      await clock.advance(9);
    }
    const { reader } = await log.read('s', 'post', 0, 0);
    expect(reader).toEqual({ node: 'a', reader: expect.any(String) });
    reading.unsubscribe();
    await clock.advance(1_000);
  });

  it('McpStream loses no signal while it asks who the newest reader is', async () => {
    const { clock, store, node } = await setup({ delayAnswer: ({ method }) => (method === 'append' ? 20 : 0) });
    const { stream, get } = node('a');
    // Carried out before the claim, answered after it.
    const first = stream.write({ data: '"x"' });
    const reading = await get();
    store.faults = { delayAnswer: ({ method }) => (method === 'read' ? 20 : 0) };
    const second = stream.write({ data: '"y"' });
    await clock.advance(100);
    await Promise.all([first, second]);
    expect(reading.got).toEqual([1, 2]);
  });

  it('McpStream holds the first response here of a stream that another node may read', async () => {
    const { clock, store, node } = await setup();
    const [a, b] = [node('a'), node('b')];
    const post = new McpStream('post', 's', a.environment, SILENT, [1]);
    await post.write({ data: '"x"' });
    // The response had the cursor only, and its client came back to the other node.
    post.disconnectReaders();
    const got: number[] = [];
    const observer = { next: ({ index }: McpStoredEvent) => got.push(index), error: ignore, complete: ignore };
    new McpStream('post', 's', b.environment, SILENT).subscribe({ ...observer, next: ignore }, 0, undefined, 1);
    await clock.advance(0);
    store.faults = { delay: ({ method }) => (method === 'claim' ? 100 : 0) };
    post.subscribe(observer, 0, undefined, 1);
    await clock.advance(0);
    expect(got).toEqual([]);
    await clock.advance(100);
    expect(got).toEqual([1]);
  });

  it('McpStream leaves a stream to the response to which its client came back, though the claim of the first one comes later', async () => {
    const { clock, store, node, signals } = await setup();
    const [a, b] = [node('a'), node('b')];
    const read = (stream: McpStream, first: boolean) => {
      const reading = { got: [] as number[], told: undefined as number | undefined };
      const next = ({ index, data }: McpStoredEvent): void => {
        if (data === NO_DATA) reading.told = index;
        else reading.got.push(index);
      };
      stream.subscribe({ next, error: ignore, complete: ignore }, 0, undefined, first ? undefined : 0);
      return reading;
    };
    const post = new McpStream('post', 's', a.environment, SILENT, [1]);
    const resumed = new McpStream('post', 's', b.environment, SILENT);
    // The client got the cursor; it has left, which node a does not know, while the log does not answer its claim.
    await post.write({});
    store.faults = { failBefore: ({ method }) => method === 'claim' };
    read(post, true);
    await clock.advance(0);
    store.faults = {};
    const reading = read(resumed, false);
    await clock.advance(100);
    await post.write({ data: '"answer"', end: true });
    resumed.look();
    await clock.advance(0);
    expect(signals.filter(({ is }) => is === 'replaced')).toEqual([]);
    expect(reading).toEqual({ got: [1], told: undefined });
  });

  it('G12: McpStream acknowledges once what the log has lost', async () => {
    const { clock, log, node, write } = await setup();
    const { stream, get } = node('a');
    const reading = await get();
    const whole = log.read.bind(log);
    const replica = vi.spyOn(log, 'read').mockImplementation(async (session, id, after, limit) => {
      if (replica.mock.calls.length > 50) throw new Error('asked too often');
      return { ...(await whole(session, id, after, limit)), last: 0, delivered: 0 };
    });
    await write(stream);
    await clock.advance(100);
    expect([reading.got, replica.mock.calls.length]).toEqual([[1], 1]);
  });

  it.each(['a reader that is open', 'a client that comes back'])(
    'G12: %s waits behind events that the log has lost, until there is another one',
    async (who) => {
      const { clock, log, node } = await setup();
      const { environment } = node('b');
      const [gaps, got]: [number[][], number[]] = [[], []];
      const evicted = (_: McpStream, after: number, oldest: number): void => void gaps.push([after, oldest]);
      const stream = new McpStream('post', 's', environment, { ...SILENT, evicted });
      const ends: unknown[] = [];
      const read = async (): Promise<void> => {
        const next = ({ index }: McpStoredEvent): void => void got.push(index);
        const end = (error?: unknown): void => void ends.push(error);
        stream.subscribe({ next, error: end, complete: end }, got.length, undefined, got.length);
        await clock.advance(0);
      };
      const opens = { node: 'a', requests: [1] };
      const events = who === 'a reader that is open' ? ['"x"'] : [];
      if (events.length > 0) {
        await log.append('s', 'post', events, { writer: 'w', seq: 1, newest: 0, opens });
        await read();
      }
      const asked = log.read.bind(log);
      const reads = vi.spyOn(log, 'read').mockImplementation(async (...args) => {
        if (reads.mock.calls.length > 50) throw new Error('asked too often');
        return asked(...args);
      });
      // The node of the stream tells the log that it begins behind what was lost.
      await log.append('s', 'post', [], { writer: 'w', seq: events.length + 1, newest: 4, opens });
      if (events.length === 0) await read();
      stream.look();
      await clock.advance(0);
      expect([ends, gaps]).toEqual([[], [[events.length, 5]]]);
      expect(reads.mock.calls.length).toBeLessThan(6);
      await log.append('s', 'post', ['"y"'], { writer: 'w', seq: events.length + 2, newest: 4, opens });
      stream.look();
      await clock.advance(0);
      expect([got, ends, gaps.length]).toEqual([[...events.map(() => 1), 5], [], 1]);
      stream.end();
    },
  );

  it('G12: a reader that has handed out the end of a stream completes, though a signal came while it read', async () => {
    const { clock, log, store, node } = await setup();
    const { environment } = node('b');
    const opens = { node: 'a', requests: [1] };
    await log.append('s', 'post', ['"x"'], { writer: 'w', seq: 1, newest: 0, opens, end: true });
    const stream = new McpStream('post', 's', environment, SILENT);
    const got: unknown[] = [];
    const complete = (): void => void got.push('complete');
    store.faults = { delayAnswer: ({ method }) => (method === 'read' ? 10 : 0) };
    stream.subscribe({ next: ({ index }) => got.push(index), error: ignore, complete }, 0, undefined, 1);
    await clock.advance(5);
    stream.look();
    // The log fails over to a replica that lacks the end.
    vi.spyOn(log, 'read').mockReturnValue({ events: [], more: false, last: 0, oldest: 1, delivered: 0, ended: false });
    await clock.advance(50);
    expect(got).toEqual([1, 'complete']);
  });
});
