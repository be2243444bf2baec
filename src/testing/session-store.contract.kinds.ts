import assert from 'node:assert/strict';
import type { ContractTests } from './contract.js';
import { begin, beginState, ids, MANY, newRecord, type SessionStoreHarness } from './session-store.contract.support.js';

type Tests = ContractTests<SessionStoreHarness>;

export const kindTests: Tests = {
  'a record keeps its kind; that of a session has none': async ({ store, peer = store }) => {
    const session = await begin(store, 'a session', 'p');
    const state = await beginState(store, 'a state', 'p');
    assert.equal('kind' in JSON.parse(JSON.stringify(session)), false);
    assert.equal(state.kind, 'state');
    assert.deepEqual(await peer.get('a state'), state);
    const patched = await store.patch('a state', { data: { more: 1 } });
    assert.deepEqual([patched?.kind, patched?.data], ['state', { kept: true, more: 1 }]);
    assert.equal((await store.delete('a state'))?.kind, 'state');
  },

  'list and count tell kinds apart, of all and of one principal': async ({ store }) => {
    await begin(store, 's1', 'p');
    await beginState(store, 't1', 'p');
    await begin(store, 's2');
    await beginState(store, 't2');
    await beginState(store, 't3', 'q');
    const listed = async (filter?: Parameters<typeof store.list>[0]) => ids(await store.list(filter)).toSorted();
    assert.deepEqual(await listed(), ['s1', 's2', 't1', 't2', 't3']);
    assert.deepEqual(await listed({ kind: 'session' }), ['s1', 's2']);
    assert.deepEqual(await listed({ kind: 'state' }), ['t1', 't2', 't3']);
    assert.deepEqual(await listed({ kind: 'state', principal: 'p' }), ['t1']);
    assert.deepEqual(await listed({ kind: 'session', principal: null }), ['s2']);
    assert.deepEqual(await listed({ principal: 'p' }), ['s1', 't1']);
    const counts = async () => [await store.count(), await store.count('session'), await store.count('state')];
    assert.deepEqual(await counts(), [5, 2, 3]);
    await Promise.all([store.delete('t1'), store.delete('s2'), store.delete('unknown')]);
    assert.deepEqual(await counts(), [3, 1, 2]);
  },

  'caps count them together': async ({ store }) => {
    await begin(store, 's', 'p');
    await beginState(store, 't', 'p');
    assert.equal(await store.reserve('u', 'p', { total: 9, perPrincipal: 2 }), 'principal-cap');
    assert.equal(await store.reserve('u', 'q', { total: 2, perPrincipal: 9 }), 'total-cap');
  },

  'an id is of one record, whatever its kind': async ({ store }) => {
    const state = await beginState(store, 'one', 'p');
    await assert.rejects(store.create(newRecord('one', 'p')));
    assert.deepEqual(await store.get('one'), state);
    assert.deepEqual([await store.count('session'), await store.count('state')], [0, 1]);
  },

  'claimExpired takes what is silent, whatever its kind': async ({ store, advance }) => {
    if (!advance) return;
    await beginState(store, 't');
    await advance(1_000);
    await begin(store, 's');
    await advance(1_000);
    await beginState(store, 'touched');
    await advance(60_000);
    assert.equal(await store.touch('touched'), true);
    const claimed = await store.claimExpired(30_000, MANY);
    assert.deepEqual(
      claimed.map(({ id, kind }) => [id, kind]),
      [
        ['t', 'state'],
        ['s', undefined],
      ],
    );
    assert.deepEqual([await store.count('session'), await store.count('state')], [0, 1]);
  },
};
