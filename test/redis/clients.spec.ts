import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { RedisConnection, redisBackend, RedisSessionStore, RedisSetupError } from 'nestjs-mcp-streamable/redis';
import { describeRedis } from '../support/redis.js';
import { RedisRoom } from '../support/redis-room.js';
import { eventually } from '../support/eventually.js';

const NOBODY = 'redis://127.0.0.1:1';

describe('the arguments of redisBackend()', () => {
  it('the arguments of redisBackend() make no connection before the backend is used', async () => {
    const backend = redisBackend(NOBODY);
    await backend.close();
  });

  it.each([
    ['deadAfterMs', { heartbeatMs: 100, deadAfterMs: 299 }],
    ['commandTimeoutMs', { commandTimeoutMs: 0 }],
    ['prefix', { prefix: '' }],
    ['expireAfterMs', { expireAfterMs: 1_000 }],
    ['eventLog', { eventLog: 5 as never }],
    ['heartbeat', { heartbeat: 5 } as never],
    ['eventLog.maxEvent', { eventLog: { maxEvent: 5 } as never }],
    ['eventLog.maxEvents', { eventLog: { maxEvents: 0 } }],
  ])('the arguments of redisBackend() are refused with an option "%s" that cannot work', (option, options) => {
    expect(() => redisBackend(NOBODY, options)).toThrow(expect.objectContaining({ name: 'McpOptionError', option }));
  });

  it.each([undefined, null, {}, 5])(
    'the arguments of redisBackend() are refused when they are %s, with the accepted kinds',
    (target) => {
      expect(() => redisBackend(target as never)).toThrow(RedisSetupError);
      expect(() => redisBackend(target as never)).toThrow('an instance of Redis or Cluster');
    },
  );
});

describeRedis('a client of the app’s own', () => {
  let room: RedisRoom;
  beforeEach(async () => {
    room = await RedisRoom.open();
  });
  afterEach(() => room.close());

  it('a client of the app’s own is copied, and neither used nor closed', async () => {
    const redis = new Redis(room.redis.url, { lazyConnect: true });
    const backend = redisBackend(redis, { prefix: room.prefix });
    await backend.eventStore.open('s');
    await backend.close();
    expect(redis.status).toBe('wait');
    expect(redis.options.enableOfflineQueue).toBe(true);
    redis.disconnect();
  });

  it('a client of the app’s own keeps its prefix of keys, which comes before ours', async () => {
    const redis = new Redis(room.redis.url, { lazyConnect: true, keyPrefix: `${room.prefix}:app-` });
    const [a, b] = [redisBackend(redis), redisBackend(redis)];
    await a.eventStore.open('s');
    await a.eventStore.append('s', '0', ['1'], { writer: 'w', seq: 1 });
    await b.eventStore.claim('s', '0', { node: b.messageBus.nodeId, reader: 'r' });
    expect((await b.eventStore.read('s', '0', 0, 9)).events).toHaveLength(1);
    for (const key of await room.keys()) expect(key).toMatch(/^app-mcp:(s2:)?\{/);
    await a.eventStore.drop('s');
    await room.advance(31_000);
    expect(await room.keys()).toEqual([]);
    await Promise.all([a.close(), b.close()]);
    redis.disconnect();
  });

  it('a client of the app’s own makes another deployment with another database', async () => {
    const options = { prefix: room.prefix };
    const [one, two] = [redisBackend(`${room.redis.url}/1`, options), redisBackend(`${room.redis.url}/2`, options)];
    const heard: unknown[] = [];
    two.messageBus.messages$.subscribe((message) => heard.push(message));
    await (two as ReturnType<RedisRoom['node']>).messageBus.connected();
    await one.eventStore.open('s');
    await expect(two.eventStore.read('s', '0', 0, 1)).rejects.toMatchObject({ code: 'SESSION_GONE' });
    one.messageBus.broadcast('not for you');
    await one.eventStore.drop('s');
    two.messageBus.broadcast('for you');
    await eventually(() => expect(heard).toEqual(['for you']));
    await Promise.all([one.close(), two.close()]);
  });

  it('a client of the app’s own serves each of the three stores alone', async () => {
    const connection = new RedisConnection(room.redis.url, { prefix: room.prefix });
    expect(await new RedisSessionStore(connection).count()).toBe(0);
    await connection.close();
    await connection.close();
  });
});
