import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { once } from 'node:events';
import { Injectable } from '@nestjs/common';
import { McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { redisBackend } from 'nestjs-mcp-streamable/redis';
import { McpTasksModule } from 'nestjs-mcp-streamable/tasks';
import { TaskTools } from './task-tools.js';

@Injectable()
class BriefTool {
  /** Goes on when the test says so. */
  @Tool({ name: 'brief', task: 'optional' })
  async brief(): Promise<string> {
    await once(process, 'message');
    return 'done';
  }
}

/** A node with tools whose calls become tasks, in a process of its own: reports its URL and its id. */
export async function startNode(): Promise<void> {
  const { REDIS_URL = '', PREFIX = '' } = process.env;
  class NodeModule {}
  // The test says which node is dead: time decides nothing.
  const backend = redisBackend(REDIS_URL, { prefix: PREFIX, heartbeatMs: 200, deadAfterMs: 600_000 });
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
  process.send!({ url: await app.getUrl(), id: backend.messageBus.nodeId });
}

await startNode();
