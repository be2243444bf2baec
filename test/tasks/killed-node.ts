import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { redisBackend } from 'nestjs-mcp-streamable/redis';
import { McpTasksModule } from 'nestjs-mcp-streamable/tasks';
import { TaskTools } from './task-tools.js';

/** A node with tools whose calls become tasks, in a process of its own: reports its port. */
export async function startNode(): Promise<void> {
  const { REDIS_URL = '', PREFIX = '', LEASE_MS = '' } = process.env;
  class NodeModule {}
  const backend = redisBackend(REDIS_URL, { prefix: PREFIX });
  const app = await NestFactory.create(
    {
      module: NodeModule,
      imports: [
        McpStreamableModule.forRoot({
          serverInfo: { name: 'node', version: '1.0.0' },
          requestStateKeys: ['a secret that all nodes of a deployment know'],
          backend,
        }),
        McpTasksModule.forRoot({ leaseMs: Number(LEASE_MS) }),
      ],
      providers: [TaskTools],
    },
    new FastifyAdapter(),
    { logger: false },
  );
  await app.listen(0, '127.0.0.1');
  process.send!(await app.getUrl());
}

await startNode();
