import assert from 'node:assert/strict';
import type { McpSessionRecord, McpSessionStore, NewSessionRecord, SessionCaps } from '../session/session-store.js';
import { type ContractTestApi, type ContractTests, FORGED_IDS, runContract } from './contract.js';

/**
 * What every `McpSessionStore` promises, sentence by sentence.
 *
 * @param make a store with nothing in it, for each test
 * @param api of the test runner; by default its globals
 * @publicApi
 */
export function sessionStoreContract(
  name: string,
  make: () => Promise<SessionStoreHarness>,
  api?: ContractTestApi,
): void {
  const chapters = {
    reservations: reservationTests,
    caps: capTests,
    records: recordTests,
    'touches and ends': lifeTests,
    lists: listTests,
    kinds: kindTests,
  };
  runContract(name, make, chapters, api);
}

type Tests = ContractTests<SessionStoreHarness>;

/** A session store under test. Each test gets one with nothing in it. @publicApi */
export interface SessionStoreHarness {
  readonly store: McpSessionStore;
  /** The same records as another node sees them, for calls that run concurrently. Absent: `store` itself. */
  readonly peer?: McpSessionStore;
  /** Lets the store's time pass. Absent: what takes time is not tested. */
  readonly advance?: (ms: number) => Promise<void>;
  dispose(): Promise<void>;
}

const ONE: SessionCaps = { total: 1, perPrincipal: 1 };
const AMPLE: SessionCaps = { total: 1_000, perPrincipal: 1_000 };
/** More than any test makes. */
const MANY = 1_000;

function newRecord(id: string, principal?: string, data?: Record<string, unknown>): NewSessionRecord {
  const clientInfo = { name: 'contract', version: '1' };
  const more = { capabilities: { sampling: {} }, _meta: { more: [1] } };
  const initialize = { protocolVersion: '2025-06-18', clientInfo, ...more };
  return {
    ...{ id, protocolVersion: '2025-11-25', initialize },
    ...(principal !== undefined && { principal }),
    ...(data && { data }),
  };
}

/** Reserves and creates, as a session begins. */
export async function begin(store: McpSessionStore, id: string, principal?: string): Promise<McpSessionRecord> {
  assert.equal(await store.reserve(id, principal, AMPLE), 'reserved');
  return store.create(newRecord(id, principal));
}

/** Reserves and creates, as state that outlives a call begins. */
async function beginState(store: McpSessionStore, id: string, principal?: string): Promise<McpSessionRecord> {
  assert.equal(await store.reserve(id, principal, AMPLE), 'reserved');
  return store.create({ ...newRecord(id, principal, { kept: true }), kind: 'state' });
}

function ids(records: readonly McpSessionRecord[]): string[] {
  return records.map(({ id }) => id);
}

/** `count` calls at the same time, from two nodes. */
function concurrently<T>(
  { store, peer = store }: SessionStoreHarness,
  count: number,
  call: (store: McpSessionStore, n: number) => Promise<T>,
): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, (_, n) => call(n % 2 ? peer : store, n)));
}

/** "Within a minute or so." */
const RESERVATION_IS_OVER_MS = 2 * 60_000;

const reservationTests: Tests = {
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
    await store.reserve('s', 'p', ONE);
    await Promise.all([store.release('s'), store.release('s')]);
    await store.release('s');
    await store.release('unknown');
    assert.equal(await store.reserve('s', 'p', ONE), 'reserved');
    assert.equal(await store.reserve('t', 'p', ONE), 'total-cap');
  },

  'release does nothing to a record': async ({ store }) => {
    await begin(store, 's', 'p');
    await store.release('s');
    assert.equal((await store.get('s'))?.id, 's');
    assert.equal(await store.reserve('t', 'p', ONE), 'total-cap');
  },

  'a reservation that is neither created nor released expires': async ({ store, advance }) => {
    if (!advance) return;
    await store.reserve('s', 'p', ONE);
    await advance(20_000);
    assert.equal(await store.reserve('t', 'p', ONE), 'total-cap');
    await advance(RESERVATION_IS_OVER_MS);
    assert.equal(await store.reserve('t', 'p', ONE), 'reserved');
    await store.release('t');
    assert.equal(await store.reserve('s', 'p', ONE), 'reserved');
  },

  'a record does not expire with the reservation that it came from': async ({ store, advance }) => {
    if (!advance) return;
    await begin(store, 's', 'p');
    await advance(RESERVATION_IS_OVER_MS);
    assert.equal((await store.get('s'))?.id, 's');
    assert.equal(await store.reserve('t', 'p', ONE), 'total-cap');
  },
};

const capTests: Tests = {
  'the total cap counts records and reservations': async ({ store }) => {
    const two = { total: 2, perPrincipal: 9 };
    await begin(store, 'recorded', 'p');
    assert.equal(await store.reserve('reserved', 'q', two), 'reserved');
    assert.equal(await store.reserve('s', 'r', two), 'total-cap');
    await store.delete('recorded');
    assert.equal(await store.reserve('s', 'r', two), 'reserved');
    assert.equal(await store.reserve('t', 'r', two), 'total-cap');
  },

  'the cap of a principal counts its own records and reservations only': async ({ store }) => {
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
    const outcomes = await concurrently(harness, 100, (store, n) => store.reserve(`s${n}`, `p${n}`, caps));
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

const recordTests: Tests = {
  'create makes the record that get gives, with its times stamped': async ({ store, peer = store }) => {
    const made = newRecord('s', 'p', { theme: 'dark' });
    await store.reserve('s', 'p', ONE);
    const record = await store.create(made);
    const { createdAt, lastSeenAt } = record;
    assert.ok(Number.isFinite(createdAt) && createdAt === lastSeenAt);
    assert.deepEqual(plain(record), { ...made, subscriptions: [], createdAt, lastSeenAt });
    assert.deepEqual(await peer.get('s'), record);
    assert.equal(await store.get('unknown'), undefined);
  },

  'an anonymous record has no principal': async ({ store }) => {
    const record = await begin(store, 's');
    assert.equal('principal' in plain(record), false);
    assert.deepEqual(record.data, {});
  },

  'create refuses an id that has a record': async ({ store }) => {
    const record = await begin(store, 's', 'p');
    await assert.rejects(store.create(newRecord('s', 'other')));
    await assert.rejects(store.create({ ...newRecord('s'), kind: 'state' }));
    assert.deepEqual(await store.get('s'), record);
    assert.deepEqual(await store.list({ principal: 'other' }), []);
  },

  'a patch changes what it names, and nothing else': async ({ store }) => {
    const record = await begin(store, 's', 'p');
    const patched = await store.patch('s', { logLevel: 'debug', subscribe: ['u:1', 'u:2', 'u:1'], data: { a: 1 } });
    const expected = { ...record, logLevel: 'debug', subscriptions: ['u:1', 'u:2'], data: { a: 1 } };
    assert.deepEqual(plain(patched), plain(expected));
    assert.deepEqual(await store.get('s'), patched);
    assert.deepEqual(plain(await store.patch('s', {})), plain(expected));
    assert.equal(await store.patch('unknown', { logLevel: 'debug' }), undefined);
  },

  'a subscription is there once, and unsubscribing removes it': async ({ store }) => {
    await begin(store, 's');
    await store.patch('s', { subscribe: ['u:1', 'u:2'] });
    await store.patch('s', { subscribe: ['u:2', 'u:3'] });
    const record = await store.patch('s', { unsubscribe: ['u:1', 'u:unknown'] });
    assert.deepEqual(record?.subscriptions.toSorted(), ['u:2', 'u:3']);
  },

  'data is merged key by key, `null` removes': async ({ store }) => {
    await begin(store, 's');
    await store.patch('s', { data: { a: { x: 1 }, b: [1], c: 'c' } });
    const record = await store.patch('s', { data: { a: { y: 2 }, b: null, d: 0, unknown: null } });
    assert.deepEqual(record?.data, { a: { y: 2 }, c: 'c', d: 0 });
  },

  'patches that run at the same time all take effect': async (harness) => {
    await begin(harness.store, 's');
    await concurrently(harness, 50, (store, n) => store.patch('s', { subscribe: [`u:${n}`], data: { [`k${n}`]: n } }));
    const record = (await harness.store.get('s'))!;
    assert.equal(new Set(record.subscriptions).size, 50);
    assert.equal(record.subscriptions.length, 50);
    assert.deepEqual(record.data, Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`k${n}`, n])));
    await concurrently(harness, 50, (store, n) => store.patch('s', n < 25 ? { unsubscribe: [`u:${n}`] } : {}));
    assert.equal((await harness.store.get('s'))!.subscriptions.length, 25);
  },

  'what a caller does to a record, or to what it gave, changes nothing in the store': async ({ store }) => {
    const given = newRecord('s', 'p', { list: [1] });
    const record = await store.create(given);
    const data = { more: [1] };
    await store.patch('s', { data });
    const before = plain(await store.get('s'));
    const [seen] = await store.list();
    for (const change of [
      () => Object.assign(given.initialize, { capabilities: 'changed' }),
      () => (given.data!['list'] as number[]).push(2),
      () => data.more.push(2),
      () => Object.assign(record, { protocolVersion: 'changed' }),
      () => Object.assign(record.initialize.clientInfo, { name: 'changed' }),
      () => (record.data['list'] as number[]).push(2),
      () => (record.subscriptions as string[]).push('u:changed'),
      () => Object.assign(seen!, { principal: 'changed' }),
      () => (seen!.data['more'] as number[]).push(2),
    ]) {
      attempt(change);
    }
    assert.deepEqual(plain(await store.get('s')), before);
  },

  'a record is plain JSON': async ({ store }) => {
    await begin(store, 's', 'ünï 😀');
    const data = { text: 'ünï \u2028 😀 \0', nested: { list: [1.5, -1, null, true, '', {}] }, zero: 0, off: false };
    const record = await store.patch('s', { data, logLevel: 'info', subscribe: ['file:///ünï'] });
    assert.deepEqual(plain(record), record);
    assert.deepEqual((await store.get('s'))?.data, data);
  },

  'keys are keys, whatever they look like': async ({ store }) => {
    const data = JSON.parse('{"__proto__":{"polluted":true},"constructor":1}') as Record<string, unknown>;
    await begin(store, 's');
    const record = (await store.patch('s', { data }))!;
    assert.deepEqual(Object.keys(record.data).toSorted(), ['__proto__', 'constructor']);
    assert.equal(Object.hasOwn(record.data, 'polluted'), false);
    assert.equal(({} as Record<string, unknown>)['polluted'], undefined);
    const { data: left } = (await store.patch('s', { data: { constructor: null } }))!;
    assert.deepEqual(left, plain({ ['__proto__']: { polluted: true } }));
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
  'touch stamps `lastSeenAt`; a patch does not': async ({ store, advance }) => {
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

  'delete gives the record to exactly one of many callers': async (harness) => {
    const record = await begin(harness.store, 's', 'p');
    const outcomes = await concurrently(harness, 20, (store) => store.delete('s'));
    const given = outcomes.filter((outcome) => outcome !== undefined);
    assert.deepEqual(given, [record]);
    assert.equal(await harness.store.get('s'), undefined);
    assert.equal(await harness.store.touch('s'), false);
    assert.equal(await harness.store.patch('s', { logLevel: 'debug' }), undefined);
    assert.equal(await harness.store.count(), 0);
    assert.deepEqual(await harness.store.list({ principal: 'p' }), []);
  },

  'claimExpired takes those that were not touched, longest silent first, `limit` at most': async (harness) => {
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

  'claimExpired gives each record to exactly one of many callers, and its place to others': async (harness) => {
    const { store, advance } = harness;
    if (!advance) return;
    for (let n = 0; n < 30; n++) await begin(store, `s${n}`, `p${n % 3}`);
    await advance(60_000);
    const claims = await concurrently(harness, 10, (node) => node.claimExpired(30_000, 7));
    const claimed = claims.flatMap(ids);
    for (const claim of claims) assert.ok(claim.length <= 7);
    assert.equal(claimed.length, 30);
    assert.equal(new Set(claimed).size, 30);
    assert.equal(await store.count(), 0);
    assert.equal(await store.reserve('next', 'p0', ONE), 'reserved');
    for (const principal of ['p0', 'p1', 'p2']) assert.deepEqual(await store.list({ principal }), []);
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

  'list gives what is current': async ({ store }) => {
    await begin(store, 's', 'p');
    await store.patch('s', { data: { a: 1 } });
    await store.touch('s');
    assert.deepEqual(await store.list({ principal: 'p' }), [await store.get('s')]);
  },
};

/** As JSON carries it. */
function plain(record: unknown): McpSessionRecord {
  return JSON.parse(JSON.stringify(record)) as McpSessionRecord;
}

/** A frozen record throws, a copy does not care: both are fine. */
function attempt(change: () => unknown): void {
  try {
    change();
  } catch (error) {
    assert.ok(error instanceof TypeError);
  }
}

const kindTests: Tests = {
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
    assert.deepEqual(ids(claimed), ['t', 's']);
    const kinds = claimed.map(({ kind }) => kind);
    assert.deepEqual(kinds, ['state', undefined]);
    assert.deepEqual([await store.count('session'), await store.count('state')], [0, 1]);
  },
};
