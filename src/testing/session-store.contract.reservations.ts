import assert from 'node:assert/strict';
import type { ContractTests } from './contract.js';
import { AMPLE, begin, concurrently, newRecord, type SessionStoreHarness } from './session-store.contract.support.js';

type Tests = ContractTests<SessionStoreHarness>;

/** "Within a minute or so." */
const RESERVATION_IS_OVER_MS = 2 * 60_000;

export const reservationTests: Tests = {
  'a reservation is no record': async ({ store }) => {
    assert.equal(await store.reserve('s', 'p', AMPLE), 'reserved');
    assert.equal(await store.get('s'), undefined);
    assert.equal(await store.touch('s'), false);
    assert.equal(await store.patch('s', { logLevel: 'debug' }), undefined);
    assert.equal(await store.delete('s'), undefined);
    assert.equal(await store.count(), 0);
    assert.deepEqual(await store.list(), []);
  },

  'an id that is reserved or recorded is taken': async ({ store }) => {
    await store.reserve('reserved', 'p', AMPLE);
    await begin(store, 'recorded', 'p');
    assert.equal(await store.reserve('reserved', 'p', AMPLE), 'taken');
    assert.equal(await store.reserve('recorded', 'other', AMPLE), 'taken');
    await store.delete('recorded');
    assert.equal(await store.reserve('recorded', 'other', AMPLE), 'reserved');
  },

  'of concurrent reservations of one id one succeeds': async (harness) => {
    const outcomes = await concurrently(harness, 20, (store) => store.reserve('s', 'p', AMPLE));
    assert.equal(outcomes.filter((outcome) => outcome === 'reserved').length, 1);
    assert.equal(outcomes.filter((outcome) => outcome === 'taken').length, 19);
  },

  'a released reservation leaves its place, and its id, to others; release is idempotent': async ({ store }) => {
    const one = { total: 1, perPrincipal: 1 };
    await store.reserve('s', 'p', one);
    await Promise.all([store.release('s'), store.release('s')]);
    await store.release('s');
    await store.release('unknown');
    assert.equal(await store.reserve('s', 'p', one), 'reserved');
    assert.equal(await store.reserve('t', 'p', one), 'total-cap');
  },

  'release does nothing to a record': async ({ store }) => {
    await begin(store, 's', 'p');
    await store.release('s');
    assert.equal((await store.get('s'))?.id, 's');
    assert.equal(await store.reserve('t', 'p', { total: 1, perPrincipal: 1 }), 'total-cap');
  },

  'a reservation that is neither created nor released expires': async ({ store, advance }) => {
    if (!advance) return;
    const one = { total: 1, perPrincipal: 1 };
    await store.reserve('s', 'p', one);
    await advance(20_000);
    assert.equal(await store.reserve('t', 'p', one), 'total-cap');
    await advance(RESERVATION_IS_OVER_MS);
    assert.equal(await store.reserve('t', 'p', one), 'reserved');
    await store.release('t');
    assert.equal(await store.reserve('s', 'p', one), 'reserved');
  },

  'a record does not expire with the reservation that it came from': async ({ store, advance }) => {
    if (!advance) return;
    await begin(store, 's', 'p');
    await advance(RESERVATION_IS_OVER_MS);
    assert.equal((await store.get('s'))?.id, 's');
    assert.equal(await store.reserve('t', 'p', { total: 1, perPrincipal: 1 }), 'total-cap');
  },
};

export const capTests: Tests = {
  'the total cap counts records and reservations': async ({ store }) => {
    const two = { total: 2, perPrincipal: 9 };
    await begin(store, 'recorded', 'p');
    assert.equal(await store.reserve('reserved', 'q', two), 'reserved');
    assert.equal(await store.reserve('s', 'r', two), 'total-cap');
    await store.delete('recorded');
    assert.equal(await store.reserve('s', 'r', two), 'reserved');
    assert.equal(await store.reserve('t', 'r', two), 'total-cap');
  },

  'the cap of a principal counts its records and reservations, and nobody else’s': async ({ store }) => {
    const two = { total: 99, perPrincipal: 2 };
    await begin(store, 'recorded', 'p');
    await store.reserve('reserved', 'p', two);
    assert.equal(await store.reserve('s', 'p', two), 'principal-cap');
    assert.equal(await store.reserve('s', 'q', two), 'reserved');
    await store.release('reserved');
    assert.equal(await store.reserve('t', 'p', two), 'reserved');
    assert.equal(await store.reserve('u', 'p', two), 'principal-cap');
  },

  'anonymous callers count together, and are no principal of any name': async ({ store }) => {
    const two = { total: 99, perPrincipal: 2 };
    await begin(store, 'a');
    assert.equal(await store.reserve('b', undefined, two), 'reserved');
    assert.equal(await store.reserve('c', undefined, two), 'principal-cap');
    for (const principal of ['', 'undefined', 'null', 'anonymous', '__proto__', 'constructor']) {
      assert.equal(await store.reserve(`of ${principal}`, principal, two), 'reserved');
    }
    await store.delete('a');
    assert.equal(await store.reserve('c', undefined, two), 'reserved');
  },

  'a cap of Infinity is none': async ({ store }) => {
    const only = { total: 6, perPrincipal: Infinity };
    for (let n = 0; n < 3; n++) assert.equal(await store.reserve(`anonymous ${n}`, undefined, only), 'reserved');
    for (let n = 0; n < 3; n++) assert.equal(await store.reserve(`p ${n}`, 'p', only), 'reserved');
    assert.equal(await store.reserve('s', undefined, only), 'total-cap');
    assert.equal(await store.reserve('s', undefined, { total: Infinity, perPrincipal: 4 }), 'reserved');
    assert.equal(await store.reserve('t', undefined, { total: Infinity, perPrincipal: 4 }), 'principal-cap');
    assert.equal(await store.reserve('t', undefined, { total: Infinity, perPrincipal: Infinity }), 'reserved');
  },

  'the total cap holds under concurrency': async (harness) => {
    const caps = { total: 10, perPrincipal: 1_000 };
    const reserve = (id: string, n: number) => `${id}${n}`;
    const outcomes = await concurrently(harness, 100, (store, n) =>
      store.reserve(reserve('s', n), reserve('p', n), caps),
    );
    assert.equal(outcomes.filter((outcome) => outcome === 'reserved').length, 10);
    assert.equal(outcomes.filter((outcome) => outcome === 'total-cap').length, 90);
  },

  'the cap of a principal holds under concurrency, the anonymous one’s too': async (harness) => {
    const caps = { total: 1_000, perPrincipal: 10 };
    for (const principal of ['p', undefined]) {
      const reserved = await concurrently(harness, 100, async (store, n) => {
        const id = `${principal} ${n}`;
        if ((await store.reserve(id, principal, caps)) !== 'reserved') return false;
        if (n % 3 === 0) await store.create(newRecord(id, principal));
        return true;
      });
      assert.equal(reserved.filter(Boolean).length, 10);
    }
  },

  'a creation does not count twice': async ({ store }) => {
    const two = { total: 2, perPrincipal: 2 };
    await begin(store, 's', 'p');
    assert.equal(await store.reserve('t', 'p', two), 'reserved');
    await store.create(newRecord('t', 'p'));
    assert.equal(await store.count(), 2);
    await store.delete('t');
    assert.equal(await store.reserve('u', 'p', two), 'reserved');
  },
};
