import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { setTimeout as elapsed } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { redisBackend } from 'nestjs-mcp-streamable/redis';
import { McpTasksModule } from 'nestjs-mcp-streamable/tasks';
import { TaskTools } from './task-tools.js';

@Injectable()
class BriefTool {
  /** Takes long enough for a test to stop the process meanwhile. */
  @Tool({ name: 'brief', task: 'optional' })
  async brief(): Promise<string> {
    await elapsed(1_000);
    return 'done';
  }
}

/** A node with tools whose calls become tasks, in a process of its own: reports its port. */
export async function startNode(): Promise<void> {
  const { REDIS_URL = '', PREFIX = '', DEAD_AFTER_MS = '' } = process.env;
  class NodeModule {}
  const backend = redisBackend(REDIS_URL, { prefix: PREFIX, heartbeatMs: 200, deadAfterMs: Number(DEAD_AFTER_MS) });
  const app = await NestFactory.create(
    {
      module: NodeModule,
      imports: [
        McpStreamableModule.forRoot({
          serverInfo: { name: 'node', version: '1.0.0' },
          requestStateKeys: ['a secret that all nodes of a deployment know'],
          backend,
        }),
        McpTasksModule.forRoot(),
      ],
      providers: [TaskTools, BriefTool],
    },
    new FastifyAdapter(),
    { logger: false },
  );
  await app.listen(0, '127.0.0.1');
  process.send!(await app.getUrl());
}

await startNode();
