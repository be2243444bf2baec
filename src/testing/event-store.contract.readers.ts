import assert from 'node:assert/strict';
import { SessionGoneError, StreamNotFoundError } from '../stream/event-store.errors.js';
import type { ReaderRef } from '../stream/event-store.js';
import { STANDALONE_STREAM } from '../wire/sse.js';
import { FORGED_IDS, type ContractTests } from './contract.js';
import {
  ALL,
  bytesOf,
  event,
  events,
  flood,
  refuses,
  SESSION,
  stored,
  TestWriter,
  type EventStoreHarness,
} from './event-store.contract.support.js';

type Tests = ContractTests<EventStoreHarness>;

const [a, b, c] = ['a', 'b', 'c'].map((reader) => ({ node: `node of ${reader}`, reader })) as [
  ReaderRef,
  ReaderRef,
  ReaderRef,
];

export const readerTests: Tests = {
  'attach makes a reader the newest, and tells who was it before': async ({ store, peer = store }) => {
    assert.equal(await store.attach(SESSION, STANDALONE_STREAM, a), undefined);
    assert.deepEqual(await peer.attach(SESSION, STANDALONE_STREAM, b), a);
    assert.deepEqual(await store.attach(SESSION, STANDALONE_STREAM, c), b);
    assert.equal((await store.describe(SESSION, STANDALONE_STREAM))?.readers, 3);
  },

  'detach of the newest tells who is it now': async ({ store, peer = store }) => {
    for (const reader of [a, b, c]) await store.attach(SESSION, STANDALONE_STREAM, reader);
    assert.deepEqual(await peer.detach(SESSION, STANDALONE_STREAM, c), b);
    assert.deepEqual(await store.detach(SESSION, STANDALONE_STREAM, b), a);
    assert.equal(await store.detach(SESSION, STANDALONE_STREAM, a), undefined);
    assert.equal((await store.describe(SESSION, STANDALONE_STREAM))?.readers, 0);
  },

  'detach of another one makes nobody the newest': async ({ store }) => {
    for (const reader of [a, b, c]) await store.attach(SESSION, STANDALONE_STREAM, reader);
    assert.equal(await store.detach(SESSION, STANDALONE_STREAM, b), undefined);
    assert.deepEqual(await store.detach(SESSION, STANDALONE_STREAM, c), a);
  },

  'detach is idempotent, also when there is nothing to detach from': async ({ store }) => {
    await store.attach(SESSION, STANDALONE_STREAM, a);
    await store.attach(SESSION, STANDALONE_STREAM, b);
    assert.deepEqual(await store.detach(SESSION, STANDALONE_STREAM, b), a);
    assert.equal(await store.detach(SESSION, STANDALONE_STREAM, b), undefined);
    assert.equal(await store.detach(SESSION, STANDALONE_STREAM, c), undefined);
    assert.equal((await store.describe(SESSION, STANDALONE_STREAM))?.readers, 1);
    assert.equal(await store.detach(SESSION, 'unknown', a), undefined);
    assert.equal(await store.detach('unknown', STANDALONE_STREAM, a), undefined);
  },

  'a repeated attach is answered as the first time': async ({ store }) => {
    await store.attach(SESSION, STANDALONE_STREAM, a);
    assert.deepEqual(await store.attach(SESSION, STANDALONE_STREAM, b), a);
    assert.deepEqual(await store.attach(SESSION, STANDALONE_STREAM, b), a);
    assert.equal((await store.describe(SESSION, STANDALONE_STREAM))?.readers, 2);
    // An older one that attaches again is the newest.
    assert.deepEqual(await store.attach(SESSION, STANDALONE_STREAM, a), b);
    assert.deepEqual(await store.detach(SESSION, STANDALONE_STREAM, a), b);
  },

  'of readers that attach at the same time each is told of another': async ({ store, peer = store }) => {
    const readers = Array.from({ length: 20 }, (_, n) => ({ node: `n${n % 3}`, reader: `r${n}` }));
    const attach = (reader: ReaderRef, n: number) => (n % 2 ? peer : store).attach(SESSION, STANDALONE_STREAM, reader);
    const before = await Promise.all(readers.map(attach));
    assert.equal(before.filter((reader) => reader === undefined).length, 1);
    assert.equal(new Set(before.map((reader) => reader?.reader)).size, 20);
  },

  'streams have readers of their own; one that does not exist has none': async ({ store }) => {
    const writer = new TestWriter(store);
    await refuses(store.attach(SESSION, writer.stream, a), StreamNotFoundError);
    await refuses(store.attach('unknown', STANDALONE_STREAM, a), SessionGoneError);
    await writer.append([]);
    await store.attach(SESSION, STANDALONE_STREAM, a);
    assert.equal(await store.attach(SESSION, writer.stream, b), undefined);
    assert.equal((await store.describe(SESSION, writer.stream))?.readers, 1);
  },
};

export const newestTests: Tests = {
  'the head of a stream names its newest reader': async ({ store, peer = store }) => {
    const newest = async () => (await peer.describe(SESSION, STANDALONE_STREAM))?.newest;
    assert.equal(await newest(), undefined);
    await store.attach(SESSION, STANDALONE_STREAM, a);
    await store.attach(SESSION, STANDALONE_STREAM, b);
    assert.deepEqual(await newest(), b);
    await store.attach(SESSION, STANDALONE_STREAM, a);
    assert.deepEqual(await newest(), a);
    await store.detach(SESSION, STANDALONE_STREAM, a);
    assert.deepEqual(await newest(), b);
    await store.detach(SESSION, STANDALONE_STREAM, b);
    assert.equal(await newest(), undefined);
  },

  'an append tells the newest reader, unless the store tells its node by itself': async ({ store }) => {
    const append = (seq: number) =>
      store.append(SESSION, STANDALONE_STREAM, [event(seq)], { writer: 'w', seq }).then(({ reader }) => reader);
    assert.equal(await append(1), undefined);
    for (const [position, reader] of [a, b].entries()) {
      await store.attach(SESSION, STANDALONE_STREAM, reader);
      const told = await append(position + 2);
      if (told) assert.deepEqual(told, reader);
    }
    await store.detach(SESSION, STANDALONE_STREAM, a);
    await store.detach(SESSION, STANDALONE_STREAM, b);
    assert.equal(await append(4), undefined);
  },

  'detachNode takes all readers of a node away, and tells who is the newest because of it': async (harness) => {
    const { store, peer = store } = harness;
    const mine = (reader: string): ReaderRef => ({ node: 'gone', reader });
    await store.open('another session');
    const writer = new TestWriter(store);
    await writer.append([]);
    for (const reader of [a, mine('1'), b, mine('2'), mine('3')])
      await store.attach(SESSION, STANDALONE_STREAM, reader);
    for (const reader of [mine('4'), c]) await store.attach(SESSION, writer.stream, reader);
    await store.attach('another session', STANDALONE_STREAM, mine('5'));
    const promoted = await peer.detachNode('gone');
    assert.deepEqual(promoted, [{ session: SESSION, stream: STANDALONE_STREAM, ...b }]);
    const readers = async (session: string, stream: string) => (await store.describe(session, stream))?.readers;
    assert.equal(await readers(SESSION, STANDALONE_STREAM), 2);
    assert.equal(await readers(SESSION, writer.stream), 1);
    assert.equal(await readers('another session', STANDALONE_STREAM), 0);
  },

  'detachNode is idempotent, also for a node that has no readers, or has come back': async ({ store }) => {
    assert.deepEqual(await store.detachNode('unknown'), []);
    await store.attach(SESSION, STANDALONE_STREAM, a);
    assert.deepEqual(await store.detachNode(a.node), []);
    assert.deepEqual(await store.detachNode(a.node), []);
    await store.attach(SESSION, STANDALONE_STREAM, a);
    assert.deepEqual((await store.describe(SESSION, STANDALONE_STREAM))?.newest, a);
    assert.equal(await store.detach(SESSION, STANDALONE_STREAM, a), undefined);
    assert.deepEqual(await store.detachNode(a.node), []);
  },
};

export const deliveredTests: Tests = {
  'delivered never moves backwards': async ({ store, peer = store }) => {
    const writer = new TestWriter(store);
    await writer.append(events(9));
    const delivered = async () => (await store.describe(SESSION, writer.stream))?.delivered;
    for (const [index, expected] of [
      [3, 3],
      [2, 3],
      [0, 3],
      [7, 7],
    ] as const) {
      await store.delivered(SESSION, writer.stream, index);
      assert.equal(await delivered(), expected);
    }
    await Promise.all(
      [8, 5, 9, 1, 6].map((index, n) => (n % 2 ? peer : store).delivered(SESSION, writer.stream, index)),
    );
    assert.equal(await delivered(), 9);
  },

  'delivered says nothing about events to come': async ({ store }) => {
    const writer = new TestWriter(store);
    await writer.append(events(2));
    await store.delivered(SESSION, writer.stream, 1_000);
    assert.equal((await store.describe(SESSION, writer.stream))?.delivered, 2);
  },

  'a stream or session that is gone is ignored': async ({ store }) => {
    await store.delivered(SESSION, 'unknown', 3);
    await store.delivered('unknown', STANDALONE_STREAM, 3);
    await store.delivered(SESSION, STANDALONE_STREAM, 3);
    assert.equal(await store.describe(SESSION, 'unknown'), undefined);
    assert.equal((await store.describe(SESSION, STANDALONE_STREAM))?.delivered, 0);
    assert.equal((await store.stats()).sessions, 1);
  },
};

export const cleanUpTests: Tests = {
  'stats count what is held': async ({ store }) => {
    assert.deepEqual(await store.stats(), { sessions: 1, streams: 0, events: 0, bytes: 0 });
    const texts = [event('ü😀'), event(2)];
    await new TestWriter(store).append(texts);
    await new TestWriter(store, STANDALONE_STREAM).append([event(3)]);
    const bytes = bytesOf([...texts, event(3)]);
    assert.deepEqual(await store.stats(), { sessions: 1, streams: 2, events: 3, bytes });
  },

  'drop leaves nothing behind': async (harness) => {
    const { store, limits } = harness;
    const writer = await flood(harness, limits.maxEvents + 10);
    await writer.append([event('answer')], {
      ...{ opens: { node: 'n', requests: [1, 2] }, settles: [{ id: 1, answer: 0 }] },
    });
    await new TestWriter(store).append(events(3), { end: true });
    await new TestWriter(store, STANDALONE_STREAM).append(events(3));
    await store.attach(SESSION, STANDALONE_STREAM, a);
    await store.drop(SESSION);
    assert.deepEqual(await store.stats(), { sessions: 0, streams: 0, events: 0, bytes: 0 });
    assert.deepEqual(await store.openRequests({ node: 'n' }), []);
  },

  'ids are ids, whatever they look like': async ({ store }) => {
    for (const session of FORGED_IDS) {
      await refuses(store.read(session, STANDALONE_STREAM, 0, 1), SessionGoneError);
      await store.open(session);
      for (const stream of FORGED_IDS) await refuses(store.read(session, stream, 0, 1), StreamNotFoundError);
    }
    const pairs = FORGED_IDS.flatMap((session) => FORGED_IDS.map((stream) => [session, stream] as const));
    const label = (session: string, stream: string) =>
      event(`${FORGED_IDS.indexOf(session)} ${FORGED_IDS.indexOf(stream)}`);
    for (const [session, stream] of pairs) {
      const options = { writer: '__proto__', seq: 1, opens: { node: session, requests: ['constructor'] } };
      assert.deepEqual(await store.append(session, stream, [label(session, stream)], options), { first: 1 });
      assert.equal(await store.attach(session, stream, { node: '__proto__', reader: stream }), undefined);
    }
    for (const [session, stream] of pairs) {
      assert.deepEqual((await store.read(session, stream, 0, ALL)).events, stored([label(session, stream)]));
    }
    for (const session of FORGED_IDS) {
      assert.equal((await store.openRequests({ node: session })).length, FORGED_IDS.length);
      await store.drop(session);
      assert.deepEqual(await store.openRequests({ node: session }), []);
    }
    assert.deepEqual(await store.stats(), { sessions: 1, streams: 0, events: 0, bytes: 0 });
  },
};
