import 'reflect-metadata';
import { type INestApplication, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import {
  type McpContext,
  McpSessionService,
  McpStreamableModule,
  Tool,
  type ToolEvent,
  toolProgress,
} from 'nestjs-mcp-streamable';
import type { Server } from 'node:http';
import { promisify } from 'node:util';
import { concat, interval, map, type Observable, of, take } from 'rxjs';
import { z } from 'zod';
import { report } from '../agent.js';
import { backend } from '../backend.js';
import { ADD_DESCRIPTION, PROGRESS_DESCRIPTION, SERVER_INFO, sum, type ToolResult } from '../tools.js';

/** The server of the soak test: tools that take their time, sessions that are forgotten soon, and gauges of all it holds. */
const { PORT = '0', ADAPTER = 'express', LEAK_BYTES = '0', IDLE_MS = '5000' } = process.env;

const TICK_MS = 2;

/** What `--leak` has each call of `add` leave behind, to see that the test sees it. */
const leaked: string[] = [];
const leakBytes = Number(LEAK_BYTES);

class SoakTools {
  @Tool({ name: 'add', description: ADD_DESCRIPTION, inputSchema: z.object({ a: z.number(), b: z.number() }) })
  add(args: { a: number; b: number }): ToolResult {
    if (leakBytes > 0) leaked.push(Buffer.alloc(leakBytes, 'x').toString('latin1'));
    return sum(args);
  }

  @Tool({ name: 'progress', description: PROGRESS_DESCRIPTION, inputSchema: z.object({ n: z.number() }) })
  progress({ n }: { n: number }): Observable<ToolEvent> {
    const reports$ = interval(TICK_MS).pipe(
      take(n),
      map((index) => toolProgress(index + 1, n)),
    );
    return concat(reports$, of(`${n} reported`));
  }

  @Tool({ name: 'wait', description: 'Waits until it is cancelled', inputSchema: z.object({}) })
  wait(_args: object, { signal }: McpContext): Promise<string> {
    return new Promise((resolve) => {
      const over = (): void => resolve('Cancelled.');
      if (signal.aborted) over();
      else signal.addEventListener('abort', over, { once: true });
    });
  }
}

@Module({
  imports: [
    McpStreamableModule.forRoot({
      devSessions: false,
      ...backend,
      serverInfo: SERVER_INFO,
      maxSessions: 100_000,
      maxSessionsPerPrincipal: 100_000,
      // Half of the sessions are left by their clients.
      idleTimeoutMs: Number(IDLE_MS),
      // Some answers come as JSON, some as events.
      sseAfterMs: 10,
      keepAliveMs: 1_000,
    }),
  ],
  providers: [SoakTools],
})
class SoakModule {}

const adapter = ADAPTER === 'fastify' ? new FastifyAdapter() : new ExpressAdapter();
const app: INestApplication = await NestFactory.create(SoakModule, adapter, { logger: ['error', 'warn'] });
await app.listen(Number(PORT), '127.0.0.1');
const sessions = app.get(McpSessionService, { strict: false });
const http = app.getHttpServer() as Server;
// A visitor who has to wait for a core finds the connection still open.
http.keepAliveTimeout = 120_000;
const connections = promisify(http.getConnections.bind(http));

report(await app.getUrl(), {
  notify: async () => {
    await sessions.notify(() => true, { method: 'notifications/message', params: { level: 'info', data: 'soak' } });
    await sessions.notify(() => true, { method: 'notifications/tools/list_changed' });
  },
  gauges: async () => ({
    ...(await sessions.counts()),
    connections: await connections(),
    // Timers, sockets, whatever keeps a process from ending.
    handles: process.getActiveResourcesInfo().length,
    listeners: listenersOf(process) + listenersOf(http),
  }),
});

function listenersOf(emitter: Pick<NodeJS.EventEmitter, 'eventNames' | 'listenerCount'>): number {
  return emitter.eventNames().reduce((sum, name) => sum + emitter.listenerCount(name), 0);
}
