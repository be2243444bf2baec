import { afterEach, beforeEach, expect, it } from 'vitest';
import { RedisUnavailableError } from 'nestjs-mcp-streamable/redis';
import type { McpSessionStore, McpSessionCaps } from 'nestjs-mcp-streamable/stores';
import { TestApp } from '../support/app.js';
import type { RawClient } from '../support/raw-client.js';
import { expectRefusal } from '../support/refusal.js';
import { describeRedis } from '../support/redis.js';
import { OF_SESSIONS, RedisRoom } from '../support/redis-room.js';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
const CAPS = { total: 10, perPrincipal: 2 };

describeRedis('the sessions in Redis', () => {
  let room: RedisRoom;
  let store: McpSessionStore;
  beforeEach(async () => {
    room = await RedisRoom.open();
    store = room.node().sessionStore;
  });
  afterEach(() => room.close());

  const initialize = JSON.stringify({ capabilities: {}, clientInfo: { name: 'c', version: '1' } });
  const begin = (id: string, principal?: string, caps: McpSessionCaps = CAPS, by = store) =>
    by.create({ id, protocolVersion: '2025-11-25', initialize, principal }, caps);
  /** Scripts of a name fail, but for the first ones, as if the node had died by then. */
  const refuse = (of: McpSessionStore, name: string, after = 0): void => {
    const { connection } = of as unknown as { connection: { run: (...args: unknown[]) => Promise<unknown> } };
    const run = connection.run.bind(connection);
    let passed = 0;
    connection.run = (script, ...args) => {
      const refused = (script as { name: string }).name === name && ++passed > after;
      return refused ? Promise.reject(new RedisUnavailableError(name, new Error('died'))) : run(script, ...args);
    };
  };
  const del = (...keys: string[]) => room.redis.admin.del(keys.map((key) => `${room.prefix}:${OF_SESSIONS}${key}`));

  it('the sessions in Redis leave nothing behind, however they end', async () => {
    await begin('deleted', 'p');
    await store.delete('deleted');
    await begin('expired', 'p');
    expect(await begin('refused', 'p', { total: 1, perPrincipal: 1 })).toBe('total-cap');
    await room.advance(10 * MINUTE_MS);
    expect((await store.claimExpired(MINUTE_MS, 9)).map(({ id }) => id)).toEqual(['expired']);
    expect(await room.keys()).toEqual([]);
  });

  it('the sessions in Redis leave nothing behind of a node that dies while it creates one', async () => {
    const dying = room.node().sessionStore;
    refuse(dying, 'create', 1);
    await expect(begin('lost', 'p', CAPS, dying)).rejects.toThrow('died');
    // Its place is taken until it is idle, or until it is deleted after all.
    expect(await begin('s', 'p', { total: 1, perPrincipal: 1 })).toBe('total-cap');
    expect(await store.delete('lost')).toBeUndefined();
    refuse(dying, 'create', 1);
    await expect(begin('lost', 'p', CAPS, dying)).rejects.toThrow('died');
    expect([await store.list(), await store.get('lost')]).toEqual([[], undefined]);
    await room.advance(10 * MINUTE_MS);
    expect(await store.claimExpired(MINUTE_MS, 9)).toEqual([]);
    expect(await room.keys()).toEqual([]);
  });

  it('the sessions in Redis are not claimed as idle when the record was touched, but not yet the index', async () => {
    await begin('s');
    await room.advance(10 * MINUTE_MS);
    expect(await store.touch('s')).toBe(true);
    await room.redis.admin.zadd(`${room.prefix}:${OF_SESSIONS}{:sessions}:seen`, 1, 's');
    expect(await store.claimExpired(MINUTE_MS, 9)).toEqual([]);
    expect((await store.get('s'))?.id).toBe('s');
    await room.advance(2 * MINUTE_MS);
    expect(await store.claimExpired(MINUTE_MS, 9)).toHaveLength(1);
  });

  it('the sessions in Redis expire after their idle timeout when they were touched during a claim, not after its lease', async () => {
    await begin('s');
    await room.redis.admin.zadd(`${room.prefix}:${OF_SESSIONS}{:sessions}:seen`, 1, 's');
    expect(await store.claimExpired(10_000, 9)).toEqual([]);
    await room.advance(10_001);
    expect(await store.claimExpired(10_000, 9)).toHaveLength(1);
  });

  it('the sessions in Redis that were claimed by a node that died are claimed again', async () => {
    await begin('s');
    await room.advance(10 * MINUTE_MS);
    // Claimed, and not ended: as far as the first step goes.
    const dying = room.node().sessionStore;
    refuse(dying, 'delete');
    expect(await dying.claimExpired(MINUTE_MS, 9)).toEqual([]);
    expect(await store.claimExpired(MINUTE_MS, 9)).toEqual([]);
    await room.advance(2 * MINUTE_MS);
    expect(await store.claimExpired(MINUTE_MS, 9)).toHaveLength(1);
  });

  it('sessions without a record are not listed, and leave the index in time', async () => {
    await begin('kept', 'p');
    await begin('lost', 'p');
    await del('{lost}:session');
    expect((await store.list({ principal: 'p' })).map(({ id }) => id)).toEqual(['kept']);
    await room.advance(10 * MINUTE_MS);
    await store.touch('kept');
    expect(await store.claimExpired(MINUTE_MS, 9)).toEqual([]);
    expect(await store.count()).toBe(1);
    expect(await begin('new', 'p')).toBe('created');
  });

  it('the sessions in Redis can be read and ended when the index was lost', async () => {
    await begin('s', 'p');
    await del('{:sessions}:seen', '{:sessions}:owner', '{:sessions}:of:p:p');
    expect(await store.touch('s')).toBe(true);
    expect(await begin('s', 'p')).toBe('taken');
    expect((await store.delete('s'))?.id).toBe('s');
  });

  it('the sessions in Redis expire when no node is left, and not while one sends heartbeats', async () => {
    await begin('s', 'p');
    for (let n = 0; n < 4; n++) {
      await room.advance(DAY_MS / 2);
      await store.touch('s');
    }
    expect((await store.list({ principal: 'p' })).map(({ id }) => id)).toEqual(['s']);
    await room.advance(DAY_MS + 1);
    expect(await room.keys()).toEqual([]);
  });

  it('the sessions in Redis stay for three idle timeouts, when that is longer than they would', async () => {
    await store.claimExpired(2 * DAY_MS, 9);
    await begin('s');
    await room.advance(5 * DAY_MS);
    expect((await store.get('s'))?.id).toBe('s');
  });

  it('the sessions in Redis are not claimed as unused when the record was touched, but not yet the index', async () => {
    await begin('s');
    const dying = room.node().sessionStore;
    refuse(dying, 'touch', 1);
    await expect(dying.touch('s')).rejects.toThrow('died');
    await room.advance(10 * MINUTE_MS);
    expect(await store.claimExpired(Infinity, 9, MINUTE_MS)).toEqual([]);
    expect((await store.get('s'))?.used).toBe(true);
    // The index has heard of it now.
    expect(await room.redis.admin.zcard(`${room.prefix}:${OF_SESSIONS}{:sessions}:unused`)).toBe(0);
    expect(await store.claimExpired(MINUTE_MS, 9)).toHaveLength(1);
  });

  it('the sessions in Redis that were claimed as unused by a node that died are claimed again', async () => {
    await begin('s');
    await room.advance(MINUTE_MS);
    const dying = room.node().sessionStore;
    refuse(dying, 'delete');
    expect(await dying.claimExpired(Infinity, 1, MINUTE_MS)).toEqual([]);
    expect(await store.claimExpired(Infinity, 1, MINUTE_MS)).toEqual([]);
    await room.advance(MINUTE_MS);
    expect(await store.claimExpired(Infinity, 1, MINUTE_MS)).toHaveLength(1);
    expect(await room.keys()).toEqual([]);
  });

  it('E13: the sessions in Redis that are unused are ended for a new one on any node', async () => {
    const ids = Array.from({ length: 2 }, (_, n) => `session-of-node-${n}-`.padEnd(22, 'x'));
    const nodes = await Promise.all(
      ids.map((id) => {
        const sessionIdGenerator = () => id;
        return TestApp.start({ adapter: 'fastify', backend: room.node(), maxSessions: 1, sessionIdGenerator });
      }),
    );
    const [a, b] = nodes.map((node) => node.client()) as [RawClient, RawClient];
    await (await a.post(a.initializeMessage())).text();
    await expectRefusal(await b.post(b.initializeMessage()), { status: 503, code: -32000, id: 1 });
    await room.advance(5_001);
    await b.initialize();
    expect((await store.list()).map(({ id, used }) => [id, used])).toEqual([[ids[1], true]]);
    await room.advance(5_001);
    await expectRefusal(await a.post(a.initializeMessage()), { status: 503, code: -32000, id: 2 });
    await Promise.all(nodes.map(({ app }) => app.close()));
  });

  it('the sessions in Redis have no cap where the cap is infinite', async () => {
    const none = { total: Infinity, perPrincipal: Infinity };
    for (let n = 0; n < 5; n++) expect(await begin(`${n}`, 'p', none)).toBe('created');
    expect(await store.claimExpired(Infinity, 9)).toEqual([]);
  });
});
