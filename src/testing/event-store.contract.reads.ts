import assert from 'node:assert/strict';
import { EventLogFullError, StreamEndedError, StreamNotFoundError } from '../stream/event-store.errors.js';
import { INBOX_STREAM } from '../stream/event-store.js';
import { STANDALONE_STREAM } from '../wire/sse.js';
import type { ContractTests } from './contract.js';
import {
  ALL,
  bytesOf,
  event,
  events,
  flood,
  holds,
  look,
  oldestOf,
  readAll,
  refuses,
  SESSION,
  stored,
  TestWriter,
  type EventStoreHarness,
} from './event-store.contract.support.js';

type Tests = ContractTests<EventStoreHarness>;

export const readTests: Tests = {
  'a page holds at most `limit` events and says whether there are more': async ({ store }) => {
    const writer = new TestWriter(store);
    await writer.append(events(5));
    const page = (after: number, limit: number) => store.read(SESSION, writer.stream, after, limit);
    const head = { last: 5, oldest: 1, delivered: 0, ended: false };
    assert.deepEqual(await page(0, 2), { events: stored(events(2)), more: true, ...head });
    assert.deepEqual(await page(2, 2), { events: stored(events(2, 3), 3), more: true, ...head });
    assert.deepEqual(await page(4, 2), { events: stored(events(1, 5), 5), more: false, ...head });
    assert.deepEqual(await page(0, 5), { events: stored(events(5)), more: false, ...head });
    await writer.append([], { end: true });
    assert.deepEqual(await page(0, 2), { events: stored(events(2)), more: true, ...head, ended: true });
    assert.deepEqual(await page(3, 2), { events: stored(events(2, 4), 4), more: false, ...head, ended: true });
  },

  'a limit of 0 only looks': async ({ store }) => {
    const writer = new TestWriter(store);
    await writer.append(events(2));
    const head = { last: 2, oldest: 1, delivered: 0, ended: false };
    assert.deepEqual(await store.read(SESSION, writer.stream, 0, 0), { events: [], more: true, ...head });
    assert.deepEqual(await store.read(SESSION, writer.stream, 2, 0), { events: [], more: false, ...head });
  },

  'at the end, and past it, there is nothing': async ({ store }) => {
    const writer = new TestWriter(store);
    await writer.append(events(2));
    const head = { last: 2, oldest: 1, delivered: 0, ended: false };
    for (const after of [2, 3, Number.MAX_SAFE_INTEGER]) {
      const nothing = { events: [], more: false, ...head };
      assert.deepEqual(await store.read(SESSION, writer.stream, after, 10), nothing);
    }
    await writer.append([], { end: true });
    const end = { events: [], more: false, ...head, ended: true };
    assert.deepEqual(await store.read(SESSION, writer.stream, 2, 10), end);
  },

  'a stream that was never written to does not exist; stream 0 always does': async ({ store }) => {
    await refuses(() => store.read(SESSION, 'unknown', 0, 1), StreamNotFoundError);
    await refuses(() => store.read(SESSION, INBOX_STREAM, 0, 0), StreamNotFoundError);
    const empty = { events: [], more: false, last: 0, oldest: 1, delivered: 0, ended: false };
    for (const after of [0, 7]) assert.deepEqual(await store.read(SESSION, STANDALONE_STREAM, after, 1), empty);
  },

  'a cursor before evicted events goes on with the oldest that is kept': async (harness) => {
    const { store, limits } = harness;
    const { stream } = await flood(harness, limits.maxEvents + 20);
    const { oldest, last } = await look(store, stream);
    assert.ok(oldest > 1);
    for (const after of [0, 3, oldest - 2, oldest - 1]) {
      const { events: found } = await store.read(SESSION, stream, after, 2);
      assert.deepEqual(found, stored([event(`flood ${oldest}`), event(`flood ${oldest + 1}`)], oldest));
    }
    assert.equal((await readAll(harness, stream)).at(-1)?.index, last);
  },
};

export const boundsTests: Tests = {
  'a stream keeps its newest events, `maxEvents` of them': async (harness) => {
    const { store, limits } = harness;
    const { stream } = await flood(harness, limits.maxEvents * 2 + 7);
    const { last, oldest } = await look(store, stream);
    assert.deepEqual([last, oldest], [limits.maxEvents * 2 + 7, limits.maxEvents + 8]);
    const kept = await readAll(harness, stream);
    assert.equal(kept.length, limits.maxEvents);
    assert.deepEqual(kept.at(-1), { index: last, data: event(`flood ${last}`) });
    await holds(harness, { events: limits.maxEvents });
  },

  'an append of more events than that keeps the newest': async (harness) => {
    const { limits } = harness;
    const writer = new TestWriter(harness.store);
    const texts = events(limits.maxEvents * 2 + 1);
    assert.equal(await writer.append(texts), 1);
    const kept = await readAll(harness, writer.stream);
    assert.deepEqual(kept, stored(texts.slice(-limits.maxEvents), limits.maxEvents + 2));
  },

  'a stream loses nothing to another one, nor to another session': async (harness) => {
    const { store, limits } = harness;
    await store.open('another session');
    const quiet = new TestWriter(store);
    await quiet.append(events(5));
    await new TestWriter(store, quiet.stream, 'another session').append(events(5));
    await flood(harness, limits.maxEvents * 2);
    assert.deepEqual(await readAll(harness, quiet.stream), stored(events(5)));
    assert.deepEqual((await store.read('another session', quiet.stream, 0, ALL)).events, stored(events(5)));
  },

  'a session keeps at most `maxBytes`, and the newest event of each open stream': async (harness) => {
    const { store, count, limits } = harness;
    if (limits.maxBytes === undefined) return;
    const open = new TestWriter(store);
    await open.append([event('open')]);
    const writer = new TestWriter(store);
    const big = event('big', Math.floor(limits.maxBytes / 10));
    for (let n = 0; n < 30; n++) {
      await writer.append([big]);
      const { bytes } = (await count?.()) ?? { bytes: 0 };
      assert.ok(bytes <= limits.maxBytes);
    }
    assert.deepEqual(await readAll(harness, open.stream), stored([event('open')]));
    const kept = await readAll(harness, writer.stream);
    assert.ok(kept.length > 1 && kept.at(-1)?.index === 30);
  },

  'one event that is larger than `maxBytes` is kept, as the newest of its stream': async (harness) => {
    const { store, limits } = harness;
    if (limits.maxBytes === undefined) return;
    const writer = new TestWriter(store);
    await writer.append(events(3));
    const large = event('large', limits.maxBytes * 2);
    await writer.append([large]);
    assert.deepEqual(await readAll(harness, writer.stream), stored([large], 4));
    await writer.append([event('small')]);
    assert.deepEqual(await readAll(harness, writer.stream), stored([event('small')], 5));
  },

  'of bytes, finished streams give before open ones': async (harness) => {
    const { store, limits } = harness;
    if (limits.maxBytes === undefined) return;
    const quarter = event('quarter', Math.floor(limits.maxBytes / 4));
    const [open, finished] = [new TestWriter(store), new TestWriter(store)];
    await open.append([event(1), quarter]);
    await finished.append([quarter, event('answer')], { end: true });
    const writer = new TestWriter(store);
    await writer.append([quarter, quarter]);
    assert.equal(await oldestOf(store, open.stream), 1);
    assert.notEqual(await oldestOf(store, finished.stream), 1);
  },

  'the inbox evicts nothing: it refuses, until what it holds is a minute old': async (harness) => {
    const { store, advance, limits } = harness;
    const inbox = new TestWriter(store, INBOX_STREAM);
    for (let n = 1; n <= limits.maxEvents; n++) await inbox.append([event(n)]);
    const refused = new TestWriter(store, INBOX_STREAM);
    await refuses(() => refused.append([event('one more')]), EventLogFullError);
    assert.equal((await readAll(harness, INBOX_STREAM)).length, limits.maxEvents);
    if (!advance) return;
    await advance(59_000);
    await refuses(() => refused.again([event('one more')]), EventLogFullError);
    assert.equal(await oldestOf(store, INBOX_STREAM), 1);
    await advance(2_000);
    await refused.again([event('later')]).catch(() => undefined);
    await advance(61_000);
    await new TestWriter(store, INBOX_STREAM).append([event('much later')]);
    assert.notEqual(await oldestOf(store, INBOX_STREAM), 1);
  },
};

export const timeTests: Tests = {
  'a finished stream is forgotten after its time': async (harness) => {
    const { store, advance, limits } = harness;
    if (!advance) return;
    const finished = new TestWriter(store);
    await finished.append(events(2), { end: true });
    await advance(limits.finishedStreamMs - 50);
    assert.equal((await readAll(harness, finished.stream)).length, 2);
    await advance(100);
    await refuses(() => store.read(SESSION, finished.stream, 0, ALL), StreamNotFoundError);
    await refuses(() => store.claim(SESSION, finished.stream, { node: 'n', reader: 'r' }), StreamNotFoundError);
    await holds(harness, { sessions: 1, streams: 0, events: 0, bytes: 0 });
  },

  'an open stream, and stream 0 whatever happened to it, are not forgotten': async (harness) => {
    const { store, advance, limits } = harness;
    if (!advance) return;
    const [open, standalone] = [new TestWriter(store), new TestWriter(store, STANDALONE_STREAM)];
    await open.append(events(2));
    await standalone.append(events(2), { end: true });
    await advance(limits.finishedStreamMs * 3);
    assert.deepEqual(await readAll(harness, open.stream), stored(events(2)));
    await refuses(() => standalone.append([event(3)]), StreamEndedError);
  },

  'a writer that was paused does not begin a forgotten stream anew': async ({ store, advance, limits }) => {
    if (!advance) return;
    const writer = new TestWriter(store);
    await writer.append(events(1));
    await new TestWriter(store, writer.stream).append([], { end: true });
    await advance(limits.finishedStreamMs + 100);
    await refuses(() => writer.append([event(2)]), StreamEndedError);
    assert.equal(await oldestOf(store, writer.stream), undefined);
  },

  'what is held is counted': async (harness) => {
    const { store } = harness;
    await holds(harness, { sessions: 1, streams: 0, events: 0, bytes: 0 });
    const texts = [event('ü😀'), event(2)];
    await new TestWriter(store).append(texts);
    await new TestWriter(store, STANDALONE_STREAM).append([event(3)]);
    await holds(harness, { sessions: 1, streams: 2, events: 3, bytes: bytesOf([...texts, event(3)]) });
  },
};
