import 'reflect-metadata';
import { type INestApplication, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { type McpContext, McpSessionService, McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { report } from './agent.js';
import { backend } from './backend.js';
import { plugins } from './plugins.js';
import {
  ADD_DESCRIPTION,
  JWT_AUDIENCE,
  ADDING_TOOLS,
  PROGRESS_DESCRIPTION,
  reportAll,
  SERVER_INFO,
  sum,
  type ToolResult,
} from './tools.js';

/**
 * Ours: `npm run x -- bench:server`, with `PORT` (3000; 0 takes any) and `ADAPTER` (`express` or `fastify`).
 *
 * The defaults of the module, but for the caps of sessions: 10,000 anonymous ones are more than it lets in.
 */
const { PORT = '3000', ADAPTER = 'express', STAMPS, JWT_ISSUER, IDLE_MS, ONE_BY_ONE } = process.env;

/** Between two reports whose way is timed. */
const PAUSE_MS = 2;

class BenchTools {
  @Tool({ name: 'progress', description: PROGRESS_DESCRIPTION, inputSchema: z.object({ n: z.number() }) })
  progress(args: { n: number }, ctx: McpContext): Promise<ToolResult> {
    if (STAMPS) return reportTimes(args, ctx);
    return reportAll(args, (done, total) => ctx.progress(done, total));
  }
}

/** Each report says when it was made, by the clock that all processes of the machine share; one after the other has gone. */
async function reportTimes({ n }: { n: number }, ctx: McpContext): Promise<ToolResult> {
  return reportAll({ n }, async (done, total) => {
    await delay(PAUSE_MS);
    await ctx.progress(done, total, String(process.hrtime.bigint()));
  });
}

// The decorator by hand: as many methods as the bench wants.
for (const name of ADDING_TOOLS) {
  const method = { value: (args: { a: number; b: number }) => sum(args), configurable: true, writable: true };
  Object.defineProperty(BenchTools.prototype, name, method);
  const inputSchema = z.object({ a: z.number(), b: z.number() });
  Tool({ name, description: ADD_DESCRIPTION, inputSchema, ...plugins.tool })(BenchTools.prototype, name, method);
}

@Module({
  imports: [
    McpStreamableModule.forRoot({
      devSessions: false,
      ...backend,
      ...plugins.endpoint,
      serverInfo: SERVER_INFO,
      ...(JWT_ISSUER && {
        auth: {
          resource: JWT_AUDIENCE,
          authorizationServers: [JWT_ISSUER],
          jwt: { jwksUri: `${JWT_ISSUER}/jwks` },
        },
      }),
      ...(IDLE_MS && { idleTimeoutMs: Number(IDLE_MS) }),
      maxSessions: 100_000,
      maxSessionsPerPrincipal: 100_000,
    }),
    ...plugins.modules,
  ],
  providers: [BenchTools],
})
class BenchModule {}

const adapter = ADAPTER === 'fastify' ? new FastifyAdapter() : new ExpressAdapter();
const app: INestApplication = await NestFactory.create(BenchModule, adapter, { logger: ['error', 'warn'] });
app.enableShutdownHooks();
await app.listen(Number(PORT), '127.0.0.1');
const sessions = app.get(McpSessionService, { strict: false });

const ids = new Set<string>();
if (ONE_BY_ONE) {
  sessions.events$.subscribe(({ type, sessionId }) => {
    if (type === 'created') ids.add(sessionId);
    else if (type === 'closed') ids.delete(sessionId);
  });
}
/** `ONE_BY_ONE`: by the ids of the sessions that began here, as an app notifies those that it knows. */
async function notify(sequence: number): Promise<unknown> {
  const message = { method: 'notifications/message', params: { level: 'info', data: sequence } };
  if (!ONE_BY_ONE) return sessions.notify(() => true, message);
  return Promise.all(Array.from(ids, (id) => sessions.notify(id, message)));
}

report(await app.getUrl(), { notify });
