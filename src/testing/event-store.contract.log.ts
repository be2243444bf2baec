import assert from 'node:assert/strict';
import { randomToken } from '../core/common/random-token.js';
import {
  McpEventLogFullError,
  McpSessionGoneError,
  McpStreamEndedError,
  McpStreamNotFoundError,
} from '../core/log/event-store.errors.js';
import { MCP_INBOX_STREAM, isShared } from '../core/log/event-store.js';
import { STANDALONE_STREAM } from '../core/protocol/events.js';
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
  type McpEventStoreHarness,
} from './event-store.contract.support.js';

type Tests = ContractTests<McpEventStoreHarness>;

export const appendTests: Tests = {
  'indices of a stream are dense and start at 1': async (harness) => {
    const writer = new TestWriter(harness.store);
    assert.equal(await writer.append(events(1)), 1);
    assert.equal(await writer.append(events(3, 2)), 2);
    assert.equal(await writer.append(events(1, 5)), 5);
    assert.deepEqual(await readAll(harness, writer.stream), stored(events(5)));
  },

  'each stream, and each session, counts for itself': async (harness) => {
    const { store } = harness;
    await store.open('another session');
    const one = new TestWriter(store);
    assert.equal(await one.append(events(2)), 1);
    assert.equal(await new TestWriter(store).append(events(2)), 1);
    assert.equal(await new TestWriter(store, STANDALONE_STREAM).append(events(2)), 1);
    assert.equal(await new TestWriter(store, one.stream, 'another session').append([event('other')]), 1);
    assert.deepEqual(await readAll(harness, one.stream), stored(events(2)));
  },

  'events of one call are adjacent and in order, however many calls run at a time': async (harness) => {
    const { store, peer = store, limits } = harness;
    const streams = [STANDALONE_STREAM, randomToken(), randomToken(), randomToken()];
    const writers = streams.flatMap((stream) => [store, peer].map((node) => new TestWriter(node, stream)));
    // Two writers a stream, and two events a round on average, fill half of what fits.
    const rounds = Math.floor(limits.maxEvents / 8);
    const appended = await Promise.all(writers.map((writer) => appendInRounds(writer, rounds)));
    for (const stream of streams) {
      const found = await readAll(harness, stream);
      assert.deepEqual(
        found.map(({ index }) => index),
        found.map((_, position) => position + 1),
      );
      const batches = appended.flat().filter((batch) => batch.stream === stream);
      assert.equal(found.length, batches.flatMap((batch) => batch.texts).length);
      for (const { first, texts } of batches) {
        assert.deepEqual(found.slice(first - 1, first - 1 + texts.length), stored(texts, first));
      }
    }
    for (const batches of appended) {
      const firsts = batches.map(({ first }) => first);
      assert.deepEqual(
        firsts,
        firsts.toSorted((a, b) => a - b),
      );
    }
  },

  'an append that names a newer index than the log has goes on behind it, and readers see the gap': async (harness) => {
    const { store, limits } = harness;
    const writer = new TestWriter(store);
    await writer.append(events(2), { newest: 0 });
    assert.equal(await writer.append([event(3)], { newest: 2 }), 3);
    const { first, lost } = await store.append(SESSION, writer.stream, [event(8)], {
      writer: writer.id,
      seq: ++writer.seq,
      newest: 7,
    });
    assert.deepEqual([first, lost], [8, true]);
    assert.equal(await writer.again([event(8)], { newest: 7 }), 8);
    assert.equal((await readAll(harness, writer.stream)).at(-1)?.index, 8);
    assert.equal((await readAll(harness, writer.stream, 3))[0]?.index, 8);
    assert.deepEqual(await readAll(harness, writer.stream, 7), stored([event(8)], 8));
    assert.equal(await writer.append([event(9)], { newest: 2 }), 9);
    const far = limits.maxEvents * 3;
    assert.equal(await writer.append([event('far')], { newest: far }), far + 1);
    assert.equal((await look(store, writer.stream)).last, far + 1);
  },

  'appendNow appends as append does, or does nothing': async (harness) => {
    const { store } = harness;
    if (!store.appendNow) return;
    await store.open('session to drop');
    const writer = new TestWriter(store);
    const nothing = async (why: string, newest?: number): Promise<void> => {
      const before = await look(store, writer.stream).catch(() => undefined);
      assert.equal(writer.now(event('late'), newest), 0, why);
      assert.deepEqual(await look(store, writer.stream).catch(() => undefined), before, why);
    };
    writer.seq++;
    await nothing('at the first append of a writer');
    await writer.again(events(2));
    await nothing('of an append that was carried out');
    writer.seq++;
    await nothing('of a log that has lost events', 3);
    assert.equal(writer.now(event(3), 2), 3);
    await nothing('of an append that was carried out by itself');
    assert.equal(await writer.again([event(3)]), 3);
    assert.deepEqual(await readAll(harness, writer.stream), stored(events(3)));
    await writer.append([], { end: true });
    writer.seq++;
    await nothing('of a stream that has ended');
    const dropped = new TestWriter(store, STANDALONE_STREAM, 'session to drop');
    await dropped.append(events(1));
    await store.drop('session to drop');
    dropped.seq++;
    assert.equal(dropped.now(event(2)), 0, 'of a session that was dropped');
    await refuses(() => dropped.again([event(2)]), McpSessionGoneError);
  },

  'an append without events makes the stream exist, and tells the index of the next event': async ({ store }) => {
    const writer = new TestWriter(store);
    await refuses(() => look(store, writer.stream), McpStreamNotFoundError);
    assert.equal(await writer.append([]), 1);
    const head = { last: 0, oldest: 1, delivered: 0, ended: false };
    assert.deepEqual(await look(store, writer.stream), { events: [], more: false, ...head });
    await writer.append(events(2));
    assert.equal(await writer.append([]), 3);
  },

  'a message comes back letter by letter': async (harness) => {
    const texts = ['ünï \u2028 😀 "\\\r\n', '', '\0', '\ud800', 'x'.repeat(500)].map((text) => JSON.stringify(text));
    const writer = new TestWriter(harness.store);
    await writer.append(texts);
    assert.deepEqual(await readAll(harness, writer.stream), stored(texts));
  },
};

export const idempotenceTests: Tests = {
  'a repeated append is answered as the first time: others may have written meanwhile, or the stream have ended':
    async (harness) => {
      const one = new TestWriter(harness.store);
      const other = new TestWriter(harness.peer ?? harness.store, one.stream);
      assert.equal(await one.append(events(2)), 1);
      assert.equal(await one.again(events(2)), 1);
      assert.equal(await other.append([event(3)]), 3);
      assert.equal(await one.again(events(2)), 1);
      assert.equal(await one.append([]), 4);
      assert.equal(await other.append([event(4)]), 4);
      assert.equal(await one.again([]), 4);
      assert.equal(await one.append([event(5)], { end: true }), 5);
      assert.equal(await one.again([event(5)], { end: true }), 5);
      assert.equal(await other.again([event(4)]), 4);
      assert.deepEqual(await readAll(harness, one.stream), stored(events(5)));
    },

  'repeats that run at the same time take effect once': async (harness) => {
    const { store, peer = store } = harness;
    const append = { writer: randomToken(), seq: 1 };
    const calls = Array.from({ length: 10 }, async (_, n) =>
      (n % 2 ? peer : store).append(SESSION, 's', events(2), append),
    );
    for (const { first } of await Promise.all(calls)) assert.equal(first, 1);
    assert.deepEqual(await readAll(harness, 's'), stored(events(2)));
  },

  'writers, streams and sessions do not take each other’s appends for repeats': async (harness) => {
    const { store } = harness;
    await store.open('another session');
    const options = { writer: 'w', seq: 1 };
    await store.append(SESSION, 'a', [event('a')], options);
    await store.append(SESSION, 'b', [event('b')], options);
    await store.append('another session', 'a', [event('c')], options);
    await store.append(SESSION, 'a', [event('d')], { writer: 'v', seq: 1 });
    assert.deepEqual(await readAll(harness, 'a'), stored([event('a'), event('d')]));
    assert.deepEqual(await readAll(harness, 'b'), stored([event('b')]));
    assert.deepEqual((await store.read('another session', 'a', 0, 9)).events, stored([event('c')]));
  },

  'a late copy of an older append changes nothing': async (harness) => {
    const writer = new TestWriter(harness.store);
    await writer.append([event(1)]);
    await writer.append([event(2)]);
    // The caller waits for no answer any more.
    await writer.again([event(1)], { seq: 1 }).catch(() => undefined);
    assert.deepEqual(await readAll(harness, writer.stream), stored(events(2)));
  },
};

export const fencingTests: Tests = {
  'a session that was never opened takes and gives nothing': async (harness) => {
    const { store } = harness;
    const options = { writer: 'w', seq: 1 };
    await refuses(() => store.append('unknown', STANDALONE_STREAM, [event(1)], options), McpSessionGoneError);
    await refuses(() => store.append('unknown', 's', [], options), McpSessionGoneError);
    await refuses(() => store.read('unknown', STANDALONE_STREAM, 0, 1), McpSessionGoneError);
    if (isShared(store)) {
      await refuses(() => store.claim('unknown', STANDALONE_STREAM, { node: 'n', reader: 'r' }), McpSessionGoneError);
      await store.release('unknown', STANDALONE_STREAM, { node: 'n', reader: 'r' });
    }
    await holds(harness, { sessions: 1 });
  },

  'after end every append is refused, of any writer': async (harness) => {
    const { store, peer = store } = harness;
    const writer = new TestWriter(store);
    await writer.append([event(1)], { end: true });
    await refuses(() => writer.append([event(2)]), McpStreamEndedError);
    await refuses(() => writer.append([], { end: true }), McpStreamEndedError);
    await refuses(() => new TestWriter(peer, writer.stream).append([event(2)]), McpStreamEndedError);
    assert.deepEqual(await readAll(harness, writer.stream), stored(events(1)));
  },
};

export const readTests: Tests = {
  'a page holds at most `limit` events and says whether there are more; past the end there is nothing': async ({
    store,
  }) => {
    const writer = new TestWriter(store);
    await writer.append(events(5));
    const page = (after: number, limit: number) => store.read(SESSION, writer.stream, after, limit);
    const head = { last: 5, oldest: 1, delivered: 0, ended: false };
    assert.deepEqual(await page(0, 2), { events: stored(events(2)), more: true, ...head });
    assert.deepEqual(await page(2, 2), { events: stored(events(2, 3), 3), more: true, ...head });
    assert.deepEqual(await page(4, 2), { events: stored(events(1, 5), 5), more: false, ...head });
    assert.deepEqual(await page(0, 5), { events: stored(events(5)), more: false, ...head });
    assert.deepEqual(await page(0, 0), { events: [], more: true, ...head });
    for (const after of [5, 6, Number.MAX_SAFE_INTEGER]) {
      assert.deepEqual(await page(after, 10), { events: [], more: false, ...head });
    }
    await writer.append([], { end: true });
    assert.deepEqual(await page(0, 2), { events: stored(events(2)), more: true, ...head, ended: true });
    assert.deepEqual(await page(3, 2), { events: stored(events(2, 4), 4), more: false, ...head, ended: true });
    assert.deepEqual(await page(5, 2), { events: [], more: false, ...head, ended: true });
  },

  'a stream that was never written to does not exist; stream 0 always does': async ({ store }) => {
    await refuses(() => store.read(SESSION, 'unknown', 0, 1), McpStreamNotFoundError);
    await refuses(() => store.read(SESSION, MCP_INBOX_STREAM, 0, 0), McpStreamNotFoundError);
    const empty = { events: [], more: false, last: 0, oldest: 1, delivered: 0, ended: false };
    for (const after of [0, 7]) assert.deepEqual(await store.read(SESSION, STANDALONE_STREAM, after, 1), empty);
  },
};

export const boundsTests: Tests = {
  'a stream keeps its newest events, `maxEvents` of them; a cursor before them goes on with the oldest': async (
    harness,
  ) => {
    const { store, limits } = harness;
    const { stream } = await flood(harness, limits.maxEvents * 2 + 7);
    const { last, oldest } = await look(store, stream);
    assert.deepEqual([last, oldest], [limits.maxEvents * 2 + 7, limits.maxEvents + 8]);
    for (const after of [0, 3, oldest - 2, oldest - 1]) {
      const { events: found } = await store.read(SESSION, stream, after, 2);
      assert.deepEqual(found, stored([event(`flood ${oldest}`), event(`flood ${oldest + 1}`)], oldest));
    }
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
    const inbox = new TestWriter(store, MCP_INBOX_STREAM);
    for (let n = 1; n <= limits.maxEvents; n++) await inbox.append([event(n)]);
    const refused = new TestWriter(store, MCP_INBOX_STREAM);
    await refuses(() => refused.append([event('one more')]), McpEventLogFullError);
    assert.equal((await readAll(harness, MCP_INBOX_STREAM)).length, limits.maxEvents);
    if (!advance) return;
    await advance(59_000);
    await refuses(() => refused.again([event('one more')]), McpEventLogFullError);
    assert.equal(await oldestOf(store, MCP_INBOX_STREAM), 1);
    await advance(2_000);
    await refused.again([event('later')]).catch(() => undefined);
    await advance(61_000);
    await new TestWriter(store, MCP_INBOX_STREAM).append([event('much later')]);
    assert.notEqual(await oldestOf(store, MCP_INBOX_STREAM), 1);
  },
};

export const timeTests: Tests = {
  'a finished stream is forgotten after its time; an open one is not, nor stream 0': async (harness) => {
    const { store, advance, limits } = harness;
    if (!advance) return;
    const [finished, open, standalone] = [
      new TestWriter(store),
      new TestWriter(store),
      new TestWriter(store, STANDALONE_STREAM),
    ];
    await finished.append(events(2), { end: true });
    await open.append(events(2));
    await standalone.append(events(2), { end: true });
    await advance(limits.finishedStreamMs - 50);
    assert.equal((await readAll(harness, finished.stream)).length, 2);
    await advance(100);
    await refuses(() => store.read(SESSION, finished.stream, 0, ALL), McpStreamNotFoundError);
    if (isShared(store)) {
      await refuses(() => store.claim(SESSION, finished.stream, { node: 'n', reader: 'r' }), McpStreamNotFoundError);
    }
    await holds(harness, { sessions: 1, streams: 2, events: 4 });
    await advance(limits.finishedStreamMs * 3);
    assert.deepEqual(await readAll(harness, open.stream), stored(events(2)));
    await refuses(() => standalone.append([event(3)]), McpStreamEndedError);
  },

  'a writer that was paused does not begin a forgotten stream anew': async ({ store, advance, limits }) => {
    if (!advance) return;
    const writer = new TestWriter(store);
    await writer.append(events(1));
    await new TestWriter(store, writer.stream).append([], { end: true });
    await advance(limits.finishedStreamMs + 100);
    await refuses(() => writer.append([event(2)]), McpStreamEndedError);
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

interface Batch {
  readonly stream: string;
  readonly first: number;
  readonly texts: string[];
}

/** Appends batches of one, two, and three events, two on average. */
async function appendInRounds(writer: TestWriter, rounds: number): Promise<Batch[]> {
  const batches: Batch[] = [];
  for (let round = 0; round < rounds; round++) {
    const texts = Array.from({ length: [1, 3, 2][round % 3]! }, (_, n) => event(`${writer.id} ${round} ${n}`));
    batches.push({ stream: writer.stream, first: await writer.append(texts), texts });
  }
  return batches;
}
