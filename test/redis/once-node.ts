import 'reflect-metadata';
import { once } from 'node:events';
import { setTimeout as elapsed } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Confirm, McpArgs, McpRegistry, McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { redisBackend } from 'nestjs-mcp-streamable/redis';
import { z } from 'zod';

const Payment = z.object({ requestId: z.string() });
const idempotency = { argument: 'requestId' } as const;

/** Each effect is reported to the test at once, so that it is known of a process that is killed. */
const effect = (key: string): Promise<void> =>
  new Promise((resolve) => void process.send!({ effect: key }, undefined, {}, () => resolve()));

@Injectable()
class Bank {
  @Tool({ name: 'pay', inputSchema: Payment, idempotency })
  async pay(@McpArgs('requestId') requestId: string): Promise<string> {
    await effect(requestId);
    await elapsed(50);
    return `paid by ${process.pid}`;
  }

  /** Goes on until the test says so, or kills the process. */
  @Tool({ name: 'slow', inputSchema: Payment, idempotency })
  async slow(@McpArgs('requestId') requestId: string): Promise<string> {
    await effect(requestId);
    await once(process, 'message');
    return `slowly paid by ${process.pid}`;
  }

  @Tool({ name: 'remove', inputSchema: Payment })
  @Confirm(({ requestId }) => `Remove ${requestId}?`)
  async remove(@McpArgs('requestId') requestId: string): Promise<string> {
    await effect(requestId);
    return `removed ${requestId}`;
  }
}

/** What the test tells a node to switch; any other message lets `slow` go on. */
export interface Switching {
  readonly tool: string;
  readonly off: boolean;
}

/** A node with tools that have effects, in a process of its own: reports its URL. */
export async function startNode(): Promise<void> {
  const { REDIS_URL = '', PREFIX = '' } = process.env;
  class NodeModule {}
  // The test says which node is dead: time decides nothing.
  const backend = redisBackend(REDIS_URL, { prefix: PREFIX, heartbeatMs: 200, deadAfterMs: 600_000 });
  const endpoint = McpStreamableModule.forRoot({
    serverInfo: { name: 'node', version: '1.0.0' },
    requestStateKeys: ['a secret that all nodes of a deployment know'],
    principal: ({ headers }: { headers: Record<string, string> }) => headers['x-user'],
    maxRunningCallsPerPrincipal: 2_000,
    // All processes of the test share the machine.
    maxLagMs: Infinity,
    backend,
  });
  const module = { module: NodeModule, imports: [endpoint], providers: [Bank] };
  const app = await NestFactory.create(module, new FastifyAdapter(), { logger: false });
  const registry = app.get(McpRegistry);
  process.on('message', ({ tool, off }: Partial<Switching>) => {
    if (tool === undefined) return;
    void (off ? registry.disable(tool, { reason: 'Not now.' }) : registry.enable(tool)).then(() =>
      process.send!({ switched: tool }),
    );
  });
  await app.listen(0, '127.0.0.1');
  process.send!({ url: await app.getUrl(), id: backend.messageBus.nodeId });
}

await startNode();
