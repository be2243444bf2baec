import assert from 'node:assert/strict';
import type { McpTaskStore, McpNewTask } from '../stores/task-store.js';
import { type McpContractTestApi, type ContractTests, FORGED_IDS, runContract } from './contract.js';

/** Holds a task store under test. Each test gets one with nothing in it. @publicApi */
export interface McpTaskStoreHarness {
  readonly store: McpTaskStore;
  /** Reaches the same tasks as another node sees them. Absent: `store` itself. */
  readonly peer?: McpTaskStore;
  /** Advances the clock of the store. Absent: what takes time is not tested. */
  readonly advance?: (ms: number) => Promise<void>;
  dispose(): Promise<void>;
}

/**
 * Tests the contract of `McpTaskStore`, one test for each sentence.
 *
 * @param make creates a store with nothing in it, for each test
 * @param api the functions of the test runner; by default its globals
 * @publicApi
 */
export function taskStoreContract(
  name: string,
  make: () => Promise<McpTaskStoreHarness>,
  api?: McpContractTestApi,
): void {
  const chapters = { records: recordTests, questions: questionTests, caps: capTests, nodes: nodeTests };
  runContract(name, make, { ...chapters, time: timeTests }, api);
}

type Tests = ContractTests<McpTaskStoreHarness>;

const TTL_MS = 60_000;
const AT = 1_700_000_000_000;
const NO_LIMITS = { total: Infinity, perPrincipal: Infinity };
const ACTIVE = ['working', 'input_required'] as const;
const DONE = { status: 'completed', result: { content: [] }, lastUpdatedAt: AT + 9 } as const;

const about = (id: string, more: Partial<McpNewTask> = {}): McpNewTask => ({
  id,
  principal: undefined,
  tool: 'tool',
  node: 'A',
  createdAt: AT,
  ttlMs: TTL_MS,
  pollIntervalMs: 1_000,
  ...more,
});
const begin = (store: McpTaskStore, id: string, more: Partial<McpNewTask> = {}, limits = NO_LIMITS) =>
  store.create(about(id, more), limits);
const idsOf = async (store: McpTaskStore, filter?: { principal?: string | null }) =>
  (await store.list(filter)).map(({ id }) => id).toSorted();

const recordTests: Tests = {
  'get gives a task that was created, on every node': async ({ store, peer = store }) => {
    assert.equal(await store.get('a'), undefined);
    assert.equal(await begin(store, 'a', { principal: 'ü😀' }), 'created');
    const expected = { ...about('a', { principal: 'ü😀' }), status: 'working', lastUpdatedAt: AT };
    const { questions, answers, ...task } = (await peer.get('a'))!;
    assert.deepEqual({ ...task }, expected);
    assert.deepEqual([{ ...questions }, { ...answers }], [{}, {}]);
    assert.equal(await peer.get('b'), undefined);
  },

  'a task keeps its format, so that a node of a version that does not know it refuses to read the task': async ({
    store,
    peer = store,
  }) => {
    await begin(store, 'a', { format: 7 });
    await store.patch('a', ACTIVE, DONE);
    assert.equal((await peer.get('a'))?.format, 7);
    await begin(store, 'b');
    assert.equal((await peer.get('b'))?.format, undefined);
  },

  'patch changes what it names, and nothing else': async ({ store, peer = store }) => {
    await begin(store, 'a');
    assert.equal(await peer.patch('a', ACTIVE, { statusMessage: '1 ü\u2028', lastUpdatedAt: AT + 1 }), true);
    const { status, statusMessage, lastUpdatedAt } = (await store.get('a'))!;
    assert.deepEqual([status, statusMessage, lastUpdatedAt], ['working', '1 ü\u2028', AT + 1]);
    assert.equal(await store.patch('a', ACTIVE, { ...DONE, result: { list: [], big: 2 ** 52, none: null } }), true);
    const done = (await peer.get('a'))!;
    assert.deepEqual(
      [done.status, done.statusMessage, done.result],
      ['completed', '1 ü\u2028', { list: [], big: 2 ** 52, none: null }],
    );
    assert.equal(done.error, undefined);
  },

  'patch changes nothing of a task in another status, or that is not there': async ({ store }) => {
    await begin(store, 'a');
    assert.equal(await store.patch('a', ['input_required'], DONE), false);
    assert.equal(await store.patch('b', ACTIVE, DONE), false);
    assert.equal((await store.get('a'))!.status, 'working');
    assert.equal(await store.get('b'), undefined);
  },

  'an end is for good, and comes from exactly one of many callers': async ({ store, peer = store }) => {
    await begin(store, 'a');
    const error = { code: -32603, message: 'No.', data: { part: 1 } };
    const ends = Array.from({ length: 12 }, (_, n) => {
      const status = (['completed', 'failed', 'cancelled'] as const)[n % 3]!;
      const change = { status, statusMessage: String(n), error, lastUpdatedAt: AT + n };
      return (n % 2 ? peer : store).patch('a', ACTIVE, change);
    });
    const outcomes = await Promise.all(ends);
    assert.equal(outcomes.filter(Boolean).length, 1);
    const task = (await store.get('a'))!;
    assert.equal(task.statusMessage, String(outcomes.indexOf(true)));
    assert.deepEqual(task.error, error);
    assert.equal(await store.patch('a', ACTIVE, { statusMessage: 'late', lastUpdatedAt: AT + 99 }), false);
    assert.deepEqual(await store.get('a'), task);
  },

  'delete says whether there was a task, to exactly one of many callers': async ({ store, peer = store }) => {
    await begin(store, 'a');
    const outcomes = await Promise.all(Array.from({ length: 10 }, (_, n) => (n % 2 ? peer : store).delete('a')));
    assert.equal(outcomes.filter(Boolean).length, 1);
    assert.deepEqual([await store.get('a'), await store.list()], [undefined, []]);
    assert.equal(await store.ask('a', { k: {} }, AT), false);
    assert.deepEqual(await store.answer('a', { k: {} }, AT), []);
  },

  'list gives all tasks, or those of one principal, without their results': async ({ store, peer = store }) => {
    await begin(store, 'a', { principal: 'ann' });
    await begin(peer, 'b', { principal: 'bob', createdAt: AT + 1 });
    await begin(store, 'c', { createdAt: AT + 2 });
    await store.patch('b', ACTIVE, { ...DONE, statusMessage: 'ready' });
    assert.deepEqual(
      (await peer.list()).map(({ id }) => id),
      ['a', 'b', 'c'],
    );
    assert.deepEqual(await idsOf(peer, { principal: 'ann' }), ['a']);
    assert.deepEqual(await idsOf(peer, { principal: null }), ['c']);
    assert.deepEqual(await idsOf(peer, { principal: 'constructor' }), []);
    const [bobs] = await peer.list({ principal: 'bob' });
    assert.deepEqual(
      { ...bobs },
      {
        ...about('b', { principal: 'bob', createdAt: AT + 1 }),
        status: 'completed',
        statusMessage: 'ready',
        lastUpdatedAt: AT + 9,
      },
    );
  },

  'what a caller does to a value changes nothing in the store': async ({ store }) => {
    const result = { list: [1] };
    await begin(store, 'a');
    await store.patch('a', ACTIVE, { ...DONE, result });
    result.list.push(2);
    const seen = (await store.get('a'))!.result as typeof result;
    try {
      seen.list.push(3);
    } catch {
      // A frozen value is as good as a copy.
    }
    assert.deepEqual((await store.get('a'))!.result, { list: [1] });
  },

  'ids of clients and principals may have any form': async ({ store }) => {
    for (const id of FORGED_IDS) {
      assert.equal(await store.get(id), undefined);
      assert.equal(await store.patch(id, ACTIVE, DONE), false);
      assert.equal(await store.delete(id), false);
    }
    for (const [n, principal] of FORGED_IDS.entries()) await begin(store, `id${n}`, { principal });
    for (const [n, principal] of FORGED_IDS.entries()) {
      assert.equal((await store.get(`id${n}`))!.principal, principal);
      assert.deepEqual(await idsOf(store, { principal }), [`id${n}`]);
    }
  },
};

const questionTests: Tests = {
  'questions make a task input_required, until all are answered': async ({ store, peer = store }) => {
    await begin(store, 'a');
    assert.equal(await store.ask('a', { x: { method: 'm', params: { list: [] } }, y: {} }, AT + 1), true);
    const asked = (await peer.get('a'))!;
    assert.deepEqual(
      [asked.status, asked.lastUpdatedAt, { ...asked.questions }],
      ['input_required', AT + 1, { x: { method: 'm', params: { list: [] } }, y: {} }],
    );
    assert.deepEqual(await peer.answer('a', { x: { yes: [] } }, AT + 2), ['x']);
    const partly = (await store.get('a'))!;
    assert.deepEqual([partly.status, { ...partly.questions }], ['input_required', { y: {} }]);
    assert.deepEqual({ ...partly.answers }, { x: { yes: [] } });
    assert.deepEqual(await store.answer('a', { y: { no: 1 } }, AT + 3), ['y']);
    const all = (await peer.get('a'))!;
    assert.deepEqual([all.status, all.lastUpdatedAt, { ...all.questions }], ['working', AT + 3, {}]);
    assert.deepEqual({ ...all.answers }, { x: { yes: [] }, y: { no: 1 } });
  },

  'answers to what is not asked are ignored': async ({ store }) => {
    await begin(store, 'a');
    assert.deepEqual(await store.answer('a', { x: {} }, AT + 1), []);
    assert.equal((await store.get('a'))!.lastUpdatedAt, AT);
    await store.ask('a', { x: {} }, AT + 1);
    assert.deepEqual(await store.answer('a', { y: {}, x: { n: 1 } }, AT + 2), ['x']);
    assert.deepEqual(await store.answer('a', { x: { n: 2 } }, AT + 3), []);
    assert.deepEqual({ ...(await store.get('a'))!.answers }, { x: { n: 1 } });
    assert.deepEqual(await store.answer('unknown', { x: {} }, AT), []);
  },

  'a question is answered by exactly one of many callers': async ({ store, peer = store }) => {
    await begin(store, 'a');
    await store.ask('a', { x: {} }, AT + 1);
    const answers = Array.from({ length: 10 }, (_, n) => (n % 2 ? peer : store).answer('a', { x: { n } }, AT + 2));
    const taken = await Promise.all(answers);
    assert.equal(taken.filter(({ length }) => length === 1).length, 1);
    const first = taken.findIndex(({ length }) => length === 1);
    assert.deepEqual({ ...(await store.get('a'))!.answers }, { x: { n: first } });
  },

  'a question that was answered is not asked again, when asking is repeated': async ({ store }) => {
    await begin(store, 'a');
    await store.ask('a', { x: {} }, AT + 1);
    await store.answer('a', { x: { n: 1 } }, AT + 2);
    assert.equal(await store.ask('a', { x: {} }, AT + 3), true);
    assert.equal((await store.get('a'))!.status, 'working');
    await store.ask('a', { x: {}, y: {} }, AT + 4);
    assert.deepEqual(Object.keys((await store.get('a'))!.questions), ['y']);
  },

  'the end of a task removes questions and answers, and none is taken': async ({ store }) => {
    await begin(store, 'a');
    await store.ask('a', { x: {}, y: {} }, AT + 1);
    await store.answer('a', { x: {} }, AT + 2);
    assert.equal(await store.patch('a', ACTIVE, { status: 'cancelled', lastUpdatedAt: AT + 3 }), true);
    assert.deepEqual(await store.answer('a', { y: {} }, AT + 4), []);
    assert.equal(await store.ask('a', { z: {} }, AT + 4), false);
    const { status, questions, answers } = (await store.get('a'))!;
    assert.deepEqual([status, { ...questions }, { ...answers }], ['cancelled', {}, {}]);
  },

  'keys may have any form': async ({ store }) => {
    await begin(store, 'a');
    const keys = [...FORGED_IDS, '', '\ud800', '0'];
    assert.deepEqual(
      await store.answer(
        'a',
        fromKeys(keys, () => ({})),
        AT,
      ),
      [],
    );
    await store.ask(
      'a',
      fromKeys(keys, (key) => ({ key })),
      AT + 1,
    );
    const { questions } = (await store.get('a'))!;
    assert.deepEqual(Object.keys(questions).toSorted(), keys.toSorted());
    for (const key of keys) {
      assert.ok(Object.hasOwn(questions, key));
      assert.deepEqual(
        await store.answer(
          'a',
          fromKeys([key], () => ({ to: key })),
          AT + 2,
        ),
        [key],
      );
    }
    const { answers, status } = (await store.get('a'))!;
    assert.equal(status, 'working');
    for (const key of keys) assert.deepEqual(Object.getOwnPropertyDescriptor(answers, key)!.value, { to: key });
  },
};

const capTests: Tests = {
  'a cap refuses one task more, and changes nothing then': async ({ store, peer = store }) => {
    const limits = { total: 3, perPrincipal: 2 };
    const outcomes = [
      await begin(store, 'a', { principal: 'ann' }, limits),
      await begin(peer, 'b', { principal: 'ann' }, limits),
      await begin(store, 'c', { principal: 'ann' }, limits),
      await begin(store, 'd', {}, limits),
      await begin(peer, 'e', { principal: 'bob' }, limits),
    ];
    assert.deepEqual(outcomes, ['created', 'created', 'principal-cap', 'created', 'total-cap']);
    assert.deepEqual(await idsOf(store), ['a', 'b', 'd']);
    assert.deepEqual([await store.get('c'), await store.get('e')], [undefined, undefined]);
  },

  'the cap of an address counts the anonymous tasks that have it, until they are gone': async ({
    store,
    peer = store,
    advance,
  }) => {
    const limits = { total: 9, perPrincipal: 9, perAddress: 2 };
    assert.equal(await begin(store, 'a', { address: 'x' }, limits), 'created');
    assert.equal(await begin(peer, 'b', { address: 'x' }, limits), 'created');
    // A store may ignore it.
    if ((await begin(store, 'c', { address: 'x' }, limits)) === 'created') return;
    assert.equal(await begin(peer, 'c', { address: 'x' }, limits), 'address-cap');
    assert.equal(await store.get('c'), undefined);
    for (const [id, more] of [
      ['d', { address: 'y' }],
      ['e', {}],
      ['f', { principal: 'x' }],
    ] as const) {
      assert.equal(await begin(store, id, more, limits), 'created');
    }
    assert.equal((await peer.get('a'))?.address, 'x');
    await peer.delete('a');
    assert.equal(await begin(store, 'c', { address: 'x' }, limits), 'created');
    assert.equal(await begin(store, 'g', { address: 'x' }, limits), 'address-cap');
    if (!advance) return;
    await advance(TTL_MS);
    assert.equal(await begin(store, 'g', { address: 'x' }, limits), 'created');
  },

  'tasks that have ended count until they are gone': async ({ store, advance }) => {
    const limits = { total: 2, perPrincipal: 1 };
    await begin(store, 'a', { principal: 'ann' }, limits);
    await store.patch('a', ACTIVE, DONE);
    assert.equal(await begin(store, 'b', { principal: 'ann' }, limits), 'principal-cap');
    await store.delete('a');
    assert.equal(await begin(store, 'b', { principal: 'ann' }, limits), 'created');
    if (!advance) return;
    await advance(TTL_MS);
    assert.equal(await begin(store, 'c', { principal: 'ann' }, limits), 'created');
  },

  'a cap holds under concurrency': async ({ store, peer = store }) => {
    const limits = { total: 10, perPrincipal: Infinity };
    const created = Array.from({ length: 50 }, (_, n) => begin(n % 2 ? peer : store, `t${n}`, {}, limits));
    assert.equal((await Promise.all(created)).filter((outcome) => outcome === 'created').length, 10);
    assert.equal((await store.list()).length, 10);
  },
};

const nodeTests: Tests = {
  'active gives the tasks of a node that have not ended, on every node': async ({ store, peer = store }) => {
    for (const id of ['a', 'b', 'c', 'd']) await begin(store, id, { node: 'A' });
    await begin(peer, 'e', { node: 'B' });
    await store.ask('b', { x: {} }, AT + 1);
    await store.patch('c', ACTIVE, DONE);
    await peer.patch('d', ACTIVE, { status: 'failed', lastUpdatedAt: AT + 1 });
    for (const at of [store, peer]) {
      assert.deepEqual((await at.active('A')).toSorted(), ['a', 'b']);
      assert.deepEqual(await at.active('B'), ['e']);
      assert.deepEqual(await at.active('C'), []);
    }
    await peer.delete('a');
    assert.deepEqual(await store.active('A'), ['b']);
  },

  'a task stays active while it changes, and is active no more once another node has ended it': async ({
    store,
    peer = store,
  }) => {
    await begin(store, 'a', { node: 'A' });
    await store.patch('a', ACTIVE, { statusMessage: 'half', lastUpdatedAt: AT + 1 });
    await store.ask('a', { x: {} }, AT + 2);
    await peer.answer('a', { x: {} }, AT + 3);
    assert.deepEqual(await store.active('A'), ['a']);
    assert.equal(await peer.patch('a', ACTIVE, { status: 'cancelled', lastUpdatedAt: AT + 4 }), true);
    assert.deepEqual(await store.active('A'), []);
    assert.equal(await store.patch('a', ACTIVE, DONE), false);
    assert.deepEqual(await store.active('A'), []);
  },

  'active takes no node for another, whatever their ids are': async ({ store }) => {
    for (const [n, node] of FORGED_IDS.entries()) await begin(store, `id${n}`, { node });
    for (const [n, node] of FORGED_IDS.entries()) assert.deepEqual(await store.active(node), [`id${n}`]);
  },
};

const timeTests: Tests = {
  'a task is gone "ttlMs" after it was created, whatever happens to it': async ({ store, advance }) => {
    if (!advance) return;
    await begin(store, 'a');
    await begin(store, 'long', { ttlMs: 10 * TTL_MS });
    await advance(TTL_MS - 1_000);
    await store.ask('a', { x: {} }, AT + 1);
    await store.answer('a', { x: {} }, AT + 2);
    await store.patch('a', ACTIVE, DONE);
    assert.equal((await store.get('a'))!.status, 'completed');
    await advance(1_001);
    assert.equal(await store.get('a'), undefined);
    assert.equal(await store.patch('a', ['completed'], DONE), false);
    assert.equal(await store.delete('a'), false);
    assert.deepEqual(await idsOf(store), ['long']);
    assert.deepEqual(await store.active('A'), ['long']);
    await advance(9 * TTL_MS);
    assert.deepEqual([await store.list(), await store.active('A')], [[], []]);
  },
};

/** Makes properties from keys, also from `__proto__`. */
function fromKeys<T>(keys: readonly string[], value: (key: string) => T): Record<string, T> {
  return Object.fromEntries(keys.map((key) => [key, value(key)]));
}
