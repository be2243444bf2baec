/// <reference types="vitest/globals" />
// #region spec
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { OrdersModule } from './orders.module.js';

describe('OrdersModule', () => {
  let app: INestApplication;
  let client: Client;

  beforeEach(async () => {
    const fixture = await Test.createTestingModule({ imports: [OrdersModule] }).compile();
    app = fixture.createNestApplication();
    await app.listen(0, '127.0.0.1');
    client = new Client({ name: 'test', version: '1.0.0' });
    await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', await app.getUrl())));
  });

  it('finds an order', async () => {
    const { content } = await client.callTool({ name: 'find_order', arguments: { id: 'A-1042' } });
    expect(content).toEqual([{ type: 'text', text: 'Order A-1042 is on its way.' }]);
  });

  afterEach(async () => {
    await client.close();
    await app.close();
  });
});
// #endregion
