import { createServer, type Server as HttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { McpServer } from 'nestjs-mcp-streamable/server';
import { createMcpSession, serveMcpSession } from 'nestjs-mcp-streamable/standalone';
import { InMemoryEventStore } from 'nestjs-mcp-streamable/stores';
import { afterEach, expect, it } from 'vitest';
import { RawClient } from '../support/raw-client.js';
import { TrackedClock } from '../support/tracked-clock.js';

let http: HttpServer | undefined;
afterEach(() => new Promise<void>((resolve) => void (http ? http.close(() => resolve()) : resolve())));

async function serve(): Promise<{ url: string; clock: TrackedClock; store: InMemoryEventStore; ended: () => boolean }> {
  const clock = new TrackedClock();
  const limits = { maxEvents: 100, maxBytes: 1e6, maxTotalBytes: 1e7, finishedStreamMs: 60_000 };
  const store = new InMemoryEventStore(limits, clock);
  const server = new McpServer({ name: 'alone', version: '1.0.0' });
  server.registerTool('count', {}, async (ctx) => {
    for (let progress = 1; progress <= 3; progress++) {
      const progressToken = ctx.mcpReq._meta?.progressToken;
      if (progressToken !== undefined) {
        await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress } });
      }
    }
    return { content: [{ type: 'text', text: 'counted' }] };
  });
  const session = await createMcpSession(server, { clock, eventStore: store });
  let ended = false;
  session.closed$.subscribe(() => (ended = true));
  const listening = createServer(serveMcpSession(session));
  http = listening;
  await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${(listening.address() as AddressInfo).port}/`, clock, store, ended: () => ended };
}

it('a session serves the official client over plain Node HTTP', async () => {
  const { url, clock, store, ended } = await serve();
  const client = new Client({ name: 'test', version: '1.0.0' });
  const transport = new StreamableHTTPClientTransport(new URL(url));
  await client.connect(transport);
  const progress: number[] = [];
  const result = await client.callTool({ name: 'count' }, { onprogress: (event) => progress.push(event.progress) });
  expect(result.content).toEqual([{ type: 'text', text: 'counted' }]);
  expect(progress).toEqual([1, 2, 3]);
  await transport.terminateSession();
  await client.close();
  await expect.poll(ended).toBe(true);
  await expect.poll(() => store.stats()).toEqual({ sessions: 0, streams: 0, events: 0, bytes: 0 });
  await expect.poll(() => clock.pending).toBe(0);
});

it('a session keeps the rules of the edge without the module', async () => {
  const { url } = await serve();
  const client = new RawClient(url);
  const statuses = async (responses: Promise<{ status: number; destroy(): void }>[]): Promise<number[]> =>
    (await Promise.all(responses)).map((response) => {
      response.destroy();
      return response.status;
    });
  expect(await statuses([client.post('{'), client.post({}), client.get(), client.delete()])).toEqual([
    400, 400, 400, 400,
  ]);
  expect(await statuses([client.post({}, { host: 'evil.example' }), client.post({}, { accept: 'text/html' })])).toEqual(
    [403, 406],
  );
  expect((await fetch(url, { method: 'OPTIONS' })).status).toBe(405);
  await client.initialize();
  expect(await statuses([client.post(client.toolCall('count', {}), { 'last-event-id': '0_0' })])).toEqual([400]);
  const many = Array.from({ length: 10_001 }, () => 0);
  expect(await statuses([client.call('count', { many })])).toEqual([413]);
  client.protocolVersion = '2025-06-18';
  expect(await statuses([client.call('count')])).toEqual([400]);
  client.protocolVersion = undefined;
  expect(await statuses([client.call('count'), client.post(client.initializeMessage())])).toEqual([200, 400]);
  expect(await statuses([client.delete()])).toEqual([204]);
  expect(await statuses([client.call('count')])).toEqual([404]);
});
