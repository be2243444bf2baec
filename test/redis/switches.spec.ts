import { Injectable } from '@nestjs/common';
import { McpRegistry, Tool } from 'nestjs-mcp-streamable';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { TestApp } from '../support/app.js';
import { ModernClient } from '../support/modern-client.js';
import { describeRedis } from '../support/redis.js';
import { RedisRoom } from '../support/redis-room.js';

const YEAR_MS = 365 * 24 * 60 * 60 * 1_000;

@Injectable()
class Tools {
  @Tool({ name: 'refund' })
  refund(): string {
    return 'refunded';
  }
}

describeRedis('a tool that is switched off, in Redis', () => {
  let room: RedisRoom;
  const apps: TestApp[] = [];

  beforeEach(async () => {
    room = await RedisRoom.open();
  });
  afterEach(async () => {
    await Promise.all(apps.splice(0).map((app) => app.shutDown()));
    await room.close();
  });

  const start = async (): Promise<TestApp> => {
    const app = await TestApp.start({ adapter: 'fastify', backend: room.node(), providers: [Tools] });
    apps.push(app);
    return app;
  };
  const textOf = async (app: TestApp): Promise<string> =>
    (await new ModernClient(app.url).ask('tools/call', { name: 'refund', arguments: {} })).result.content[0].text;

  it('a tool that is switched off is off on the other nodes, and a year later on a node that starts when all others have stopped', async () => {
    const [one, other] = [await start(), await start()];
    await one.app.get(McpRegistry).disable('refund', { reason: 'Not now.' });
    await expect.poll(() => textOf(other), { timeout: 5_000 }).toBe('The tool "refund" is switched off: Not now.');
    await Promise.all(apps.splice(0).map((app) => app.shutDown()));
    await room.advance(YEAR_MS);
    const late = await start();
    expect(await textOf(late)).toBe('The tool "refund" is switched off: Not now.');
    await late.app.get(McpRegistry).enable('refund');
    expect(await textOf(await start())).toBe('refunded');
  });
});
