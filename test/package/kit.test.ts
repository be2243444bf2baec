import 'reflect-metadata';
import { deepEqual, equal, rejects } from 'node:assert/strict';
import { test } from 'node:test';
import { type INestApplication, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { createMcpTestClient, expectNothingLeft } from 'nestjs-mcp-streamable/testing';
import { handlers } from './handlers.js';

@Module({
  imports: [McpStreamableModule.forRoot({ serverInfo: { name: 'consumer', version: '1.0.0' } })],
  providers: handlers,
})
class AppModule {}

const headers = { 'x-caller': 'anna' };

/** With `node:test`, which an app needs no package for. */
for (const Adapter of [ExpressAdapter, FastifyAdapter]) {
  for (const era of ['legacy', 'modern'] as const) {
    void test(`${Adapter.name}, ${era}: calls a tool without a port`, async () => {
      const app: INestApplication = await NestFactory.create(AppModule, new Adapter(), { logger: false });
      const mcp = await createMcpTestClient(app, { era, headers });
      const { text, isError, progress } = await mcp.callTool('say', { word: ' hello ' });
      deepEqual([text, isError, progress.length], ['"[ANNA says HELLO]"', false, 1]);
      equal(app.getHttpServer().listening, false);
      const stranger = await createMcpTestClient(app, { era });
      if (era === 'legacy') await rejects(expectNothingLeft(app, { withinMs: 0 }), /sessions: 2/);
      // The guard hides the tool from whom it refuses.
      await rejects(stranger.callTool('add', { a: 1 }), /"add" not found/);
      await stranger.close();
      await mcp.close();
      await expectNothingLeft(app);
      await app.close();
    });
  }
}
