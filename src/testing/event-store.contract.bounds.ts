import assert from 'node:assert/strict';
import {
  EventLogFullError,
  EventsEvictedError,
  StreamEndedError,
  StreamNotFoundError,
} from '../stream/event-store.errors.js';
import { STANDALONE_STREAM } from '../wire/sse.js';
import type { ContractTests } from './contract.js';
import {
  ALL,
  bytesOf,
  event,
  events,
  flood,
  isKept,
  readAll,
  refuses,
  SESSION,
  stored,
  TestWriter,
  type EventStoreHarness,
} from './event-store.contract.support.js';

type Tests = ContractTests<EventStoreHarness>;

export const boundsTests: Tests = {
  'a session keeps at most `maxEvents`: the newest ones': async (harness) => {
    const { store, limits } = harness;
    const { stream } = await flood(harness, limits.maxEvents * 2);
    const { last, oldest } = (await store.describe(SESSION, stream))!;
    assert.equal(last, limits.maxEvents * 2);
    const kept = await readAll(harness, stream, oldest - 1);
    assert.equal(kept.length, (await store.stats()).events);
    assert.ok(kept.length > 0 && kept.length <= limits.maxEvents);
    assert.deepEqual(kept.at(-1), { index: last, data: event(`flood ${last}`) });
  },

  'a session keeps at most `maxBytes`': async ({ store, limits }) => {
    const writer = new TestWriter(store);
    const big = event('big', Math.floor(limits.maxBytes / 10));
    for (let n = 0; n < 30; n++) {
      await writer.append([big]);
      assert.ok((await store.stats()).bytes <= limits.maxBytes);
    }
    assert.ok((await store.stats()).events > 1);
  },

  'one append that is larger than the bounds is accepted, and its newest event kept': async (harness) => {
    const { store, limits } = harness;
    const writer = new TestWriter(store);
    assert.equal(await writer.append(events(limits.maxEvents * 2)), 1);
    const { stats, head } = { stats: await store.stats(), head: await store.describe(SESSION, writer.stream) };
    assert.ok(stats.events <= limits.maxEvents);
    assert.equal(head?.last, limits.maxEvents * 2);
    assert.ok(await isKept(harness, writer.stream, limits.maxEvents * 2));
  },

  'what was written first goes first, whichever stream it is on': async (harness) => {
    const { store, limits } = harness;
    const older = new TestWriter(store);
    await older.append(events(limits.maxEvents / 2), { end: true });
    const younger = await flood(harness, Math.floor(limits.maxEvents * 0.9));
    assert.equal(await isKept(harness, older.stream, 1), false);
    assert.equal((await readAll(harness, younger.stream)).length, Math.floor(limits.maxEvents * 0.9));
  },

  'the newest event of an open stream stays; when the stream has ended it may go': async (harness) => {
    const { store, limits } = harness;
    const writer = new TestWriter(store);
    await writer.append(events(2));
    await flood(harness, limits.maxEvents * 2);
    await refuses(store.read(SESSION, writer.stream, 0, ALL), EventsEvictedError);
    assert.deepEqual(await readAll(harness, writer.stream, 1), stored([event(2)], 2));
    assert.equal(await writer.append([event(3)]), 3);
    await writer.append([], { end: true });
    await flood(harness, limits.maxEvents * 2);
    assert.equal(await isKept(harness, writer.stream, 3), false);
    const head = await store.describe(SESSION, writer.stream);
    assert.deepEqual(head, { last: 3, oldest: 4, delivered: 0, ended: true, readers: 0 });
    assert.deepEqual(await store.read(SESSION, writer.stream, 3, 1), { events: [], more: false, ended: true });
  },

  'an answer that nobody has read stays, though its stream has ended; when it was read it may go': async (harness) => {
    const { store, limits } = harness;
    const writer = new TestWriter(store);
    const opens = { node: 'n', requests: [1] };
    await writer.append(events(2), { opens });
    await writer.append([event('answer')], { settles: [{ id: 1, answer: 0 }], end: true });
    await flood(harness, limits.maxEvents * 2);
    assert.equal(await isKept(harness, writer.stream, 2), false);
    assert.deepEqual(await readAll(harness, writer.stream, 2), stored([event('answer')], 3));
    await store.delivered(SESSION, writer.stream, 2);
    await flood(harness, limits.maxEvents);
    assert.ok(await isKept(harness, writer.stream, 3));
    await store.delivered(SESSION, writer.stream, 3);
    await flood(harness, limits.maxEvents);
    assert.equal(await isKept(harness, writer.stream, 3), false);
  },

  'an unread answer does not keep what follows it on its stream': async (harness) => {
    const { store, limits } = harness;
    const writer = new TestWriter(store);
    await writer.append([event(1), event('answer')], {
      ...{ opens: { node: 'n', requests: [1, 2] }, settles: [{ id: 1, answer: 1 }] },
    });
    await flood(harness, limits.maxEvents * 2, writer);
    assert.ok((await store.stats()).events <= limits.maxEvents);
    const { last, oldest } = (await store.describe(SESSION, writer.stream))!;
    assert.deepEqual([oldest, last], [2, limits.maxEvents * 2 + 2]);
    const page = await store.read(SESSION, writer.stream, 1, ALL);
    assert.deepEqual(page, { events: stored([event('answer')], 2), more: true, ended: false });
    const evicted = await refuses(store.read(SESSION, writer.stream, 2, ALL), EventsEvictedError);
    assert.ok(evicted.oldest > 3);
    assert.equal((await readAll(harness, writer.stream, evicted.oldest - 1)).at(-1)?.index, last);
  },

  'a settlement without an answer keeps nothing': async (harness) => {
    const { store, limits } = harness;
    const writer = new TestWriter(store);
    await writer.append(events(2), { opens: { node: 'n', requests: [1] }, settles: [{ id: 1 }], end: true });
    await flood(harness, limits.maxEvents * 2);
    assert.equal((await store.describe(SESSION, writer.stream))?.oldest, 3);
  },

  'one session’s flood costs other sessions nothing': async (harness) => {
    const { store, limits } = harness;
    await store.open('another session');
    await new TestWriter(store, 's', 'another session').append(events(5));
    await flood(harness, limits.maxEvents * 2);
    assert.deepEqual((await store.read('another session', 's', 0, ALL)).events, stored(events(5)));
  },
};

export const fullTests: Tests = {
  'an append is refused when what must not be evicted reaches `maxEvents`': async (harness) => {
    const { store, limits } = harness;
    const writers = await pinEach(harness, limits.maxEvents);
    await refuses(new TestWriter(store, STANDALONE_STREAM).append([event('one more')]), EventLogFullError);
    await refuses(writers[0]!.append([event('one more')]), EventLogFullError);
    for (const { stream } of writers) assert.deepEqual(await readAll(harness, stream), stored([event('pinned')]));
    assert.equal((await store.stats()).events, limits.maxEvents);
  },

  'an append without events is not refused, so that a stream can be ended and make room': async (harness) => {
    const { store, limits } = harness;
    const [writer] = await pinEach(harness, limits.maxEvents);
    const newcomer = new TestWriter(store);
    assert.equal(await newcomer.append([]), 1);
    await refuses(newcomer.append([event(1)]), EventLogFullError);
    await writer!.append([], { end: true });
    assert.equal(await newcomer.append([event(1)]), 1);
    assert.equal(await isKept(harness, writer!.stream, 1), false);
  },

  'reading an answer makes room; a refused append was not carried out and can be repeated': async (harness) => {
    const { store, limits } = harness;
    const answers = await pinEach(harness, limits.maxEvents, {
      ...{ settles: [{ id: 1, answer: 0 }], end: true },
    });
    const newcomer = new TestWriter(store);
    await refuses(newcomer.append(events(2)), EventLogFullError);
    await refuses(newcomer.again(events(2)), EventLogFullError);
    await store.delivered(SESSION, answers[3]!.stream, 1);
    assert.equal(await newcomer.again(events(2)), 1);
    assert.deepEqual(await readAll(harness, newcomer.stream, 1), stored([event(2)], 2));
    for (const [position, { stream }] of answers.entries()) {
      assert.equal(await isKept(harness, stream, 1), position !== 3);
    }
  },

  'what must not be evicted never exceeds the bounds by more than one append': async ({ store, limits }) => {
    const batch = Array.from({ length: 3 }, () => event('answer', Math.floor(limits.maxBytes / 8)));
    const ids = [1, 2, 3];
    const settles = ids.map((id, answer) => ({ id, answer }));
    let accepted = 0;
    for (let n = 0; n < 6; n++) {
      const append = new TestWriter(store).append(batch, { settles, end: true });
      await append.then(() => accepted++).catch((error: unknown) => assert.ok(error instanceof EventLogFullError));
    }
    assert.equal(accepted, Math.ceil(limits.maxBytes / bytesOf(batch)));
    assert.ok((await store.stats()).bytes < limits.maxBytes + bytesOf(batch));
  },
};

export const timeTests: Tests = {
  'a finished stream is forgotten after its time, read or not': async ({ store, advance, limits }) => {
    if (!advance) return;
    const [finished, answered] = [new TestWriter(store), new TestWriter(store)];
    await finished.append(events(2), { end: true });
    await answered.append(events(1), { settles: [{ id: 1, answer: 0 }], end: true });
    await advance(limits.finishedStreamMs - 50);
    assert.equal((await store.read(SESSION, finished.stream, 0, ALL)).events.length, 2);
    await advance(100);
    for (const { stream } of [finished, answered]) {
      await refuses(store.read(SESSION, stream, 0, ALL), StreamNotFoundError);
      assert.equal(await store.describe(SESSION, stream), undefined);
    }
    assert.deepEqual(await store.stats(), { sessions: 1, streams: 0, events: 0, bytes: 0 });
  },

  'an open stream, and stream 0 whatever happened to it, are not forgotten': async (harness) => {
    const { store, advance, limits } = harness;
    if (!advance) return;
    const [open, standalone] = [new TestWriter(store), new TestWriter(store, STANDALONE_STREAM)];
    await open.append(events(2));
    await standalone.append(events(2), { end: true });
    await advance(limits.finishedStreamMs * 3);
    assert.deepEqual(await readAll(harness, open.stream), stored(events(2)));
    await refuses(standalone.append([event(3)]), StreamEndedError);
  },

  'a writer that was paused does not begin a forgotten stream anew': async ({ store, advance, limits }) => {
    if (!advance) return;
    const writer = new TestWriter(store);
    await writer.append(events(1));
    await new TestWriter(store, writer.stream).append([], { end: true });
    await advance(limits.finishedStreamMs + 100);
    await refuses(writer.append([event(2)]), StreamEndedError);
    assert.equal(await store.describe(SESSION, writer.stream), undefined);
  },
};

/** As many streams, each with one event. Without options they stay open. */
async function pinEach(
  harness: EventStoreHarness,
  count: number,
  options: Parameters<TestWriter['append']>[1] = {},
): Promise<TestWriter[]> {
  const writers = Array.from({ length: count }, () => new TestWriter(harness.store));
  for (const writer of writers) await writer.append([event('pinned')], options);
  return writers;
}
