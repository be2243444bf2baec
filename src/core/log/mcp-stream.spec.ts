import type { Subscription } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import { ManualClock } from '../../testing/index.js';
import {
  EventStoreFault,
  FaultyEventStore,
  type EventStoreCall,
  type EventStoreFaults,
  NO_OTHER_NODES,
} from '../../../test/support/faulty-event-store.js';
import type { RequestId } from '../protocol/json-rpc.js';
import { McpEventLogFullError, McpSessionGoneError, McpStreamEndedError } from './event-store.errors.js';
import { InMemoryEventStore } from './in-memory-event-store.js';
import { McpStream, type StreamObserver } from './mcp-stream.js';
import { NO_DATA } from './stream-reader.js';
import type { StreamEnvironment } from './stream.options.js';

const RETRY = { firstDelayMs: 10, maxDelayMs: 40, giveUpAfterMs: 100 };

async function setup(faults: EventStoreFaults = {}, scope: 'node' | 'shared' = 'node') {
  const clock = new ManualClock();
  const log = new InMemoryEventStore({}, new ManualClock(), scope);
  await log.open('s');
  const reads = vi.spyOn(log, 'read');
  const releases = vi.spyOn(log, 'release');
  const store = new FaultyEventStore(log, clock, faults);
  const heard: string[] = [];
  const observer: StreamObserver = {
    attached: () => void heard.push('attached'),
    detached: () => void heard.push('detached'),
    replacedHere: () => void heard.push('replaced'),
    evicted: (_, after, oldest) => void heard.push(`evicted: ${after} to ${oldest}`),
    idle: () => void heard.push('idle'),
    failed: (_, error) => void heard.push(`failed: ${error.constructor.name}`),
    fault: (_, error) => void heard.push(`fault: ${(error as Error).constructor.name}`),
  };
  const environment = (nodeId: string): StreamEnvironment => ({
    store,
    clock,
    nodeId,
    retry: RETRY,
    maxQueuedBytes: 10_000,
    comeBackMs: 10_000,
    nodes: NO_OTHER_NODES,
  });
  const stream = (id: string, requests?: RequestId[], node = 'n') =>
    new McpStream(id, 's', environment(node), observer, requests);
  const head = (id: string) => log.read('s', id, 0, 0);
  return { clock, log, store, reads, releases, heard, stream, head };
}

const UNAVAILABLE = { code: 'STORE_UNAVAILABLE', cause: expect.any(EventStoreFault) as Error };

interface Reading {
  got: number[];
  /** Index of the event without data, if there was one. */
  told: number | undefined;
  end: unknown;
  leave(): void;
}

function read(stream: McpStream, after = 0, last?: number): Reading {
  const reading = { got: [], told: undefined, end: undefined } as unknown as Reading;
  const subscription: Subscription = stream.subscribe(
    {
      next: ({ index, data: text }) => (text === NO_DATA ? (reading.told = index) : reading.got.push(index)),
      error: (error: unknown) => (reading.end = error),
      complete: () => (reading.end = 'complete'),
    },
    after,
    undefined,
    last,
  );
  reading.leave = () => subscription.unsubscribe();
  return reading;
}

/** As a GET does. @param after absent: from what was not handed out yet */
async function get(stream: McpStream, after?: number): Promise<Reading> {
  const head = await stream.head();
  const reading = read(stream, after ?? head.delivered, head.last);
  await settled();
  return reading;
}

/** Lets everything happen that waits for no timer. */
const settled = () => new ManualClock().advance(0);

const data = { data: '"x"' };
const only = (...methods: EventStoreCall['method'][]) => ({
  failBefore: ({ method }: EventStoreCall) => methods.includes(method),
});

describe('the stream of a POST', () => {
  it('the stream of a POST is delivered as it is written, without a read of the log, and is idle afterwards', async () => {
    const { clock, stream, reads, heard, head } = await setup();
    const post = stream('post', [1]);
    void post.write({});
    const reading = read(post);
    await post.write(data);
    await post.write(data);
    await post.write({ ...data, settles: 1, end: true });
    await clock.advance(0);
    expect([reading.got, reading.end]).toEqual([[1, 2, 3], 'complete']);
    expect(reads.mock.calls.filter(([, , , limit]) => limit > 0)).toEqual([]);
    expect(heard.filter((event) => event !== 'idle')).toEqual(['attached', 'detached']);
    expect(heard.at(-1)).toBe('idle');
    expect(post.settled).toBe(true);
    expect(await head('post')).toMatchObject({ ended: true, delivered: 3 });
    expect(await head('post')).not.toHaveProperty('reader');
  });

  it('the stream of a POST opens its requests in the log, and settles them', async () => {
    const { stream, log } = await setup();
    const post = stream('post', [1, 'two']);
    await post.write({});
    expect(await log.unfinished('n')).toMatchObject([{ requests: [1, 'two'] }]);
    await post.write({ ...data, settles: 1 });
    expect(await log.unfinished('n')).toEqual([{ session: 's', stream: 'post', requests: ['two'] }]);
    await post.write({ settles: 'two', end: true });
    expect(await log.unfinished('n')).toEqual([]);
    await expect(post.write(data)).rejects.toThrow(McpStreamEndedError);
  });

  it('the stream of a POST can be resumed from any cursor, while it is written and afterwards', async () => {
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

  it('the stream of a POST completes a reader at once that comes after its last event', async () => {
    const { clock, stream } = await setup();
    const post = stream('post', [1]);
    void post.write({});
    await post.write({ settles: 1, end: true });
    const reading = read(post, 0);
    await clock.advance(0);
    expect([reading.got, reading.end]).toEqual([[], 'complete']);
  });

  it('the stream of a POST is not idle while it is read, nor before its end', async () => {
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
    expect(heard.at(-1)).toBe('idle');
  });
});

describe('another node', () => {
  it('another node has its events read when it signals an append', async () => {
    const { clock, stream } = await setup();
    const [here, there] = [stream('0'), stream('0', undefined, 'other')];
    const reading = read(here);
    await clock.advance(0);
    await there.write(data);
    await there.write(data);
    expect(reading.got).toEqual([]);
    here.look();
    await clock.advance(0);
    expect(reading.got).toEqual([1, 2]);
    await Promise.all([here.write(data), there.write(data)]);
    here.look();
    await clock.advance(0);
    expect(reading.got).toEqual([1, 2, 3, 4]);
  });
});

describe('G7: the newest reader', () => {
  it('the newest reader gets each message; the reader before it ends at the next tick, and is given the position of the stream', async () => {
    const { stream, heard, head } = await setup({}, 'shared');
    const standalone = stream('0');
    const first = await get(standalone);
    await standalone.write(data);
    const second = await get(standalone);
    await standalone.write(data);
    await standalone.write(data);
    expect([first.got, second.got, first.end, standalone.readers]).toEqual([[1], [2, 3], undefined, 2]);
    expect(heard).toContain('replaced');
    standalone.refresh();
    await settled();
    expect([first.end, first.told, second.end, standalone.readers]).toEqual(['complete', 3, undefined, 1]);
    expect(await head('0')).toMatchObject({ delivered: 3 });
    second.leave();
    expect([standalone.readers, heard.at(-1)]).toEqual([0, 'idle']);
  });

  it('the newest reader ends all readers before it at once when it leaves', async () => {
    const { stream } = await setup();
    const standalone = stream('0');
    const readings = [await get(standalone), await get(standalone), await get(standalone)];
    await standalone.write(data);
    readings[2]!.leave();
    expect(readings.map(({ got, told, end }) => [got, told, end])).toEqual([
      [[], 1, 'complete'],
      [[], 1, 'complete'],
      [[1], undefined, undefined],
    ]);
  });

  it('the newest reader stays the newest when a replaced reader leaves', async () => {
    const { stream, head } = await setup({}, 'shared');
    const standalone = stream('0');
    const older = await get(standalone);
    const newer = await get(standalone);
    older.leave();
    await standalone.write(data);
    expect([newer.got, newer.end]).toEqual([[1], undefined]);
    expect((await head('0')).reader).toBeDefined();
    newer.leave();
    await settled();
    expect(await head('0')).not.toHaveProperty('reader');
  });

  it('the newest reader begins after the last event that was delivered, if its client names no cursor', async () => {
    const { stream } = await setup();
    const standalone = stream('0');
    await standalone.write(data);
    const first = await get(standalone);
    await standalone.write(data);
    const second = await get(standalone);
    second.leave();
    await standalone.write(data);
    const third = await get(standalone);
    await standalone.write(data);
    expect([first.got, second.got, third.got]).toEqual([[1, 2], [], [3, 4]]);
    third.leave();
  });

  it('the newest reader replays from the cursor of its client, though another reader was delivered those events in between', async () => {
    const { stream } = await setup();
    const standalone = stream('0');
    const broken = await get(standalone);
    for (let n = 0; n < 10; n++) await standalone.write(data);
    broken.leave();
    const another = await get(standalone);
    await standalone.write(data);
    const resumed = await get(standalone, 5);
    await standalone.write(data);
    expect([another.got, resumed.got]).toEqual([[11], [6, 7, 8, 9, 10, 11, 12]]);
  });

  it('the newest reader takes over from the moment of its claim, whatever is written meanwhile', async () => {
    const delayAnswer = ({ method }: EventStoreCall) => (method === 'claim' ? 10 : 0);
    const { clock, stream } = await setup({ delayAnswer }, 'shared');
    const standalone = stream('0');
    const getting = get(standalone);
    await clock.advance(10);
    const first = await getting;
    const taking = get(standalone);
    await clock.advance(1);
    await standalone.write(data);
    expect(first.got).toEqual([]);
    await clock.advance(10);
    const second = await taking;
    await clock.advance(0);
    expect([first.got, second.got]).toEqual([[], [1]]);
    second.leave();
    await clock.advance(0);
  });

  it('the newest reader ends when a handler closes the connection, and the stream continues', async () => {
    const { clock, stream, heard } = await setup();
    const post = stream('post', [1]);
    await post.write(data);
    const readings = [await get(post, 0), await get(post, 1)];
    expect(post.disconnectReaders()).toBe(true);
    expect(readings.map(({ end }) => end)).toEqual(['complete', 'complete']);
    expect(post.disconnectReaders()).toBe(false);
    expect(heard).not.toContain('idle');
    await post.write({ ...data, end: true });
    const back = await get(post, 1);
    await clock.advance(0);
    expect([back.got, back.end]).toEqual([[2], 'complete']);
  });
});

describe('the position of what was delivered', () => {
  it('the position of what was delivered is written to the log on ticks, and when a reader leaves', async () => {
    const { clock, stream, head } = await setup({}, 'shared');
    const standalone = stream('0');
    const reading = await get(standalone);
    await standalone.write(data);
    standalone.refresh();
    await clock.advance(0);
    expect(await head('0')).toMatchObject({ delivered: 1 });
    await standalone.write(data);
    reading.leave();
    await clock.advance(0);
    expect(await head('0')).toMatchObject({ delivered: 2 });
  });

  it('the position of what was delivered is written again when the log refused it', async () => {
    const { clock, store, stream, heard, head } = await setup({}, 'shared');
    const standalone = stream('0');
    await get(standalone);
    store.faults = only('read');
    await standalone.write(data);
    await clock.advance(0);
    expect(heard).toContain('fault: EventStoreFault');
    store.faults = {};
    standalone.refresh();
    await clock.advance(0);
    expect(await head('0')).toMatchObject({ delivered: 1 });
  });

  it('the position of what was delivered makes the log register the response of a POST as soon as the stream is there, though writing continues', async () => {
    const delay = ({ method }: EventStoreCall) => (method === 'append' ? 10 : 0);
    const { clock, stream, head, heard } = await setup({ delay }, 'shared');
    const post = stream('post', [1]);
    void post.write({});
    const reading = read(post);
    for (let n = 0; n < 10; n++) {
      void post.write(data);
      await clock.advance(9);
    }
    expect((await head('post')).reader).toEqual({ node: 'n', reader: expect.any(String) });
    expect(heard).toEqual(['attached']);
    await clock.advance(100);
    expect(reading.got).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  });

  it('the position of what was delivered does not keep a reader the newest for ever when the log is slow', async () => {
    const delay = ({ method }: EventStoreCall) => (method === 'claim' ? 100 : 0);
    const { clock, stream, head } = await setup({ delay }, 'shared');
    const post = stream('post', [1]);
    await post.write({});
    read(post).leave();
    await clock.advance(1_000);
    expect(await head('post')).not.toHaveProperty('reader');
  });

  it('the position of what was delivered may fail to be written: the stream continues', async () => {
    const { clock, stream, heard } = await setup(only('claim', 'release'), 'shared');
    const post = stream('post', [1]);
    await post.write({});
    const reading = read(post);
    await clock.advance(0);
    await post.write(data);
    await clock.advance(10 * RETRY.giveUpAfterMs);
    reading.leave();
    await clock.advance(10 * RETRY.giveUpAfterMs);
    expect(reading.got).toEqual([1]);
    expect(heard.filter((event) => event.startsWith('fault'))).toHaveLength(2);
    expect(heard.filter((event) => event.startsWith('failed'))).toEqual([]);
  });
});

describe('G6: a reader whose events were evicted', () => {
  it('a reader whose events were evicted begins with the oldest that is kept, on any stream', async () => {
    const { clock, log, stream, heard } = await setup();
    const texts = Array.from({ length: 1_200 }, (_, n) => `${n}`);
    void log.append('s', 'post', texts, { writer: 'w', seq: 1 });
    const reading = await get(stream('post'), 3);
    await clock.advance(0);
    expect([reading.got[0], reading.got.at(-1)]).toEqual([201, 1_200]);
    expect(heard).toContain('evicted: 3 to 201');
  });
});

describe('a stream whose log refuses', () => {
  it('a stream whose log refuses fails its reader, reports the failure to its owner once, and is idle then', async () => {
    const full = new McpEventLogFullError('post', 'eventLog.maxEvents');
    const { clock, store, stream, heard } = await setup();
    const post = stream('post', [1]);
    await post.write(data);
    const readings = [read(post), read(post, 1)];
    await clock.advance(0);
    store.faults = { refuse: ({ method, attempt }) => (method === 'append' && attempt === 1 ? full : undefined) };
    const written = Promise.allSettled([post.write(data)]);
    store.faults = {};
    await written;
    await clock.advance(0);
    const givenUp = expect.objectContaining({ name: 'StreamGivenUpError', cause: full }) as Error;
    expect(readings.map(({ end }) => end)).toEqual([givenUp, givenUp]);
    await expect(post.write(data)).rejects.toThrow(McpEventLogFullError);
    expect(heard.filter((event) => event.startsWith('failed'))).toEqual(['failed: McpEventLogFullError']);
    expect(heard.at(-1)).toBe('idle');
    expect(post.settled).toBe(true);
    expect(clock.pending).toBe(0);
  });

  it('a stream that another node has ended gives its reader the rest and completes it', async () => {
    const { clock, log, stream, heard } = await setup();
    const post = stream('post', [1]);
    await post.write(data);
    const reading = await get(post, 0);
    await clock.advance(0);
    await log.append('s', 'post', ['"last error"'], { writer: 'other', seq: 1, end: true });
    await expect(post.write(data)).rejects.toThrow(McpStreamEndedError);
    await clock.advance(0);
    expect([reading.got, reading.end]).toEqual([[1, 2], 'complete']);
    expect(heard.filter((event) => event.startsWith('failed'))).toEqual(['failed: McpStreamEndedError']);
    expect(heard.at(-1)).toBe('idle');
    const back = await get(post, 1);
    await clock.advance(0);
    expect([back.got, back.end]).toEqual([[2], 'complete']);
  });

  it('a stream whose session is gone fails its reader with what the log says', async () => {
    const { clock, log, stream } = await setup();
    const post = stream('post', [1]);
    await post.write(data);
    const reading = await get(post, 1);
    await log.drop('s');
    await expect(post.write(data)).rejects.toThrow(McpSessionGoneError);
    await clock.advance(0);
    expect([reading.end, clock.pending]).toEqual([expect.any(McpSessionGoneError), 0]);
  });

  it('G13: a stream whose log refuses is ended in the log with an error for each open request, which a client that resumes gets', async () => {
    const full = new McpEventLogFullError('post', 'eventLog.maxEvents');
    const { clock, log, store, stream, head } = await setup();
    const post = stream('post', [1, 2]);
    await post.write({ ...data, settles: 1 });
    const elsewhere = stream('post', undefined, 'other');
    const reading = read(elsewhere);
    store.faults = { refuse: ({ method, attempt }) => (method === 'append' && attempt === 1 ? full : undefined) };
    const written = Promise.allSettled([post.write(data)]);
    store.faults = {};
    await clock.advance(0);
    expect(await written).toMatchObject([{ reason: full }]);
    expect(await head('post')).toMatchObject({ last: 2, ended: true });
    expect(await log.unfinished('n')).toEqual([]);
    elsewhere.look();
    await clock.advance(0);
    expect([reading.got, reading.end]).toEqual([[1, 2], 'complete']);
    const { events } = await log.read('s', 'post', 1, 9);
    expect(events.map((event) => JSON.parse(event.data) as unknown)).toMatchObject([
      { id: 2, error: { code: -32000 } },
    ]);
  });

  it('G13: a stream whose log refuses is ended as soon as a log that was unavailable is back', async () => {
    const { clock, store, stream, heard, head } = await setup({}, 'shared');
    const post = stream('post', [1]);
    await post.write(data);
    store.faults = only('append');
    read(post);
    const written = Promise.allSettled([post.write(data)]);
    await clock.advance(10 * RETRY.giveUpAfterMs);
    expect(await written).toMatchObject([{ reason: UNAVAILABLE }]);
    expect([post.settled, heard.includes('idle'), clock.pending]).toEqual([false, false, 1]);
    store.faults = {};
    await clock.advance(RETRY.maxDelayMs);
    expect(await head('post')).toMatchObject({ last: 2, ended: true });
    expect([post.settled, heard.at(-1), clock.pending]).toEqual([true, 'idle', 0]);
  });

  it('a stream whose log refuses is not ended in the log when the session ends before the log is back', async () => {
    const { clock, stream } = await setup(only('append'));
    const post = stream('post', [1]);
    const written = Promise.allSettled([post.write(data)]);
    await clock.advance(10 * RETRY.giveUpAfterMs);
    await written;
    post.end();
    await clock.advance(0);
    expect(clock.pending).toBe(0);
  });

  it('G13: a stream whose log refuses has answers for the first reader that comes afterwards; others wait for the log', async () => {
    const { clock, store, stream, heard } = await setup(only('append'));
    const post = stream('post', [1]);
    const written = Promise.allSettled([post.write({})]);
    await clock.advance(1_000);
    expect(await written).toMatchObject([{ status: 'rejected' }]);
    expect([post.hasAnswers, post.ending]).toEqual([true, undefined]);
    const { answers } = read(post).end as { answers: string[] };
    expect(answers.map((answer) => JSON.parse(answer) as unknown)).toMatchObject([{ id: 1, error: { code: -32000 } }]);
    expect([post.hasAnswers, post.ending]).toEqual([false, expect.any(Promise)]);
    expect(heard).not.toContain('attached');
    store.faults = {};
    await clock.advance(RETRY.maxDelayMs);
    await post.ending;
    expect(heard.at(-1)).toBe('idle');
  });

  it('a stream whose log refuses is released if it is the standalone stream, so that another object can continue it', async () => {
    const { clock, store, stream, heard } = await setup(only('append'));
    const standalone = stream('0');
    const reading = read(standalone);
    const written = Promise.allSettled([standalone.write(data)]);
    await clock.advance(1_000);
    expect(await written).toMatchObject([{ reason: UNAVAILABLE }]);
    expect(reading.end).toMatchObject(UNAVAILABLE);
    expect(heard.at(-1)).toBe('idle');
    store.faults = {};
    const successor = stream('0');
    const back = read(successor);
    await successor.write(data);
    await clock.advance(0);
    expect(back.got).toEqual([1]);
  });

  it('a stream whose log refuses leaves other streams as they are', async () => {
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

describe('the end of a stream object', () => {
  it.each([
    ['stream 0', '0', undefined],
    ['the stream of a POST', 'post', [1]],
  ])(
    'the end of a stream object on %s completes the readers, ends the retries, and lets no reader in',
    async (_, id, requests) => {
      const { clock, stream } = await setup(only('append', 'read'));
      const standalone = stream(id, requests);
      const readings = [read(standalone), read(standalone)];
      const written = Promise.allSettled([standalone.write(data)]);
      await clock.advance(5);
      standalone.end();
      expect(readings.map(({ end }) => end)).toEqual(['complete', 'complete']);
      expect(read(standalone).end).toBe('complete');
      await standalone.flushed();
      expect(await written).toMatchObject([{ status: 'rejected' }]);
      await clock.advance(0);
      expect([clock.pending, standalone.readers]).toEqual([0, 0]);
    },
  );
});
