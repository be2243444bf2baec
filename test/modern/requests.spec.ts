import { Injectable } from '@nestjs/common';
import {
  McpArgs,
  McpCtx,
  type McpContext,
  Resource,
  Tool,
  toolLog,
  toolProgress,
  type ToolEvent,
} from 'nestjs-mcp-streamable';
import { concat, type Observable, of } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ONE_ADAPTER } from '../support/app.js';
import { testApps } from '../support/test-apps.js';
import { ModernClient, MODERN } from '../support/modern-client.js';
import { as } from '../support/users.js';

@Injectable()
class Tools {
  @Tool({ name: 'add', inputSchema: z.object({ a: z.number(), b: z.number() }) })
  add(@McpArgs() { a, b }: { a: number; b: number }): string {
    return String(a + b);
  }

  @Tool({ name: 'who' })
  who(@McpCtx() { principal, session, requestId, method }: McpContext): object {
    return { principal, session: session ?? 'none', requestId, method };
  }

  @Tool({ name: 'steps' })
  steps(): Observable<ToolEvent<string>> {
    return concat(of(toolProgress(1, 2), toolLog('info', 'half'), toolProgress(2, 2)), of('done'));
  }

  @Resource({ uri: 'app://one', name: 'one' })
  one(): string {
    return 'one';
  }
}

describe.each(ONE_ADAPTER)('modern requests on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers: [Tools] });

  it('M1: server/discover returns the revisions and capabilities of the server', async () => {
    const app = await start();
    const client = new ModernClient(app.url);
    const { result } = await client.ask('server/discover');
    expect(result).toMatchObject({
      resultType: 'complete',
      supportedVersions: [MODERN],
      capabilities: { tools: { listChanged: true }, resources: { subscribe: true } },
      ttlMs: expect.any(Number),
      cacheScope: 'private',
      _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'test', version: '1.0.0' } },
    });
  });

  it('M1: a call needs nothing before it, and is answered as one JSON body', async () => {
    const app = await start();
    const client = new ModernClient(app.url);
    const response = await client.call('add', { a: 1, b: 2 }, { id: 'x' });
    expect(response.status).toBe(200);
    expect(response.header('content-type')).toMatch(/^application\/json/);
    expect(response.header('mcp-session-id')).toBeUndefined();
    const { id, result } = await response.json();
    expect([id, result.content[0].text, result.resultType]).toEqual(['x', '3', 'complete']);
    await app.settled({ sessions: 0, live: 0 });
  });

  it('P6: the messages of a handler are on the response of its call, without event ids', async () => {
    const app = await start();
    const client = new ModernClient(app.url);
    const response = await client.call('steps', {}, { progressToken: 'p', logLevel: 'info' });
    expect(response.header('content-type')).toBe('text/event-stream');
    const stream = response.sse();
    expect(await stream.end()).toBe('end');
    expect(stream.messages.map(({ method, params, result }) => method ?? params ?? result.content[0].text)).toEqual([
      'notifications/progress',
      'notifications/message',
      'notifications/progress',
      'done',
    ]);
    expect(stream.events.map(({ id }) => id)).toEqual([undefined, undefined, undefined, undefined]);
    expect(stream.primes).toEqual([]);
  });

  it('M9: only a request with a log level gets log messages', async () => {
    const app = await start();
    const client = new ModernClient(app.url);
    const stream = (await client.call('steps', {}, { progressToken: 1 })).sse();
    await stream.end();
    expect(stream.messages.filter(({ method }) => method === 'notifications/message')).toEqual([]);
  });

  it('M11: a handler gets the caller and no session, and session ids and cursors are ignored', async () => {
    const app = await start();
    const client = new ModernClient(app.url, as('anna'));
    const headers = { 'mcp-session-id': 'nobody', 'last-event-id': '0_1' };
    const { result } = await client.ask('tools/call', { name: 'who', arguments: {} }, { id: 7, headers });
    expect(result.structuredContent).toEqual({
      principal: 'anna',
      session: 'none',
      requestId: 7,
      method: 'tools/call',
    });
  });

  it.each(['initialize', 'ping', 'logging/setLevel', 'resources/subscribe', 'resources/unsubscribe', 'no/such', 'x'])(
    'M5: %s is not found',
    async (method) => {
      const app = await start();
      const client = new ModernClient(app.url);
      const response = await client.request(method, { uri: 'app://one', level: 'info' }, { id: 5 });
      expect(response.status).toBe(404);
      expect(await response.json()).toMatchObject({ id: 5, error: { code: -32601 } });
    },
  );
});
