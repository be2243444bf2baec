import 'reflect-metadata';
import { type INestApplication, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Ctx, Payload } from '@nestjs/microservices';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { type McpContext, McpController, McpStrategy, StreamableHttpTransport, Tool } from '@rekog/mcp-nest';
import { z } from 'zod';
import { report } from '../agent.js';
import {
  ADD_DESCRIPTION,
  ADDING_TOOLS,
  PROGRESS_DESCRIPTION,
  reportAll,
  SERVER_INFO,
  sum,
  type ToolResult,
} from '../tools.js';

/** `@rekog/mcp-nest` with sessions, as its README does it. It serves 2026-07-28 beside them. */
const { PORT = '3000', ADAPTER = 'express', ANSWERS = 'json' } = process.env;

@McpController()
class BenchTools {
  @Tool({ name: 'progress', description: PROGRESS_DESCRIPTION, parameters: z.object({ n: z.number() }) })
  progress(@Payload() args: { n: number }, @Ctx() ctx: McpContext): Promise<ToolResult> {
    return reportAll(args, (progress, total) => ctx.reportProgress({ progress, total }));
  }
}

// The decorators by hand: as many methods as the bench wants.
for (const name of ADDING_TOOLS) {
  const method = { value: (args: { a: number; b: number }) => sum(args), configurable: true, writable: true };
  Object.defineProperty(BenchTools.prototype, name, method);
  Payload()(BenchTools.prototype, name, 0);
  const parameters = z.object({ a: z.number(), b: z.number() });
  Tool({ name, description: ADD_DESCRIPTION, parameters })(BenchTools.prototype, name, method);
}

const transport = new StreamableHttpTransport({ statefulMode: true, enableJsonResponse: ANSWERS === 'json' });
const strategy = new McpStrategy({ ...SERVER_INFO, transports: [transport] });

@Module({ controllers: [BenchTools] })
class BenchModule {}

const adapter = ADAPTER === 'fastify' ? new FastifyAdapter() : new ExpressAdapter();
const app: INestApplication = await NestFactory.create(BenchModule, adapter, { logger: ['error', 'warn'] });
strategy.setHttpAdapter(app.getHttpAdapter());
app.connectMicroservice({ strategy });
await app.startAllMicroservices();
await app.listen(Number(PORT), '127.0.0.1');
report(await app.getUrl());
