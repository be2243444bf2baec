import { randomBytes } from 'node:crypto';
import { Logger } from '@nestjs/common';
import { Redis } from 'ioredis';
import { firstValueFrom } from 'rxjs';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import {
  redisBackend,
  RedisClosedError,
  RedisConnection,
  RedisUnavailableError,
  type RedisBackendOptions,
} from 'nestjs-mcp-streamable/redis';
import { McpEventStoreError } from 'nestjs-mcp-streamable/stores';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { describeRedis, RedisServer } from '../support/redis.js';
import { ALIVE, RedisRoom, testBackend } from '../support/redis-room.js';
import { eventually } from '../support/eventually.js';

/** No command fails and no node dies because a busy machine is slow. */
const QUICK: RedisBackendOptions = { commandTimeoutMs: 60_000, heartbeatMs: 30, deadAfterMs: 600_000 };

type Backend = ReturnType<typeof testBackend>;

describeRedis(
  'when Redis fails',
  () => {
    let server: RedisServer;
    let admin: Redis;
    let backends: Backend[] = [];
    const node = (options: RedisBackendOptions = {}): Backend => {
      const backend = testBackend(server.url, { ...QUICK, ...options });
      backends.push(backend);
      return backend;
    };

    beforeEach(async () => {
      server = await RedisServer.start();
      admin = new Redis(server.url);
      admin.on('error', () => {});
    });
    afterEach(async () => {
      await Promise.all(backends.map((backend) => backend.close()));
      backends = [];
      admin.disconnect();
      await server.stop();
      vi.restoreAllMocks();
    });

    /** Repeats a call as its callers do. */
    const stubbornly = <T>(call: () => T | Promise<T>): Promise<T> => eventually(call);
    const writer = (backend: Backend, stream = '0') => {
      let seq = 0;
      const id = randomBytes(11).toString('hex');
      return (data: string) => {
        const options = { writer: id, seq: ++seq };
        return stubbornly(() => backend.eventStore.append('s', stream, [data], options));
      };
    };

    it('a store call fails at once with an error that is not final, and works when Redis is back', async () => {
      // A call that waited for Redis would take longer than the test may.
      const { eventStore, sessionStore } = node({ commandTimeoutMs: 600_000 });
      await eventStore.open('s');
      await server.kill();
      for (let n = 0; n < 50; n++) {
        const read = async () => eventStore.read('s', '0', 0, 1);
        const error = await read().catch((error: unknown) => error);
        expect(error).toBeInstanceOf(RedisUnavailableError);
        expect(error).not.toBeInstanceOf(McpEventStoreError);
      }
      await expect(sessionStore.get('s')).rejects.toThrow(RedisUnavailableError);
      await server.start();
      await stubbornly(() => eventStore.open('s'));
      expect((await eventStore.append('s', '0', ['1'], { writer: 'w', seq: 1 })).first).toBe(1);
    });

    it('a backend starts without Redis, and connects when Redis is there', async () => {
      await server.kill();
      const { eventStore, messageBus } = node();
      const connected = messageBus.connected();
      await expect(eventStore.open('s')).rejects.toThrow(RedisUnavailableError);
      await server.start();
      await connected;
      await stubbornly(() => eventStore.open('s'));
    });

    it('a backend logs once that Redis is unavailable, and once that it is available again', async () => {
      const error = vi.spyOn(Logger.prototype, 'error').mockImplementation(() => {});
      const log = vi.spyOn(Logger.prototype, 'log').mockImplementation(() => {});
      const { eventStore, messageBus } = node();
      await messageBus.connected();
      await server.kill();
      for (let n = 0; n < 20; n++) await eventStore.open('s').catch(() => {});
      await eventually(() => expect(error).toHaveBeenCalledOnce());
      await server.start();
      await eventually(() => expect(log).toHaveBeenCalledOnce());
      await stubbornly(() => eventStore.open('s'));
      expect(error).toHaveBeenCalledOnce();
      expect(error.mock.lastCall?.[0]).toContain('Redis is unavailable');
      expect(log.mock.lastCall?.[0]).toContain('Redis is available again');
    });

    it('a backend escapes what Redis answers before it logs it', async () => {
      const error = vi.spyOn(Logger.prototype, 'error').mockImplementation(() => {});
      const connection = new RedisConnection(server.url);
      const refuse = `return redis.error_reply('ERR \u009b2J\u2028no such thing')`;
      await expect(connection.command('test', (client) => client.eval(refuse, 0))).rejects.toThrow('no such thing');
      await connection.close();
      expect(error.mock.lastCall?.[0]).toContain('ERR \\u009b2J\\u2028no such thing');
    });

    it('a store call fails after commandTimeoutMs when Redis accepts connections and answers nothing', async () => {
      const { eventStore } = node({ commandTimeoutMs: 300 });
      await stubbornly(() => eventStore.open('s'));
      const options = { writer: 'w', seq: 1 };
      server.pause();
      await expect(eventStore.append('s', '0', ['1'], options)).rejects.toThrow(RedisUnavailableError);
      server.resume();
      // It may have been carried out.
      await stubbornly(() => eventStore.append('s', '0', ['1'], options));
      expect((await eventStore.append('s', '0', ['2'], { ...options, seq: 2 })).first).toBe(2);
      expect((await eventStore.read('s', '0', 0, 9)).events.map(({ data }) => data)).toEqual(['1', '2']);
    });

    it('a store appends each event once and in order while its connections are cut', async () => {
      const [here, there] = [node(), node()];
      await here.eventStore.open('s');
      const cut = () => void admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes').catch(() => {});
      const write = async (append: (data: string) => Promise<unknown>, name: string) => {
        for (let n = 0; n < 200; n++) {
          if (n % 10 === 5) cut();
          await append(`${name}${n}`);
        }
      };
      await Promise.all([write(writer(here), 'a'), write(writer(there), 'b')]);
      const { events } = await stubbornly(() => here.eventStore.read('s', '0', 0, 1_000));
      expect(events.map(({ index }) => index)).toEqual(Array.from({ length: 400 }, (_, n) => n + 1));
      for (const name of ['a', 'b']) {
        const own = events.map(({ data }) => data).filter((data) => data.startsWith(name));
        expect(own).toEqual(Array.from({ length: 200 }, (_, n) => `${name}${n}`));
      }
    });

    it('a store works when Redis has lost its scripts', async () => {
      const { eventStore, sessionStore, messageBus } = node();
      await messageBus.connected();
      await eventStore.open('s');
      const append = writer(node());
      for (let n = 0; n < 20; n++) {
        await admin.script('FLUSH');
        await Promise.all([append(`${n}`), sessionStore.count(), eventStore.read('s', '0', 0, 0)]);
      }
      expect((await eventStore.read('s', '0', 0, 100)).events).toHaveLength(20);
    });

    it('a bus repeats no message after a reconnection, and reports that some were lost', async () => {
      const [a, b] = [node(), node()];
      await Promise.all([a.messageBus.connected(), b.messageBus.connected()]);
      const heard: unknown[] = [];
      b.messageBus.messages$.subscribe((message) => heard.push(message));
      const missed = firstValueFrom(b.messageBus.reconnected$);
      for (let n = 0; n < 10; n++) {
        await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
        a.messageBus.send(b.messageBus.nodeId, n);
      }
      await a.messageBus.flushed();
      await missed;
      a.messageBus.send(b.messageBus.nodeId, 10);
      await eventually(() => expect(heard).toContain(10));
      expect(heard).toEqual([...new Set(heard as number[])].toSorted((one, other) => one - other));
    });

    it('a bus reports on all nodes that messages were lost', async () => {
      const [a, b] = [node({ commandTimeoutMs: 300 }), node({ commandTimeoutMs: 300 })];
      await Promise.all([a.messageBus.connected(), b.messageBus.connected()]);
      const told = { a: 0, b: 0 };
      a.messageBus.reconnected$.subscribe(() => told.a++);
      b.messageBus.reconnected$.subscribe(() => told.b++);
      const heard: unknown[] = [];
      b.messageBus.messages$.subscribe((message) => heard.push(message));
      server.pause();
      a.messageBus.send(b.messageBus.nodeId, 'lost, or not');
      await expect(a.sessionStore.count()).rejects.toThrow(RedisUnavailableError);
      server.resume();
      await eventually(() => expect(Math.min(told.a, told.b)).toBeGreaterThan(0));
      a.messageBus.send(b.messageBus.nodeId, 'after');
      await eventually(() => expect(heard.at(-1)).toBe('after'));
    });

    it('a bus keeps a bounded number of messages while Redis is unavailable', async () => {
      const { messageBus } = node();
      await messageBus.connected();
      await server.kill();
      const big = 'x'.repeat(1024 * 1024);
      for (let n = 0; n < 50; n++) messageBus.broadcast(big);
      const heard: unknown[] = [];
      messageBus.messages$.subscribe((message) => heard.push(message));
      messageBus.broadcast('to itself all the same');
      await Promise.resolve();
      expect(heard.at(-1)).toBe('to itself all the same');
    });

    it('no node counts as dead because Redis was unavailable', async () => {
      const life = { heartbeatMs: 10_000, deadAfterMs: 60_000, commandTimeoutMs: 1_000 };
      const room = await RedisRoom.open({ url: server.url, admin });
      const nodes = [1, 2, 3].map(() => {
        const clock = new ManualClock();
        return { clock, ...testBackend(server.url, { prefix: room.prefix, ...life }, { clock, time: room.time }) };
      });
      const lost: string[] = [];
      for (const { messageBus } of nodes) messageBus.lost$.subscribe(({ node }) => lost.push(node));
      await Promise.all(nodes.map(({ messageBus }) => messageBus.connected()));
      const beat = () => Promise.all(nodes.map(({ clock }) => clock.advance(life.heartbeatMs)));
      /** The time of the oldest last beat. */
      const beats = async (): Promise<number> => {
        const scores = await admin.zrange(`${room.prefix}:${ALIVE}`, '0', '0', 'WITHSCORES');
        return Number(scores[1]);
      };
      server.pause();
      // The beats of this time fail.
      await beat();
      await beat();
      server.resume();
      await room.advance(2 * life.deadAfterMs);
      for (let rounds = 0; rounds < 3; rounds++) {
        const before = await beats();
        await room.advance(life.heartbeatMs);
        await eventually(async () => {
          await beat();
          expect(await beats()).toBeGreaterThanOrEqual(before + life.heartbeatMs);
        });
      }
      expect(lost).toEqual([]);
      expect(await admin.zcard(`${room.prefix}:${ALIVE}`)).toBe(3);
      await Promise.all(nodes.map(({ clock, close }) => Promise.all([close(), clock.advance(life.heartbeatMs)])));
    });

    it('a node registers again with a Redis that has lost all data', async () => {
      const { messageBus } = node();
      await messageBus.connected();
      let told = 0;
      messageBus.reconnected$.subscribe(() => told++);
      await server.kill();
      await server.start();
      await eventually(async () => expect(await admin.zrange(`mcp:${ALIVE}`, '0', '-1')).toEqual([messageBus.nodeId]));
      await eventually(() => expect(told).toBeGreaterThan(0));
    });

    it('a backend stays closed, also when it is closed while Redis is unavailable', async () => {
      const backend = node();
      await backend.messageBus.connected();
      await server.kill();
      await Promise.all([backend.close(), backend.messageBus.close()]);
      await expect(backend.eventStore.open('s')).rejects.toThrow(RedisClosedError);
      const unused = redisBackend(server.url);
      await unused.close();
      await expect(unused.sessionStore.count()).rejects.toThrow(RedisClosedError);
    });
  },
  'server',
);
