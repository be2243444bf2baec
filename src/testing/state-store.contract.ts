import assert from 'node:assert/strict';
import type { McpStateStore } from '../core/questions/state/state-store.js';
import { type McpContractTestApi, type ContractTests, FORGED_IDS, runContract } from './contract.js';

/** Holds a state store under test. Each test gets one with nothing in it. @publicApi */
export interface McpStateStoreHarness {
  readonly store: McpStateStore;
  /** Reaches the same values as another node sees them. Absent: `store` itself. */
  readonly peer?: McpStateStore;
  /** Whether the store enforces `quota`. @default true */
  readonly caps?: boolean;
  /** Advances the clock of the store. Absent: what takes time is not tested. */
  readonly advance?: (ms: number) => Promise<void>;
  dispose(): Promise<void>;
}

/**
 * Tests the contract of `McpStateStore`, one test for each sentence.
 *
 * @param make creates a store with nothing in it, for each test
 * @param api the functions of the test runner; by default its globals
 * @publicApi
 */
export function stateStoreContract(
  name: string,
  make: () => Promise<McpStateStoreHarness>,
  api?: McpContractTestApi,
): void {
  runContract(name, make, { values: valueTests, time: timeTests, caps: capTests }, api);
}

type Tests = ContractTests<McpStateStoreHarness>;

const TTL_MS = 60_000;
const P = 'path.mcp:p';
const Q = 'path.mcp:q';

/** Sets a value as state does. */
const keep = (store: McpStateStore, key: string, max = Infinity, value: unknown = { key }, ttlMs = TTL_MS) =>
  store.set(key, value, ttlMs, { owner: key.slice(0, Math.max(0, key.lastIndexOf(':'))), max });

const valueTests: Tests = {
  'get gives what was set last, on every node': async ({ store, peer = store }) => {
    assert.equal(await store.get(`${P}:a`), undefined);
    await keep(store, `${P}:a`, 9, { data: { list: [1, 'ü😀\u2028', null, {}] }, usedAt: 5 });
    assert.deepEqual(await peer.get(`${P}:a`), { data: { list: [1, 'ü😀\u2028', null, {}] }, usedAt: 5 });
    await keep(peer, `${P}:a`, 9, { data: {} });
    assert.deepEqual(await store.get(`${P}:a`), { data: {} });
    assert.equal(await store.get(`${P}:b`), undefined);
    assert.equal(await store.get(`${Q}:a`), undefined);
  },

  'set says neither "full" nor false of what it has kept': async ({ store }) => {
    for (let n = 0; n < 2; n++) {
      const outcome = await keep(store, `${P}:a`, 1);
      assert.ok(outcome !== 'full' && outcome !== false);
    }
  },

  'a value needs no quota, and no end': async ({ store, advance }) => {
    await store.set(`${P}:a`, { a: 1 });
    await advance?.(100 * TTL_MS);
    assert.deepEqual(await store.get(`${P}:a`), { a: 1 });
    assert.equal(await store.delete(`${P}:a`), true);
  },

  'delete says whether there was a value, to exactly one of many callers': async ({ store, peer = store }) => {
    await keep(store, `${P}:a`);
    const outcomes = await Promise.all(Array.from({ length: 10 }, (_, n) => (n % 2 ? peer : store).delete(`${P}:a`)));
    assert.equal(outcomes.filter(Boolean).length, 1);
    assert.equal(await store.get(`${P}:a`), undefined);
    assert.equal(await store.delete('unknown'), false);
  },

  'add sets a value where there is none, for exactly one of many callers': async ({ store, peer = store }) => {
    if (!store.add) return;
    const add = (n: number) => (n % 2 ? peer : store).add!(`${P}:a`, { n }, TTL_MS, { owner: P, max: 9 });
    const outcomes = await Promise.all(Array.from({ length: 50 }, (_, n) => add(n)));
    assert.equal(outcomes.filter((outcome) => outcome === true).length, 1);
    assert.ok(outcomes.every((outcome) => typeof outcome === 'boolean'));
    assert.deepEqual(await store.get(`${P}:a`), { n: outcomes.indexOf(true) });
    await keep(store, `${P}:b`);
    assert.equal(await peer.add!(`${P}:b`, 1), false);
    assert.deepEqual(await store.get(`${P}:b`), { key: `${P}:b` });
    await store.delete(`${P}:b`);
    assert.equal(await peer.add!(`${P}:b`, 1), true);
    assert.equal(await store.get(`${P}:b`), 1);
  },

  'compareAndSet replaces the value that a caller has read, for exactly one of many': async ({
    store,
    peer = store,
  }) => {
    if (!store.compareAndSet) return;
    const key = `${P}:a`;
    for (let round = 0; round < 3; round++) {
      const read = await store.get(key);
      const swap = (n: number) =>
        (n % 2 ? peer : store).compareAndSet!(key, read, { list: [round, n, 'ü\u2028'] }, TTL_MS, { owner: P, max: 9 });
      const outcomes = await Promise.all(Array.from({ length: 50 }, (_, n) => swap(n)));
      assert.equal(outcomes.filter((outcome) => outcome === true).length, 1);
      assert.ok(outcomes.every((outcome) => typeof outcome === 'boolean'));
      assert.deepEqual(await peer.get(key), { list: [round, outcomes.indexOf(true), 'ü\u2028'] });
    }
    assert.equal(await store.compareAndSet(key, undefined, 1), false);
    await store.delete(key);
    assert.equal(await peer.compareAndSet!(key, { list: [] }, 1), false);
    assert.equal(await peer.compareAndSet!(key, undefined, null), true);
    assert.equal(await store.compareAndSet(key, null, 'plain'), true);
    assert.equal(await store.get(key), 'plain');
  },

  'what a caller does to a value changes nothing in the store': async ({ store }) => {
    const given = { data: { list: [1] } };
    await keep(store, `${P}:a`, 9, given);
    given.data.list.push(2);
    const seen = (await store.get(`${P}:a`)) as typeof given;
    try {
      seen.data.list.push(3);
    } catch {
      // A frozen value is as good as a copy.
    }
    assert.deepEqual(await store.get(`${P}:a`), { data: { list: [1] } });
  },

  'keys may have any form': async ({ store }) => {
    for (const id of FORGED_IDS) assert.equal(await store.get(id), undefined);
    for (const id of FORGED_IDS) await keep(store, id, 99, { id });
    for (const id of FORGED_IDS) assert.deepEqual(await store.get(id), { id });
    for (const id of FORGED_IDS) assert.equal(await store.delete(id), true);
    for (const id of FORGED_IDS) assert.equal(await store.get(id), undefined);
  },
};

const timeTests: Tests = {
  'a value is gone "ttlMs" after it was last set': async ({ store, advance }) => {
    if (!advance) return;
    await keep(store, `${P}:a`);
    await keep(store, `${P}:long`, 9, 1, 10 * TTL_MS);
    for (let n = 0; n < 3; n++) {
      await advance(TTL_MS - 1_000);
      assert.deepEqual(await store.get(`${P}:a`), { key: `${P}:a` });
      await keep(store, `${P}:a`);
    }
    // Reading does not prolong the life of a value.
    await advance(TTL_MS - 1_000);
    assert.deepEqual(await store.get(`${P}:a`), { key: `${P}:a` });
    await advance(1_001);
    assert.equal(await store.get(`${P}:a`), undefined);
    if (store.add) {
      assert.equal(await store.add(`${P}:a`, 1, TTL_MS), true);
      await advance(TTL_MS + 1);
      assert.equal(await store.add(`${P}:a`, 2, TTL_MS), true);
      await store.delete(`${P}:a`);
    }
    assert.equal(await store.delete(`${P}:a`), false);
    assert.equal(await store.get(`${P}:long`), 1);
    await advance(7 * TTL_MS);
    assert.equal(await store.get(`${P}:long`), undefined);
  },
};

const capTests: Tests = {
  'add keeps the quota, and a value that is there is there, whatever the quota': async ({ store, caps }) => {
    if (caps === false || !store.add) return;
    const add = (id: string) => store.add!(`${P}:${id}`, { id }, TTL_MS, { owner: P, max: 1 });
    assert.equal(await add('a'), true);
    assert.equal(await add('b'), 'full');
    assert.equal(await store.get(`${P}:b`), undefined);
    assert.equal(await add('a'), false);
  },

  'compareAndSet keeps the quota, and replaces a value whatever the quota': async ({ store, caps }) => {
    if (caps === false || !store.compareAndSet) return;
    const swap = (id: string, expected: unknown) =>
      store.compareAndSet!(`${P}:${id}`, expected, { id }, TTL_MS, { owner: P, max: 1 });
    assert.equal(await swap('a', undefined), true);
    assert.equal(await swap('b', undefined), 'full');
    assert.equal(await store.get(`${P}:b`), undefined);
    assert.equal(await swap('a', { id: 'a' }), true);
  },

  'a quota refuses one value more, and changes nothing then': async ({ store, caps }) => {
    if (caps === false) return;
    for (const id of ['a', 'b']) await keep(store, `${P}:${id}`, 2);
    assert.equal(await keep(store, `${P}:c`, 2), 'full');
    assert.equal(await store.get(`${P}:c`), undefined);
    assert.deepEqual(await store.get(`${P}:a`), { key: `${P}:a` });
    // An existing value may change.
    assert.notEqual(await keep(store, `${P}:a`, 2, { more: 1 }), 'full');
    assert.deepEqual(await store.get(`${P}:a`), { more: 1 });
    // The quota is that of this owner.
    assert.notEqual(await keep(store, `${Q}:c`, 2), 'full');
    assert.notEqual(await keep(store, `${P}:c`, Infinity), 'full');
  },

  'what is deleted or expired makes room': async ({ store, caps, advance }) => {
    if (caps === false) return;
    await keep(store, `${P}:a`, 1);
    await store.delete(`${P}:a`);
    assert.notEqual(await keep(store, `${P}:b`, 1), 'full');
    assert.equal(await keep(store, `${P}:c`, 1), 'full');
    if (!advance) return;
    await advance(TTL_MS);
    assert.notEqual(await keep(store, `${P}:c`, 1), 'full');
  },

  'what expires makes room behind what lives longer': async ({ store, caps, advance }) => {
    if (caps === false || !advance) return;
    await keep(store, `${P}:long`, 9, 1, 10 * TTL_MS);
    await keep(store, `${P}:a`, 2);
    assert.equal(await keep(store, `${P}:b`, 2), 'full');
    await advance(TTL_MS + 1);
    assert.equal(await store.get(`${P}:a`), undefined);
    assert.notEqual(await keep(store, `${P}:b`, 2), 'full');
    assert.equal(await store.get(`${P}:long`), 1);
  },

  'a quota holds under concurrency': async ({ store, peer = store, caps }) => {
    if (caps === false) return;
    const sets = Array.from({ length: 50 }, (_, n) => keep(n % 2 ? peer : store, `${P}:${n}`, 10));
    const outcomes = await Promise.all(sets);
    assert.equal(outcomes.filter((outcome) => outcome === 'full').length, 40);
  },
};
