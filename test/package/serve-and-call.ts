import 'reflect-metadata';
import { deepEqual, equal, match } from 'node:assert/strict';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import type { INestApplication } from '@nestjs/common';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { McpStreamableModule, type McpServer } from 'nestjs-mcp-streamable';
import { z } from 'zod';
import { handlers } from './handlers.js';

const serverInfo = { name: 'consumer', version: '1.0.0' };

/** A tool on a server that the app makes itself. Used with the class as each kind of app gets hold of it. */
export function makeServer(ServerClass: typeof McpServer): McpServer {
  const server = new ServerClass(serverInfo);
  server.registerTool('greet', { inputSchema: z.object({ name: z.string() }) }, ({ name }) => ({
    content: [{ type: 'text', text: `Hello, ${name}` }],
  }));
  return server;
}

/**
 * Serves from a Nest app on Express, and calls with the official client: the tool of `server` at one endpoint, decorated
 * handlers with everything that Nest runs around them at another.
 */
export async function serveAndCall(server: () => McpServer): Promise<void> {
  @Module({
    imports: [
      McpStreamableModule.forRoot({ serverInfo }),
      McpStreamableModule.forRoot({ serverInfo, server, name: 'own', path: 'own' }),
    ],
    providers: handlers,
  })
  class AppModule {}

  const app: INestApplication = await NestFactory.create(AppModule, { logger: ['error', 'warn'] });
  await app.listen(0, '127.0.0.1');
  try {
    const url = await app.getUrl();
    await callGreet(new URL('/own', url));
    await callAdd(new URL('/mcp', url));
    await callSay(new URL('/mcp', url));
    await readDocuments(new URL('/mcp', url));
    await askAsStranger(new URL('/mcp', url));
  } finally {
    await app.close();
  }
}

async function callGreet(url: URL): Promise<void> {
  await withOfficialClient(url, {}, async (client) => {
    const result = await client.callTool({ name: 'greet', arguments: { name: 'World' } });
    equal(JSON.stringify(result.content), '[{"type":"text","text":"Hello, World"}]');
  });
}

const anna = { 'x-caller': 'anna' };

async function callAdd(url: URL): Promise<void> {
  await withOfficialClient(url, anna, async (client) => {
    const { tools } = await client.listTools();
    const required = tools.map(({ name, inputSchema }) => [name, inputSchema.required]);
    deepEqual(required, [
      ['add', ['a']],
      ['say', ['word']],
    ]);
    const sum = await client.callTool({ name: 'add', arguments: { a: 1 } });
    deepEqual(sum.content, [{ type: 'text', text: '"The sum is 2"' }]);
    const wrong = await client.callTool({ name: 'add', arguments: { a: 'x' } });
    equal(wrong.isError, true);
  });
}

/** Guards, interceptors, pipes, filters and param decorators: those of the method, and those of the app. */
async function callSay(url: URL): Promise<void> {
  await withOfficialClient(url, anna, async (client) => {
    const say = async (word: string) => (await client.callTool({ name: 'say', arguments: { word } })).content;
    deepEqual(await say(' hello '), [{ type: 'text', text: '"[ANNA says HELLO]"' }]);
    deepEqual(await say('far'), [{ type: 'text', text: 'Too far, says the method' }]);
    deepEqual(await say('odd'), [{ type: 'text', text: 'Too odd, says the app' }]);
  });
  await withOfficialClient(url, { ...anna, 'x-banned': 'yes' }, async (client) => {
    match(await refusalOf(client.callTool({ name: 'say', arguments: { word: 'x' } })), /Forbidden/);
  });
}

async function readDocuments(url: URL): Promise<void> {
  await withOfficialClient(url, anna, async (client) => {
    const terms = await client.readResource({ uri: 'shop://terms' });
    deepEqual(terms.contents, [{ uri: 'shop://terms', mimeType: 'text/plain', text: '"Pay soon"' }]);
    const order = await client.readResource({ uri: 'shop://order/7' });
    deepEqual(order.contents, [{ uri: 'shop://order/7', mimeType: 'text/plain', text: '"Order 7"' }]);
    const { messages } = await client.getPrompt({ name: 'complain', arguments: { id: '7' } });
    deepEqual(messages, [{ role: 'user', content: { type: 'text', text: '"Complain about 7"' } }]);
  });
}

/** Whom the guards of the handlers do not know. */
async function askAsStranger(url: URL): Promise<void> {
  await withOfficialClient(url, {}, async (client) => {
    const { tools } = await client.listTools();
    const { resources } = await client.listResources();
    const { resourceTemplates } = await client.listResourceTemplates();
    const { prompts } = await client.listPrompts();
    deepEqual([tools, resources, resourceTemplates, prompts], [[], [], [], []]);
    match(await refusalOf(client.callTool({ name: 'add', arguments: { a: 1 } })), /Forbidden/);
    match(await refusalOf(client.readResource({ uri: 'shop://terms' })), /Forbidden/);
    match(await refusalOf(client.readResource({ uri: 'shop://order/7' })), /Forbidden/);
    match(await refusalOf(client.getPrompt({ name: 'complain', arguments: { id: '7' } })), /Forbidden/);
  });
}

function refusalOf(answer: Promise<unknown>): Promise<string> {
  return answer.then(
    (result) => `no refusal: ${JSON.stringify(result)}`,
    (error: unknown) => String(error),
  );
}

async function withOfficialClient(
  url: URL,
  headers: Record<string, string>,
  use: (client: Client) => Promise<void>,
): Promise<void> {
  const client = new Client({ name: 'check-package', version: '1.0.0' });
  const transport = new StreamableHTTPClientTransport(url, { requestInit: { headers } });
  await client.connect(transport);
  await use(client);
  await transport.terminateSession();
  await client.close();
}
