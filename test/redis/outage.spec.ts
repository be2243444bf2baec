import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable, Logger } from '@nestjs/common';
import { Redis } from 'ioredis';
import { type McpContext, McpCtx, Tool } from 'nestjs-mcp-streamable';
import { redisBackend } from 'nestjs-mcp-streamable/redis';
import { expect, it } from 'vitest';
import { gate, TestApp } from '../support/app.js';
import { OFFICIAL_CLIENTS, type OfficialClient } from '../support/official-clients.js';
import { Proxy } from '../support/proxy.js';
import { describeRedis, RedisServer } from '../support/redis.js';
import { LONG } from '../support/share.js';
import { eventually } from '../support/eventually.js';

/** Longer than streams wait for Redis. */
const AWAY_MS = 45_000;
const LOST = /storage of this server has failed and lost the answer/;
const LOST_OR_ANSWERED = new RegExp(`^answered$|${LOST.source}`);

interface Outage {
  begin(redis: RedisServer, admin: Redis): unknown;
  end(redis: RedisServer, admin: Redis): unknown;
}

const OUTAGES: readonly Outage[] = [
  { begin: (redis) => redis.pause(), end: (redis) => redis.resume() },
  { begin: (redis) => redis.kill(), end: (redis) => redis.start() },
  {
    begin: (_, admin) => admin.config('SET', 'maxmemory', '1'),
    end: (_, admin) => admin.config('SET', 'maxmemory', '0'),
  },
];

@Injectable()
class Works {
  readonly answers = gate();
  readonly late = gate();

  @Tool({ name: 'answers' })
  whileAway(@McpCtx() ctx: McpContext): Promise<string> {
    return this.#after(this.answers.promise, ctx);
  }

  @Tool({ name: 'late' })
  justBefore(@McpCtx() ctx: McpContext): Promise<string> {
    return this.#after(this.late.promise, ctx);
  }

  /** Real time: Redis is away by the clock of the machine. */
  @Tool({ name: 'reports' })
  async allTheTime(@McpCtx() ctx: McpContext): Promise<string> {
    for (let seconds = 1; seconds <= (2 * AWAY_MS) / 1_000; seconds++) {
      await ctx.progress(seconds);
      await sleep(1_000);
    }
    return 'reported';
  }

  async #after(work: Promise<void>, ctx: McpContext): Promise<string> {
    await ctx.progress(1);
    await work;
    return 'answered';
  }
}

describeRedis(
  'an outage of Redis of 45 seconds',
  () => {
    it.runIf(LONG)(
      'G13: when Redis is asleep, restarted or full, each call of the official clients ends with its answer or an error',
      async () => {
        Logger.overrideLogger(false);
        const worlds = await Promise.all(OUTAGES.map(() => World.start()));
        try {
          const ends = await Promise.all(worlds.map((world, at) => world.run(OUTAGES[at]!)));
          for (const { connected, cut, late, reporting } of ends) {
            expect([new Set(connected), new Set(late)]).toEqual([new Set(['answered']), new Set(['answered'])]);
            // A full Redis can be read: their clients may have come back before the call was given up.
            for (const text of cut) expect(text).toMatch(LOST_OR_ANSWERED);
            for (const text of reporting) expect(text).toMatch(LOST);
          }
          for (const world of worlds) await world.expectRest();
        } finally {
          await Promise.all(worlds.map((world) => world.close()));
        }
      },
      4 * AWAY_MS,
    );
  },
  'server',
);

/** An app over a Redis of its own, with official clients of which half lose their connections. */
class World {
  private constructor(
    private readonly redis: RedisServer,
    private readonly admin: Redis,
    private readonly works: Works,
    private readonly app: TestApp,
    private readonly proxy: Proxy,
    private readonly connected: readonly OfficialClient[],
    private readonly cut: readonly OfficialClient[],
  ) {}

  static async start(): Promise<World> {
    const redis = await RedisServer.start('--appendonly', 'yes');
    const admin = new Redis(redis.url);
    admin.on('error', () => {});
    const works = new Works();
    const module = { providers: [{ provide: Works, useValue: works }] };
    const app = await TestApp.start({ adapter: 'fastify', backend: redisBackend(redis.url), module });
    const proxy = await Proxy.start(new URL(app.url));
    const connect = (url: URL) => Promise.all(OFFICIAL_CLIENTS.map((kind) => kind.connect(url)));
    const [connected, cut] = [await connect(new URL(app.url)), await connect(proxy.url)];
    return new World(redis, admin, works, app, proxy, connected, cut);
  }

  /** @returns how the calls have ended: their texts, or those of their errors */
  async run(outage: Outage): Promise<Record<'connected' | 'cut' | 'late' | 'reporting', string[]>> {
    const { connected, cut, works } = this;
    const all = [...connected, ...cut];
    const calls = {
      connected: await begun(connected, 'answers'),
      cut: await begun(cut, 'answers'),
      late: await begun(all, 'late'),
      reporting: await begun(all, 'reports'),
    };
    await outage.begin(this.redis, this.admin);
    this.proxy.cut();
    works.answers.open();
    await sleep(AWAY_MS - 5_000);
    works.late.open();
    await sleep(5_000);
    await outage.end(this.redis, this.admin);
    const [one, two, three, four] = await Promise.all(Object.values(calls).map((ended) => Promise.all(ended)));
    return { connected: one!, cut: two!, late: three!, reporting: four! };
  }

  /** Only the standalone streams are left, and no client has asked in a loop. */
  async expectRest(): Promise<void> {
    const { app, connected, cut } = this;
    const all = [...connected, ...cut];
    const idle = { inFlight: 0, streams: all.length, readers: all.length };
    await eventually(() => expect(app.service.nodeCounts()).toMatchObject(idle));
    for (const { answers } of all) {
      expect(answers.filter(({ status }) => ![200, 202, 405].includes(status))).toEqual([]);
      expect(answers.length).toBeLessThan(40);
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.connected, ...this.cut].map((client) => client.close()));
    await this.proxy.close();
    await this.app.app.close();
    this.admin.disconnect();
    await this.redis.stop();
  }
}

/** Begins a call of each client, all of which are streams when this settles. @returns how each ends */
async function begun(clients: readonly OfficialClient[], tool: string): Promise<Promise<string>[]> {
  const calls = clients.map((client) => {
    const streams = gate();
    const options = { onprogress: () => streams.open(), timeout: 3 * AWAY_MS };
    return { streams, ended: client.call(tool, {}, options).catch((error: Error) => error.message) };
  });
  await Promise.all(calls.map(({ streams }) => streams.promise));
  return calls.map(({ ended }) => ended);
}
