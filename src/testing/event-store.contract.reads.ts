import assert from 'node:assert/strict';
import { EventsEvictedError, StreamNotFoundError } from '../stream/event-store.errors.js';
import { STANDALONE_STREAM } from '../wire/sse.js';
import type { ContractTests } from './contract.js';
import {
  ALL,
  events,
  flood,
  refuses,
  SESSION,
  stored,
  TestWriter,
  type EventStoreHarness,
} from './event-store.contract.support.js';

export const readTests: ContractTests<EventStoreHarness> = {
  'a page holds at most `limit` events and says whether there are more': async ({ store }) => {
    const writer = new TestWriter(store);
    await writer.append(events(5));
    const page = (after: number, limit: number) => store.read(SESSION, writer.stream, after, limit);
    assert.deepEqual(await page(0, 2), { events: stored(events(2)), more: true, ended: false });
    assert.deepEqual(await page(2, 2), { events: stored(events(2, 3), 3), more: true, ended: false });
    assert.deepEqual(await page(4, 2), { events: stored(events(1, 5), 5), more: false, ended: false });
    assert.deepEqual(await page(0, 5), { events: stored(events(5)), more: false, ended: false });
    await writer.append([], { end: true });
    assert.deepEqual(await page(0, 2), { events: stored(events(2)), more: true, ended: true });
    assert.deepEqual(await page(3, 2), { events: stored(events(2, 4), 4), more: false, ended: true });
  },

  'at the end, and past it, there is nothing': async ({ store }) => {
    const writer = new TestWriter(store);
    await writer.append(events(2));
    for (const after of [2, 3, Number.MAX_SAFE_INTEGER]) {
      const nothing = { events: [], more: false, ended: false };
      assert.deepEqual(await store.read(SESSION, writer.stream, after, 10), nothing);
    }
    await writer.append([], { end: true });
    assert.deepEqual(await store.read(SESSION, writer.stream, 2, 10), { events: [], more: false, ended: true });
  },

  'a stream that nobody wrote to does not exist; stream 0 always does': async ({ store }) => {
    await refuses(store.read(SESSION, 'unknown', 0, 1), StreamNotFoundError);
    assert.equal(await store.describe(SESSION, 'unknown'), undefined);
    assert.deepEqual(await store.read(SESSION, STANDALONE_STREAM, 0, 1), { events: [], more: false, ended: false });
    assert.deepEqual(await store.read(SESSION, STANDALONE_STREAM, 7, 1), { events: [], more: false, ended: false });
    const head = { last: 0, oldest: 1, delivered: 0, ended: false, readers: 0 };
    assert.deepEqual(await store.describe(SESSION, STANDALONE_STREAM), head);
  },

  'a cursor before evicted events fails typed, and says where to go on': async (harness) => {
    const { store, limits } = harness;
    const { stream } = await flood(harness, limits.maxEvents + 20);
    const { oldest, last } = (await store.describe(SESSION, stream))!;
    assert.ok(oldest > 1);
    for (const [after, limit] of [
      [0, 1],
      [0, ALL],
      [oldest - 2, ALL],
    ] as const) {
      const evicted = await refuses(store.read(SESSION, stream, after, limit), EventsEvictedError);
      assert.deepEqual([evicted.stream, evicted.after, evicted.oldest], [stream, after, oldest]);
    }
    const { events, more } = await store.read(SESSION, stream, oldest - 1, ALL);
    assert.deepEqual([events[0]?.index, events.at(-1)?.index, more], [oldest, last, false]);
  },

  'a page begins right after the cursor and has no gaps, wherever the cursor is': async (harness) => {
    const { store, limits } = harness;
    const { stream } = await flood(harness, limits.maxEvents * 2);
    for (let after = 0; after < limits.maxEvents * 2; after += 7) {
      const page = await store.read(SESSION, stream, after, 10).catch(() => undefined);
      const indices = page?.events.map(({ index }) => index) ?? [];
      assert.deepEqual(
        indices,
        indices.map((_, position) => after + 1 + position),
      );
    }
  },
};
