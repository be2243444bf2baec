import 'reflect-metadata';
import { deepEqual, equal, rejects } from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { type INestApplication, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import {
  createMcpTestClient,
  diagnose,
  expectContract,
  expectHealthy,
  expectNothingLeft,
  toolRouting,
} from 'nestjs-mcp-streamable/testing';
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

void test('the testing kit compares a contract, examines tools and asks a model', async () => {
  const app: INestApplication = await NestFactory.create(AppModule, new ExpressAdapter(), { logger: false });
  const folder = mkdtempSync(join(tmpdir(), 'contract-'));
  const file = join(folder, 'mcp.contract.json');
  const ci = process.env['CI'];
  // In CI no contract is written.
  delete process.env['CI'];
  try {
    equal(await expectContract(app, file, { as: { anna: { headers } } }), 'written');
    equal(await expectContract(app, file, { as: { anna: { headers } } }), 'unchanged');
    await rejects(expectContract(app, file), /"anyone" is compared now/);
  } finally {
    if (ci !== undefined) process.env['CI'] = ci;
    rmSync(folder, { recursive: true });
  }
  const { findings } = await diagnose(app);
  await expectHealthy(app, { except: findings.map(({ rule }) => rule) });
  const cases = [{ ask: 'add 1', expect: 'add' }];
  await toolRouting(app, cases, ({ ask }) => ask.slice(0, 3), { as: { headers } });
  await rejects(
    toolRouting(app, cases, () => 'say', { as: { headers } }),
    /MISS {2}add 1 {2}add/,
  );
  await expectNothingLeft(app);
  await app.close();
});
