import assert from 'node:assert/strict';
import type {
  McpCreateOutcome,
  McpSessionRecord,
  McpSessionStore,
  McpNewSessionRecord,
  McpSessionCaps,
} from '../core/sessions/store/session-store.js';
import { type McpContractTestApi, type ContractTests, FORGED_IDS, runContract } from './contract.js';

/** Holds a session store under test. Each test gets one with nothing in it. @publicApi */
export interface McpSessionStoreHarness {
  readonly store: McpSessionStore;
  /** Reaches the same records as another node sees them, for calls that run concurrently. Absent: `store` itself. */
  readonly peer?: McpSessionStore;
  /** Advances the clock of the store. Absent: what takes time is not tested. */
  readonly advance?: (ms: number) => Promise<void>;
  dispose(): Promise<void>;
}

/**
 * Tests the contract of `McpSessionStore`, one test for each sentence.
 *
 * @param make creates a store with nothing in it, for each test
 * @param api the functions of the test runner; by default its globals
 * @publicApi
 */
export function sessionStoreContract(
  name: string,
  make: () => Promise<McpSessionStoreHarness>,
  api?: McpContractTestApi,
): void {
  const chapters = { caps: capTests, records: recordTests, 'activity, and ends': lifeTests, lists: listTests };
  runContract(name, make, chapters, api);
}

type Tests = ContractTests<McpSessionStoreHarness>;

const AMPLE: McpSessionCaps = { total: 1_000, perPrincipal: 1_000 };
/** No test makes so many. */
const MANY = 1_000;

function newRecord(id: string, principal?: string): McpNewSessionRecord {
  const clientInfo = { name: 'contract', version: '1' };
  const capabilities = { sampling: {} };
  const initialize = JSON.stringify({ protocolVersion: '2025-06-18', capabilities, clientInfo, _meta: { more: [1] } });
  return { id, protocolVersion: '2025-11-25', initialize, ...(principal !== undefined && { principal }) };
}

/** Creates a record, as a session begins. @internal */
export async function begin(store: McpSessionStore, id: string, principal?: string): Promise<McpSessionRecord> {
  assert.equal(await store.create(newRecord(id, principal), AMPLE), 'created');
  return (await store.get(id))!;
}

function ids(records: readonly McpSessionRecord[]): string[] {
  return records.map(({ id }) => id);
}

/** Makes `count` calls at the same time, from two nodes. */
function concurrently<T>(
  { store, peer = store }: McpSessionStoreHarness,
  count: number,
  call: (store: McpSessionStore, n: number) => Promise<T>,
): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, (_, n) => call(n % 2 ? peer : store, n)));
}

const create = (
  store: McpSessionStore,
  id: string,
  principal: string | undefined,
  caps: McpSessionCaps = AMPLE,
): Promise<McpCreateOutcome> => store.create(newRecord(id, principal), caps);

const count = (outcomes: readonly McpCreateOutcome[], outcome: McpCreateOutcome): number =>
  outcomes.filter((one) => one === outcome).length;

const capTests: Tests = {
  'the total cap refuses new records of any principal, and changes nothing': async ({ store }) => {
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

  'the cap of a principal counts its own records, and no others': async ({ store }) => {
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

  'of concurrent creations of one id one succeeds, and of others as many as the caps allow': async (harness) => {
    const same = await concurrently(harness, 20, (store) => create(store, 's', 'p'));
    assert.deepEqual([count(same, 'created'), count(same, 'taken')], [1, 19]);
    for (const principal of ['q', undefined]) {
      const caps = { total: 1_000, perPrincipal: 10 };
      const owned = await concurrently(harness, 100, (node, n) => create(node, `${principal} ${n}`, principal, caps));
      assert.deepEqual([count(owned, 'created'), count(owned, 'principal-cap')], [10, 90]);
    }
    const caps = { total: 30, perPrincipal: 1_000 };
    const all = await concurrently(harness, 100, (store, n) => create(store, `s${n}`, `p${n}`, caps));
    assert.deepEqual([count(all, 'created'), count(all, 'total-cap')], [9, 91]);
    assert.equal(await harness.store.count(), 30);
  },
};

const recordTests: Tests = {
  'create makes the record that get gives, with its times stamped': async ({ store, peer = store }) => {
    const made = { ...newRecord('s', 'p'), routeParams: { tenant: 'ü', list: [1] } };
    assert.equal(await store.create(made, AMPLE), 'created');
    const record = (await store.get('s'))!;
    const { createdAt, lastSeenAt } = record;
    assert.ok(Number.isFinite(createdAt) && createdAt === lastSeenAt);
    assert.deepEqual(plain(record), { ...made, subscriptions: [], used: false, createdAt, lastSeenAt });
    assert.deepEqual(await peer.get('s'), record);
    assert.equal(await store.get('unknown'), undefined);
    assert.equal('principal' in plain(await begin(store, 'anonymous')), false);
  },

  'a record keeps its format, so that a node of another version does not continue the session': async ({
    store,
    peer,
  }) => {
    await store.create({ ...newRecord('s', 'p'), format: 7 }, AMPLE);
    await store.patch('s', { logLevel: 'info' });
    await store.touch('s');
    assert.equal((await (peer ?? store).get('s'))?.format, 7);
    assert.deepEqual(
      (await store.list()).map(({ format }) => format),
      [7],
    );
    assert.equal((await begin(store, 'other')).format, undefined);
  },

  'a patch changes what it names, and nothing else': async ({ store }) => {
    const record = await begin(store, 's', 'p');
    const protocolVersion = '2025-03-26';
    // It returns no record: that may be large, and a client may subscribe often.
    const change = { protocolVersion, logLevel: 'debug', subscribe: ['u:1', 'u:1'] };
    assert.equal(await store.patch('s', change), true);
    const expected = { ...record, protocolVersion, logLevel: 'debug', subscriptions: ['u:1'] };
    assert.deepEqual(plain(await store.get('s')), plain(expected));
    assert.equal(await store.patch('s', {}), true);
    assert.deepEqual(plain(await store.get('s')), plain(expected));
    assert.equal(await store.patch('unknown', { logLevel: 'debug' }), false);
    assert.equal(await store.get('unknown'), undefined);
    await store.patch('s', { subscribe: ['u:1', 'u:2'] });
    await store.patch('s', { unsubscribe: ['u:1', 'u:unknown'], subscribe: ['u:3'] });
    const { subscriptions } = (await store.get('s'))!;
    assert.deepEqual(subscriptions.toSorted(), ['u:2', 'u:3']);
  },

  'patches that run at the same time all take effect': async (harness) => {
    await begin(harness.store, 's');
    await concurrently(harness, 50, (store, n) => store.patch('s', { subscribe: [`u:${n}`] }));
    const record = (await harness.store.get('s'))!;
    assert.equal(new Set(record.subscriptions).size, 50);
    assert.equal(record.subscriptions.length, 50);
    await concurrently(harness, 50, (store, n) => store.patch('s', n < 25 ? { unsubscribe: [`u:${n}`] } : {}));
    assert.equal((await harness.store.get('s'))!.subscriptions.length, 25);
  },

  'what a caller does to a record, or to what it gave, changes nothing in the store': async ({ store }) => {
    const given = { ...newRecord('s', 'p'), routeParams: { tenant: 'a' } };
    await store.create(given, AMPLE);
    const subscribe = ['u:1'];
    await store.patch('s', { subscribe });
    const record = (await store.get('s'))!;
    const before = plain(await store.get('s'));
    const [seen] = await store.list();
    for (const change of [
      () => Object.assign(given.routeParams, { tenant: 'changed' }),
      () => subscribe.push('u:changed'),
      () => Object.assign(record, { protocolVersion: 'changed' }),
      () => Object.assign(record.routeParams!, { tenant: 'changed' }),
      () => (record.subscriptions as string[]).push('u:changed'),
      () => Object.assign(seen!, { principal: 'changed' }),
      () => (seen!.subscriptions as string[]).push('u:changed'),
    ]) {
      attempt(change);
    }
    assert.deepEqual(plain(await store.get('s')), before);
  },

  'a record is plain JSON': async ({ store }) => {
    const experimental = { text: 'ünï \u2028 😀 \0', nested: { list: [1.5, -1, null, true, '', {}, []] }, zero: 0 };
    const initialize = JSON.stringify({ capabilities: { experimental } });
    await store.create({ ...newRecord('s', 'ünï 😀'), initialize }, AMPLE);
    await store.patch('s', { logLevel: 'info', subscribe: ['file:///ünï'] });
    const record = await store.get('s');
    assert.deepEqual(plain(record), record);
    assert.equal(record?.initialize, initialize);
  },

  'keys may have any form': async ({ store }) => {
    await begin(store, 's');
    await store.patch('s', { subscribe: FORGED_IDS });
    await store.patch('s', { unsubscribe: ['constructor'] });
    const record = (await store.get('s'))!;
    assert.deepEqual(record.subscriptions.toSorted(), FORGED_IDS.filter((id) => id !== 'constructor').toSorted());
    for (const id of FORGED_IDS) {
      assert.equal(await store.get(id), undefined);
      assert.equal(await store.touch(id), false);
      assert.equal(await store.delete(id), undefined);
    }
    for (const id of FORGED_IDS)
      assert.deepEqual(await store.get((await begin(store, id, id)).id), await store.get(id));
    for (const id of FORGED_IDS) assert.deepEqual(ids(await store.list({ principal: id })), [id]);
    for (const id of FORGED_IDS) assert.equal((await store.delete(id))?.id, id);
    assert.equal(await store.count(), 1);
  },
};

const lifeTests: Tests = {
  'touch stamps the last activity; a patch does not': async ({ store, advance }) => {
    if (!advance) return;
    const { createdAt } = await begin(store, 's');
    await advance(5_000);
    await store.patch('s', { logLevel: 'debug' });
    assert.equal((await store.get('s'))?.lastSeenAt, createdAt);
    assert.equal(await store.touch('s'), true);
    const { lastSeenAt, createdAt: unchanged } = (await store.get('s'))!;
    assert.ok(lastSeenAt >= createdAt + 5_000);
    assert.equal(unchanged, createdAt);
    assert.equal(await store.touch('unknown'), false);
  },

  'a record is unused until it is touched; a patch does not count': async ({ store, peer = store }) => {
    await begin(store, 's');
    await store.patch('s', { logLevel: 'debug', subscribe: ['u:1'] });
    assert.equal((await store.get('s'))?.used, false);
    await peer.touch('s');
    assert.equal((await store.get('s'))?.used, true);
    await store.patch('s', { logLevel: 'info' });
    assert.equal((await store.delete('s'))?.used, true);
    assert.equal((await begin(store, 's')).used, false);
  },

  'delete gives the record to exactly one of many callers': async (harness) => {
    const record = await begin(harness.store, 's', 'p');
    const outcomes = await concurrently(harness, 20, (store) => store.delete('s'));
    assert.deepEqual(
      outcomes.filter((outcome) => outcome !== undefined),
      [record],
    );
    assert.equal(await harness.store.get('s'), undefined);
    assert.equal(await harness.store.touch('s'), false);
    assert.equal(await harness.store.patch('s', { logLevel: 'debug' }), false);
    assert.equal(await harness.store.count(), 0);
    assert.deepEqual(await harness.store.list({ principal: 'p' }), []);
  },

  'claimExpired takes the idle records, longest idle first, `limit` at most': async (harness) => {
    const { store, advance } = harness;
    if (!advance) return;
    for (const id of ['a', 'b', 'c', 'd']) {
      await begin(store, id);
      await advance(1_000);
    }
    await store.touch('a');
    await advance(10_000);
    await begin(store, 'fresh');
    assert.deepEqual(await store.claimExpired(60_000, MANY), []);
    assert.deepEqual(await store.claimExpired(5_000, 0), []);
    assert.deepEqual(ids(await store.claimExpired(5_000, 2)), ['b', 'c']);
    assert.equal(await store.get('b'), undefined);
    assert.deepEqual(ids(await store.claimExpired(5_000, MANY)), ['d', 'a']);
    assert.deepEqual(ids(await store.list()), ['fresh']);
  },

  'a session that was touched is not expired': async ({ store, advance }) => {
    if (!advance) return;
    await begin(store, 's');
    for (let n = 0; n < 5; n++) {
      await advance(50_000);
      await store.touch('s');
      assert.deepEqual(await store.claimExpired(60_000, MANY), []);
    }
    await advance(61_000);
    assert.deepEqual(ids(await store.claimExpired(60_000, MANY)), ['s']);
  },

  'claimExpired takes records that were unused for `unusedMs`, too, the oldest first, `limit` at most': async (
    harness,
  ) => {
    const { store, advance } = harness;
    if (!advance) return;
    for (const id of ['a', 'b', 'c', 'd', 'e']) {
      await begin(store, id);
      await advance(1_000);
    }
    await store.touch('b');
    await advance(10_000);
    await begin(store, 'fresh');
    assert.deepEqual(await store.claimExpired(Infinity, MANY), []);
    assert.deepEqual(await store.claimExpired(Infinity, MANY, 60_000), []);
    assert.deepEqual(await store.claimExpired(Infinity, 0, 5_000), []);
    assert.deepEqual(ids(await store.claimExpired(Infinity, 1, 5_000)), ['a']);
    assert.equal(await store.get('a'), undefined);
    assert.deepEqual(ids(await store.claimExpired(60_000, MANY, 5_000)), ['c', 'd', 'e']);
    assert.deepEqual(ids(await store.list()), ['b', 'fresh']);
    assert.deepEqual(ids(await store.claimExpired(5_000, MANY, 60_000)), ['b']);
  },

  'claimExpired takes a record once that is both idle and unused': async ({ store, advance }) => {
    if (!advance) return;
    for (const id of ['a', 'b', 'c']) {
      await begin(store, id);
      await advance(1_000);
    }
    await advance(10_000);
    assert.deepEqual(ids(await store.claimExpired(5_000, 2, 1_000)), ['a', 'b']);
    assert.deepEqual(ids(await store.claimExpired(5_000, MANY, 1_000)), ['c']);
    assert.deepEqual(await store.claimExpired(5_000, MANY, 1_000), []);
  },

  'claimExpired gives each record to exactly one of many callers': async (harness) => {
    const { store, advance } = harness;
    if (!advance) return;
    for (const [idleMs, unusedMs] of [[30_000], [Infinity, 30_000]] as const) {
      for (let n = 0; n < 30; n++) await begin(store, `s${n}`, `p${n % 3}`);
      await advance(60_000);
      const claims = await concurrently(harness, 10, (node) => node.claimExpired(idleMs, 7, unusedMs));
      const claimed = claims.flatMap(ids);
      for (const claim of claims) assert.ok(claim.length <= 7);
      assert.equal(claimed.length, 30);
      assert.equal(new Set(claimed).size, 30);
      assert.equal(await store.count(), 0);
      for (const principal of ['p0', 'p1', 'p2']) assert.deepEqual(await store.list({ principal }), []);
    }
  },

  'claimAnonymous takes the anonymous record that is idle for longest, and no other': async ({ store, advance }) => {
    if (!store.claimAnonymous || !advance) return;
    assert.equal(await store.claimAnonymous(), undefined);
    for (const [id, principal] of [['a', 'p'], ['b'], ['c', 'undefined'], ['d'], ['e']] as const) {
      await begin(store, id, principal);
      await advance(1_000);
    }
    await store.touch('b');
    const idle = await store.get('d');
    assert.deepEqual(await store.claimAnonymous(), idle);
    assert.equal(await store.get('d'), undefined);
    assert.deepEqual([(await store.claimAnonymous())?.id, (await store.claimAnonymous())?.id], ['e', 'b']);
    assert.equal(await store.claimAnonymous(), undefined);
    assert.deepEqual(ids(await store.list()), ['a', 'c']);
  },

  'claimAnonymous gives each record to exactly one of many callers': async (harness) => {
    if (!harness.store.claimAnonymous) return;
    for (let n = 0; n < 150; n++) await begin(harness.store, `s${n}`, n < 120 ? 'p' : undefined);
    const claimed = await concurrently(harness, 40, (node) => node.claimAnonymous!());
    const taken = claimed.flatMap((record) => (record ? [record.id] : []));
    assert.deepEqual([taken.length, new Set(taken).size], [30, 30]);
    assert.equal(await harness.store.count(), 120);
  },
};

const listTests: Tests = {
  'list gives all records, oldest first, whatever was touched or patched since': async ({ store, advance }) => {
    for (const id of ['c', 'a', 'b']) {
      await begin(store, id, id === 'a' ? undefined : 'p');
      await advance?.(1_000);
    }
    await store.touch('c');
    await store.patch('a', { logLevel: 'debug' });
    assert.deepEqual((await store.list()).map(({ id }) => id).toSorted(), ['a', 'b', 'c']);
    // Without time passing they are all of one age.
    if (advance) assert.deepEqual(ids(await store.list()), ['c', 'a', 'b']);
    assert.equal(await store.count(), 3);
    assert.deepEqual(await store.list({ principal: null }), [await store.get('a')]);
  },

  'list gives the records of one principal, or the anonymous ones': async ({ store }) => {
    for (const [id, principal] of [['a', 'p'], ['b'], ['c', 'q'], ['d', 'p'], ['e', 'null'], ['f', '']] as const) {
      await begin(store, id, principal);
    }
    const listed = async (principal: string | null) => ids(await store.list({ principal })).toSorted();
    assert.deepEqual(await listed('p'), ['a', 'd']);
    assert.deepEqual(await listed(null), ['b']);
    assert.deepEqual(await listed('null'), ['e']);
    assert.deepEqual(await listed(''), ['f']);
    assert.deepEqual(await listed('unknown'), []);
    assert.equal((await store.list({})).length, 6);
  },
};

/** Returns a record as JSON carries it. */
function plain(record: unknown): McpSessionRecord {
  return JSON.parse(JSON.stringify(record)) as McpSessionRecord;
}

/** Tries to change a record: a frozen one throws, a copy is not affected, and both are fine. */
function attempt(change: () => unknown): void {
  try {
    change();
  } catch (error) {
    assert.ok(error instanceof TypeError);
  }
}
