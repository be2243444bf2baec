import assert from 'node:assert/strict';
import { McpSessionGoneError, McpStreamNotFoundError } from '../core/log/event-store.errors.js';
import {
  MCP_DROPPED_SESSION_MS,
  isShared,
  type McpReaderRef,
  type McpUnfinishedStream,
} from '../core/log/event-store.js';
import { STANDALONE_STREAM } from '../core/protocol/events.js';
import { type McpContractTestApi, type ContractTests, FORGED_IDS, runContract } from './contract.js';
import {
  appendTests,
  boundsTests,
  fencingTests,
  idempotenceTests,
  readTests,
  timeTests,
} from './event-store.contract.log.js';
import {
  ALL,
  event,
  events,
  flood,
  holds,
  look,
  ofShared,
  NOTHING,
  readAll,
  readerOf,
  refuses,
  SESSION,
  stored,
  TestWriter,
  type McpEventStoreHarness,
} from './event-store.contract.support.js';

type Tests = ContractTests<McpEventStoreHarness>;

const [a, b, c] = ['a', 'b', 'c'].map((reader) => ({ node: `node of ${reader}`, reader })) as [
  McpReaderRef,
  McpReaderRef,
  McpReaderRef,
];

const readerTests = ofShared({
  'claim makes a reader the newest, and returns the one before, which it is not itself': async ({
    store,
    peer = store,
  }) => {
    const writer = new TestWriter(store);
    await writer.append(events(3));
    await store.read(SESSION, writer.stream, 0, 9, 2);
    const head = { last: 3, oldest: 1, delivered: 2, ended: false };
    assert.deepEqual(await store.claim(SESSION, writer.stream, a), head);
    assert.deepEqual(await store.claim(SESSION, writer.stream, a), head);
    assert.deepEqual(await peer.claim(SESSION, writer.stream, b), { ...head, before: a });
    assert.deepEqual(await store.claim(SESSION, writer.stream, c), { ...head, before: b });
    assert.deepEqual(await readerOf(peer, writer.stream), c);
    await writer.append([], { end: true });
    assert.deepEqual(await store.claim(SESSION, writer.stream, a), { ...head, ended: true, before: c });
  },

  'claim of the first reader of a stream replaces no other, and returns the one that stays': async ({
    store,
    peer = store,
  }) => {
    const writer = new TestWriter(store);
    await writer.append(events(1));
    const head = { last: 1, oldest: 1, delivered: 0, ended: false };
    assert.deepEqual(await store.claim(SESSION, writer.stream, a, true), head);
    assert.deepEqual(await store.claim(SESSION, writer.stream, a, true), head);
    await peer.claim(SESSION, writer.stream, b);
    assert.deepEqual(await store.claim(SESSION, writer.stream, a, true), { ...head, before: b });
    assert.deepEqual(await readerOf(peer, writer.stream), b);
  },

  'release takes the newest away, and no other': async ({ store, peer = store }) => {
    await store.claim(SESSION, STANDALONE_STREAM, a);
    await store.claim(SESSION, STANDALONE_STREAM, b);
    await store.release(SESSION, STANDALONE_STREAM, a);
    assert.deepEqual(await readerOf(store, STANDALONE_STREAM), b);
    await peer.release(SESSION, STANDALONE_STREAM, b);
    await peer.release(SESSION, STANDALONE_STREAM, b);
    assert.equal(await readerOf(store, STANDALONE_STREAM), undefined);
    assert.equal((await store.claim(SESSION, STANDALONE_STREAM, c)).before, undefined);
  },

  'release acknowledges, also for a reader that is not the newest; what is gone is ignored': async ({ store }) => {
    const writer = new TestWriter(store);
    await writer.append(events(5));
    await store.claim(SESSION, writer.stream, a);
    await store.release(SESSION, writer.stream, b, 2);
    await store.release(SESSION, writer.stream, a, 4);
    await store.release(SESSION, writer.stream, a, 3);
    assert.equal((await look(store, writer.stream)).delivered, 4);
    await store.release(SESSION, 'unknown', a, 4);
    await store.release('unknown', STANDALONE_STREAM, a, 4);
    assert.equal((await look(store, STANDALONE_STREAM)).delivered, 0);
  },

  'of readers that claim at the same time each gets another one as its predecessor': async ({
    store,
    peer = store,
  }) => {
    const readers = Array.from({ length: 20 }, (_, n) => ({ node: `n${n % 3}`, reader: `r${n}` }));
    const claim = (reader: McpReaderRef, n: number) => (n % 2 ? peer : store).claim(SESSION, STANDALONE_STREAM, reader);
    const before = (await Promise.all(readers.map(claim))).map((claimed) => claimed.before?.reader);
    assert.equal(before.filter((reader) => reader === undefined).length, 1);
    assert.equal(new Set(before).size, 20);
  },

  'streams have readers of their own; one that does not exist has none': async ({ store }) => {
    const writer = new TestWriter(store);
    await refuses(() => store.claim(SESSION, writer.stream, a), McpStreamNotFoundError);
    await writer.append([]);
    await store.claim(SESSION, STANDALONE_STREAM, a);
    assert.equal((await store.claim(SESSION, writer.stream, b)).before, undefined);
    assert.deepEqual(await readerOf(store, STANDALONE_STREAM), a);
  },

  'an append returns the newest reader, unless the store notifies its node by itself': async ({ store }) => {
    const append = async (seq: number) =>
      (await store.append(SESSION, STANDALONE_STREAM, [event(seq)], { writer: 'w', seq })).reader;
    assert.equal(await append(1), undefined);
    for (const [position, reader] of [a, b].entries()) {
      await store.claim(SESSION, STANDALONE_STREAM, reader);
      assert.equal(store.appendNow?.(SESSION, STANDALONE_STREAM, event('now'), 'w', position + 2, 0) ?? 0, 0);
      const got = await append(position + 2);
      if (got) assert.deepEqual(got, reader);
    }
    await store.release(SESSION, STANDALONE_STREAM, b);
    assert.equal(await append(4), undefined);
  },

  'delivered never moves backwards, and says nothing about events to come': async ({ store, peer = store }) => {
    const writer = new TestWriter(store);
    await writer.append(events(9));
    const acknowledge = async (index: number, node = store) =>
      (await node.read(SESSION, writer.stream, 0, 0, index)).delivered;
    assert.equal(await acknowledge(3), 3);
    assert.equal(await acknowledge(2), 3);
    assert.equal(await acknowledge(0), 3);
    await Promise.all([8, 5, 7, 1, 6].map((index, n) => acknowledge(index, n % 2 ? peer : store)));
    assert.equal((await look(store, writer.stream)).delivered, 8);
    assert.equal(await acknowledge(1_000), 9);
    await writer.append([event('one more')]);
    assert.equal((await look(store, writer.stream)).delivered, 9);
  },
});

const unfinishedTests = ofShared({
  'a request is unfinished from the append that opens it to the one that settles it': async ({ store }) => {
    const writer = new TestWriter(store);
    await writer.append([], { opens: { node: 'n', requests: [1, '1', 'two'] } });
    const requests = async () => (await store.unfinished('n')).flatMap((stream) => stream.requests);
    const sorted = async () => (await requests()).toSorted((x, y) => (key(x) < key(y) ? -1 : 1));
    assert.deepEqual(await sorted(), [1, '1', 'two']);
    await writer.append([event('answer')], { settles: ['1'] });
    assert.deepEqual(await sorted(), [1, 'two']);
    await writer.append([], { settles: [1] });
    assert.deepEqual(await sorted(), ['two']);
    await writer.append([event('answer')], { settles: ['two'], end: true });
    assert.deepEqual(await store.unfinished('n'), []);
  },

  'they are found by the node that opened them, in all sessions': async ({ store, peer = store }) => {
    await store.open('another session');
    const [here, there] = [new TestWriter(store), new TestWriter(store, 's', 'another session')];
    await here.append([], { opens: { node: 'n1', requests: [1] } });
    await there.append([], { opens: { node: 'n1', requests: [1] } });
    await new TestWriter(peer, 't', 'another session').append([], { opens: { node: 'n2', requests: [2] } });
    const first = { session: SESSION, stream: here.stream, requests: [1] };
    const second = { session: 'another session', stream: 's', requests: [1] };
    const third = { session: 'another session', stream: 't', requests: [2] };
    assert.deepEqual(inOrder(await peer.unfinished('n1')), inOrder([first, second]));
    assert.deepEqual(await store.unfinished('n2'), [third]);
    assert.deepEqual(await store.unfinished('unknown'), []);
  },

  'the end of a stream settles what is open on it; a repeat opens nothing': async ({ store, peer = store }) => {
    const writer = new TestWriter(store);
    const opens = { node: 'n', requests: [1, 2] };
    await writer.append([], { opens });
    await new TestWriter(peer, writer.stream).append([], { end: true });
    await writer.again([], { opens });
    assert.deepEqual(await store.unfinished('n'), []);
    const once = new TestWriter(store);
    await once.append([event('answer')], { opens, settles: [1, 2], end: true });
    await once.again([event('answer')], { opens });
    assert.deepEqual(await store.unfinished('n'), []);
    const twice = new TestWriter(store);
    await twice.append([event('answer')], { opens, settles: [1], newest: 0 });
    await twice.append([], { opens, newest: 1 });
    assert.deepEqual(await store.unfinished('n'), [{ session: SESSION, stream: twice.stream, requests: [2] }]);
  },
});

const LAST_ERROR = { code: -32000, message: 'The session has "ended".\n' };

const dropTests: Tests = {
  'after drop every append is refused, and nothing is left that counts': async (harness) => {
    const { store, peer = store, limits } = harness;
    const writer = await flood(harness, limits.maxEvents + 10);
    await writer.append([event('answer')], { opens: { node: 'n', requests: [1, 2] }, settles: [1] });
    await new TestWriter(store).append(events(3), { end: true });
    await new TestWriter(store, STANDALONE_STREAM).append(events(3));
    if (isShared(store)) await store.claim(SESSION, STANDALONE_STREAM, a);
    // Both can be repeated.
    await Promise.all([store.open(SESSION), store.open(SESSION)]);
    assert.equal((await readAll(harness, writer.stream)).length, limits.maxEvents);
    await Promise.all([peer.drop(SESSION, LAST_ERROR), store.drop(SESSION, LAST_ERROR)]);
    await store.drop('unknown');
    await refuses(() => writer.append([event(3)]), McpSessionGoneError);
    await refuses(() => new TestWriter(store, STANDALONE_STREAM).append([event(3)]), McpSessionGoneError);
    if (isShared(store)) assert.deepEqual(await store.unfinished('n'), []);
    await holds(harness, NOTHING);
  },

  'a shared store answers what is unfinished with the last error, ends all streams, and lets them be read for 30 s':
    async ({ store, peer = store, advance }) => {
      if (!isShared(store)) return;
      const [answered, open] = [new TestWriter(store), new TestWriter(store)];
      await answered.append([event('answer')], { opens: { node: 'n', requests: [3] }, settles: [3], end: true });
      await open.append([event(1)], { opens: { node: 'n', requests: [1, 'two "quoted"'] } });
      await new TestWriter(store, STANDALONE_STREAM).append([event('0')]);
      await peer.drop(SESSION, LAST_ERROR);
      await peer.drop(SESSION, { ...LAST_ERROR, message: 'again' });
      await store.open(SESSION);
      const texts = async (stream: string) => {
        const { events: found, ended, more } = await store.read(SESSION, stream, 0, ALL);
        assert.deepEqual([ended, more], [true, false]);
        return found.map(({ data }) => JSON.parse(data) as unknown);
      };
      const errors = [1, 'two "quoted"'].map((id) => ({ jsonrpc: '2.0', id, error: LAST_ERROR }));
      const [first, ...last] = await texts(open.stream);
      assert.deepEqual(first, [1]);
      const order = (x: unknown): string => JSON.stringify(x);
      assert.deepEqual(last.map(order).toSorted(), errors.map(order).toSorted());
      assert.deepEqual(await texts(answered.stream), [['answer']]);
      assert.deepEqual(await texts(STANDALONE_STREAM), [['0']]);
      assert.equal((await store.claim(SESSION, open.stream, a)).ended, true);
      await refuses(() => open.append([event(2)]), McpSessionGoneError);
      if (!advance) return;
      await advance(MCP_DROPPED_SESSION_MS + 100);
      await refuses(() => look(store, open.stream), McpSessionGoneError);
    },

  'stream 0 ends with the session, though it was never used': async ({ store }) => {
    if (!isShared(store)) return;
    await store.drop(SESSION);
    assert.equal((await look(store, STANDALONE_STREAM)).ended, true);
    assert.equal((await store.claim(SESSION, STANDALONE_STREAM, a)).ended, true);
  },

  'drop in the midst of appends leaves nothing': async (harness) => {
    const { store, peer = store } = harness;
    const writers = Array.from({ length: 10 }, (_, n) => new TestWriter(n % 2 ? peer : store));
    const appends = writers.map(async (writer) => {
      for (let n = 0; n < 5; n++) await writer.append([event(n)]);
    });
    const dropping = peer.drop(SESSION);
    for (const outcome of await Promise.allSettled(appends)) {
      if (outcome.status === 'rejected') assert.ok(outcome.reason instanceof McpSessionGoneError);
    }
    await dropping;
    await holds(harness, NOTHING);
  },

  'a session that is opened again when it is forgotten has a fresh log': async (harness) => {
    const { store, advance } = harness;
    const [writer, standalone] = [new TestWriter(store), new TestWriter(store, STANDALONE_STREAM)];
    await writer.append(events(2), { end: true });
    await standalone.append(events(2));
    await store.read(SESSION, STANDALONE_STREAM, 0, 9, 2);
    await store.drop(SESSION);
    if (!advance) return;
    await advance(MCP_DROPPED_SESSION_MS + 100);
    await store.open(SESSION);
    await refuses(() => store.read(SESSION, writer.stream, 0, 1), McpStreamNotFoundError);
    assert.equal((await look(store, STANDALONE_STREAM)).delivered, 0);
    assert.equal(await standalone.again([event('fresh')]), 1);
    assert.deepEqual(await readAll(harness, STANDALONE_STREAM), stored([event('fresh')]));
  },

  'ids may have any form': async (harness) => {
    const { store } = harness;
    for (const session of FORGED_IDS) {
      await refuses(() => store.read(session, STANDALONE_STREAM, 0, 1), McpSessionGoneError);
      await store.open(session);
      for (const stream of FORGED_IDS) await refuses(() => store.read(session, stream, 0, 1), McpStreamNotFoundError);
    }
    const pairs = FORGED_IDS.flatMap((session) => FORGED_IDS.map((stream) => [session, stream] as const));
    const label = (session: string, stream: string) =>
      event(`${FORGED_IDS.indexOf(session)} ${FORGED_IDS.indexOf(stream)}`);
    for (const [session, stream] of pairs) {
      const options = { writer: '__proto__', seq: 1, opens: { node: session, requests: ['constructor'] } };
      assert.deepEqual(await store.append(session, stream, [label(session, stream)], options), { first: 1 });
      if (isShared(store)) await store.claim(session, stream, { node: '__proto__', reader: stream });
    }
    for (const [session, stream] of pairs) {
      const { events: found, reader } = await store.read(session, stream, 0, ALL);
      assert.deepEqual(found, stored([label(session, stream)]));
      if (isShared(store)) assert.deepEqual(reader, { node: '__proto__', reader: stream });
    }
    for (const session of FORGED_IDS) {
      if (isShared(store)) assert.equal((await store.unfinished(session)).length, FORGED_IDS.length);
      await store.drop(session);
      if (isShared(store)) assert.deepEqual(await store.unfinished(session), []);
    }
    await holds(harness, { sessions: 1, streams: 0, events: 0, bytes: 0 });
  },
};

/** Sorts numbers before strings. */
const key = (id: unknown): string => `${typeof id} ${String(id)}`;

function inOrder(streams: readonly McpUnfinishedStream[]): McpUnfinishedStream[] {
  return streams.toSorted((x, y) => (JSON.stringify(x) < JSON.stringify(y) ? -1 : 1));
}

/**
 * Tests the contract of `McpEventStore`, one test for each sentence.
 *
 * ```ts
 * import { describe, it } from 'vitest';
 * eventStoreContract('MyEventStore', async () => ({ store: new MyEventStore(limits), limits, dispose: async () => {}
 * }), { describe, it });
 * ```
 *
 * @param make creates a store with nothing in it, for each test
 * @param api the functions of the test runner; by default its globals
 * @publicApi
 */
export function eventStoreContract(
  name: string,
  make: () => Promise<McpEventStoreHarness>,
  api?: McpContractTestApi,
): void {
  const chapters = {
    append: appendTests,
    idempotence: idempotenceTests,
    fencing: fencingTests,
    read: readTests,
    bounds: boundsTests,
    time: timeTests,
    'the reader': readerTests,
    'unfinished requests': unfinishedTests,
    drop: dropTests,
  };
  runContract(name, () => opened(make), chapters, api);
}

async function opened(make: () => Promise<McpEventStoreHarness>): Promise<McpEventStoreHarness> {
  const harness = await make();
  await harness.store.open(SESSION);
  return harness;
}
