import { NEVER, type Subscription } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import {
  EventStoreFault,
  FaultyEventStore,
  ManualClock,
  type EventStoreCall,
  type EventStoreFaults,
} from '../testing/index.js';
import type { RequestId } from '../wire/json-rpc.js';
import { EventLogFullError, SessionGoneError, StreamEndedError } from './event-store.errors.js';
import { InMemoryEventStore } from './in-memory-event-store.js';
import { McpStream, type StreamObserver } from './mcp-stream.js';
import { MAX_READERS, NO_STREAM_PEERS, READER_EVICTION_MS, type StreamEnvironment } from './stream.options.js';

const RETRY = { firstDelayMs: 10, maxDelayMs: 40, giveUpAfterMs: 100 };

async function setup(faults: EventStoreFaults = {}) {
  const clock = new ManualClock();
  const log = new InMemoryEventStore({}, new ManualClock());
  await log.open('s');
  const reads = vi.spyOn(log, 'read');
  const delivered = vi.spyOn(log, 'delivered');
  const store = new FaultyEventStore(log, clock, faults);
  const heard: string[] = [];
  const observer: StreamObserver = {
    attached: () => void heard.push('attached'),
    detached: () => void heard.push('detached'),
    evicted: () => void heard.push('evicted'),
    idle: () => void heard.push('idle'),
    failed: (_, error) => void heard.push(`failed: ${(error as Error).constructor.name}`),
    fault: (_, error) => void heard.push(`fault: ${(error as Error).constructor.name}`),
  };
  const environment = (nodeId: string): StreamEnvironment => ({
    ...{ store, clock, nodeId, retry: RETRY, maxQueuedBytes: 10_000, peers: NO_STREAM_PEERS },
  });
  const stream = (id: string, requests?: RequestId[], node = 'n') =>
    new McpStream(id, 's', environment(node), observer, requests);
  return { clock, log, store, reads, delivered, heard, stream };
}

interface Reading {
  got: number[];
  end: unknown;
  leave(): void;
}

function read(stream: McpStream, after = 0): Reading {
  const reading = { got: [], end: undefined } as unknown as Reading;
  const subscription: Subscription = stream.events$(after).subscribe({
    next: ({ index }) => reading.got.push(index),
    error: (error: unknown) => (reading.end = error),
    complete: () => (reading.end = 'complete'),
  });
  reading.leave = () => subscription.unsubscribe();
  return reading;
}

const data = { data: '"x"' };
const only = (...methods: EventStoreCall['method'][]) => ({
  failBefore: ({ method }: EventStoreCall) => methods.includes(method),
});

describe('the stream of a POST', () => {
  it('is handed out as it is written, without a look into the log, and is idle afterwards', async () => {
    const { clock, stream, reads, heard, log } = await setup();
    const post = stream('post', [1]);
    void post.write({});
    const reading = read(post);
    await post.write(data);
    await post.write(data);
    await post.write({ ...data, settles: 1, end: true });
    await clock.advance(0);
    expect([reading.got, reading.end]).toEqual([[1, 2, 3], 'complete']);
    expect(reads).not.toHaveBeenCalled();
    expect(heard.filter((event) => event !== 'idle')).toEqual(['attached', 'detached']);
    expect(heard.at(-1)).toBe('idle');
    expect(post.settled).toBe(true);
    expect(await log.describe('s', 'post')).toMatchObject({ ended: true, delivered: 3, readers: 0 });
  });

  it('opens its requests in the log, and settles them', async () => {
    const { stream, log } = await setup();
    const post = stream('post', [1, 'two']);
    await post.write({});
    expect(await log.openRequests({ node: 'n' })).toHaveLength(2);
    await post.write({ ...data, settles: 1 });
    expect(await log.openRequests({ node: 'n' })).toEqual([{ session: 's', stream: 'post', id: 'two', node: 'n' }]);
    await post.write({ settles: 'two', end: true });
    expect(await log.openRequests({ node: 'n' })).toEqual([]);
    await expect(post.write(data)).rejects.toThrow(StreamEndedError);
  });

  it('is found again from any cursor, while it is written and afterwards', async () => {
    const { clock, stream } = await setup();
    const post = stream('post', [1]);
    for (let n = 0; n < 5; n++) await post.write(data);
    const resumed = read(post, 3);
    await post.write({ ...data, end: true });
    await clock.advance(0);
    expect([resumed.got, resumed.end]).toEqual([[4, 5, 6], 'complete']);
    const later = stream('post');
    const replayed = read(later, 0);
    await clock.advance(0);
    expect([replayed.got, replayed.end]).toEqual([[1, 2, 3, 4, 5, 6], 'complete']);
  });

  it('ends for a reader that comes right after its end, with nothing left to read', async () => {
    const { clock, stream } = await setup();
    const post = stream('post', [1]);
    void post.write({});
    await post.write({ settles: 1, end: true });
    const reading = read(post, 0);
    await clock.advance(0);
    expect([reading.got, reading.end]).toEqual([[], 'complete']);
  });

  it('is not idle while somebody reads, nor before its end', async () => {
    const { clock, stream, heard } = await setup();
    const post = stream('post', [1]);
    await post.write(data);
    read(post).leave();
    expect([post.settled, heard.includes('idle')]).toEqual([false, false]);
    const older = read(post);
    const newer = read(post);
    await post.write({ end: true });
    await clock.advance(0);
    expect([older.end, newer.end]).toEqual(['complete', 'complete']);
    expect(heard.filter((event) => event === 'idle')).toHaveLength(1);
  });
});

describe('another node', () => {
  it('has its events read when it says that there are some', async () => {
    const { clock, stream } = await setup();
    const [here, there] = [stream('0'), stream('0', undefined, 'other')];
    const reading = read(here);
    await clock.advance(0);
    await there.write(data);
    await there.write(data);
    expect(reading.got).toEqual([]);
    here.poke();
    await clock.advance(0);
    expect(reading.got).toEqual([1, 2]);
    await Promise.all([here.write(data), there.write(data)]);
    here.poke();
    await clock.advance(0);
    expect(reading.got).toEqual([1, 2, 3, 4]);
  });
});

describe('several readers', () => {
  it('G7: each message goes to the newest; the one before goes on when that is gone', async () => {
    const { clock, stream } = await setup();
    const standalone = stream('0');
    const first = read(standalone);
    await clock.advance(0);
    await standalone.write(data);
    const second = read(standalone, 1);
    await clock.advance(0);
    await standalone.write(data);
    const third = read(standalone, 2);
    await clock.advance(0);
    await standalone.write(data);
    third.leave();
    await standalone.write(data);
    await clock.advance(0);
    second.leave();
    await standalone.write(data);
    await clock.advance(0);
    expect([first.got, second.got, third.got]).toEqual([[1, 5], [2, 4], [3]]);
    expect([first.end, standalone.readers]).toEqual([undefined, 1]);
  });

  it('leave in any order: nothing is lost, and nothing goes to two of them', async () => {
    const { clock, stream } = await setup();
    const standalone = stream('0');
    const first = read(standalone);
    await clock.advance(0);
    const second = read(standalone);
    await clock.advance(0);
    await standalone.write(data);
    const third = read(standalone, 1);
    await clock.advance(0);
    await standalone.write(data);
    second.leave();
    await standalone.write(data);
    third.leave();
    await standalone.write(data);
    await clock.advance(0);
    expect([first.got, second.got, third.got]).toEqual([[4], [1], [2, 3]]);
  });

  it('who comes back for what was lost gets it, whoever came in between', async () => {
    const { clock, stream } = await setup();
    const standalone = stream('0');
    const broken = read(standalone);
    await clock.advance(0);
    for (let n = 0; n < 10; n++) await standalone.write(data);
    broken.leave();
    const paused = { paused: true, resumed$: NEVER };
    const got: number[] = [];
    const resumed = standalone.events$(5, paused).subscribe(({ index }) => got.push(index));
    const another = read(standalone, await standalone.resumePoint());
    await standalone.write(data);
    await clock.advance(0);
    expect(another.got).toEqual([11]);
    paused.paused = false;
    another.leave();
    await clock.advance(0);
    expect(got).toEqual([6, 7, 8, 9, 10, 11]);
    resumed.unsubscribe();
  });

  it('are four at most: a fifth ends the oldest, at most once a minute', async () => {
    const { clock, stream, heard } = await setup();
    const standalone = stream('0');
    const readings: Reading[] = [];
    const come = (): boolean => {
      const admitted = standalone.admitReader();
      if (admitted) readings.push(read(standalone));
      return admitted;
    };
    for (let n = 0; n < MAX_READERS; n++) expect(come()).toBe(true);
    expect(heard).not.toContain('evicted');
    expect(come()).toBe(true);
    expect(readings.map(({ end }) => end)).toEqual(['complete', ...Array<undefined>(MAX_READERS).fill(undefined)]);
    await clock.advance(READER_EVICTION_MS - 1);
    expect(come()).toBe(false);
    await clock.advance(1);
    expect(come()).toBe(true);
    expect(standalone.readers).toBe(MAX_READERS);
    expect(heard.filter((event) => event === 'evicted')).toHaveLength(2);
  });

  it('are all disconnected when the handler wishes so; the stream goes on', async () => {
    const { clock, stream, heard } = await setup();
    const post = stream('post', [1]);
    await post.write(data);
    const readings = [read(post), read(post, 1)];
    expect(post.disconnectReaders()).toBe(true);
    expect(readings.map(({ end }) => end)).toEqual(['complete', 'complete']);
    expect(post.disconnectReaders()).toBe(false);
    expect(heard).not.toContain('idle');
    await post.write({ ...data, end: true });
    const back = read(post, 1);
    await clock.advance(0);
    expect([back.got, back.end]).toEqual([[2], 'complete']);
  });
});

describe('what was delivered', () => {
  it('is noted when a reader leaves, and on ticks, if it is news', async () => {
    const { clock, stream, delivered, log } = await setup();
    const standalone = stream('0');
    const reading = read(standalone);
    await clock.advance(0);
    standalone.noteDelivered();
    expect(delivered).not.toHaveBeenCalled();
    await standalone.write(data);
    standalone.noteDelivered();
    standalone.noteDelivered();
    await standalone.write(data);
    reading.leave();
    standalone.noteDelivered();
    await clock.advance(0);
    expect(delivered.mock.calls.map(([, , index]) => index)).toEqual([1, 2]);
    expect(await log.describe('s', '0')).toMatchObject({ delivered: 2, readers: 0 });
  });

  it('is where a client goes on that knows no cursor', async () => {
    const { clock, stream } = await setup();
    const standalone = stream('0');
    expect(await standalone.resumePoint()).toBe(0);
    const reading = read(standalone);
    await clock.advance(0);
    await standalone.write(data);
    await standalone.write(data);
    expect(await standalone.resumePoint()).toBe(2);
    reading.leave();
    await standalone.write(data);
    expect(await standalone.resumePoint()).toBe(2);
    await clock.advance(0);
    expect(await stream('0').resumePoint()).toBe(2);
  });

  it('is said again when the log did not take it', async () => {
    const { clock, store, stream, heard, log } = await setup(only('delivered'));
    const standalone = stream('0');
    read(standalone);
    await clock.advance(0);
    await standalone.write(data);
    standalone.noteDelivered();
    await clock.advance(0);
    expect(heard).toContain('fault: EventStoreFault');
    store.faults = {};
    standalone.noteDelivered();
    await clock.advance(0);
    expect(await log.describe('s', '0')).toMatchObject({ delivered: 1 });
  });

  it('a reader is attached as soon as the log knows the stream, although there is no end of writing', async () => {
    const { clock, stream, log, heard } = await setup({ delay: ({ method }) => (method === 'append' ? 10 : 0) });
    const post = stream('post', [1]);
    void post.write({});
    read(post);
    for (let n = 0; n < 10; n++) {
      void post.write(data);
      await clock.advance(9);
    }
    expect(await log.describe('s', 'post')).toMatchObject({ readers: 1 });
    expect(heard).toEqual(['attached']);
    await clock.advance(100);
  });

  it('a reader is not attached for ever because the log is slow', async () => {
    const delay = ({ method }: EventStoreCall) => (method === 'attach' ? 100 : 0);
    const { clock, stream, log } = await setup({ delay });
    const standalone = stream('0');
    read(standalone).leave();
    const staying = read(standalone);
    await clock.advance(1_000);
    expect(await log.describe('s', '0')).toMatchObject({ readers: 1 });
    staying.leave();
    await clock.advance(0);
    expect(await log.describe('s', '0')).toMatchObject({ readers: 0 });
  });

  it('the log may fail at all of this: the stream goes on', async () => {
    const { clock, stream, heard } = await setup(only('attach', 'detach', 'delivered'));
    const standalone = stream('0');
    const reading = read(standalone);
    await clock.advance(0);
    await standalone.write(data);
    reading.leave();
    await clock.advance(10 * RETRY.giveUpAfterMs);
    expect(reading.got).toEqual([1]);
    expect(heard.filter((event) => event.startsWith('fault'))).toHaveLength(3);
    expect(heard.filter((event) => event.startsWith('failed'))).toEqual([]);
  });
});

describe('a stream whose log refuses', () => {
  it('fails its readers and tells its owner once; it is idle then', async () => {
    const { clock, log, stream, heard } = await setup();
    const post = stream('post', [1]);
    await post.write(data);
    const readings = [read(post), read(post, 1)];
    await log.drop('s');
    await expect(post.write(data)).rejects.toThrow(SessionGoneError);
    expect(readings.map(({ end }) => end)).toEqual([expect.any(SessionGoneError), expect.any(SessionGoneError)]);
    await expect(post.write(data)).rejects.toThrow(SessionGoneError);
    expect(heard.filter((event) => event.startsWith('failed'))).toEqual(['failed: SessionGoneError']);
    expect(heard.at(-1)).toBe('idle');
    expect(post.settled).toBe(true);
    expect(clock.pending).toBe(0);
  });

  it('is ended in the log, so that nobody who comes back waits for what will never follow', async () => {
    const full = new EventLogFullError('post', 'eventLog.maxEvents');
    const { clock, log, store, stream } = await setup();
    const post = stream('post', [1, 2]);
    await post.write({ ...data, settles: 1 });
    const elsewhere = stream('post', undefined, 'other');
    const reading = read(elsewhere);
    store.faults = { refuse: ({ method, attempt }) => (method === 'append' && attempt === 1 ? full : undefined) };
    const written = Promise.allSettled([post.write(data)]);
    store.faults = {};
    await clock.advance(0);
    expect(await written).toMatchObject([{ reason: full }]);
    expect(await log.describe('s', 'post')).toMatchObject({ last: 1, ended: true });
    expect(await log.openRequests({ node: 'n' })).toEqual([]);
    elsewhere.poke();
    await clock.advance(0);
    expect([reading.got, reading.end]).toEqual([[1], 'complete']);
  });

  it('is ended also by a log that was away, as soon as that is back', async () => {
    const { clock, log, store, stream, heard } = await setup();
    const post = stream('post', [1]);
    await post.write(data);
    store.faults = only('append');
    read(post);
    const written = Promise.allSettled([post.write(data)]);
    await clock.advance(10 * RETRY.giveUpAfterMs);
    expect(await written).toMatchObject([{ reason: expect.any(EventStoreFault) as unknown }]);
    expect([post.settled, heard.includes('idle'), clock.pending]).toEqual([false, false, 1]);
    store.faults = {};
    await clock.advance(RETRY.maxDelayMs);
    expect(await log.describe('s', 'post')).toMatchObject({ last: 1, ended: true });
    expect([post.settled, heard.at(-1), clock.pending]).toEqual([true, 'idle', 0]);
  });

  it('is left as it is when the session ends before the log is back', async () => {
    const { clock, stream } = await setup(only('append'));
    const post = stream('post', [1]);
    const written = Promise.allSettled([post.write(data)]);
    await clock.advance(10 * RETRY.giveUpAfterMs);
    await written;
    post.close();
    await clock.advance(0);
    expect(clock.pending).toBe(0);
  });

  it('fails also who comes to read afterwards', async () => {
    const { clock, stream, heard } = await setup(only('append'));
    const post = stream('post', [1]);
    const written = Promise.allSettled([post.write({})]);
    await clock.advance(1_000);
    expect(await written).toMatchObject([{ status: 'rejected' }]);
    expect(read(post).end).toBeInstanceOf(EventStoreFault);
    expect(heard).not.toContain('attached');
  });

  it('stream 0 too is let go of, so that another object can go on with it', async () => {
    const { clock, store, stream, heard } = await setup(only('append'));
    const standalone = stream('0');
    const reading = read(standalone);
    const written = Promise.allSettled([standalone.write(data)]);
    await clock.advance(1_000);
    expect(await written).toMatchObject([{ reason: expect.any(EventStoreFault) as unknown }]);
    expect(reading.end).toBeInstanceOf(EventStoreFault);
    expect(heard.at(-1)).toBe('idle');
    store.faults = {};
    const successor = stream('0');
    const back = read(successor);
    await successor.write(data);
    await clock.advance(0);
    expect(back.got).toEqual([1]);
  });

  it('does not disturb another one', async () => {
    const { clock, stream } = await setup({ failBefore: ({ stream: id }) => id === 'bad' });
    const [bad, good] = [stream('bad', [1]), stream('good', [2])];
    const reading = read(good);
    const written = Promise.allSettled([bad.write(data)]);
    await good.write({ ...data, end: true });
    await clock.advance(1_000);
    expect([reading.got, reading.end]).toEqual([[1], 'complete']);
    expect(await written).toMatchObject([{ status: 'rejected' }]);
  });
});

describe('close', () => {
  it.each([
    ['stream 0', '0', undefined],
    ['the stream of a POST', 'post', [1]],
  ])('of %s completes the readers, ends the retries, and lets nobody in', async (_, id, requests) => {
    const { clock, stream } = await setup(only('append', 'read'));
    const standalone = stream(id, requests);
    const readings = [read(standalone), read(standalone)];
    const written = Promise.allSettled([standalone.write(data)]);
    await clock.advance(5);
    standalone.close();
    expect(readings.map(({ end }) => end)).toEqual(['complete', 'complete']);
    expect(read(standalone).end).toBe('complete');
    await standalone.flushed();
    expect(await written).toMatchObject([{ status: 'rejected' }]);
    await clock.advance(0);
    expect([clock.pending, standalone.readers]).toEqual([0, 0]);
  });
});
