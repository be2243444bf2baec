import { type McpStreamableOptions, McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpLiveModule } from 'nestjs-mcp-streamable/live';
import { redisBackend } from 'nestjs-mcp-streamable/redis';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { expect, it } from 'vitest';
import { describeRedis, RedisServer } from '../support/redis.js';
import { act, LiveReader } from './live-reader.js';
import { held, ShopTools } from './shop.js';
import { TestApp, serverInfo } from '../support/app.js';

describeRedis(
  'the live page of one node of several',
  () => {
    it('the live page of one node of several shows what this node runs and what nodes share, and says which node it is', async () => {
      const redis = await RedisServer.start();
      const options = (): McpStreamableOptions => ({
        serverInfo,
        eras: 'legacy',
        backend: redisBackend(redis.url),
        // Answers are JSON, however long a busy machine takes for them.
        sseAfterMs: 86_400_000,
      });
      const clock = new ManualClock();
      const start = () => {
        const imports = [McpStreamableModule.forRoot(options()), McpLiveModule.forRoot({ unguarded: 'loopback' })];
        return TestApp.of('fastify', { imports, providers: [ShopTools] }, undefined, clock);
      };
      const [here, there] = [await start(), await start()];
      held.begin();
      // The page asks the stores every 5 s: here time runs 25 times as fast.
      const time = setInterval(() => void clock.advance(500), 20);
      try {
        const mine = await here.client().initialize();
        const theirs = await there.client().initialize();
        const running = theirs.call('reindex');
        await expect.poll(() => there.service.nodeCounts().inFlight).toBe(1);
        const page = `${here.base}/mcp-live`;
        const reader = await LiveReader.open(page);
        await reader.until(({ first }) => first.sessions.size === 2 && first.facts['nodes'].length === 2);
        const { facts, sessions, calls } = reader.first;
        const rows = [...sessions.values()];
        expect(facts).toMatchObject({
          shared: true,
          live: 1,
          sessions: 2,
          calls: 0,
          sessionStore: 'up',
          messageBus: 'up',
        });
        expect(facts['nodes']).toContain(facts['node']);
        expect(calls.size).toBe(0);
        expect(rows.find(({ here }) => here)).toMatchObject({ id: mine.sessionId!.slice(0, 6), log: -1 });
        const elsewhere = rows.find(({ here }) => !here)!;
        expect(elsewhere).toMatchObject({ id: theirs.sessionId!.slice(0, 6), client: 'raw' });

        // Wherever the session is, and whichever node the action reaches.
        expect(await act(page, `sessions/${elsewhere['key']}/end`)).toMatchObject({ status: 200 });
        expect(await (await running).text()).toContain('error');
        const own = rows.find(({ here }) => here)!;
        expect(await act(`${there.base}/mcp-live`, `sessions/${own['key']}/end`)).toMatchObject({ status: 200 });

        await redis.kill();
        await reader.until(({ first }) => first.facts['sessionStore'] === 'down');
        await redis.start();
        await reader.until(({ first }) => first.facts['sessionStore'] === 'up' && first.sessions.size === 0);
        reader.close();
      } finally {
        clearInterval(time);
        held.release();
        await Promise.all([here.app.close(), there.app.close()]);
        here.log.release();
        await redis.stop();
      }
    });
  },
  'server',
);
