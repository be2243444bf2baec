/// <reference types="vitest/globals" />
// #region spec
import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  createMcpTestClient,
  expectNothingLeft,
  type McpTestClient,
} from 'nestjs-mcp-streamable/testing';
import { OrdersModule } from './orders.module.js';

describe('OrdersModule', () => {
  let app: INestApplication;
  let mcp: McpTestClient;

  beforeEach(async () => {
    const fixture = await Test.createTestingModule({ imports: [OrdersModule] }).compile();
    app = fixture.createNestApplication();
    mcp = await createMcpTestClient(app);
  });

  it('finds an order', async () => {
    const { text } = await mcp.callTool('find_order', { id: 'A-1042' });
    expect(text).toBe('Order A-1042 is on its way.');
  });

  afterEach(async () => {
    await mcp.close();
    await expectNothingLeft(app);
    await app.close();
  });
});
// #endregion
