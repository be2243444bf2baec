import { describe, expect, it } from 'vitest';
import { type McpStateError, UnknownStateError } from '../context/mcp-state.errors.js';
import { ManualClock } from '../testing/index.js';
import { InMemorySessionStore } from './in-memory-session-store.js';
import type { McpSessionStore } from './session-store.js';
import { StoredStates, type StoredStatesParts } from './stored-states.js';

const IDLE_MS = 10_000;
const CLIENT = {
  protocolVersion: '2026-07-28',
  capabilities: { sampling: {} },
  clientInfo: { name: 'c', version: '1' },
};

function setup(options: Partial<StoredStatesParts> = {}, with_: { store?: McpSessionStore; clock?: ManualClock } = {}) {
  const { clock = new ManualClock() } = with_;
  const memory = with_.store ?? new InMemorySessionStore(clock);
  const calls: string[] = [];
  const store = new Proxy(memory, {
    get: (target, name: keyof McpSessionStore) => {
      const member = target[name];
      if (typeof member !== 'function') return member;
      return (...args: never[]) => {
        calls.push(name);
        return (member as (...of: never[]) => unknown).apply(target, args);
      };
    },
  });
  const limits = { maxSessions: 100, maxSessionsPerPrincipal: 10, maxAnonymousSessions: 10 };
  const parts = { store, clock, endpoint: 'mcp', limits, idleTimeoutMs: IDLE_MS, maxStateBytes: 1_000, ...options };
  const states = new StoredStates(parts);
  const watched = { watch: 0, relax: 0, faults: [] as unknown[] };
  states.watchedBy({
    watch: () => void watched.watch++,
    relax: () => void watched.relax++,
    fault: (error) => void watched.faults.push(error),
  });
  const as = (principal?: string) => states.of({ principal, client: () => CLIENT });
  return { clock, store: memory, calls, states, watched, as };
}

const code = (error: unknown) => (error as McpStateError).code;
const failure = (task: Promise<unknown>) =>
  task.then(
    () => undefined,
    (error: unknown) => error,
  );

describe('state with a handle', () => {
  it('costs nothing before something is stored, then goes by its handle', async () => {
    const { as, calls, store, watched } = setup();
    const cart = await as('ann').open(undefined);
    expect(cart.handle).toMatch(/^[A-Za-z0-9]{22}$/);
    expect([cart.data, calls, watched.watch]).toEqual([{}, [], 0]);
    expect(await cart.patch({ items: [1], note: null })).toEqual({ items: [1] });
    expect(cart.data).toEqual({ items: [1] });
    expect(watched.watch).toBe(1);
    expect((await as('ann').open(cart.handle)).data).toEqual({ items: [1] });
    const [record] = await store.list();
    expect(record).toMatchObject({
      kind: 'state',
      principal: 'ann',
      initialize: CLIENT,
      protocolVersion: '2026-07-28',
    });
    expect(await store.get(cart.handle)).toBeUndefined();
  });

  it('is another one each time, for whoever gives no handle', async () => {
    const { as } = setup();
    const handles = await Promise.all([as().open(undefined), as().open(null), as().open(undefined)]);
    expect(new Set(handles.map(({ handle }) => handle)).size).toBe(3);
  });

  it('is merged key by key, by all who have it at the same time', async () => {
    const { as } = setup();
    const minted = await as('ann').open(undefined);
    // Also while it begins.
    await Promise.all(Array.from({ length: 10 }, (_, n) => minted.patch({ [`a${n}`]: n })));
    const open = await Promise.all(Array.from({ length: 10 }, () => as('ann').open(minted.handle)));
    await Promise.all(open.map((state, n) => state.patch({ [`b${n}`]: n, [`a${n}`]: null })));
    const { data } = await as('ann').open(minted.handle);
    expect(data).toEqual(Object.fromEntries(Array.from({ length: 10 }, (_, n) => [`b${n}`, n])));
  });

  it('takes keys for keys, and plain JSON', async () => {
    const { as } = setup();
    const state = await as().open(undefined);
    const keys = JSON.parse('{"__proto__":1,"constructor":2}') as Record<string, unknown>;
    const data = await state.patch({ ...keys, at: new Date(0), none: undefined });
    expect(Object.entries(data)).toEqual([...Object.entries(keys), ['at', '1970-01-01T00:00:00.000Z']]);
    expect(Object.keys(await state.patch({ at: null, constructor: null }))).toEqual(['__proto__']);
  });

  it.each([undefined, null, 'text', 7, [1], () => 1, 10n])('refuses to store %o', async (changes) => {
    const { as, calls } = setup();
    const state = await as().open(undefined);
    await expect((async () => state.patch(changes as never))()).rejects.toThrow(TypeError);
    expect(calls).toEqual([]);
  });

  it.each([
    ['nobody minted', () => 'x'.repeat(22)],
    ['is too short', () => 'abc'],
    ['is empty', () => ''],
    ['is a key of objects', () => '__proto__'],
    ['is no text', () => 7 as unknown as string],
    ['is long', () => 'x'.repeat(100_000)],
    ['was minted, and nothing was stored', async (of: Setup) => (await of.as('ann').open(undefined)).handle],
    ['is somebody else’s', (of: Setup) => stored(of, 'bob')],
    ['is an anonymous caller’s', (of: Setup) => stored(of, undefined)],
    ['is of a session', (of: Setup) => session(of, 'S'.repeat(22))],
    [
      'is of a session, as a state would be named',
      (of: Setup) => session(of, `state mcp ${'S'.repeat(22)}`, 'S'.repeat(22)),
    ],
  ])('is unknown when it %s', async (_, handle) => {
    const of = setup();
    const given = await handle(of);
    const error = (await failure(of.as('ann').open(given))) as UnknownStateError;
    expect(error).toBeInstanceOf(UnknownStateError);
    expect([error.name, error.code, error.handle]).toEqual(['UnknownStateError', 'UNKNOWN_STATE', expect.any(String)]);
    if (typeof given === 'string') expect(error.handle).toBe(given);
    // Nobody learns from the text which of them it was.
    const nobodys = (await failure(of.as('ann').open('y'.repeat(22)))) as UnknownStateError;
    const quoted = (text: string) => text.replace(/"[^"]*"…?/, '"…"');
    if (given.length < 50) expect(quoted(error.message)).toBe(quoted(nobodys.message));
    expect(error.message.length).toBeLessThan(400);
  });

  it('is gone for good when it is deleted', async () => {
    const { as, watched, store } = setup();
    const state = await as('ann').open(undefined);
    expect(await state.delete()).toBe(false);
    await expect(state.patch({ a: 1 })).rejects.toThrow(UnknownStateError);
    const other = await as('ann').open(undefined);
    await other.patch({ a: 1 });
    const again = await as('ann').open(other.handle);
    expect([await other.delete(), other.data, watched.relax]).toEqual([true, {}, 2]);
    expect(await again.delete()).toBe(false);
    for (const gone of [other, again]) expect(await failure(gone.patch({ a: 2 }))).toBeInstanceOf(UnknownStateError);
    await expect(as('ann').open(other.handle)).rejects.toThrow(UnknownStateError);
    expect(await store.count()).toBe(0);
  });

  it('is of one endpoint, also when several share a store', async () => {
    const one = setup();
    const two = setup({ endpoint: 'other' }, one);
    const handle = await stored(one, 'ann');
    await expect(two.as('ann').open(handle)).rejects.toThrow(UnknownStateError);
  });

  it('begins on one node and goes on on another', async () => {
    const one = setup();
    const two = setup({}, one);
    const state = await two.as('ann').open(await stored(one, 'ann'));
    expect(await state.patch({ b: 2 })).toEqual({ a: 1, b: 2 });
    expect(two.watched.watch).toBeGreaterThan(0);
  });
});

describe('the time of a state', () => {
  it('ends idleTimeoutMs after its last use, noted a tenth of it apart', async () => {
    const of = setup();
    const { clock, calls, store } = of;
    const handle = await stored(of, 'ann');
    for (let n = 0; n < 40; n++) {
      await clock.advance(IDLE_MS / 20);
      await of.as('ann').open(handle);
      expect(await store.claimExpired(IDLE_MS, 10)).toEqual([]);
    }
    expect(calls.filter((name) => name === 'touch').length).toBe(20);
    await clock.advance(IDLE_MS);
    expect(await store.claimExpired(IDLE_MS, 10)).toHaveLength(1);
    await expect(of.as('ann').open(handle)).rejects.toThrow(UnknownStateError);
  });

  it('goes on with a patch', async () => {
    const { as, clock, store } = setup();
    const state = await as('ann').open(undefined);
    for (let n = 0; n < 5; n++) {
      await state.patch({ n });
      await clock.advance(IDLE_MS - 1);
      expect(await store.claimExpired(IDLE_MS, 10)).toEqual([]);
    }
    await clock.advance(1);
    await store.claimExpired(IDLE_MS, 10);
    await expect(state.patch({ n: 9 })).rejects.toThrow(UnknownStateError);
  });

  it('is not noted where nothing expires', async () => {
    const of = setup({ idleTimeoutMs: Infinity });
    const handle = await stored(of, 'ann');
    await of.clock.advance(1_000_000);
    await of.as('ann').open(handle);
    expect(of.calls).not.toContain('touch');
  });
});

describe('state of a principal', () => {
  it('is the same in all calls of the principal, and nobody else’s', async () => {
    const { as } = setup();
    const state = await as('ann').ofPrincipal();
    expect(state.data).toEqual({});
    expect('handle' in state).toBe(false);
    await state.patch({ theme: 'dark' });
    expect((await as('ann').ofPrincipal()).data).toEqual({ theme: 'dark' });
    expect((await as('bob').ofPrincipal()).data).toEqual({});
  });

  it('is refused to anonymous callers, with the reason', async () => {
    const { as } = setup();
    const error = (await failure(as().ofPrincipal())) as McpStateError;
    expect([error.name, error.code]).toEqual(['McpStateError', 'NO_PRINCIPAL']);
    expect(error.message).toContain('not known who you are');
  });

  it('cannot be named by a client', async () => {
    const { as, store } = setup();
    await (await as('ann').ofPrincipal()).patch({ a: 1 });
    const [{ id } = { id: '' }] = await store.list();
    for (const handle of [id, id.split(' ')[2]!, 'ann']) {
      await expect(as('ann').open(handle)).rejects.toThrow(UnknownStateError);
    }
  });

  it('begins again after its end', async () => {
    const { as, clock, store } = setup();
    const state = await as('ann').ofPrincipal();
    await state.patch({ a: 1 });
    expect([await state.delete(), state.data]).toEqual([true, {}]);
    expect(await state.patch({ b: 1 })).toEqual({ b: 1 });
    await clock.advance(IDLE_MS);
    await store.claimExpired(IDLE_MS, 10);
    expect(await state.patch({ c: 1 })).toEqual({ c: 1 });
  });

  it('begins once, whoever is first', async () => {
    const one = setup();
    const two = setup({}, one);
    const all = await Promise.all(Array.from({ length: 20 }, (_, n) => (n % 2 ? one : two).as('ann').ofPrincipal()));
    await Promise.all(all.map((state, n) => state.patch({ [`k${n}`]: n })));
    expect(Object.keys((await one.as('ann').ofPrincipal()).data)).toHaveLength(20);
    expect(await one.store.count('state')).toBe(1);
    // No place is kept for those who came second.
    expect(await one.store.reserve('x', 'ann', { total: 2, perPrincipal: 2 })).toBe('reserved');
  });
});

describe('bounds of states', () => {
  it('refuses data that is too large, also when many patches make it so', async () => {
    const { as } = setup();
    const state = await as('ann').open(undefined);
    const error = (await failure(state.patch({ text: 'ü'.repeat(500) }))) as McpStateError;
    expect(code(error)).toBe('STATE_TOO_LARGE');
    expect(error.message).toContain('1011');
    await state.patch({ text: 'ü'.repeat(400) });
    const patches = Array.from({ length: 10 }, (_, n) =>
      as('ann')
        .open(state.handle)
        .then((s) => s.patch({ [n]: 'x'.repeat(60) })),
    );
    const outcomes = await Promise.allSettled(patches);
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(2);
    const { data } = await as('ann').open(state.handle);
    expect(JSON.stringify(data).length).toBeLessThan(1_000);
    // A smaller one may go on.
    expect(await state.patch({ text: null, more: 'x'.repeat(500) })).toMatchObject({
      more: expect.any(String) as string,
    });
  });

  it('counts them with the sessions, and refuses newcomers', async () => {
    const of = setup({ limits: { maxSessions: 3, maxSessionsPerPrincipal: 2, maxAnonymousSessions: Infinity } });
    await session(of, 'S'.repeat(22), undefined, 'ann');
    await stored(of, 'ann');
    const third = await of.as('ann').open(undefined);
    const tooMany = (await failure(third.patch({ a: 1 }))) as McpStateError;
    expect([tooMany.code, tooMany.message]).toEqual([
      'TOO_MANY_STATES',
      expect.stringContaining('2 sessions and states'),
    ]);
    await stored(of, 'bob');
    expect(code(await failure((await of.as('cyd').open(undefined)).patch({ a: 1 })))).toBe('TOO_MANY_STATES');
    // There is room again, for the same handle.
    await of.store.delete('S'.repeat(22));
    expect(await third.patch({ a: 1 })).toEqual({ a: 1 });
  });

  it('holds anonymous callers to a cap of their own, together', async () => {
    const of = setup({ limits: { maxSessions: 9, maxSessionsPerPrincipal: 1, maxAnonymousSessions: 2 } });
    await stored(of, undefined);
    await stored(of, undefined);
    const tooMany = (await failure((await of.as(undefined).open(undefined)).patch({ a: 1 }))) as McpStateError;
    expect([tooMany.code, tooMany.message]).toEqual([
      'TOO_MANY_STATES',
      expect.stringContaining('"maxAnonymousSessions"'),
    ]);
    await stored(of, 'ann');
    expect(code(await failure((await of.as('ann').open(undefined)).patch({ a: 1 })))).toBe('TOO_MANY_STATES');
  });

  it('gives its place back when the store fails', async () => {
    const { as, store } = setup();
    const create = store.create.bind(store);
    store.create = () => Promise.reject(new Error('away'));
    const state = await as('ann').open(undefined);
    await expect(state.patch({ a: 1 })).rejects.toThrow('away');
    store.create = create;
    expect(await store.reserve('x', 'ann', { total: 1, perPrincipal: 1 })).toBe('reserved');
    await store.release('x');
    expect(await state.patch({ a: 1 })).toEqual({ a: 1 });
  });
});

type Setup = ReturnType<typeof setup>;

async function stored({ as }: Setup, principal: string | undefined): Promise<string> {
  const state = await as(principal).open(undefined);
  await state.patch({ a: 1 });
  return state.handle;
}

async function session({ store }: Setup, id: string, handle = id, principal = 'ann'): Promise<string> {
  await store.create({ id, principal, protocolVersion: '2025-11-25', initialize: CLIENT });
  return handle;
}
