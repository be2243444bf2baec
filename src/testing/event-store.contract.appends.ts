import assert from 'node:assert/strict';
import { randomToken } from '../common/random-token.js';
import { SessionGoneError, StreamEndedError, StreamNotFoundError } from '../stream/event-store.errors.js';
import { STANDALONE_STREAM } from '../wire/sse.js';
import type { ContractTests } from './contract.js';
import {
  event,
  events,
  readAll,
  refuses,
  SESSION,
  stored,
  TestWriter,
  type EventStoreHarness,
} from './event-store.contract.support.js';

type Tests = ContractTests<EventStoreHarness>;

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
    const rounds = Math.floor(limits.maxEvents / (writers.length * 2));
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

  'an append without events makes the stream exist, and tells the index of the next event': async ({ store }) => {
    const writer = new TestWriter(store);
    assert.equal(await store.describe(SESSION, writer.stream), undefined);
    assert.equal(await writer.append([]), 1);
    const head = await store.describe(SESSION, writer.stream);
    assert.deepEqual(head, { last: 0, oldest: 1, delivered: 0, ended: false, readers: 0 });
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
  'a repeated append is answered as the first time and changes nothing': async (harness) => {
    const writer = new TestWriter(harness.store);
    await writer.append(events(1));
    assert.equal(await writer.append(events(2, 2)), 2);
    assert.equal(await writer.again(events(2, 2)), 2);
    assert.equal(await writer.again(events(2, 2)), 2);
    assert.deepEqual(await readAll(harness, writer.stream), stored(events(3)));
  },

  'repeats that run at the same time take effect once': async (harness) => {
    const { store, peer = store } = harness;
    const append = { writer: randomToken(), seq: 1 };
    const calls = Array.from({ length: 10 }, (_, n) => (n % 2 ? peer : store).append(SESSION, 's', events(2), append));
    for (const { first } of await Promise.all(calls)) assert.equal(first, 1);
    assert.deepEqual(await readAll(harness, 's'), stored(events(2)));
  },

  'a repeat is answered as the first time when others have written meanwhile': async (harness) => {
    const one = new TestWriter(harness.store);
    const other = new TestWriter(harness.peer ?? harness.store, one.stream);
    assert.equal(await one.append([event(1)]), 1);
    assert.equal(await other.append([event(2)]), 2);
    assert.equal(await one.again([event(1)]), 1);
    assert.equal(await one.append([]), 3);
    assert.equal(await other.append([event(3)]), 3);
    assert.equal(await one.again([]), 3);
    assert.deepEqual(await readAll(harness, one.stream), stored(events(3)));
  },

  'a repeat is answered as the first time though the stream has ended': async (harness) => {
    const writer = new TestWriter(harness.store);
    const other = new TestWriter(harness.store, writer.stream);
    await other.append([event(1)]);
    assert.equal(await writer.append([event(2)], { end: true }), 2);
    assert.equal(await writer.again([event(2)], { end: true }), 2);
    assert.equal(await other.again([event(1)]), 1);
    assert.deepEqual(await readAll(harness, writer.stream), stored(events(2)));
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
    // Nobody waits for its answer any more.
    await writer.again([event(1)], { seq: 1 }).catch(() => undefined);
    assert.deepEqual(await readAll(harness, writer.stream), stored(events(2)));
  },
};

export const fencingTests: Tests = {
  'a session that was never opened takes and gives nothing': async ({ store }) => {
    const options = { writer: 'w', seq: 1 };
    await refuses(store.append('unknown', STANDALONE_STREAM, [event(1)], options), SessionGoneError);
    await refuses(store.append('unknown', 's', [], options), SessionGoneError);
    await refuses(store.read('unknown', STANDALONE_STREAM, 0, 1), SessionGoneError);
    await refuses(store.attach('unknown', STANDALONE_STREAM, { node: 'n', reader: 'r' }), SessionGoneError);
    assert.equal(await store.describe('unknown', STANDALONE_STREAM), undefined);
    assert.deepEqual(await store.openRequests({ session: 'unknown' }), []);
    assert.equal((await store.stats()).sessions, 1);
  },

  'after drop every append is refused, and brings nothing back': async ({ store, peer = store }) => {
    const writer = new TestWriter(store);
    await writer.append(events(2), { opens: { node: 'n', requests: [1] } });
    await peer.drop(SESSION);
    await refuses(writer.append([event(3)]), SessionGoneError);
    await refuses(new TestWriter(store, STANDALONE_STREAM).append([event(3)]), SessionGoneError);
    await refuses(store.read(SESSION, writer.stream, 0, 1), SessionGoneError);
    assert.equal(await store.describe(SESSION, STANDALONE_STREAM), undefined);
    assert.deepEqual(await store.stats(), { sessions: 0, streams: 0, events: 0, bytes: 0 });
  },

  'drop in the midst of appends leaves nothing': async ({ store, peer = store }) => {
    const writers = Array.from({ length: 10 }, (_, n) => new TestWriter(n % 2 ? peer : store));
    const appends = writers.map(async (writer) => {
      for (let n = 0; n < 5; n++) await writer.append([event(n)]);
    });
    const dropping = peer.drop(SESSION);
    for (const outcome of await Promise.allSettled(appends)) {
      if (outcome.status === 'rejected') assert.ok(outcome.reason instanceof SessionGoneError);
    }
    await dropping;
    assert.deepEqual(await store.stats(), { sessions: 0, streams: 0, events: 0, bytes: 0 });
  },

  'a session that is opened again has a fresh log': async (harness) => {
    const { store } = harness;
    const [writer, standalone] = [new TestWriter(store), new TestWriter(store, STANDALONE_STREAM)];
    await writer.append(events(2), { end: true });
    await standalone.append(events(2));
    await store.delivered(SESSION, STANDALONE_STREAM, 2);
    await store.drop(SESSION);
    await store.open(SESSION);
    await refuses(store.read(SESSION, writer.stream, 0, 1), StreamNotFoundError);
    assert.equal((await store.describe(SESSION, STANDALONE_STREAM))?.delivered, 0);
    assert.equal(await standalone.again([event('fresh')]), 1);
    assert.deepEqual(await readAll(harness, STANDALONE_STREAM), stored([event('fresh')]));
  },

  'open and drop are idempotent': async (harness) => {
    const { store } = harness;
    const writer = new TestWriter(store);
    await writer.append(events(2));
    await Promise.all([store.open(SESSION), store.open(SESSION)]);
    assert.deepEqual(await readAll(harness, writer.stream), stored(events(2)));
    await Promise.all([store.drop(SESSION), store.drop(SESSION)]);
    await store.drop(SESSION);
    await store.drop('unknown');
  },

  'after end every append is refused, whoever writes': async (harness) => {
    const { store, peer = store } = harness;
    const writer = new TestWriter(store);
    await writer.append([event(1)], { end: true });
    await refuses(writer.append([event(2)]), StreamEndedError);
    await refuses(writer.append([], { end: true }), StreamEndedError);
    await refuses(new TestWriter(peer, writer.stream).append([event(2)]), StreamEndedError);
    assert.deepEqual(await readAll(harness, writer.stream), stored(events(1)));
  },
};

interface Batch {
  readonly stream: string;
  readonly first: number;
  readonly texts: string[];
}

/** Batches of one, two, and three events, two on average. */
async function appendInRounds(writer: TestWriter, rounds: number): Promise<Batch[]> {
  const batches: Batch[] = [];
  for (let round = 0; round < rounds; round++) {
    const texts = Array.from({ length: [1, 3, 2][round % 3]! }, (_, n) => event(`${writer.id} ${round} ${n}`));
    batches.push({ stream: writer.stream, first: await writer.append(texts), texts });
  }
  return batches;
}
