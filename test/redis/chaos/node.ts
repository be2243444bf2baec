import 'reflect-metadata';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { McpArgs, McpCtx, type McpContext, McpSessionService, McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { redisBackend } from 'nestjs-mcp-streamable/redis';
import { z } from 'zod';

/** What a node is told. */
export type Order = { readonly announce: number } | 'end all sessions';
/** What a node says: it serves, with its id; a call has begun what must not be done twice; an order is carried out. */
export type Report =
  { readonly serves: string } | { readonly ran: string } | { readonly done: number } | { readonly failed: string };

const { PORT = '', REDIS_URL = '', REQUEST_STATE_KEY = '', DEAD_AFTER_MS = '', SHUTDOWN_DELAY_MS = '' } = process.env;
const Call = z.object({ key: z.string(), steps: z.number(), askAt: z.number(), everyMs: z.number() });
const Answer = z.object({ name: z.string() });

function report(what: Report): void {
  process.send!(what);
}

@Injectable()
class ChaosTools {
  @Tool({ name: 'work', inputSchema: Call })
  async work(@McpArgs() { key, steps, askAt, everyMs }: z.infer<typeof Call>, @McpCtx() ctx: McpContext) {
    // On 2026-07-28 a handler runs once without the answer, and once with it.
    if (ctx.session || ctx.inputResponses) report({ ran: key });
    let name: unknown;
    for (let step = 0; step <= steps; step++) {
      // Real time: the node is a process of its own, and its calls must last until some of them are hit by a fault.
      await new Promise((resolve) => setTimeout(resolve, everyMs));
      if (step > 0) await ctx.progress(step, steps);
      if (step !== askAt) continue;
      const answer = await ctx.elicit('name', { message: key, requestedSchema: Answer });
      name = answer.content?.['name'];
    }
    return `${key} for ${String(name)}`;
  }
}

const backend = redisBackend(REDIS_URL, {
  commandTimeoutMs: 1_000,
  heartbeatMs: 250,
  deadAfterMs: Number(DEAD_AFTER_MS),
});

@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: { name: 'chaos', version: '1.0.0' },
      backend,
      requestStateKeys: [REQUEST_STATE_KEY],
      allowedHosts: ['127.0.0.1'],
      retryMs: 50,
      serverRequestTimeoutMs: 50_000,
      shutdownDelayMs: Number(SHUTDOWN_DELAY_MS),
    }),
  ],
  providers: [ChaosTools],
})
class ChaosNode {}

const adapter =
  process.env['NODE_ADAPTER'] === 'fastify'
    ? new FastifyAdapter({ forceCloseConnections: true })
    : new ExpressAdapter();
const app = await NestFactory.create(ChaosNode, adapter, { logger: ['error', 'warn'], forceCloseConnections: true });
app.enableShutdownHooks();
const service = app.get(McpSessionService);

async function carryOut(order: Order): Promise<number> {
  if (order === 'end all sessions') return service.terminateAll();
  const params = { level: 'error', data: order.announce };
  return service.notify(() => true, { method: 'notifications/message', params });
}

process.on('message', (order: Order) => {
  carryOut(order).then(
    (done) => report({ done }),
    (error: unknown) => report({ failed: String(error) }),
  );
});
await app.listen(Number(PORT), '127.0.0.1');
report({ serves: backend.messageBus.nodeId });
