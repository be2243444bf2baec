import { describe, expect, it } from 'vitest';
import { ManualClock, sessionStoreContract } from '../../../testing/index.js';
import { InMemorySessionStore } from './in-memory-session-store.js';
import type { McpSessionStore } from './session-store.js';
import { seededRandom } from '../../../../test/support/share.js';
import { JumpingClock } from '../../../../test/support/tracked-clock.js';

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
  const clock = new JumpingClock();
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

function setup() {
  const clock = new ManualClock();
  const store = new InMemorySessionStore(clock);
  const begin = async (id: string, routeParams?: Record<string, unknown>) => {
    const record = { id, protocolVersion: '2025-11-25', initialize: '{}', ...(routeParams && { routeParams }) };
    await store.create(record, { total: Infinity, perPrincipal: Infinity });
    return (await store.get(id))!;
  };
  return { clock, store, begin };
}

describe('InMemorySessionStore', () => {
  it('InMemorySessionStore gives records that are frozen through and through', async () => {
    const { clock, store, begin } = setup();
    const created = await begin('s', { tenant: { list: [1] } });
    await store.patch('s', { subscribe: ['u:1'] });
    const patched = (await store.get('s'))!;
    await clock.advance(1);
    await store.touch('s');
    const touched = (await store.get('s'))!;
    for (const one of [created, patched, touched]) {
      const { subscriptions, routeParams } = one as unknown as {
        subscriptions: string[];
        routeParams: { tenant: { list: number[] } };
      };
      for (const part of [one, subscriptions, routeParams, routeParams.tenant, routeParams.tenant.list]) {
        expect(Object.isFrozen(part)).toBe(true);
      }
    }
  });

  it('InMemorySessionStore keeps only values that JSON can carry', async () => {
    const { begin } = setup();
    const { routeParams } = await begin('s', { when: new Date(0), gone: undefined });
    expect(routeParams).toStrictEqual({ when: '1970-01-01T00:00:00.000Z' });
  });

  it('InMemorySessionStore keeps a record that is nested as deeply as a message can be', async () => {
    const { begin } = setup();
    const deep = JSON.parse(`${'['.repeat(2_000)}${']'.repeat(2_000)}`) as unknown;
    expect((await begin('s', { deep })).routeParams?.['deep']).toEqual(deep);
  });

  it('InMemorySessionStore has no timer', async () => {
    const { clock, store, begin } = setup();
    await begin('s');
    await clock.advance(1_000);
    expect(clock.pending).toBe(0);
    expect(await store.claimExpired(1_000, 1)).toHaveLength(1);
  });
});
