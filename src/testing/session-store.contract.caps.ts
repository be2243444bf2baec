import assert from 'node:assert/strict';
import type { CreateOutcome, McpSessionStore, SessionCaps } from '../session/session-store.js';
import type { ContractTests } from './contract.js';
import {
  AMPLE,
  begin,
  concurrently,
  MANY,
  newRecord,
  type SessionStoreHarness,
} from './session-store.contract.support.js';

type Tests = ContractTests<SessionStoreHarness>;

const create = (
  store: McpSessionStore,
  id: string,
  principal: string | undefined,
  caps: SessionCaps = AMPLE,
): Promise<CreateOutcome> => store.create(newRecord(id, principal), caps);

const count = (outcomes: readonly CreateOutcome[], outcome: CreateOutcome): number =>
  outcomes.filter((one) => one === outcome).length;

export const capTests: Tests = {
  'the total cap refuses newcomers, whose ever they are, and changes nothing': async ({ store }) => {
    const two = { total: 2, perPrincipal: 9 };
    await begin(store, 'a', 'p');
    assert.equal(await create(store, 'b', 'q', two), 'created');
    assert.equal(await create(store, 'c', 'r', two), 'total-cap');
    assert.equal(await store.get('c'), undefined);
    assert.equal(await store.count(), 2);
    assert.deepEqual(await store.list({ principal: 'r' }), []);
    await store.delete('a');
    assert.equal(await create(store, 'c', 'r', two), 'created');
    assert.equal(await create(store, 'd', 'r', two), 'total-cap');
  },

  'the cap of a principal counts its records, and nobody else’s': async ({ store }) => {
    const two = { total: 99, perPrincipal: 2 };
    await begin(store, 'a', 'p');
    assert.equal(await create(store, 'b', 'p', two), 'created');
    assert.equal(await create(store, 'c', 'p', two), 'principal-cap');
    assert.equal(await store.get('c'), undefined);
    assert.equal(await create(store, 'c', 'q', two), 'created');
    await store.delete('b');
    assert.equal(await create(store, 'd', 'p', two), 'created');
    assert.equal(await create(store, 'e', 'p', two), 'principal-cap');
  },

  'anonymous callers count together, and are no principal of any name': async ({ store }) => {
    const two = { total: 99, perPrincipal: 2 };
    await begin(store, 'a');
    assert.equal(await create(store, 'b', undefined, two), 'created');
    assert.equal(await create(store, 'c', undefined, two), 'principal-cap');
    for (const principal of ['', 'undefined', 'null', 'anonymous', '__proto__', 'constructor']) {
      assert.equal(await create(store, `of ${principal}`, principal, two), 'created');
    }
    await store.delete('a');
    assert.equal(await create(store, 'c', undefined, two), 'created');
  },

  'a cap of Infinity is none': async ({ store }) => {
    const only = { total: 6, perPrincipal: Infinity };
    for (let n = 0; n < 3; n++) assert.equal(await create(store, `anonymous ${n}`, undefined, only), 'created');
    for (let n = 0; n < 3; n++) assert.equal(await create(store, `p ${n}`, 'p', only), 'created');
    assert.equal(await create(store, 's', undefined, only), 'total-cap');
    assert.equal(await create(store, 's', undefined, { total: Infinity, perPrincipal: 4 }), 'created');
    assert.equal(await create(store, 't', undefined, { total: Infinity, perPrincipal: 4 }), 'principal-cap');
    assert.equal(await create(store, 't', undefined, { total: Infinity, perPrincipal: Infinity }), 'created');
  },

  'an id that has a record is taken, whatever the caps': async ({ store }) => {
    const record = await begin(store, 's', 'p');
    for (const caps of [AMPLE, { total: 1, perPrincipal: 1 }]) {
      assert.equal(await create(store, 's', 'other', caps), 'taken');
    }
    assert.deepEqual(await store.get('s'), record);
    assert.deepEqual(await store.list({ principal: 'other' }), []);
    assert.equal(await store.count(), 1);
    await store.delete('s');
    assert.equal(await create(store, 's', 'other'), 'created');
  },

  'of concurrent creations of one id one succeeds': async (harness) => {
    const outcomes = await concurrently(harness, 20, (store) => create(store, 's', 'p'));
    assert.deepEqual([count(outcomes, 'created'), count(outcomes, 'taken')], [1, 19]);
    assert.equal(await harness.store.count(), 1);
  },

  'the total cap holds under concurrency': async (harness) => {
    const caps = { total: 10, perPrincipal: 1_000 };
    const outcomes = await concurrently(harness, 100, (store, n) => create(store, `s${n}`, `p${n}`, caps));
    assert.deepEqual([count(outcomes, 'created'), count(outcomes, 'total-cap')], [10, 90]);
    assert.equal(await harness.store.count(), 10);
  },

  'the cap of a principal holds under concurrency, the anonymous one’s too': async (harness) => {
    const caps = { total: 1_000, perPrincipal: 10 };
    for (const principal of ['p', undefined]) {
      const outcomes = await concurrently(harness, 100, (store, n) =>
        create(store, `${principal} ${n}`, principal, caps),
      );
      assert.equal(count(outcomes, 'created'), 10);
    }
  },

  'an end makes room': async ({ store, advance }) => {
    const one = { total: 1, perPrincipal: 1 };
    await begin(store, 'a', 'p');
    await store.delete('a');
    assert.equal(await create(store, 'b', 'p', one), 'created');
    if (!advance) return;
    await advance(60_000);
    await store.claimExpired(30_000, MANY);
    assert.equal(await create(store, 'c', 'p', one), 'created');
  },
};
