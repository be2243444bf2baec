import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';
import { report } from '../agent.js';
import { SERVER_INFO } from '../tools.js';

/** The server of `npm run x -- bench:values`, with the default options. */

const Order = z.object({ id: z.string(), item: z.string(), quantity: z.number(), paid: z.boolean() });
const inputSchema = z.object({
  text: z.string().optional(),
  numbers: z.array(z.number()).optional(),
  orders: z.array(Order).optional(),
});

class ValuesTools {
  @Tool({ name: 'take', description: 'Takes a value', inputSchema })
  take(): string {
    return 'taken';
  }
}

@Module({ imports: [McpStreamableModule.forRoot({ serverInfo: SERVER_INFO })], providers: [ValuesTools] })
class ValuesModule {}

const app = await NestFactory.create(ValuesModule, new FastifyAdapter(), { logger: ['error'] });
await app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1');
report(await app.getUrl());
