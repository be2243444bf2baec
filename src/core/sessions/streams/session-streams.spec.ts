import { NEVER, type Subscription } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { McpDispatcher } from '../../calls/mcp-dispatcher.js';
import type { McpReply } from '../../calls/mcp-exchange.js';
import { BusNodes } from '../../nodes/bus-nodes.js';
import { InMemoryMessageBus } from '../../nodes/in-memory-message-bus.js';
import { CallObserver } from '../../calls/call-observer.js';
import { InMemoryEventStore } from '../../log/in-memory-event-store.js';
import { ManualClock } from '../../../testing/index.js';
import { FaultyEventStore, type EventStoreFaults } from '../../../../test/support/faulty-event-store.js';
import { formatEventId, type McpEvent } from '../../protocol/events.js';
import type { McpSessionEvent } from '../session-events.js';
import { type LoggedSink, SessionStreams } from './session-streams.js';
import { InMemorySessionStore } from '../store/in-memory-session-store.js';
import { SessionRuntime } from '../live/session-runtime.js';
import { resolveOptions } from '../../common/options.js';
import { SESSION_TABLE } from '../session.options.js';

const FLOWING = { paused: false, resumed$: NEVER };
/** Streams never ask it. */
const dispatcher: McpDispatcher = {
  request: () => ({}),
  notification: () => {},
  sessionEnded: () => {},
  capabilities: () => ({}),
};

async function setup({ faults = {}, primes = true, maxEvents = 1_000, scope = 'node' }: Options = {}) {
  const clock = new ManualClock();
  const log = new InMemoryEventStore({ maxEvents }, new ManualClock(), scope);
  await log.open('s');
  const store = new FaultyEventStore(log, clock, faults);
  const events: McpSessionEvent[] = [];
  const failures: [string, unknown][] = [];
  const [options, records, nodes] = [
    resolveOptions(SESSION_TABLE, { retryMs: 77 }),
    new InMemorySessionStore(clock),
    BusNodes.over(new InMemoryMessageBus('n')),
  ];
  const runtime = Object.assign(
    new SessionRuntime(options, clock, records, store, nodes, dispatcher, new CallObserver()),
    { maxQueuedBytes: 100_000, retry: { firstDelayMs: 10, maxDelayMs: 10, giveUpAfterMs: 20 } },
  );
  runtime.events$.subscribe((event) => events.push(event));
  const streams = new SessionStreams('s', runtime, {
    primes,
    streamFailed: ({ id }, error) => failures.push([id, error]),
  });
  const read = (reply: McpReply) => readEvents(clock, reply);
  const get = async (lastEventId?: string) => read(await streams.open(lastEventId));
  return { clock, log, store, streams, events, failures, get, read };
}

interface Options {
  faults?: EventStoreFaults;
  primes?: boolean;
  maxEvents?: number;
  scope?: 'node' | 'shared';
}

interface Reading {
  events: McpEvent[];
  end: unknown;
  leave(): void;
}

async function readEvents(clock: ManualClock, reply: McpReply): Promise<Reading> {
  if (reply.kind !== 'events') throw new Error(`The reply is ${reply.kind}.`);
  const reading = { events: [], end: undefined } as unknown as Reading;
  const subscription: Subscription = reply.open(FLOWING).subscribe({
    next: (event) => reading.events.push(event),
    error: (error: unknown) => (reading.end = error),
    complete: () => (reading.end = 'complete'),
  });
  reading.leave = () => subscription.unsubscribe();
  await clock.advance(0);
  return reading;
}

/** Ids of events that carry messages. */
function ids({ events }: Reading): (string | undefined)[] {
  return events.filter(({ data }) => data).map(({ id }) => id);
}

const data = { data: '{"jsonrpc":"2.0"}' };

async function finished(streams: SessionStreams, count: number): Promise<LoggedSink> {
  const sink = streams.begin([1]);
  for (let n = 1; n < count; n++) await sink.write(data);
  await sink.write({ ...data, settles: 1, end: true });
  return sink;
}

describe('a response on a stream', () => {
  it('a response on a stream begins with the cursor of the client, then has each message with its id', async () => {
    const { streams, get } = await setup();
    await streams.standalone.write(data);
    const reading = await get();
    expect(reading.events).toEqual([
      { id: '0_0', data: '', retry: 77 },
      { id: '0_1', data: '{"jsonrpc":"2.0"}' },
    ]);
    reading.leave();
  });

  it('G10: a response on a stream begins with a comment for older revisions', async () => {
    const { get } = await setup({ primes: false });
    const reading = await get();
    expect(reading.events).toEqual([{}]);
    reading.leave();
  });

  it('a response on a stream may consist of the head only', async () => {
    const { streams, clock } = await setup();
    const sink = streams.begin([1]);
    await sink.write(data);
    const reading = await readEvents(clock, { kind: 'events', open: (flow) => sink.events$(flow, true) });
    expect([reading.events.length, reading.end, streams.readers]).toEqual([1, 'complete', 0]);
    await sink.write({ end: true });
  });
});

describe('G1: a GET without a cursor', () => {
  it('a GET without a cursor gets the messages that were not delivered yet, never the whole history', async () => {
    const { streams, get } = await setup();
    await streams.standalone.write(data);
    const first = await get();
    await streams.standalone.write(data);
    first.leave();
    await streams.standalone.write(data);
    const second = await get();
    expect([ids(first), ids(second)]).toEqual([['0_1', '0_2'], ['0_3']]);
    second.leave();
  });

  it('a GET without a cursor keeps nothing of a response that is never opened', async () => {
    const { streams, log } = await setup();
    for (let n = 0; n < 10; n++) await streams.open(undefined);
    expect([streams.size, streams.readers]).toEqual([0, 0]);
    expect(await log.read('s', '0', 0, 0)).not.toHaveProperty('reader');
  });
});

describe('a GET with a cursor', () => {
  it('G2: a GET with a cursor gets the events after the cursor, and then the end of a finished stream', async () => {
    const { streams, get } = await setup();
    const {
      stream: { id },
    } = await finished(streams, 5);
    const reading = await get(formatEventId(id, 2));
    expect([ids(reading), reading.end]).toEqual([[3, 4, 5].map((index) => formatEventId(id, index)), 'complete']);
    expect(streams.size).toBe(0);
  });

  it('G2: a GET with a cursor of a finished stream with nothing left is 405', async () => {
    const { streams } = await setup();
    const {
      stream: { id },
    } = await finished(streams, 3);
    for (const index of [3, 4, 1_000]) {
      expect(await streams.open(formatEventId(id, index))).toMatchObject({ kind: 'empty', status: 405 });
    }
  });

  it('G2: a GET with a cursor of a stream that finishes before the response is opened ends all the same', async () => {
    const { streams, read } = await setup();
    const post = streams.begin([1]);
    await post.write(data);
    const reply = await streams.open(formatEventId(post.stream.id, 1));
    await post.write({ settles: 1, end: true });
    const reading = await read(reply);
    expect([ids(reading), reading.end, streams.size]).toEqual([[], 'complete', 0]);
  });

  it('G4: a GET with a cursor of a stream that never was is refused, and nothing is kept', async () => {
    const { streams } = await setup();
    const foreign = formatEventId('A'.repeat(22), 1);
    await expect(streams.open(foreign)).rejects.toMatchObject({ code: 'BAD_REQUEST', status: 400 });
    await expect(streams.open('0_x')).rejects.toMatchObject({ code: 'BAD_REQUEST' });
    expect(streams.size).toBe(0);
  });

  it('G5: past the end gets what is sent from now on, with the right ids', async () => {
    const { streams, get } = await setup();
    await streams.standalone.write(data);
    const reading = await get('0_99');
    await streams.standalone.write(data);
    expect(reading.events[0]).toMatchObject({ id: '0_99', data: '' });
    expect(ids(reading)).toEqual(['0_2']);
    reading.leave();
  });

  it('G6: behind what was evicted goes on with the oldest, on every stream', async () => {
    const { streams, get, events } = await setup({ maxEvents: 100 });
    const post = streams.begin([1]);
    for (let n = 0; n < 140; n++) {
      await post.write(data);
      await streams.standalone.write(data);
    }
    for (const stream of ['0', post.stream.id]) {
      const reading = await get(formatEventId(stream, 3));
      expect([ids(reading)[0], ids(reading).at(-1)]).toEqual([formatEventId(stream, 41), formatEventId(stream, 140)]);
      const evicted = { type: 'events-evicted', sessionId: 's', streamId: stream, after: 3, oldest: 41 };
      expect(events).toContainEqual(evicted);
      reading.leave();
    }
    await post.write({ end: true });
  });

  it('G8: a GET with a cursor of a stream that has not begun in the log yet waits for it', async () => {
    const { clock, streams, get } = await setup({ faults: { delay: ({ method }) => (method === 'append' ? 10 : 0) } });
    const post = streams.begin([1]);
    void post.write({});
    const reading = await get(formatEventId(post.stream.id, 0));
    void post.write({ ...data, end: true });
    await clock.advance(100);
    expect([ids(reading), reading.end]).toEqual([[formatEventId(post.stream.id, 1)], 'complete']);
  });
});

describe('G7: a newer response on a stream', () => {
  it('a newer response on a stream gets what follows; the response before it ends at the next tick, with the id of the last event delivered', async () => {
    const { clock, streams, get, events } = await setup();
    const older = await get();
    await streams.standalone.write(data);
    const newer = await get();
    await streams.standalone.write(data);
    expect([ids(older), ids(newer), older.end]).toEqual([['0_1'], ['0_2'], undefined]);
    expect(events).toContainEqual({ type: 'reader-replaced', sessionId: 's', streamId: '0' });
    streams.refresh();
    await clock.advance(0);
    expect([older.end, newer.end, streams.readers]).toEqual(['complete', undefined, 1]);
    expect(older.events.at(-1)).toEqual({ id: '0_2', data: '', retry: 77 });
    newer.leave();
  });

  it('G10: a newer response on a stream ends the response before it without an event for clients of older revisions', async () => {
    const { clock, streams, get } = await setup({ primes: false });
    const older = await get();
    const newer = await get();
    await streams.standalone.write(data);
    streams.refresh();
    await clock.advance(0);
    expect([older.events.length, older.end]).toEqual([1, 'complete']);
    newer.leave();
  });

  it('a newer response on a stream ends the response before it at once when it leaves', async () => {
    const { streams, get } = await setup();
    const older = await get();
    const newer = await get();
    newer.leave();
    expect([older.end, streams.readers, streams.size]).toEqual(['complete', 0, 0]);
  });
});

describe('the streams of a session', () => {
  it('the streams of a session are in memory while they are written or read, and not longer', async () => {
    const { clock, streams, get } = await setup();
    expect(streams.size).toBe(0);
    await streams.standalone.write(data);
    const post = streams.begin([1]);
    await post.write(data);
    const reading = await get();
    expect([streams.size, streams.readers]).toEqual([2, 1]);
    reading.leave();
    await post.write({ settles: 1, end: true });
    await clock.advance(0);
    expect([streams.size, streams.readers]).toEqual([0, 0]);
  });

  it('the streams of a session count the standalone stream as read while it has a reader on any node', async () => {
    const { clock, log, streams, get } = await setup({ scope: 'shared' });
    expect(await streams.hasReader()).toBe(false);
    const reading = await get();
    expect(await streams.hasReader()).toBe(true);
    reading.leave();
    await clock.advance(0);
    expect(await streams.hasReader()).toBe(false);
    await log.claim('s', '0', { node: 'other', reader: 'r' });
    expect(await streams.hasReader()).toBe(true);
  });

  it('the streams of a session report a stream that fails, and the other streams go on', async () => {
    const bad: EventStoreFaults = { failBefore: ({ stream }) => stream !== '0' };
    const { clock, store, streams, events, failures, get } = await setup({ faults: bad });
    const post = streams.begin([1]);
    const written = Promise.allSettled([post.write(data)]);
    const reading = await get();
    await streams.standalone.write(data);
    await clock.advance(1_000);
    expect(await written).toMatchObject([{ status: 'rejected' }]);
    expect(failures.map(([id]) => id)).toEqual([post.stream.id]);
    expect(events).toContainEqual(
      expect.objectContaining({ type: 'store-fault', streamId: post.stream.id, fatal: true }),
    );
    expect(ids(reading)).toEqual(['0_1']);
    reading.leave();
    store.faults = {};
    await clock.advance(1_000);
    expect([streams.size, clock.pending]).toEqual([0, 0]);
  });

  it('the streams of a session continue the standalone stream when the log is back', async () => {
    const { clock, store, streams, get } = await setup({ faults: { failBefore: ({ method }) => method === 'append' } });
    const written = Promise.allSettled([streams.standalone.write(data)]);
    await clock.advance(1_000);
    expect(await written).toMatchObject([{ status: 'rejected' }]);
    store.faults = {};
    await streams.standalone.write(data);
    const reading = await get();
    expect(ids(reading)).toEqual(['0_1']);
    reading.leave();
  });

  it('all end with the session: readers complete, retries end, and later messages find no stream', async () => {
    const { clock, streams, get, read } = await setup();
    const post = streams.begin([1]);
    await post.write(data);
    const readings = [await get(), await get(formatEventId(post.stream.id, 0))];
    const late = await streams.open(undefined);
    streams.end();
    expect(readings.map(({ end }) => end)).toEqual(['complete', 'complete']);
    expect([streams.size, streams.readers]).toEqual([0, 0]);
    expect((await read(late)).end).toBe('complete');
    expect(streams.begin([2]).stream.readers).toBe(0);
    expect([streams.size, clock.pending]).toEqual([0, 0]);
  });

  it('the streams of a session are flushed when all messages that were sent are logged', async () => {
    const { clock, streams } = await setup({ faults: { delay: ({ method }) => (method === 'append' ? 10 : 0) } });
    void streams.standalone.write(data);
    void streams.begin([1]).write(data);
    let flushed = false;
    void streams.flushed().then(() => (flushed = true));
    await clock.advance(9);
    expect(flushed).toBe(false);
    await clock.advance(1);
    expect(flushed).toBe(true);
  });
});

describe('the stream of a POST', () => {
  const replyOf = (sink: LoggedSink): McpReply => ({ kind: 'events', open: (flow) => sink.events$(flow, false) });

  it('the stream of a POST has its messages with ids, from before its response and after, and its requests in the log', async () => {
    const { clock, log, streams } = await setup();
    const sink = streams.begin([1, 2]);
    const { id } = sink.stream;
    await sink.write(data);
    const reading = await readEvents(clock, replyOf(sink));
    expect(reading.events[0]).toMatchObject({ id: formatEventId(id, 0), data: '' });
    await sink.write({ ...data, settles: 1 });
    expect(await log.unfinished('n')).toMatchObject([{ stream: id, requests: [2] }]);
    await sink.write({ ...data, settles: 2, end: true });
    await clock.advance(0);
    expect([ids(reading), reading.end]).toEqual([[1, 2, 3].map((index) => formatEventId(id, index)), 'complete']);
    expect([await log.unfinished('n'), streams.size]).toEqual([[], 0]);
  });

  it('the stream of a POST loses its response, and goes on: the client comes back for the rest', async () => {
    const { clock, streams, get } = await setup();
    const sink = streams.begin([1]);
    expect(sink.disconnect()).toBe(false);
    await sink.write(data);
    const reading = await readEvents(clock, replyOf(sink));
    expect([sink.disconnect(), reading.end]).toEqual([true, 'complete']);
    await sink.write({ ...data, settles: 1, end: true });
    const { id } = sink.stream;
    expect(ids(await get(formatEventId(id, 1)))).toEqual([formatEventId(id, 2)]);
  });

  it('the stream of a POST that no response will read ends in the log', async () => {
    const { clock, log, streams } = await setup();
    const sink = streams.begin([1]);
    void sink.write(data);
    sink.end();
    await clock.advance(0);
    expect(await log.read('s', sink.stream.id, 0, 0)).toMatchObject({ ended: true });
    expect([await log.unfinished('n'), streams.size]).toEqual([[], 0]);
  });

  it('the stream of a POST that no response will read may fail to end: the fault is reported, and no rejection is left', async () => {
    const { clock, streams, events } = await setup({ faults: { failBefore: ({ method }) => method === 'append' } });
    streams.begin([1]).end();
    await clock.advance(1_000);
    expect(events.map(({ type }) => type)).toContain('store-fault');
    streams.end();
    await clock.advance(1_000);
    expect([streams.size, clock.pending]).toEqual([0, 0]);
  });
});

describe('a session that ends', () => {
  it('a session that ends completes a response that was to be held for its log, and is opened afterwards', async () => {
    const { streams, read } = await setup({ faults: { failBefore: ({ method }) => method === 'read' } });
    const reply = await streams.open(undefined);
    streams.end();
    const { end } = await read(reply);
    expect([end, streams.readers]).toEqual(['complete', 0]);
  });

  it('a session that ends is not found by a GET, though its record is there: the log alone was lost', async () => {
    const { log, streams } = await setup();
    await log.drop('s');
    await expect(streams.open(undefined)).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND', status: 404 });
    await expect(streams.open('0_3')).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' });
  });
});
