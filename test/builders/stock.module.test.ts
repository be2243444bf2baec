/// <reference types="vitest/globals" />
import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { createMcpTestClient, expectNothingLeft } from 'nestjs-mcp-streamable/testing';
import { StockModule } from './stock.module.js';

it('takes from the stock', async () => {
  const fixture = await Test.createTestingModule({ imports: [StockModule] }).compile();
  const app: INestApplication = fixture.createNestApplication();
  const mcp = await createMcpTestClient(app, { endpoint: '/stock' });
  const { text } = await mcp.callTool('take', { item: 'bolts', count: 3, places: [{ shelf: 'A' }] });
  expect(text).toBe('7 of bolts are left on A.');
  const { isError } = await mcp.callTool('take', { item: 'bolts', count: 3, places: [{}] });
  expect(isError).toBe(true);
  await mcp.close();
  await expectNothingLeft(app);
  await app.close();
});
