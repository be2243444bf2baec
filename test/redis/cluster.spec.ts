import { randomBytes } from 'node:crypto';
import { Cluster, Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventStoreContract, messageBusContract, sessionStoreContract } from 'nestjs-mcp-streamable/testing';
import { freePort } from '../../bench/harness/free-port.js';
import { describeRedis, documentedRules, RedisServer } from '../support/redis.js';
import { testBackend } from '../support/redis-room.js';
import { eventually } from '../support/eventually.js';

const CAPS = { total: 100, perPrincipal: 100 };

const SLOTS = 16_384;
const MASTERS = 3;

describeRedis(
  'a Redis Cluster of three masters',
  () => {
    const servers: RedisServer[] = [];
    let cluster: Cluster;

    beforeAll(async () => {
      servers.push(...(await startCluster()));
      cluster = new Cluster(servers.map(({ port }) => ({ host: '127.0.0.1', port })));
      await new Promise<void>((resolve) => cluster.once('ready', () => resolve()));
    });
    afterAll(async () => {
      cluster.disconnect();
      await Promise.all(servers.map((server) => server.stop()));
    });

    const limits = { maxEvents: 100, maxBytes: 64 * 1024, finishedStreamMs: 60_000 };
    /** Two nodes on the same keys. */
    const nodes = () => {
      const options = { prefix: `test-${randomBytes(6).toString('hex')}`, eventLog: limits };
      const made = [1, 2, 3].map(() => testBackend(cluster, options));
      const dispose = async () => void (await Promise.all(made.map((backend) => backend.close())));
      return { prefix: options.prefix, made: made as [(typeof made)[0], (typeof made)[0], (typeof made)[0]], dispose };
    };

    eventStoreContract(
      'RedisEventStore',
      async () => {
        const { made, dispose } = nodes();
        return { store: made[0].eventStore, peer: made[1].eventStore, limits, dispose };
      },
      { describe, it },
    );
    sessionStoreContract(
      'RedisSessionStore',
      async () => {
        const { made, dispose } = nodes();
        return { store: made[0].sessionStore, peer: made[1].sessionStore, dispose };
      },
      { describe, it },
    );
    messageBusContract(
      'RedisMessageBus',
      async () => {
        const { made, dispose } = nodes();
        const [a, b, c] = made.map(({ messageBus }) => messageBus) as [
          (typeof made)[0]['messageBus'],
          (typeof made)[0]['messageBus'],
          (typeof made)[0]['messageBus'],
        ];
        await Promise.all([a, b, c].map((bus) => bus.connected()));
        return { nodes: [a, b, c] as const, dispose };
      },
      { describe, it },
    );

    it('a Redis Cluster of three masters spreads the sessions, and leaves nothing behind', async () => {
      const { prefix, made, dispose } = nodes();
      const [{ sessionStore, stateStore, eventStore }] = made;
      const ids = Array.from({ length: 12 }, () => randomBytes(11).toString('hex'));
      const initialize = JSON.stringify({ capabilities: {}, clientInfo: { name: 'c', version: '1' } });
      for (const id of ids) {
        expect(await sessionStore.create({ id, protocolVersion: '2025-11-25', initialize }, CAPS)).toBe('created');
        await eventStore.open(id);
        const opens = { node: 'n', requests: [1] };
        await eventStore.append(id, 's', ['1'], { writer: 'w', seq: 1, opens });
        await eventStore.claim(id, 's', { node: 'n', reader: id });
        expect(await sessionStore.touch(id)).toBe(true);
        expect(await stateStore.set(`${id}:a`, { id }, 60_000, { owner: id, max: 1 })).toBe(true);
        expect(await stateStore.set(`${id}:b`, { id }, 60_000, { owner: id, max: 1 })).toBe('full');
        expect(await stateStore.get(`${id}:a`)).toEqual({ id });
      }
      const holders = await Promise.all(cluster.nodes('master').map((node) => node.keys(`${prefix}:*:log`)));
      expect(holders.filter((keys) => keys.length > 0).length).toBeGreaterThan(1);
      expect(await eventStore.unfinished('n')).toHaveLength(ids.length);
      for (const id of ids) {
        expect((await sessionStore.delete(id))?.id).toBe(id);
        expect(await stateStore.delete(`${id}:a`)).toBe(true);
        await eventStore.drop(id);
      }
      // What is left of a log expires by itself.
      expect(await eventStore.unfinished('n')).toEqual([]);
      await dispose();
    });

    it('a Redis Cluster of three masters gets along with the documented permissions', async () => {
      const rules = documentedRules('a cluster');
      const ofMasters = (...command: [string, ...string[]]): Promise<unknown[]> =>
        Promise.all(cluster.nodes('master').map((node) => node.call(...command)));
      await ofMasters('ACL', 'SETUSER', 'mcp', ...rules);
      const startups = servers.map(({ port }) => ({ host: '127.0.0.1', port }));
      const redisOptions = { username: 'mcp', password: 'PASSWORD' };
      const own = new Cluster(startups, { lazyConnect: true, redisOptions });
      const backend = testBackend(own);
      await backend.messageBus.connected();
      expect(await backend.check()).toEqual([]);
      await backend.eventStore.open('s');
      expect(await backend.stateStore.set('o:a', 1)).toBe(true);
      await backend.messageBus.ping();
      await backend.close();
      own.disconnect();
      expect((await ofMasters('ACL', 'LOG')).flat()).toEqual([]);
    });

    it('a Redis Cluster of three masters is found to be full when one of them is', async () => {
      const { made, dispose } = nodes();
      const [, full] = cluster.nodes('master');
      await made[0].check();
      await full!.config('SET', 'maxmemory', '1');
      await expect.poll(() => made[0].check().catch(String)).toContain('OOM command not allowed');
      await full!.config('SET', 'maxmemory', '0');
      expect(await made[0].check()).toEqual([]);
      await dispose();
    });
  },
  'server',
);

/** Without `redis-cli`, which takes its time. */
async function startCluster(): Promise<RedisServer[]> {
  const servers: RedisServer[] = [];
  const buses: number[] = [];
  for (let n = 0; n < MASTERS; n++) {
    const bus = await freePort();
    buses.push(bus);
    servers.push(
      await RedisServer.start(
        '--cluster-enabled',
        'yes',
        '--cluster-port',
        String(bus),
        '--cluster-node-timeout',
        '2000',
      ),
    );
  }
  const admins = servers.map(({ url }) => new Redis(url));
  for (const [n, admin] of admins.entries()) {
    const from = Math.floor((SLOTS / MASTERS) * n);
    const to = Math.floor((SLOTS / MASTERS) * (n + 1)) - 1;
    await admin.call('CLUSTER', 'ADDSLOTSRANGE', String(from), String(to));
    await admin.call('CLUSTER', 'SET-CONFIG-EPOCH', String(n + 1));
  }
  for (const [n, { port }] of servers.entries()) {
    if (n > 0) await admins[0]!.call('CLUSTER', 'MEET', '127.0.0.1', String(port), String(buses[n]));
  }
  await eventually(async () => {
    for (const admin of admins) {
      const info = String(await admin.call('CLUSTER', 'INFO'));
      expect(info).toContain('cluster_state:ok');
      expect(info).toContain(`cluster_known_nodes:${MASTERS}`);
    }
  });
  for (const admin of admins) admin.disconnect();
  return servers;
}
