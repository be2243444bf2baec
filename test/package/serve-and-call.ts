import 'reflect-metadata';
import { deepEqual, equal, match } from 'node:assert/strict';
import type { INestApplication } from '@nestjs/common';
import { Controller, Get, Inject, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { HealthCheck, HealthCheckService, TerminusModule } from '@nestjs/terminus';
import { McpHealthIndicator, McpSessionService, McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpLiveModule } from 'nestjs-mcp-streamable/live';
import { LEGACY_REVISIONS, type McpServer, MODERN_REVISIONS } from 'nestjs-mcp-streamable/server';
import { z } from 'zod';
import { handlers } from './handlers.js';
import { type Mode, MODES, Progress, withClient, withClientV1 } from './official-clients.js';

const serverInfo = { name: 'consumer', version: '1.0.0' };
const anna = { 'x-caller': 'anna' };

@Controller('ready')
class ReadyController {
  constructor(
    @Inject(HealthCheckService) private readonly health: HealthCheckService,
    @Inject(McpHealthIndicator) private readonly mcp: McpHealthIndicator,
  ) {}

  @Get()
  @HealthCheck()
  ready() {
    return this.health.check([() => this.mcp.check('mcp')]);
  }
}

/** A tool on a server that the app makes itself, in either era. */
function makeServer(ServerClass: typeof McpServer): McpServer {
  const server = new ServerClass(serverInfo, {
    supportedProtocolVersions: [...LEGACY_REVISIONS, ...MODERN_REVISIONS],
  });
  server.registerTool('greet', { inputSchema: z.object({ name: z.string() }) }, ({ name }) => ({
    content: [{ type: 'text', text: `Hello, ${name}` }],
  }));
  return server;
}

/**
 * Serves from a Nest app, and calls with the official clients: the tool of a server of its own at one endpoint, decorated
 * handlers with everything that Nest runs around them at another. @returns which clients were served, in which revision
 */
export async function serveAndCall(ServerClass: typeof McpServer, adapter: string): Promise<string[]> {
  @Module({
    imports: [
      TerminusModule,
      McpStreamableModule.forRoot({ serverInfo }),
      McpStreamableModule.forRoot({ serverInfo, server: () => makeServer(ServerClass), name: 'own', path: 'own' }),
      McpLiveModule.forRoot({ unguarded: 'loopback' }),
    ],
    controllers: [ReadyController],
    providers: handlers,
  })
  class AppModule {}

  const http = adapter === 'fastify' ? new FastifyAdapter() : new ExpressAdapter();
  const app: INestApplication = await NestFactory.create(AppModule, http, { logger: ['error', 'warn'] });
  await app.listen(0, '127.0.0.1');
  try {
    const calls = await callAll(await app.getUrl());
    await askForHealth(new URL('/ready', await app.getUrl()));
    await openLivePage(new URL('/mcp-live', await app.getUrl()));
    const { sessions, inFlight, streams, logs } = await app.get(McpSessionService).counts();
    deepEqual({ sessions, inFlight, streams, logs }, { sessions: 0, inFlight: 0, streams: 0, logs: 0 });
    return calls;
  } finally {
    await app.close();
  }
}

/** With the Terminus of the app's Nest. */
async function askForHealth(url: URL): Promise<void> {
  const response = await fetch(url, { headers: { connection: 'close' } });
  const { status, details } = (await response.json()) as { status: string; details: { mcp: { status: string } } };
  deepEqual([response.status, status, details.mcp.status], [200, 'ok', 'up']);
}

async function openLivePage(url: URL): Promise<void> {
  const page = await fetch(url, { headers: { connection: 'close' } });
  equal((await page.text()).includes('<title>MCP live</title>'), true);
  const gone = new AbortController();
  const updates = await fetch(`${url}/events`, { signal: gone.signal });
  const { value } = await updates.body!.getReader().read();
  equal(new TextDecoder().decode(value).includes('"type":"snapshot"'), true);
  gone.abort();
}

async function callAll(base: string): Promise<string[]> {
  const url = new URL('/mcp', base);
  const calls: string[] = [];
  for (const { mode, revision } of MODES) {
    equal(await callGreet(new URL('/own', base), mode), revision);
    await callAdd(url, mode);
    await callSay(url, mode);
    await readDocuments(url, mode);
    calls.push(`client ${await askAsStranger(url, mode)}`);
  }
  calls.push(`sdk ${await callSayV1(url)}`);
  return calls;
}

function callGreet(url: URL, mode: Mode): Promise<string | undefined> {
  return withClient(url, mode, {}, async (client) => {
    const result = await client.callTool({ name: 'greet', arguments: { name: 'World' } });
    equal(JSON.stringify(result.content), '[{"type":"text","text":"Hello, World"}]');
  });
}

async function callAdd(url: URL, mode: Mode): Promise<void> {
  await withClient(url, mode, anna, async (client) => {
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
async function callSay(url: URL, mode: Mode): Promise<void> {
  await withClient(url, mode, anna, async (client) => {
    const progress = new Progress();
    const say = async (word: string) =>
      (await client.callTool({ name: 'say', arguments: { word } }, { onprogress: progress.onprogress })).content;
    deepEqual(await say(' hello '), [{ type: 'text', text: '"[ANNA says HELLO]"' }]);
    progress.assert(1);
    deepEqual(await say('far'), [{ type: 'text', text: 'Too far, says the method' }]);
    deepEqual(await say('odd'), [{ type: 'text', text: 'Too odd, says the app' }]);
  });
  await withClient(url, mode, { ...anna, 'x-banned': 'yes' }, async (client) => {
    match(await refusalOf(client.callTool({ name: 'say', arguments: { word: 'x' } })), /Forbidden/);
  });
}

function callSayV1(url: URL): Promise<string | undefined> {
  return withClientV1(url, anna, async (client) => {
    const progress = new Progress();
    const call = { name: 'say', arguments: { word: ' hello ' } };
    const said = await client.callTool(call, undefined, { onprogress: progress.onprogress });
    deepEqual(said['content'], [{ type: 'text', text: '"[ANNA says HELLO]"' }]);
    progress.assert(1);
  });
}

async function readDocuments(url: URL, mode: Mode): Promise<void> {
  await withClient(url, mode, anna, async (client) => {
    const terms = await client.readResource({ uri: 'shop://terms' });
    deepEqual(terms.contents, [{ uri: 'shop://terms', mimeType: 'text/plain', text: '"Pay soon"' }]);
    const order = await client.readResource({ uri: 'shop://order/7' });
    deepEqual(order.contents, [{ uri: 'shop://order/7', mimeType: 'text/plain', text: '"Order 7"' }]);
    const { messages } = await client.getPrompt({ name: 'complain', arguments: { id: '7' } });
    deepEqual(messages, [{ role: 'user', content: { type: 'text', text: '"Complain about 7"' } }]);
  });
}

/** Whom the guards of the handlers do not know. */
function askAsStranger(url: URL, mode: Mode): Promise<string | undefined> {
  return withClient(url, mode, {}, async (client) => {
    const { tools } = await client.listTools();
    const { resources } = await client.listResources();
    const { resourceTemplates } = await client.listResourceTemplates();
    const { prompts } = await client.listPrompts();
    deepEqual([tools, resources, resourceTemplates, prompts], [[], [], [], []]);
    match(await refusalOf(client.callTool({ name: 'add', arguments: { a: 1 } })), /not found/);
    match(await refusalOf(client.readResource({ uri: 'shop://terms' })), /not found/);
    match(await refusalOf(client.readResource({ uri: 'shop://order/7' })), /not found/);
    match(await refusalOf(client.getPrompt({ name: 'complain', arguments: { id: '7' } })), /not found/);
  });
}

function refusalOf(answer: Promise<unknown>): Promise<string> {
  return answer.then(
    (result) => `no refusal: ${JSON.stringify(result)}`,
    (error: unknown) => String(error),
  );
}
