import type { StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { McpSessionService } from 'nestjs-mcp-streamable';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Announcer, Questions } from '../../examples/snippets/announcer.js';
import { AppModule as BrowserApp, configure } from '../../examples/snippets/browser.js';
import { longWork } from '../../examples/snippets/call-context.js';
import { AppModule as CustomStoreApp } from '../../examples/snippets/custom-store-module.js';
import { AppModule as FactoryApp } from '../../examples/snippets/factory-app.js';
import { AppModule as FirstApp } from '../../examples/snippets/app.module.js';
import { AppModule as GloballyGuardedApp } from '../../examples/snippets/global-guards.js';
import { AppModule as GuardedApp } from '../../examples/snippets/guarded-app.js';
import { AppModule as HandlersApp } from '../../examples/snippets/handlers.js';
import { AppModule as LateApp } from '../../examples/snippets/late-injection.js';
import { AppModule as SessionsApp } from '../../examples/snippets/sessions-app.js';
import { AppModule as EndpointsApp } from '../../examples/snippets/several-endpoints.js';
import { AppModule as SupportApp } from '../../examples/snippets/support-app.js';
import { serveOneSession } from '../../examples/snippets/without-the-module.js';
import { ONE_ADAPTER } from '../support/adapters.js';
import { call, closeOpened, connect, start, urlOf } from './snippet-apps.js';

afterEach(closeOpened);

describe('the code of the documentation', () => {
  it.each([
    ['first app', FirstApp],
    ['app with a factory', FactoryApp],
  ])('%s', async (_name, module) => {
    const client = await connect(await urlOf(await start(module)));
    expect(await call(client, 'find_order', { id: 'A-1042' })).toBe('Order A-1042 is on its way.');
  });

  it('guards: without a token 401, with one a session that has an owner', async () => {
    const app = await start(GuardedApp);
    const url = await urlOf(app);
    await expect(connect(url)).rejects.toThrow('Unauthorized');
    await connect(url, { authorization: 'Bearer secret' });
    const [session] = await app.get(McpSessionService, { strict: false }).list();
    expect(session!.principal).toBe('ann');
  });

  it.each(ONE_ADAPTER)('global guards on %s: skipped by the endpoint, counted by caller', async (adapter) => {
    const url = await urlOf(await start(GloballyGuardedApp, adapter));
    await expect(connect(url)).rejects.toThrow('Unauthorized');
    const client = await connect(url, { authorization: 'Bearer secret' });
    for (let calls = 0; calls < 5; calls++) expect(await call(client, 'opening_hours')).toBe('9 to 5');
    expect(await call(client, 'opening_hours')).toContain('Too Many Requests');
    expect(await client.listTools()).toHaveProperty('tools.length', 1);
  });

  it('session guard', async () => {
    const client = await connect(await urlOf(await start(SupportApp)), { authorization: 'Bearer secret' });
    await client.ping();
  });

  it('sessions: list, count, notify, request, terminate', async () => {
    const app = await start(SessionsApp);
    const client = await connect(await urlOf(app));
    const sessions = app.get(McpSessionService, { strict: false });
    const admin = async (path: string, method = 'GET'): Promise<Response> =>
      fetch(`${await app.getUrl()}/admin/sessions${path}`, { method, headers: { authorization: 'Bearer secret' } });
    await expect.poll(async () => (await sessions.counts()).readers).toBe(1);

    const noted = new Promise((resolve) => client.setNotificationHandler('notifications/message', resolve));
    expect(await app.get(Announcer).announce('Soon.')).toBe(1);
    expect(await noted).toMatchObject({ params: { level: 'notice', data: 'Soon.' } });

    const [{ id }] = (await (await admin('')).json()) as [{ id: string }];
    expect(await app.get(Questions).confirm(id, 'Sure?')).toBe(true);
    const counts = await admin('/counts');
    expect(await counts.json()).toMatchObject({ sessions: 1, readers: 1 });
    expect((await admin(`/${id}`, 'DELETE')).status).toBe(200);
    expect((await admin(`/${id}`, 'DELETE')).status).toBe(404);
  });

  it('a factory that needs the sessions', async () => {
    const client = await connect(await urlOf(await start(LateApp)));
    expect(await call(client, 'count_sessions')).toBe('1');
  });

  it('several endpoints', async () => {
    const app = await start(EndpointsApp);
    const [visitor, member] = [await connect(await urlOf(app)), await connect(await urlOf(app, 'staff/mcp'))];
    expect(visitor.getServerVersion()?.name).toBe('shop');
    expect(member.getServerVersion()?.name).toBe('office');
  });

  it('progress, and the call that a handler serves', async () => {
    const log = vi.spyOn(console, 'log').mockImplementation(() => {});
    const app = await start(HandlersApp);
    const client = await connect(await urlOf(app));
    const steps: number[] = [];
    const onprogress = ({ progress }: { progress: number }) => steps.push(progress);
    await client.callTool({ name: 'export_orders', arguments: {} }, { onprogress });
    expect(steps).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    await call(client, 'delete_order', { id: '7' });
    expect(log).toHaveBeenCalledWith('An anonymous caller deletes order 7 with snippets');
    expect(await longWork(() => Promise.resolve('outside of any call'))).toBe('outside of any call');
    log.mockRestore();
  });

  it.each(['express', 'fastify'])('CORS on %s: a page of an allowed origin can begin a session', async (adapter) => {
    const app = await start(BrowserApp, adapter, configure);
    const url = await urlOf(app);
    const origin = 'https://app.example.com';
    const preflight = await fetch(url, {
      method: 'OPTIONS',
      headers: {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'content-type,mcp-session-id,mcp-protocol-version',
      },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get('access-control-allow-origin')).toBe(origin);
    expect(preflight.headers.get('access-control-allow-headers')).toMatch(/mcp-session-id/i);
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'page', version: '1' } };
    const post = (from: string): Promise<Response> =>
      fetch(url, {
        method: 'POST',
        headers: { origin: from, 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params }),
      });
    const answer = await post(origin);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('access-control-expose-headers')).toContain('Mcp-Session-Id');
    expect(answer.headers.get('mcp-session-id')).toBeTruthy();
    expect((await post('https://evil.example.com')).status).toBe(403);
  });

  it('a store of its own', async () => {
    const client = await connect(await urlOf(await start(CustomStoreApp)));
    await client.ping();
  });

  it('a session without the module', async () => {
    const log = vi.spyOn(console, 'log').mockImplementation(() => {});
    const http = await serveOneSession(0);
    if (!http.listening) await once(http, 'listening');
    const closed = once(http, 'close');
    const client = await connect(`http://127.0.0.1:${(http.address() as AddressInfo).port}/`);
    expect(await call(client, 'ping')).toBe('pong');
    await (client.transport as StreamableHTTPClientTransport).terminateSession();
    await client.close();
    http.closeAllConnections();
    await closed;
    expect(log.mock.calls.flat()).toContain('closed');
    log.mockRestore();
  });
});
