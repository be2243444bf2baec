import assert from 'node:assert/strict';
import { DuplicateRequestError } from '../stream/event-store.errors.js';
import type { OpenRequest } from '../stream/event-store.js';
import type { RequestId } from '../wire/json-rpc.js';
import type { ContractTests } from './contract.js';
import { event, refuses, SESSION, TestWriter, type EventStoreHarness } from './event-store.contract.support.js';

export const openRequestTests: ContractTests<EventStoreHarness> = {
  'a request is open from the append that opens it to the one that settles it': async ({ store }) => {
    const writer = new TestWriter(store);
    await writer.append([], { opens: { node: 'n', requests: [1, '1', 'two'] } });
    const open = async () => requestIds(await store.openRequests({ session: SESSION }));
    assert.deepEqual(await open(), [1, '1', 'two']);
    await writer.append([event('answer')], { settles: [{ id: '1', answer: 0 }] });
    assert.deepEqual(await open(), [1, 'two']);
    await writer.append([], { settles: [{ id: 1 }] });
    assert.deepEqual(await open(), ['two']);
    await writer.append([event('answer')], { settles: [{ id: 'two', answer: 0 }], end: true });
    assert.deepEqual(await open(), []);
  },

  'requests are found by session and by node, with all that is known of them': async ({ store }) => {
    await store.open('another session');
    const [here, there] = [new TestWriter(store), new TestWriter(store, 's', 'another session')];
    await here.append([], { opens: { node: 'n1', requests: [1] } });
    await there.append([], { opens: { node: 'n1', requests: [1] } });
    await new TestWriter(store, 't', 'another session').append([], { opens: { node: 'n2', requests: [2] } });
    const first: OpenRequest = { session: SESSION, stream: here.stream, id: 1, node: 'n1' };
    const second: OpenRequest = { session: 'another session', stream: 's', id: 1, node: 'n1' };
    const third: OpenRequest = { session: 'another session', stream: 't', id: 2, node: 'n2' };
    assert.deepEqual(await store.openRequests({ session: SESSION }), [first]);
    assert.deepEqual(inOrder(await store.openRequests({ session: 'another session' })), inOrder([second, third]));
    assert.deepEqual(inOrder(await store.openRequests({ node: 'n1' })), inOrder([first, second]));
    assert.deepEqual(await store.openRequests({ node: 'n2' }), [third]);
    assert.deepEqual(await store.openRequests({ node: 'unknown' }), []);
  },

  'the end of a stream settles what is open on it': async ({ store }) => {
    const writer = new TestWriter(store);
    await writer.append([], { opens: { node: 'n', requests: [1, 2] } });
    await new TestWriter(store, writer.stream).append([], { end: true });
    assert.deepEqual(await store.openRequests({ session: SESSION }), []);
    assert.deepEqual(await store.openRequests({ node: 'n' }), []);
  },

  'a request may be opened and settled in one append, and a repeat opens nothing': async ({ store }) => {
    const writer = new TestWriter(store);
    const opens = { node: 'n', requests: [1] };
    await writer.append([event('answer')], { opens, settles: [{ id: 1, answer: 0 }], end: true });
    await writer.again([event('answer')], { opens });
    assert.deepEqual(await store.openRequests({ node: 'n' }), []);
  },

  'of two nodes that open one request one is refused, also at the same moment': async ({ store, peer = store }) => {
    const opens = (node: string, ...requests: RequestId[]) => ({ opens: { node, requests } });
    const [one, other] = [new TestWriter(store), new TestWriter(peer)];
    const outcomes = await Promise.allSettled([
      one.append([event(1)], opens('n1', 7)),
      other.append([], opens('n2', 7)),
    ]);
    const lost = outcomes.findIndex(({ status }) => status === 'rejected');
    const [winner, loser] = lost === 0 ? [other, one] : [one, other];
    assert.deepEqual(requestIds(await store.openRequests({ session: SESSION })), [7]);
    const { request } = await refuses(loser.again([], opens(lost === 0 ? 'n1' : 'n2', 6, 7)), DuplicateRequestError);
    assert.equal(request, 7);
    // It has not begun, nor has anything else in its append.
    assert.equal(await store.describe(SESSION, loser.stream), undefined);
    assert.deepEqual(await store.openRequests({ node: lost === 0 ? 'n1' : 'n2' }), []);
    await new TestWriter(store).append([], { ...opens('n3', '7', 8), end: true });
    await winner.append([], { settles: [{ id: 7 }] });
    assert.equal(await loser.again([], opens('n3', 7)), 1);
  },

  'a node sees to its own requests itself': async ({ store }) => {
    const opens = { node: 'n', requests: [1] };
    await new TestWriter(store).append([], { opens });
    assert.equal(await new TestWriter(store).append([], { opens }), 1);
  },

  'a dropped session has no open requests': async ({ store }) => {
    await new TestWriter(store).append([], { opens: { node: 'n', requests: [1] } });
    await store.drop(SESSION);
    assert.deepEqual(await store.openRequests({ session: SESSION }), []);
    assert.deepEqual(await store.openRequests({ node: 'n' }), []);
  },
};

/** Numbers before strings. */
function requestIds(requests: readonly OpenRequest[]): unknown[] {
  const key = (id: unknown) => `${typeof id} ${String(id)}`;
  return requests.map(({ id }) => id).toSorted((x, y) => (key(x) < key(y) ? -1 : 1));
}

function inOrder(requests: readonly OpenRequest[]): OpenRequest[] {
  return requests.toSorted((x, y) => (JSON.stringify(x) < JSON.stringify(y) ? -1 : 1));
}
