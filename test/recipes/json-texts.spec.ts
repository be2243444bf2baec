import { Module } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { createMcpTestClient, type McpTestClient } from 'nestjs-mcp-streamable/testing';
import type { INestApplication } from '@nestjs/common';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { LabelTools } from '../../examples/snippets/json-texts.js';

@Module({
  imports: [McpStreamableModule.forRoot({ serverInfo: { name: 'labels', version: '1.0.0' } })],
  providers: [LabelTools],
})
class AppModule {}

let app: INestApplication;
let client: McpTestClient;
beforeAll(async () => {
  const testing = await Test.createTestingModule({ imports: [AppModule] }).compile();
  app = testing.createNestApplication({ logger: false });
  await app.init();
  client = await createMcpTestClient(app);
});
afterAll(async () => {
  await client.close();
  await app.close();
});

it('a tool that also takes JSON texts is listed with the list alone', async () => {
  const [tool] = (await client.client.listTools()).tools;
  const labels = { type: 'array', items: { type: 'string' }, maxItems: 20 };
  expect(tool!.inputSchema).toMatchObject({ type: 'object', properties: { labels }, required: ['labels'] });
});

it('a tool that also takes JSON texts gets the list of either form', async () => {
  expect((await client.callTool('add_labels', { labels: ['a', 'b'] })).text).toBe('Added 2 labels.');
  expect((await client.callTool('add_labels', { labels: '["a","b"]' })).text).toBe('Added 2 labels.');
});

it.each([
  ['text that is no JSON', 'a, b'],
  ['JSON of another type', '{"a":1}'],
  ['a list of another type', '[1]'],
])('a tool that also takes JSON texts refuses %s', async (_, labels) => {
  const { isError, text } = await client.callTool('add_labels', { labels });
  expect(isError).toBe(true);
  expect(text).toContain('labels');
});
