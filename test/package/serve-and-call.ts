import 'reflect-metadata';
import { equal } from 'node:assert/strict';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import type { INestApplication } from '@nestjs/common';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { McpStreamableModule, type McpServer } from 'nestjs-mcp-streamable';
import { z } from 'zod';

const serverInfo = { name: 'consumer', version: '1.0.0' };

/** A tool on a server that the app makes itself. Used with the class as each kind of app gets hold of it. */
export function makeServer(ServerClass: typeof McpServer): McpServer {
  const server = new ServerClass(serverInfo);
  server.registerTool('greet', { inputSchema: z.object({ name: z.string() }) }, ({ name }) => ({
    content: [{ type: 'text', text: `Hello, ${name}` }],
  }));
  return server;
}

/** Serves `server` from a Nest app on Express, and calls its tool with the official client. */
export async function serveAndCall(server: () => McpServer): Promise<void> {
  @Module({ imports: [McpStreamableModule.forRoot({ serverInfo, server })] })
  class AppModule {}

  const app: INestApplication = await NestFactory.create(AppModule, { logger: ['error', 'warn'] });
  await app.listen(0, '127.0.0.1');
  try {
    await callWithOfficialClient(new URL('/mcp', await app.getUrl()));
  } finally {
    await app.close();
  }
}

async function callWithOfficialClient(url: URL): Promise<void> {
  const client = new Client({ name: 'check-package', version: '1.0.0' });
  const transport = new StreamableHTTPClientTransport(url);
  await client.connect(transport);
  const result = await client.callTool({ name: 'greet', arguments: { name: 'World' } });
  equal(JSON.stringify(result.content), '[{"type":"text","text":"Hello, World"}]');
  await transport.terminateSession();
  await client.close();
}
