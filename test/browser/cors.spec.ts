import { Injectable } from '@nestjs/common';
import { McpArgs, mcpCors, McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { type Adapter, ADAPTERS, TestApp, serverInfo } from '../support/app.js';
import { describeChromium } from '../support/chromium.js';
import { modernMeta } from '../support/modern-client.js';

@Injectable()
class OrderTools {
  @Tool({
    name: 'find_order',
    inputSchema: z.object({ id: z.string(), region: z.string().meta({ 'x-mcp-header': 'Region' }).optional() }),
  })
  find(@McpArgs('id') id: string): string {
    return `Order ${id} is on its way.`;
  }
}

const initialize = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'page', version: '1.0.0' } },
};
const findOrder = { name: 'find_order', arguments: { id: 'A-7', region: 'eu' } };
const modern = (method: string, params: object = {}) => ({
  jsonrpc: '2.0',
  id: 1,
  method,
  params: { ...params, _meta: modernMeta() },
});

describeChromium('a page of another origin, in Chromium', (browser) => {
  describe.each(ADAPTERS)('on %s', (adapter) => {
    let app: TestApp;
    let site: Server;
    let page: Page;
    let preflights: string[];
    afterEach(async () => {
      await page.context().close();
      site.close();
      site.closeAllConnections();
      await app.close();
    });

    /** An app with CORS, and a page that opens in a browser and may call it with credentials. */
    async function open(cors: object): Promise<void> {
      site = createServer((_, response) => response.end('<!doctype html>')).listen(0, '127.0.0.1');
      await once(site, 'listening');
      const origin = `http://shop.example:${(site.address() as AddressInfo).port}`;
      app = await start(adapter, origin, cors);
      preflights = [];
      app.app.getHttpServer().prependListener('request', ({ method, headers }: IncomingMessage) => {
        if (method !== 'OPTIONS') return;
        const asked = headers['access-control-request-headers'] ?? '';
        preflights.push(`${headers['access-control-request-method']} ${asked}`);
      });
      page = await (await browser().newContext()).newPage();
      await page.goto(origin);
      await page.evaluate(definePageClient, app.client().url.replace('127.0.0.1', 'mcp.example'));
    }

    it.each<[string, object]>([
      ['any header', mcpCors()],
      ['a list of headers', mcpCors({ headers: ['X-Tenant', 'Mcp-Param-Region'] })],
    ])('a page of another origin has sessions: calls, stream, resumption and end, with %s allowed', async (_, cors) => {
      await open(cors);
      const begun = await post(initialize, { 'X-Tenant': 'acme' });
      const session = { 'Mcp-Session-Id': begun.sessionId!, 'MCP-Protocol-Version': '2025-11-25' };
      expect((await post({ jsonrpc: '2.0', method: 'notifications/initialized' }, session)).status).toBe(202);
      const called = await post({ jsonrpc: '2.0', id: 2, method: 'tools/call', params: findOrder }, session);
      expect(called.text).toContain('Order A-7 is on its way.');

      await evaluate('listen', session);
      await say('one');
      const cursor = await evaluate<string>('idOf', 'one');
      await evaluate('hangUp');
      await say('two');
      await evaluate('listen', { ...session, 'Last-Event-ID': cursor });
      expect(await evaluate<string>('idOf', 'two')).not.toBe(cursor);
      await evaluate('hangUp');

      expect(await evaluate('end', session)).toBe(204);
      expect(await app.service.list()).toEqual([]);
      expect(preflights).toContainEqual(expect.stringMatching(/^GET .*last-event-id.*mcp-session-id/));
      expect(preflights).toContainEqual(expect.stringMatching(/^DELETE .*mcp-session-id/));
    });

    it.each<[string, object]>([
      ['any header', mcpCors()],
      ['a list of headers', mcpCors({ headers: ['Mcp-Param-Region'] })],
    ])('a page of another origin has revision 2026-07-28: discovers and calls, with %s allowed', async (_, cors) => {
      await open(cors);
      const version = { 'MCP-Protocol-Version': '2026-07-28' };
      const discovered = await post(modern('server/discover'), { ...version, 'Mcp-Method': 'server/discover' });
      expect(discovered.text).toContain('2026-07-28');
      const mirrored = { 'Mcp-Method': 'tools/call', 'Mcp-Name': 'find_order', 'Mcp-Param-Region': 'eu' };
      const called = await post(modern('tools/call', findOrder), { ...version, ...mirrored });
      expect(called.text).toContain('Order A-7 is on its way.');
      expect(preflights).toContainEqual(expect.stringMatching(/^POST .*mcp-method.*mcp-name.*mcp-param-region/));
    });

    it('a page of another origin cannot read the session id without mcpCors(), and reads why its next request is refused', async () => {
      await open({});
      const begun = await post(initialize);
      expect(begun).toMatchObject({ status: 200, sessionId: null });
      const next = await post({ jsonrpc: '2.0', method: 'notifications/initialized' });
      expect(next).toMatchObject({ status: 400, text: expect.stringContaining('mcpCors()') });
    });

    it('a page of another origin is not let through with a parameter that the list of headers leaves out', async () => {
      await open(mcpCors({ headers: ['X-Tenant'] }));
      const headers = { 'Mcp-Method': 'tools/call', 'Mcp-Name': 'find_order', 'Mcp-Param-Region': 'eu' };
      await expect(post(modern('tools/call', findOrder), headers)).rejects.toThrow('Failed to fetch');
    });

    const post = (message: object, headers: Record<string, string> = {}) =>
      evaluate<{ status: number; sessionId: string | null; text: string }>('post', message, headers);
    const evaluate = <T>(name: string, ...args: unknown[]): Promise<T> =>
      page.evaluate(([name, args]) => (globalThis as never as PageGlobal).client[name]!(...args), [
        name,
        args,
      ] as const) as Promise<T>;
    const say = (data: string) =>
      app.service.notify(() => true, { method: 'notifications/message', params: { level: 'info', data } });
  });
});

function start(adapter: Adapter, origin: string, cors: object): Promise<TestApp> {
  const endpoint = McpStreamableModule.forRoot({
    serverInfo,
    allowedHosts: ['mcp.example'],
    allowedOrigins: [origin],
  });
  return TestApp.of(adapter, { imports: [endpoint], providers: [OrderTools] }, (app) =>
    app.enableCors({ origin: [origin], credentials: true, ...cors }),
  );
}

interface PageGlobal {
  client: Record<string, (...args: unknown[]) => unknown>;
}

/** Runs in the page, with nothing but what stands in it: a client of `fetch`, whose stream collects what it reads. */
function definePageClient(url: string): void {
  let stream: { abort: AbortController; text: string } | undefined;
  // Without a cache, which keeps what preflights allowed too: each request has its own.
  const usual = { cache: 'no-store', credentials: 'include' } as const;
  const send = (method: string, headers: object, more: object = {}): Promise<Response> =>
    fetch(url, { method, ...usual, headers: { Authorization: 'Bearer x', ...headers }, ...more });
  const client = {
    async post(message: object, headers: object) {
      const accept = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };
      const response = await send('POST', { ...accept, ...headers }, { body: JSON.stringify(message) });
      const sessionId = response.headers.get('mcp-session-id');
      return { status: response.status, sessionId, text: await response.text() };
    },
    async listen(headers: object) {
      const mine = { abort: new AbortController(), text: '' };
      stream = mine;
      const accept = { Accept: 'text/event-stream' };
      const response = await send('GET', { ...accept, ...headers }, { signal: mine.abort.signal });
      if (response.status !== 200) throw new Error(`GET was answered ${response.status}`);
      const decoder = new TextDecoder();
      const read = async () => {
        for await (const chunk of response.body as never as AsyncIterable<Uint8Array>) {
          mine.text += decoder.decode(chunk, { stream: true });
        }
      };
      read().catch(() => {});
    },
    /** The id of the event that says something, once it has come. */
    async idOf(said: string): Promise<string> {
      const find = () => stream!.text.split('\n\n').find((event) => event.includes(`"${said}"`));
      while (!find()) await new Promise((resolve) => setTimeout(resolve, 5));
      return /^id: *(.+)$/m.exec(find()!)![1]!;
    },
    hangUp: () => stream?.abort.abort(),
    end: async (headers: object) => (await send('DELETE', headers)).status,
  };
  Object.assign(globalThis, { client });
}
