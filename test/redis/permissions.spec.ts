import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Injectable } from '@nestjs/common';
import { Redis } from 'ioredis';
import { McpArgs, McpCtx, type McpContext, McpHealthIndicator, McpRegistry, Tool } from 'nestjs-mcp-streamable';
import { redisBackend } from 'nestjs-mcp-streamable/redis';
import { McpTasksModule } from 'nestjs-mcp-streamable/tasks';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { gate, TestApp } from '../support/app.js';
import { at } from '../support/nodes.js';
import { describeRedis, documentedRules, RedisServer } from '../support/redis.js';
import { TaskCaller } from '../tasks/tasks-app.js';
import { eventually } from '../support/eventually.js';

const ROOT = new URL('../../', import.meta.url);
const RULES = documentedRules();
const ALLOWED = RULES.flatMap((rule) => (rule.startsWith('+') ? [rule.slice(1)] : []));
/** What a node can do without, or needs only when it connects. */
const SPARED = ['info', 'select', 'subscribe', 'client|setname'];

let pays = 0;

let release = gate();

@Injectable()
class Tools {
  @Tool({
    name: 'pay',
    description: 'Pays.',
    inputSchema: z.object({ id: z.string() }),
    idempotency: { argument: 'id' },
  })
  pay(@McpArgs('id') id: string): string {
    return `paid ${id} in attempt ${++pays}`;
  }

  @Tool({ name: 'report', description: 'Reports.', task: 'optional' })
  async report(@McpCtx() ctx: McpContext): Promise<string> {
    await ctx.log('info', 'begun');
    await release.promise;
    await ctx.log('info', 'goes on');
    return ctx.task ? 'as a task' : 'as a call';
  }

  @Tool({ name: 'basket', description: 'Fills a basket.' })
  async basket(@McpCtx() ctx: McpContext): Promise<string> {
    const basket = await ctx.state();
    await basket.patch({ items: 2 });
    const { data } = await ctx.state(basket.handle);
    return `${String(data['items'])} items, deleted: ${String(await basket.delete())}`;
  }
}

describe('the documented permissions in Redis', () => {
  it('the documented permissions in Redis are the commands that the sources name, and health checks try each of them', () => {
    const folder = new URL('src/redis/', ROOT);
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));
    const text = files.map((file) => readFileSync(join(folder.pathname, file), 'utf8')).join('\n');
    const inScripts = [...text.matchAll(/\bp?call\('([A-Z]+)'/g)].map(([, name]) => name!.toLowerCase());
    const direct = [...text.matchAll(/\bclient\??\.([a-z]+)\(/g)].map(([, name]) => name!);
    const ofIoredis = ['connect', 'disconnect', 'nodes', 'on', 'once'];
    const used = new Set([...inScripts, ...direct].filter((name) => !ofIoredis.includes(name)));
    const needed = (names: Iterable<string>): string[] =>
      [...names].filter((name) => !SPARED.includes(name)).toSorted();
    expect(needed(ALLOWED)).toEqual(needed(used));
    const tried = new Set([...text.matchAll(/\{'([A-Z]+)'/g)].map(([, name]) => name!.toLowerCase()));
    const byOtherMeans = ['eval', 'evalsha', 'ping', ...SPARED];
    expect([...used].filter((name) => !tried.has(name) && !byOtherMeans.includes(name))).toEqual([]);
  });
});

describeRedis(
  'a user of Redis with the documented permissions',
  () => {
    let server: RedisServer;
    let admin: Redis;
    let a: TestApp;
    let b: TestApp;

    const allow = (...rules: string[]): Promise<unknown> => admin.call('ACL', 'SETUSER', 'mcp', ...rules);
    const start = (): Promise<TestApp> =>
      TestApp.start({
        adapter: 'fastify',
        port: true,
        // A busy machine may be slow, which must not be logged as an outage.
        backend: redisBackend(`redis://mcp:PASSWORD@127.0.0.1:${server.port}`, { commandTimeoutMs: 60_000 }),
        principal: ({ headers }: { headers: Record<string, string> }) => headers['x-user'],
        providers: [Tools],
        module: { imports: [McpTasksModule.forRoot()] },
      });
    const health = async (app: TestApp) => (await app.app.get(McpHealthIndicator).check()).mcp;

    const logged = (level: 'warn' | 'error'): string[] => [a, b].flatMap(({ log }) => log.texts(level));
    const isUp = async (app: TestApp): Promise<boolean> => (await health(app)).status === 'up';

    beforeAll(async () => {
      server = await RedisServer.start();
      admin = new Redis(server.url);
      await allow(...RULES);
      [a, b] = await Promise.all([start(), start()]);
      await eventually(async () => expect([await isUp(a), await isUp(b)]).toEqual([true, true]));
    });
    afterAll(async () => {
      await Promise.all([a.shutDown(), b.shutDown()]);
      admin.disconnect();
      await server.stop();
    });

    it('a user of Redis with the documented permissions can do all that two nodes do', async () => {
      release = gate();
      const client = await a.client().initialize();
      const listening = await at(b, client).listen();
      const call = (await client.call('report', {}, { id: 'call' })).sse();
      await call.count(1);
      // The stream is cut, and continues on the other node.
      const { id } = call.events.at(-1)!;
      call.destroy();
      const resumed = await at(b, client).listen(id);
      const caller = new TaskCaller(fetch, 'ann', a.url);
      const taskId = await caller.begin('report');
      release.open();
      expect(await resumed.end()).toBe('end');
      expect(resumed.messages.at(-1)).toMatchObject({ id: 'call', result: { content: [{ text: 'as a call' }] } });
      const elsewhere = new TaskCaller(fetch, 'ann', b.url);
      await expect.poll(() => elsewhere.get(taskId)).toMatchObject({ status: 'completed' });

      const modern = (app: TestApp) => app.modern({ 'x-user': 'ann' });
      const textOf = async (app: TestApp, name: string, args: object = {}): Promise<string> =>
        (await (await modern(app).call(name, args)).json()).result.content[0].text;
      expect(await textOf(a, 'pay', { id: '1' })).toBe('paid 1 in attempt 1');
      expect(await textOf(b, 'pay', { id: '1' })).toBe('paid 1 in attempt 1');
      expect(await textOf(a, 'basket')).toBe('2 items, deleted: true');
      await a.app.get(McpRegistry).disable('basket', { reason: 'Not now.' });
      await expect.poll(() => textOf(b, 'basket')).toBe('The tool "basket" is switched off: Not now.');
      await a.app.get(McpRegistry).enable('basket');

      expect((await client.delete()).status).toBe(204);
      expect(await listening.end()).toBe('end');
      expect(await health(b)).toMatchObject({ status: 'up', backend: 'up', sessions: 0 });
      expect(await health(b)).not.toHaveProperty('warnings');
      // Redis notes each command that it has refused.
      expect(await admin.call('ACL', 'LOG')).toEqual([]);
      expect([...logged('warn'), ...logged('error')]).toEqual([]);
    });

    it('a user of Redis without one of the documented permissions makes health checks fail, and the log names it', async () => {
      const missed: string[] = [];
      for (const command of ALLOWED.filter((name) => !SPARED.includes(name))) {
        await allow(`-${command}`);
        if (await isUp(a)) missed.push(command);
        await allow(`+${command}`);
      }
      expect(missed).toEqual([]);
      await expect.poll(() => isUp(a)).toBe(true);
      expect(logged('error').join()).toContain('NOPERM');
      await admin.call('ACL', 'LOG', 'RESET');
    });

    it('a user of Redis that may not run INFO is warned of once, and health checks say so', async () => {
      await allow('-info');
      const warnings = [expect.stringContaining('may not run INFO')];
      for (let n = 0; n < 2; n++) expect(await health(a)).toMatchObject({ status: 'up', warnings });
      expect(logged('warn')).toEqual(warnings);
      await allow('+info');
      expect(await health(a)).not.toHaveProperty('warnings');
    });
  },
  'server',
);
