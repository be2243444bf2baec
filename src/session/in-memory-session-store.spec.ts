import { describe, expect, it } from 'vitest';
import { ManualClock, seededRandom, sessionStoreContract } from '../testing/index.js';
import { InMemorySessionStore } from './in-memory-session-store.js';
import type { McpSessionStore, NewSessionRecord } from './session-store.js';

sessionStoreContract(
  'InMemorySessionStore',
  async () => {
    const clock = new ManualClock();
    const store = new InMemorySessionStore(clock);
    return { store, advance: (ms) => clock.advance(ms), dispose: async () => {} };
  },
  { describe, it },
);

sessionStoreContract(
  'a slow InMemorySessionStore',
  async () => {
    const clock = new ManualClock();
    const store = new InMemorySessionStore(clock);
    return { store: slow(store), peer: store, advance: (ms) => clock.advance(ms), dispose: async () => {} };
  },
  { describe, it },
);

/** The same store behind a slow connection: each call takes its time to get there, and its answer to get back. */
function slow(store: McpSessionStore): McpSessionStore {
  const clock = new ManualClock({ runsByItself: true });
  const random = seededRandom(7);
  const onTheWay = () => new Promise<void>((resolve) => clock.setTimeout(resolve, Math.floor(random() * 5)));
  return new Proxy(store, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== 'function') return member;
      return async (...args: unknown[]): Promise<unknown> => {
        await onTheWay();
        const answer: unknown = await Reflect.apply(member, target, args);
        await onTheWay();
        return answer;
      };
    },
  });
}

const caps = { total: 10, perPrincipal: 10 };

function setup() {
  const clock = new ManualClock();
  return { clock, store: new InMemorySessionStore(clock) };
}

function record(id: string, data?: Record<string, unknown>): NewSessionRecord {
  const initialize = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'spec', version: '1' } };
  return { id, protocolVersion: '2025-11-25', initialize, ...(data && { data }) };
}

describe('InMemorySessionStore', () => {
  it('keeps a reservation for a minute, without a timer', async () => {
    const { clock, store } = setup();
    await store.reserve('s', 'p', caps);
    expect(clock.pending).toBe(0);
    await clock.advance(59_999);
    expect(await store.reserve('s', 'p', caps)).toBe('taken');
    await clock.advance(1);
    expect(await store.reserve('s', 'p', caps)).toBe('reserved');
  });

  it('creates a session whose initialize took longer than its reservation', async () => {
    const { clock, store } = setup();
    await store.reserve('slow', undefined, { total: 1, perPrincipal: 1 });
    await clock.advance(61_000);
    await store.reserve('other', undefined, { total: 1, perPrincipal: 1 });
    await store.create(record('slow'));
    expect(await store.count()).toBe(1);
    expect(await store.reserve('third', undefined, { total: 2, perPrincipal: 9 })).toBe('total-cap');
  });

  it('gives records that are frozen through and through', async () => {
    const { clock, store } = setup();
    const created = await store.create(record('s', { nested: { list: [1] } }));
    const patched = (await store.patch('s', { data: { more: { a: 1 } }, subscribe: ['u:1'] }))!;
    await clock.advance(1);
    await store.touch('s');
    const touched = (await store.get('s'))!;
    for (const one of [created, patched, touched]) {
      for (const part of [one, one.data, one.data['nested'], one.subscriptions, one.initialize.clientInfo]) {
        expect(Object.isFrozen(part)).toBe(true);
      }
    }
    expect(Object.isFrozen(touched.data['more'])).toBe(true);
  });

  it('keeps nothing that a store on another machine would lose', async () => {
    const { store } = setup();
    const { data } = await store.create(record('s', { when: new Date(0), gone: undefined }));
    expect(data).toEqual({ when: '1970-01-01T00:00:00.000Z' });
  });

  it('copies nothing when nothing changes', async () => {
    const { clock, store } = setup();
    const created = await store.create(record('s'));
    expect(await store.get('s')).toBe(created);
    await store.touch('s');
    expect(await store.get('s')).toBe(created);
    await clock.advance(5);
    await store.touch('s');
    const touched = await store.get('s');
    expect(touched).toEqual({ ...created, lastSeenAt: created.lastSeenAt + 5 });
    expect(await store.get('s')).toBe(touched);
    expect((await store.list())[0]).toBe(touched);
    await clock.advance(5);
    await store.touch('s');
    expect((await store.patch('s', {}))?.lastSeenAt).toBe(created.lastSeenAt + 10);
  });
});
