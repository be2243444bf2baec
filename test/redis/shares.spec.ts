import { type McpContext, McpCtx, Tool } from 'nestjs-mcp-streamable';
import { McpTasksModule } from 'nestjs-mcp-streamable/tasks';
import { Injectable } from '@nestjs/common';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { z } from 'zod';
import { TestApp, type TestAppOptions } from '../support/app.js';
import { describeRedis } from '../support/redis.js';
import { RedisRoom } from '../support/redis-room.js';
import { addressGuard, as, from, trustingGuard } from '../support/users.js';

const TASKS = { extensions: { 'io.modelcontextprotocol/tasks': {} } };

@Injectable()
class Tools {
  @Tool({
    name: 'pay',
    inputSchema: z.object({ requestId: z.string() }),
    idempotency: { argument: 'requestId', maxKeys: 1 },
  })
  pay(): string {
    return 'paid';
  }

  @Tool({ name: 'slow', task: 'optional' })
  async slow(@McpCtx() { signal }: McpContext): Promise<string> {
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    return 'over';
  }
}

describeRedis('what anonymous callers share on several nodes', () => {
  let room: RedisRoom;
  let nodes: TestApp[];
  beforeEach(async () => {
    room = await RedisRoom.open();
    nodes = [];
  });
  afterEach(async () => {
    for (const { app } of nodes) await app.close();
    await room.close();
  });
  const start = async (options: Partial<TestAppOptions> = {}): Promise<[TestApp, TestApp]> => {
    const common = { adapter: 'fastify' as const, guards: [trustingGuard, addressGuard], drainMs: 0 };
    const module = { imports: [McpTasksModule.forRoot({ maxTasksPerPrincipal: 1 })] };
    for (const _ of [1, 2])
      nodes.push(await TestApp.start({ ...common, backend: room.node(), providers: [Tools], module, ...options }));
    return nodes as [TestApp, TestApp];
  };

  it('E13: a caller with a principal takes the place of the longest idle anonymous session of another node', async () => {
    const [a, b] = await start({ maxSessions: 2, maxAnonymousSessions: 2 });
    const idle = await a.client().initialize();
    await room.advance(1_000);
    const newer = await a.client().initialize();
    await b.client(as('ann')).initialize();
    const ping = (client: typeof idle) => client.post({ jsonrpc: '2.0', id: client.nextId(), method: 'ping' });
    await expect.poll(async () => (await ping(idle)).status).toBe(404);
    expect((await ping(newer)).status).toBe(200);
  });

  it('idempotency keys of anonymous callers count for their address on all nodes', async () => {
    const [a, b] = await start();
    const pay = async (app: TestApp, address: string, requestId: string): Promise<string> => {
      const args = { name: 'pay', arguments: { requestId } };
      return (await app.modern(from(address)).ask('tools/call', args)).result.content[0].text;
    };
    expect(await pay(a, '10.0.0.1', '1')).toBe('paid');
    expect(await pay(b, '10.0.0.1', '2')).toContain('"maxKeys"');
    expect([await pay(b, '10.0.0.2', '2'), await pay(b, '10.0.0.1', '2')]).toEqual(['paid', 'paid']);
  });

  it('T5: tasks of anonymous callers count for their address on all nodes', async () => {
    const [a, b] = await start();
    const slow = (app: TestApp, address: string) => app.modern(from(address)).call('slow', {}, { capabilities: TASKS });
    expect([(await slow(a, '10.0.0.1')).status, (await slow(b, '10.0.0.1')).status]).toEqual([200, 429]);
    expect((await slow(b, '10.0.0.2')).status).toBe(200);
  });
});
