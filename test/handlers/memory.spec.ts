import { Injectable } from '@nestjs/common';
import { McpServer, PerRequestHTTPServerTransport, Protocol, Server } from '@modelcontextprotocol/server';
import { McpRegistry, McpSession, McpStreamableModule, Tool, type McpStreamableOptions } from 'nestjs-mcp-streamable';
import { Agent, request } from 'node:http';
import { queryObjects } from 'node:v8';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { memoryAtRest } from '../support/memory.js';
import { LATEST } from '../support/raw-client.js';
import { LONG } from '../support/share.js';
import { TestApp, serverInfo } from '../support/app.js';

/** The figures in the notes are those of `SESSIONS=10000`; fewer show the same in less time. */
const SESSIONS = Number(process.env['SESSIONS'] ?? (LONG ? 4_000 : 1_000));
const KIBIBYTE = 1024;

@Injectable()
class Declared {
  @Tool({ name: 'declared', inputSchema: z.object({ id: z.string().describe('Some identifier') }) })
  run(): string {
    return 'declared';
  }
}

/** How many objects of some classes 1,000 idle sessions leave on the heap. */
async function objectsOfSessions(
  options: Partial<McpStreamableOptions>,
  classes: () => Readonly<Record<string, unknown>>,
): Promise<Record<string, number>> {
  const unlimited = { maxSessionsPerPrincipal: Infinity, maxSessions: Infinity };
  const imports = [McpStreamableModule.forRoot({ serverInfo, ...unlimited, ...options })];
  app = await TestApp.of('fastify', { imports, providers: options.server ? [] : [Declared] });
  await openSessions(`${app.base}/mcp`, 1_000);
  // Garbage does not count: V8 collects it first.
  const counts = Object.entries({ McpSession, ...classes() }).map(([name, type]) => [
    name,
    queryObjects(type as never),
  ]);
  await app.service.terminateAll();
  await app.close();
  return Object.fromEntries(counts) as Record<string, number>;
}

/** Starts sessions as fast as the server answers. */
async function openSessions(url: string, count: number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 });
  const params = { protocolVersion: LATEST, capabilities: {}, clientInfo: { name: 'many', version: '1.0.0' } };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params });
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  const open = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const sent = request(url, { method: 'POST', agent, headers }, (response) => {
        if (response.statusCode !== 200) reject(new Error(`initialize: ${response.statusCode}`));
        response.resume().on('end', resolve);
      });
      sent.on('error', reject).end(body);
    });
  let left = count;
  const worker = async (): Promise<void> => {
    while (left-- > 0) await open();
  };
  await Promise.all(Array.from({ length: 16 }, worker));
  agent.destroy();
}

/** Bytes that one idle session costs at an endpoint with so many tools. */
async function bytesPerSession(tools: number): Promise<number> {
  const imports = [
    McpStreamableModule.forRoot({ serverInfo, maxSessionsPerPrincipal: Infinity, maxSessions: Infinity }),
  ];
  app = await TestApp.of('fastify', { imports, providers: [Declared] });
  const registry = app.app.get(McpRegistry, { strict: false });
  for (let index = 1; index < tools; index++) {
    const inputSchema = z.object({ id: z.string().describe('Some identifier of something, in some words') });
    registry.registerTool({
      name: `tool${index}`,
      description: 'Does something or other',
      inputSchema,
      handler: () => '',
    });
  }
  expect(registry.list('tool')).toHaveLength(tools);
  // The first sessions warm up what all of them share.
  await openSessions(`${app.base}/mcp`, 500);
  const before = await memoryAtRest();
  await openSessions(`${app.base}/mcp`, SESSIONS);
  const bytes = ((await memoryAtRest()) - before) / SESSIONS;
  expect((await app.service.counts()).sessions).toBe(SESSIONS + 500);
  await app.service.terminateAll();
  await app.close();
  return bytes;
}

let app: TestApp | undefined;

describe('the memory of an idle session', () => {
  afterEach(() => app?.app.close());

  it('the memory of an idle session does not depend on how many tools there are', { timeout: 300_000 }, async () => {
    const ten = await bytesPerSession(10);
    const hundred = await bytesPerSession(100);
    console.log(
      `${SESSIONS} sessions: ${(ten / KIBIBYTE).toFixed(2)} KiB each with 10 tools, ${(hundred / KIBIBYTE).toFixed(2)} KiB each with 100 tools`,
    );
    // A session that copied its tools would cost 90 × 1.5 KiB more, one that held a reference to each 0.7 KiB.
    expect(Math.abs(hundred - ten)).toBeLessThan(0.6 * KIBIBYTE);
    // A server of the SDK alone would be 4.7 KiB.
    expect(hundred).toBeLessThan(4 * KIBIBYTE);
  });
});

describe('the heap of 1,000 idle sessions', () => {
  afterEach(() => app?.app.close());

  it(
    'the heap of 1,000 idle sessions has no server of the SDK, unless the application makes its servers itself',
    { timeout: 300_000 },
    async () => {
      let made!: McpServer;
      const server = (): McpServer => (made = new McpServer(serverInfo, { capabilities: { tools: {} } }));
      let SessionTransport: unknown;
      // What belongs to a server of the SDK, ours included.
      const own = await objectsOfSessions({ server }, () => {
        SessionTransport = made.server.transport!.constructor;
        return { McpServer, Server, SessionTransport };
      });
      console.log('with servers of the application:', own);
      // Else the figures below would say nothing.
      for (const name of ['McpSession', 'McpServer', 'Server', 'SessionTransport'])
        expect(own[name]).toBeGreaterThanOrEqual(1_000);
      // Each is a search of the whole heap. A `Server` is a `Protocol`: it is found as one.
      const anyOfSdk = { McpServer, Protocol, SessionTransport, PerRequestHTTPServerTransport };
      const declared = await objectsOfSessions({}, () => anyOfSdk);
      console.log('with decorated handlers:', declared);
      const { McpSession: sessions, ...ofSdk } = declared;
      expect(sessions).toBeGreaterThanOrEqual(1_000);
      for (const name of Object.keys(anyOfSdk)) expect([name, Math.max(ofSdk[name]!, 20)]).toEqual([name, 20]);
    },
  );
});
