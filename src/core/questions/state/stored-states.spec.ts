import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { type McpStateError, McpUnknownStateError } from '../../calls/mcp-state.js';
import { ManualClock } from '../../../testing/index.js';
import { InMemoryStateStore } from './in-memory-state-store.js';
import type { McpStateStore } from './state-store.js';
import { StoredStates, type StoredStatesOptions } from './stored-states.js';

const TTL_MS = 10_000;
const OPTIONS: StoredStatesOptions = {
  endpoint: 'path.mcp',
  ttlMs: TTL_MS,
  maxStatesPerPrincipal: 10,
  maxAnonymousStates: 10,
  maxStateBytes: 1_000,
};

interface Shared {
  readonly store: McpStateStore;
  readonly clock: ManualClock;
}

/** Creates one node; nodes that share a store are given those of another one. */
function setup(options: Partial<StoredStatesOptions> = {}, shared?: Shared) {
  const clock = shared?.clock ?? new ManualClock();
  const memory = shared?.store ?? new InMemoryStateStore(clock);
  const calls: [name: string, key: string][] = [];
  const noted = (name: string, key: string): McpStateStore => {
    calls.push([name, key]);
    return memory;
  };
  const store: McpStateStore = {
    get: (key) => noted('get', key).get(key),
    set: (key, ...of) => noted('set', key).set(key, ...of),
    delete: (key) => noted('delete', key).delete(key),
  };
  const faults: unknown[] = [];
  const states = new StoredStates(store, clock, { ...OPTIONS, ...options }, (error) => void faults.push(error));
  return {
    clock,
    store: memory,
    calls,
    faults,
    as: (principal?: string) => ({
      open: (handle?: unknown) => states.of({ principal }, handle),
      ofPrincipal: () => states.ofPrincipal({ principal }),
    }),
  };
}

const sizeOf = ({ store }: Shared): number => (store as InMemoryStateStore).size;
const code = (error: unknown) => (error as McpStateError).code;
const failure = (task: Promise<unknown>) =>
  task.then(
    () => undefined,
    (error: unknown) => error,
  );

describe('state with a handle', () => {
  it('state with a handle lies under its endpoint, a hash of the principal, and the handle', async () => {
    const { as, calls } = setup();
    const handle = async (principal?: string) => {
      const state = await as(principal).open(undefined);
      await state.patch({ a: 1 });
      return state.handle;
    };
    const hash = createHash('sha256').update('ann').digest('base64url');
    const expected = [`path.mcp:${hash}:${await handle('ann')}`, `path.mcp:-:${await handle()}`];
    await (await as('ann').ofPrincipal()).patch({ a: 1 });
    expect(new Set(calls.map(([, key]) => key))).toEqual(new Set([...expected, `path.mcp:${hash}:-`]));
  });

  it('state with a handle is merged key by key, also by concurrent calls', async () => {
    const { as } = setup();
    const minted = await as('ann').open(undefined);
    // Also while it begins.
    await Promise.all(Array.from({ length: 10 }, (_, n) => minted.patch({ [`a${n}`]: n })));
    const open = await Promise.all(Array.from({ length: 10 }, () => as('ann').open(minted.handle)));
    await Promise.all(open.map((state, n) => state.patch({ [`b${n}`]: n, [`a${n}`]: null })));
    const { data } = await as('ann').open(minted.handle);
    expect(data).toEqual(Object.fromEntries(Array.from({ length: 10 }, (_, n) => [`b${n}`, n])));
  });

  it('state with a handle takes keys for keys, and plain JSON', async () => {
    const { as } = setup();
    const state = await as().open(undefined);
    const keys = JSON.parse('{"__proto__":1,"constructor":2}') as Record<string, unknown>;
    const data = await state.patch({ ...keys, at: new Date(0), none: undefined });
    expect(Object.entries(data)).toEqual([...Object.entries(keys), ['at', '1970-01-01T00:00:00.000Z']]);
    expect(Object.keys(await state.patch({ at: null, constructor: null }))).toEqual(['__proto__']);
  });

  it.each([undefined, null, 'text', 7, [1], () => 1, 10n])(
    'state with a handle refuses to store %o',
    async (changes) => {
      const { as, calls } = setup();
      const state = await as().open(undefined);
      await expect((async () => state.patch(changes as never))()).rejects.toThrow(TypeError);
      expect(calls).toEqual([]);
    },
  );

  it.each([
    ['was never minted', () => 'x'.repeat(22)],
    ['is too short', () => 'abc'],
    ['is empty', () => ''],
    ['is a key of objects', () => '__proto__'],
    ['is no text', () => 7 as unknown as string],
    ['is long', () => 'x'.repeat(100_000)],
    ['was minted, and nothing was stored', async (of: Setup) => (await of.as('ann').open(undefined)).handle],
    ['belongs to another principal', (of: Setup) => stored(of, 'bob')],
    ['is an anonymous caller’s', (of: Setup) => stored(of, undefined)],
  ])('state with a handle is unknown when it %s', async (_, handle) => {
    const of = setup();
    const given = await handle(of);
    const error = (await failure(of.as('ann').open(given))) as McpUnknownStateError;
    expect(error).toBeInstanceOf(McpUnknownStateError);
    expect([error.name, error.code, error.handle]).toEqual([
      'McpUnknownStateError',
      'UNKNOWN_STATE',
      expect.any(String),
    ]);
    if (typeof given === 'string') expect(error.handle).toBe(given);
    // The text does not reveal which of them it was.
    const nobodys = (await failure(of.as('ann').open('y'.repeat(22)))) as McpUnknownStateError;
    const quoted = (text: string) => text.replace(/"[^"]*"…?/, '"…"');
    if (given.length < 50) expect(quoted(error.message)).toBe(quoted(nobodys.message));
    expect(error.message.length).toBeLessThan(400);
  });

  it('state with a handle is gone for good when it is deleted', async () => {
    const of = setup();
    const { as } = of;
    const state = await as('ann').open(undefined);
    expect(await state.delete()).toBe(false);
    await expect(state.patch({ a: 1 })).rejects.toThrow(McpUnknownStateError);
    const other = await as('ann').open(undefined);
    await other.patch({ a: 1 });
    const again = await as('ann').open(other.handle);
    expect([await other.delete(), other.data]).toEqual([true, {}]);
    expect(await again.delete()).toBe(false);
    for (const gone of [other, again]) expect(await failure(gone.patch({ a: 2 }))).toBeInstanceOf(McpUnknownStateError);
    await expect(as('ann').open(other.handle)).rejects.toThrow(McpUnknownStateError);
    expect(sizeOf(of)).toBe(0);
  });
});

describe('the time of a state', () => {
  const sets = ({ calls }: Setup) => calls.filter(([name]) => name === 'set').length;

  it('the time of a state ends a TTL after its last use, noted a tenth of it apart', async () => {
    const of = setup();
    const { clock } = of;
    const handle = await stored(of, 'ann');
    for (let n = 0; n < 40; n++) {
      await clock.advance(TTL_MS / 20);
      expect((await of.as('ann').open(handle)).data).toEqual({ a: 1 });
    }
    expect(sets(of)).toBe(1 + 20);
    await clock.advance(TTL_MS);
    await expect(of.as('ann').open(handle)).rejects.toThrow(McpUnknownStateError);
    expect(sizeOf(of)).toBe(0);
  });

  it('the time of a state goes on with a patch', async () => {
    const { as, clock } = setup();
    const state = await as('ann').open(undefined);
    for (let n = 0; n < 5; n++) {
      await state.patch({ n });
      await clock.advance(TTL_MS - 1);
    }
    expect(await state.patch({ n: 5 })).toEqual({ n: 5 });
    await clock.advance(TTL_MS);
    await expect(state.patch({ n: 9 })).rejects.toThrow(McpUnknownStateError);
  });

  it('the time of a state goes on with a use whose node has a slow clock', async () => {
    const one = setup();
    const { clock } = one;
    const handle = await stored(one, 'ann');
    const late = setup(
      {},
      { store: one.store, clock: Object.assign(new ManualClock(), { now: () => clock.now() - 1e7 }) },
    );
    await clock.advance(TTL_MS - 1);
    await late.as('ann').open(handle);
    await clock.advance(TTL_MS - 1);
    expect((await one.as('ann').open(handle)).data).toEqual({ a: 1 });
  });

  it('the time of a state has no end, and is not noted, where nothing expires', async () => {
    const of = setup({ ttlMs: Infinity });
    const handle = await stored(of, 'ann');
    await of.clock.advance(1_000_000_000);
    expect((await of.as('ann').open(handle)).data).toEqual({ a: 1 });
    expect(sets(of)).toBe(1);
  });
});

describe('state of a principal', () => {
  it('state of a principal cannot be named by a client', async () => {
    const { as, calls } = setup();
    await (await as('ann').ofPrincipal()).patch({ a: 1 });
    const [, key] = calls[0]!;
    for (const handle of [key, ...key.split(':'), 'ann']) {
      await expect(as('ann').open(handle)).rejects.toThrow(McpUnknownStateError);
    }
  });

  it('state of a principal begins once, whichever call is first', async () => {
    const of = setup();
    const all = await Promise.all(Array.from({ length: 20 }, () => of.as('ann').ofPrincipal()));
    await Promise.all(all.map((state, n) => state.patch({ [`k${n}`]: n })));
    expect(Object.keys((await of.as('ann').ofPrincipal()).data)).toHaveLength(20);
    expect(sizeOf(of)).toBe(1);
  });
});

describe('bounds of states', () => {
  it('the store of states refuses data that is too large, also when many patches make it so', async () => {
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

  it('the store of states refuses new states beyond the cap of a principal, and of no other', async () => {
    const of = setup({ maxStatesPerPrincipal: 2 });
    const first = await stored(of, 'ann');
    await stored(of, 'ann');
    const third = await of.as('ann').open(undefined);
    const tooMany = (await failure(third.patch({ a: 1 }))) as McpStateError;
    expect([tooMany.code, tooMany.message]).toEqual([
      'TOO_MANY_STATES',
      expect.stringContaining('its limit of 2 states ("maxStatesPerPrincipal")'),
    ]);
    expect(code(await failure((await of.as('ann').ofPrincipal()).patch({ a: 1 })))).toBe('TOO_MANY_STATES');
    await stored(of, 'bob');
    await stored(of, undefined);
    expect(await (await of.as('ann').open(first)).patch({ b: 1 })).toEqual({ a: 1, b: 1 });
    // There is room again, for the same handle.
    await (await of.as('ann').open(first)).delete();
    expect(await third.patch({ a: 1 })).toEqual({ a: 1 });
  });

  it('the store of states counts the states of each endpoint for itself', async () => {
    const one = setup({ maxStatesPerPrincipal: 1 });
    const two = setup({ maxStatesPerPrincipal: 1, endpoint: 'path.other' }, one);
    await stored(one, 'ann');
    await stored(two, 'ann');
    expect(sizeOf(one)).toBe(2);
  });

  it('the store of states holds anonymous callers to a cap of their own, together', async () => {
    const of = setup({ maxStatesPerPrincipal: 1, maxAnonymousStates: 2 });
    await stored(of, undefined);
    await stored(of, undefined);
    const tooMany = (await failure((await of.as(undefined).open(undefined)).patch({ a: 1 }))) as McpStateError;
    expect([tooMany.code, tooMany.message]).toEqual([
      'TOO_MANY_STATES',
      expect.stringContaining('"maxAnonymousStates"'),
    ]);
    await stored(of, 'ann');
  });
});

type Setup = ReturnType<typeof setup>;

async function stored({ as }: Setup, principal: string | undefined): Promise<string> {
  const state = await as(principal).open(undefined);
  await state.patch({ a: 1 });
  return state.handle;
}
