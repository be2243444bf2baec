import { Redis } from 'ioredis';
import { McpHealthIndicator, McpStreamableModule } from 'nestjs-mcp-streamable';
import { redisBackend } from 'nestjs-mcp-streamable/redis';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { serverInfo, startFailure, TestApp } from '../support/app.js';
import { describeRedis, RedisServer } from '../support/redis.js';
import { OF_SESSIONS } from '../support/redis-room.js';

describeRedis(
  'a Redis that is set up wrongly',
  () => {
    let server: RedisServer;
    let admin: Redis;
    let app: TestApp | undefined;

    const options = (redis: Parameters<typeof redisBackend>[0]) => ({
      backend: redisBackend(redis),
      requestStateKeys: ['a secret that all nodes of a deployment know'],
    });
    const start = async (redis: Parameters<typeof redisBackend>[0] = server.url): Promise<TestApp> =>
      (app = await TestApp.start({ adapter: 'fastify', port: true, ...options(redis) }));
    const health = async () => (await app!.app.get(McpHealthIndicator).check()).mcp;
    const configure = (name: string, value: string): Promise<unknown> => admin.config('SET', name, value);

    beforeEach(async () => {
      server = await RedisServer.start();
      admin = new Redis(server.url);
    });
    afterEach(async () => {
      await app?.shutDown();
      app = undefined;
      admin.disconnect();
      await server.stop();
    });

    it('a Redis that evicts is warned of once, at start, and each health check says so', async () => {
      await configure('maxmemory-policy', 'volatile-lru');
      await start();
      const warning = expect.stringContaining('maxmemory-policy is "volatile-lru"');
      expect(app!.log.texts('warn').filter((text) => text.includes('maxmemory'))).toEqual([warning]);
      await expect.poll(health).toMatchObject({ status: 'up', warnings: [warning] });
      expect(await health()).toMatchObject({ warnings: [warning] });
      expect(app!.log.texts('warn').filter((text) => text.includes('maxmemory'))).toHaveLength(1);
      await configure('maxmemory-policy', 'noeviction');
      expect(await health()).not.toHaveProperty('warnings');
    });

    it('a Redis that is full is down in health checks, and up when it has room again', async () => {
      await start();
      await expect.poll(async () => (await health()).status).toBe('up');
      await configure('maxmemory', '1');
      expect(await health()).toMatchObject({
        status: 'down',
        backend: 'down',
        message: 'The backend does not take what this node writes.',
      });
      expect(app!.log.texts('error')).toEqual([expect.stringContaining('OOM command not allowed')]);
      await configure('maxmemory', '0');
      await expect.poll(async () => (await health()).status).toBe('up');
      // What a check writes is gone at once.
      expect((await admin.keys('*')).filter((key) => key.includes('probe'))).toEqual([]);
    });

    it('a Redis that takes no writes since its replicas are missing is down in health checks', async () => {
      await start();
      await expect.poll(async () => (await health()).status).toBe('up');
      await configure('min-replicas-to-write', '1');
      expect(await health()).toMatchObject({ status: 'down', backend: 'down', sessionStore: 'up' });
    });

    it('a Redis without the database of the URL keeps the app from starting, and nothing is written to database 0', async () => {
      const error = await startFailure('fastify', () => ({
        imports: [McpStreamableModule.forRoot({ serverInfo, ...options(`${server.url}/99`) })],
      }));
      expect(error).toMatchObject({ name: 'McpOptionError', option: 'backend' });
      expect(error.message).toContain('Redis has no database 99 for this app: ERR DB index is out of range.');
      expect(await admin.keys('*')).toEqual([]);
      // The connection is closed: nothing keeps the process.
      await expect.poll(async () => String(await admin.client('LIST'))).not.toContain('nestjs-mcp-streamable');
    });

    it('a Redis without the database of a given client refuses all commands, whatever the client checks', async () => {
      const redis = new Redis({ port: server.port, db: 99, lazyConnect: true, enableReadyCheck: false });
      const backend = redisBackend(redis);
      for (let n = 0; n < 3; n++) {
        await expect(backend.eventStore.open('s')).rejects.toMatchObject({ name: 'McpOptionError', option: 'backend' });
      }
      await backend.close();
      expect(await admin.keys('*')).toEqual([]);
    });

    it('a Redis that takes the database away gets no command, until it takes the database again', async () => {
      await admin.call('ACL', 'SETUSER', 'app', 'on', '>PASSWORD', '~*', '&*', '+@all');
      const backend = redisBackend(`redis://app:PASSWORD@127.0.0.1:${server.port}/3`);
      await backend.eventStore.open('before');
      await admin.call('ACL', 'SETUSER', 'app', '-select');
      await admin.client('KILL', 'USER', 'app');
      await expect
        .poll(() => backend.eventStore.open('s').catch((error: Error) => error))
        .toMatchObject({ name: 'McpOptionError', message: expect.stringContaining('NOPERM') });
      expect(await admin.keys('*')).toEqual([]);
      await admin.call('ACL', 'SETUSER', 'app', '+select');
      await expect.poll(() => backend.eventStore.open('s').catch((error: Error) => error)).toBe(undefined);
      await backend.close();
      expect(await admin.keys('*')).toEqual([]);
      await admin.select(3);
      expect((await admin.keys('*')).toSorted()).toEqual(['before', 's'].map((id) => `mcp:${OF_SESSIONS}{${id}}:log`));
    });
  },
  'server',
);
