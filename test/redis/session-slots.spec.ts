import { afterEach, beforeEach, expect, it } from 'vitest';
import type { McpCreateOutcome, McpSessionCaps, McpSessionStore } from 'nestjs-mcp-streamable/stores';
import { TestApp } from '../support/app.js';
import { describeRedis } from '../support/redis.js';
import { OF_SESSIONS, RedisRoom } from '../support/redis-room.js';
import { as, trustingGuard } from '../support/users.js';

const SLOTS = 4;
const MINUTE_MS = 60_000;
const NONE = { total: Infinity, perPrincipal: Infinity };

describeRedis('sessions whose index is spread over several slots', () => {
  let room: RedisRoom;
  let store: McpSessionStore;
  let peer: McpSessionStore;
  const node = () => room.node({ sessionSlots: SLOTS });
  beforeEach(async () => {
    room = await RedisRoom.open();
    [store, peer] = [node().sessionStore, node().sessionStore];
  });
  afterEach(() => room.close());

  const initialize = JSON.stringify({ capabilities: {}, clientInfo: { name: 'c', version: '1' } });
  const begin = (id: string, principal?: string, caps: McpSessionCaps = NONE): Promise<McpCreateOutcome> =>
    store.create({ id, protocolVersion: '2025-11-25', initialize, principal }, caps);
  const beginAll = async (count: number, principal?: (n: number) => string, caps?: McpSessionCaps) => {
    const outcomes: McpCreateOutcome[] = [];
    for (let n = 0; n < count; n++) outcomes.push(await begin(`s${n}`, principal?.(n), caps));
    return outcomes;
  };
  const ids = (records: readonly { id: string }[]): string[] => records.map(({ id }) => id).toSorted();
  const sizes = () =>
    Promise.all(
      Array.from({ length: SLOTS }, (_, n) =>
        room.redis.admin.zcard(`${room.prefix}:${OF_SESSIONS}{:sessions:${n}/${SLOTS}}:seen`),
      ),
    );

  it('anonymous sessions are spread over all slots, and those of one principal are in one', async () => {
    await beginAll(40);
    const anonymous = await sizes();
    expect(Math.min(...anonymous)).toBeGreaterThan(0);
    for (let n = 0; n < 10; n++) await begin(`p${n}`, 'ann');
    const added = (await sizes()).map((size, slot) => size - anonymous[slot]!);
    expect(added.toSorted((a, b) => b - a)).toEqual([10, 0, 0, 0]);
  });

  it('sessions of all slots are listed, counted, touched and deleted on any node', async () => {
    await beginAll(12, (n) => `p${n}`);
    await begin('anonymous');
    expect(await peer.count()).toBe(13);
    expect(ids(await peer.list())).toHaveLength(13);
    expect(ids(await peer.list({ principal: 'p3' }))).toEqual(['s3']);
    expect(ids(await peer.list({ principal: null }))).toEqual(['anonymous']);
    await room.advance(MINUTE_MS);
    for (let n = 0; n < 12; n++) expect(await peer.touch(`s${n}`)).toBe(true);
    expect(ids(await peer.claimExpired(MINUTE_MS, 99))).toEqual(['anonymous']);
    for (let n = 0; n < 12; n++) expect((await peer.delete(`s${n}`))?.id).toBe(`s${n}`);
    expect([await peer.count(), await room.keys()]).toEqual([0, []]);
  });

  it('sessions of all slots expire, and no sweep ends more than it may', async () => {
    await beginAll(12);
    await room.advance(MINUTE_MS);
    const first = await store.claimExpired(MINUTE_MS, 5);
    expect(first).toHaveLength(5);
    const rest = await peer.claimExpired(MINUTE_MS, 99);
    expect(ids([...first, ...rest])).toHaveLength(12);
    expect(await room.keys()).toEqual([]);
  });

  it('sessions that a sweep has ended are returned, although a later slot is unavailable', async () => {
    await beginAll(12);
    await room.advance(MINUTE_MS);
    // The script of that slot fails.
    const broken = `${room.prefix}:${OF_SESSIONS}{:sessions:0/${SLOTS}}:seen`;
    const kept = await room.redis.admin.zrange(broken, '0', '-1');
    await room.redis.admin.set(broken, 'broken');
    const returned: string[] = [];
    let failed = 0;
    for (let sweep = 0; sweep < SLOTS; sweep++) {
      await store.claimExpired(MINUTE_MS, 99).then(
        (records) => void returned.push(...ids(records)),
        () => failed++,
      );
    }
    expect(failed).toBeGreaterThan(0);
    expect(returned.toSorted()).toEqual(
      Array.from({ length: 12 }, (_, n) => `s${n}`)
        .filter((id) => !kept.includes(id))
        .toSorted(),
    );
    await room.redis.admin.del(broken);
  });

  it('the cap of a principal is exact, whatever the slots', async () => {
    const outcomes = await beginAll(4, () => 'ann', { total: Infinity, perPrincipal: 3 });
    expect(outcomes).toEqual(['created', 'created', 'created', 'principal-cap']);
  });

  it('the caps of all sessions and of anonymous ones are never exceeded, and each slot has its part of them', async () => {
    const total = await beginAll(80, (n) => `p${n}`, { total: 10, perPrincipal: 1 });
    expect(total.filter((outcome) => outcome === 'created')).toHaveLength(10);
    expect((await sizes()).toSorted((a, b) => a - b)).toEqual([2, 2, 3, 3]);
    const anonymous = await Promise.all(
      Array.from({ length: 80 }, (_, n) => begin(`a${n}`, undefined, { total: Infinity, perPrincipal: 6 })),
    );
    expect(anonymous.filter((outcome) => outcome === 'created')).toHaveLength(6);
  });

  it('a session without a record leaves its slot when it is deleted after all', async () => {
    await begin('lost', 'ann', { total: Infinity, perPrincipal: 1 });
    await room.redis.admin.del(`${room.prefix}:${OF_SESSIONS}{lost}:session`);
    expect(await begin('next', 'ann', { total: Infinity, perPrincipal: 1 })).toBe('principal-cap');
    expect(await peer.delete('lost')).toBeUndefined();
    expect(await begin('next', 'ann', { total: Infinity, perPrincipal: 1 })).toBe('created');
  });

  it('E13: the session that gives way is in the slot of the newcomer, also when others have sessions that might', async () => {
    const caps = { maxSessions: SLOTS, maxAnonymousSessions: SLOTS, guards: [trustingGuard] };
    const app = await TestApp.start({ adapter: 'fastify', backend: node(), ...caps });
    const places = { total: SLOTS, perPrincipal: SLOTS };
    for (let n = 0; n < 40; n++) await begin(`a${n}`, undefined, places);
    expect(await sizes()).toEqual([1, 1, 1, 1]);
    for (const { id } of await store.list()) await store.touch(id);
    await app.client(as('ann')).initialize();
    expect(await sizes()).toEqual([1, 1, 1, 1]);
    expect((await store.list({ principal: 'ann' })).length).toBe(1);
    await app.app.close();
  });
});
