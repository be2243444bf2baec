import 'reflect-metadata';
import { equal, match } from 'node:assert/strict';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import type { CanActivate, ExecutionContext, INestApplication } from '@nestjs/common';
import { Injectable, Module, UseGuards } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { McpArgs, McpExecutionContext, McpStreamableModule, Tool, type McpServer } from 'nestjs-mcp-streamable';
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

/** Lets in who says `x-caller: anna`, to whatever handler it stands at. */
@Injectable()
class CallerGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const { headers } = context.switchToHttp().getRequest<{ headers: Record<string, string> }>();
    return McpExecutionContext.isMcp(context) && headers['x-caller'] === 'anna';
  }
}

const addends = z.object({ a: z.number(), b: z.number().default(1) });

@Injectable()
class Tools {
  @Tool({ name: 'add', description: 'Adds', inputSchema: addends })
  @UseGuards(CallerGuard)
  add(@McpArgs() { a, b }: z.infer<typeof addends>): string {
    return `The sum is ${a + b}`;
  }
}

/**
 * Serves from a Nest app on Express, and calls with the official client: the tool of `server` at one endpoint, a decorated
 * one with a guard and a schema at another.
 */
export async function serveAndCall(server: () => McpServer): Promise<void> {
  @Module({
    imports: [
      McpStreamableModule.forRoot({ serverInfo }),
      McpStreamableModule.forRoot({ serverInfo, server, name: 'own', path: 'own' }),
    ],
    providers: [Tools],
  })
  class AppModule {}

  const app: INestApplication = await NestFactory.create(AppModule, { logger: ['error', 'warn'] });
  await app.listen(0, '127.0.0.1');
  try {
    const url = await app.getUrl();
    await callGreet(new URL('/own', url));
    await callAdd(new URL('/mcp', url));
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

async function callAdd(url: URL): Promise<void> {
  await withOfficialClient(url, { 'x-caller': 'anna' }, async (client) => {
    const { tools } = await client.listTools();
    equal(JSON.stringify(tools.map(({ name, inputSchema }) => [name, inputSchema.required])), '[["add",["a"]]]');
    const sum = await client.callTool({ name: 'add', arguments: { a: 1 } });
    equal(JSON.stringify(sum.content), '[{"type":"text","text":"The sum is 2"}]');
    const wrong = await client.callTool({ name: 'add', arguments: { a: 'x' } });
    equal(wrong.isError, true);
  });
  await withOfficialClient(url, {}, async (client) => {
    equal((await client.listTools()).tools.length, 0);
    const denied = await client.callTool({ name: 'add', arguments: { a: 1 } }).catch((error: unknown) => error);
    match(String(denied), /Forbidden/);
  });
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
