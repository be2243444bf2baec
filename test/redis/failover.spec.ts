import { Injectable, Logger } from '@nestjs/common';
import { Redis } from 'ioredis';
import { McpArgs, type McpContext, McpCtx, Tool } from 'nestjs-mcp-streamable';
import { afterEach, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { redisBackend } from 'nestjs-mcp-streamable/redis';
import { TestApp } from '../support/app.js';
import { Proxy } from '../support/proxy.js';
import type { SseStream } from '../support/http.js';
import { at } from '../support/nodes.js';
import { LATEST, type RawClient } from '../support/raw-client.js';
import { describeRedis } from '../support/redis.js';
import { seededRandom, share } from '../support/share.js';
import { Pair } from './kill/pair.js';
import { watchLag } from './kill/waits.js';
import { World, type WorldReport } from './kill/world.js';
import { eventually } from '../support/eventually.js';

/** More: `WORLDS=50`; one again: `SEED`. */
const WORLDS = share(50, process.env['WORLDS']);
const SEED = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const KEYS = ['a secret that all nodes of a deployment know'];
const Answer = z.object({ n: z.number() });

@Injectable()
class Asker {
  readonly answers: number[] = [];

  @Tool({ name: 'ask', inputSchema: z.object({ questions: z.number() }) })
  async ask(@McpArgs() { questions }: { questions: number }, @McpCtx() ctx: McpContext): Promise<string> {
    const asked = Array.from({ length: questions }, async (_, n) => {
      const { content } = await ctx.elicit(`question-${n}`, { message: `${n}`, requestedSchema: Answer });
      this.answers.push(Number(content?.['n']));
    });
    await Promise.all(asked);
    return 'all answered';
  }
}

describeRedis(
  'a failover to a replica that lags',
  () => {
    const closing: (() => Promise<unknown>)[] = [];
    afterEach(async () => {
      for (const close of closing.splice(0).toReversed()) await close();
      vi.restoreAllMocks();
    });

    /** A node behind a proxy of its own: nodes notice a failover at different times. */
    const node = async (pair: Pair, keepAliveMs?: number) => {
      const proxy = await Proxy.start(new URL(pair.master.url));
      const asker = new Asker();
      const backend = redisBackend(proxy.url.href, {
        heartbeatMs: 100,
        deadAfterMs: 600_000,
        commandTimeoutMs: 10_000,
      });
      const module = { providers: [{ provide: Asker, useValue: asker }] };
      const app = await TestApp.start({
        adapter: 'fastify',
        server: undefined,
        requestStateKeys: KEYS,
        backend,
        module,
        ...(keepAliveMs !== undefined && { keepAliveMs }),
      });
      closing.push(async () => {
        await app.app.close();
        await proxy.close();
      });
      return { app, proxy, asker };
    };

    /** Answers a question, and again while the node is busy with the failover. */
    const answer = async (client: RawClient, questions: SseStream, n: number): Promise<void> => {
      const asked = questions.messages.find(({ params }) => params?.message === `${n}`);
      const result = { action: 'accept', content: { n } };
      const statuses = new Set<number>();
      await eventually(async () => {
        const response = await client.post({ jsonrpc: '2.0', id: asked.id, result });
        await response.text();
        statuses.add(response.status);
        expect(response.status).toBe(202);
      });
      expect([202, 503]).toEqual(expect.arrayContaining([...statuses]));
    };

    it(
      `G12: in ${WORLDS} worlds no client misses an event without notice, gets one twice, or waits for ever`,
      async () => {
        Logger.overrideLogger(false);
        const seeds = Array.from({ length: WORLDS }, (_, n) => SEED + n);
        const failed: WorldReport[] = [];
        const work = async (): Promise<void> => {
          for (let seed = seeds.shift(); seed !== undefined; seed = seeds.shift()) {
            const report = await new World(seed, true).run();
            if (report.wrong.length > 0) failed.push(report);
          }
        };
        const release = watchLag();
        await Promise.all(Array.from({ length: 3 }, work));
        release();
        expect(failed.map(({ seed, wrong, trace }) => ({ seed, wrong, trace: trace.slice(-60) }))).toEqual([]);
      },
      60_000 + WORLDS * 5_000,
    );

    it('G12: after FLUSHALL responses end, calls too, and a client is told to start anew', async () => {
      vi.spyOn(Logger.prototype, 'error').mockImplementation(() => {});
      const pair = await Pair.start();
      closing.push(() => pair.stop());
      const [runs, other] = [await node(pair, 300), await node(pair, 300)];
      const client = await runs.app.client().initialize(LATEST, { elicitation: { form: {} } });
      const call = (await client.call('ask', { questions: 1 })).sse();
      await call.count(1);
      const listening = await at(other.app, client).listen();
      const admin = new Redis(pair.master.url);
      await admin.flushall();
      admin.disconnect();
      // A tick of each node finds that the log is gone.
      await Promise.all([call.end(), listening.end()]);
      for (const { app } of [runs, other]) expect((await at(app, client).get(call.primes[0])).status).toBe(404);
      await eventually(() => expect(runs.app.service.nodeCounts()).toMatchObject({ live: 0, inFlight: 0 }));
      const anew = await other.app.client().initialize(LATEST, { elicitation: { form: {} } });
      const again = (await anew.call('ask', { questions: 1 })).sse();
      await again.count(1);
      await answer(anew, again, 0);
      await again.count(2);
      expect(again.messages.at(-1).result.content).toEqual([{ type: 'text', text: 'all answered' }]);
    });

    it('G12: answers that were accepted and lost reach their handler, whose node had not read them', async () => {
      vi.spyOn(Logger.prototype, 'error').mockImplementation(() => {});
      const pair = await Pair.start();
      closing.push(() => pair.stop());
      const [runs, takes] = [await node(pair), await node(pair)];
      const client = await runs.app.client().initialize(LATEST, { elicitation: { form: {} } });
      const call = await (await client.call('ask', { questions: 2 })).sse().count(2);
      await pair.inStep();
      await pair.lag();
      runs.proxy.hold();
      for (const n of [0, 1]) await answer(at(takes.app, client), call, n);
      await pair.failOver();
      for (const { proxy } of [runs, takes]) proxy.switchTo(new URL(pair.replica.url));
      runs.proxy.release();
      await call.count(3);
      expect(call.messages.at(-1).result.content).toEqual([{ type: 'text', text: 'all answered' }]);
    });

    it.each([1, 2, 3, 4, 5, 6, 7, 8])(
      'answers that a client sends through another node reach their handler, or are 503 (seed %i)',
      async (seed) => {
        vi.spyOn(Logger.prototype, 'error').mockImplementation(() => {});
        const random = seededRandom(seed);
        const upTo = (least: number, most: number) => least + Math.floor(random() * (most - least + 1));
        const [kept, lost, late] = [upTo(0, 2), upTo(1, 3), upTo(1, 4)];
        const senderFirst = random() < 0.5;
        const pair = await Pair.start();
        closing.push(() => pair.stop());
        const [runs, takes] = [await node(pair), await node(pair)];
        const client = await runs.app.client().initialize(LATEST, { elicitation: { form: {} } });
        const there = at(takes.app, client);
        const questions = (await client.call('ask', { questions: kept + lost + late })).sse();
        await questions.count(kept + lost + late);
        let next = 0;
        const send = async (count: number) => {
          for (const end = next + count; next < end; next++) await answer(there, questions, next);
        };
        const arrived = () => eventually(() => expect(runs.asker.answers).toHaveLength(next));

        await send(kept);
        await arrived();
        await pair.inStep();
        await pair.lag();
        await send(lost);
        await arrived();
        await pair.failOver();
        const nodes = senderFirst ? [takes, runs] : [runs, takes];
        nodes[0]!.proxy.switchTo(new URL(pair.replica.url));
        // The other one still finds no Redis.
        if (senderFirst) await send(late);
        nodes[1]!.proxy.switchTo(new URL(pair.replica.url));
        if (!senderFirst) await send(late);
        await arrived();

        const all = Array.from({ length: next }, (_, n) => n);
        expect(runs.asker.answers.toSorted((a, b) => a - b)).toEqual(all);
        await questions.count(next + 1);
        expect(questions.messages.at(-1).result.content).toEqual([{ type: 'text', text: 'all answered' }]);
      },
      60_000,
    );
  },
  'server',
);
