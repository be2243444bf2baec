import 'reflect-metadata';
import type { AddressInfo } from 'node:net';
import type { INestApplication, ModuleMetadata } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { McpSessionService, McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpClock } from 'nestjs-mcp-streamable/stores';
import { createAppFetch, createMcpTestClient, expectNothingLeft, ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { ADAPTERS } from '../support/adapters.js';
import { Doors, KitTools, StaffGuard } from './tools.js';
import { eventually } from '../support/eventually.js';

const serverInfo = { name: 'kit', version: '1.0.0' };
const tools = { providers: [KitTools, Doors, StaffGuard] };

describe.each(ADAPTERS)('the testing kit on %s', (adapter) => {
  const apps: INestApplication[] = [];
  afterEach(async () => {
    vi.unstubAllEnvs();
    for (const app of apps.splice(0)) await app.close();
  });

  type Override = (builder: ReturnType<typeof Test.createTestingModule>) => typeof builder;

  async function makeApp(metadata: ModuleMetadata, override: Override = (builder) => builder) {
    const testing = await override(Test.createTestingModule(metadata)).compile();
    const app =
      adapter === 'express'
        ? testing.createNestApplication(new ExpressAdapter())
        : testing.createNestApplication<NestFastifyApplication>(new FastifyAdapter());
    apps.push(app);
    return app;
  }
  const endpoint = McpStreamableModule.forRoot.bind(McpStreamableModule);

  it('the testing kit finds the endpoint below a global prefix', async () => {
    const app = await makeApp({ imports: [endpoint({ serverInfo, path: 'agents/mcp' })], ...tools });
    app.setGlobalPrefix('api');
    const mcp = await createMcpTestClient(app);
    expect((await mcp.callTool('add', { a: 1, b: 1 })).structured).toEqual({ sum: 2 });
    expect((await mcp.fetch('/api/agents/mcp', { method: 'PUT' })).status).toBe(405);
    await mcp.close();
  });

  it('the testing kit is told which of several endpoints is meant, and looks into all of them for what is left', async () => {
    const other = endpoint({ serverInfo, name: 'other', path: 'other' });
    const app = await makeApp({ imports: [endpoint({ serverInfo, sessions: 'off' }), other], ...tools });
    await expect(createMcpTestClient(app)).rejects.toThrow('/mcp, /other. Choose the path that the client uses');
    const mcp = await createMcpTestClient(app, { endpoint: '/other', era: 'legacy' });
    await expect(expectNothingLeft(app, { withinMs: 0 })).rejects.toThrow('sessions: 1');
    await mcp.close();
    await expectNothingLeft(app);
  });

  it('the testing kit throws an error that says so when the app has no endpoint', async () => {
    const app = await makeApp(tools);
    await expect(createMcpTestClient(app)).rejects.toThrow('no MCP endpoint. Import McpStreamableModule.forRoot()');
    await expect(expectNothingLeft(app)).rejects.toThrow('no MCP endpoint');
  });

  it('the testing kit serves an app whose guards and providers are overridden', async () => {
    const app = await makeApp({ imports: [endpoint({ serverInfo })], ...tools }, (builder) =>
      builder.overrideGuard(StaffGuard).useValue({ canActivate: () => true }),
    );
    const mcp = await createMcpTestClient(app);
    expect((await mcp.callTool('close_shop')).text).toBe('closed');
    await mcp.close();
  });

  it('the testing kit serves an app that listens, too', async () => {
    const app = await makeApp({ imports: [endpoint({ serverInfo })], ...tools });
    await app.listen(0, '127.0.0.1');
    const { port } = app.getHttpServer().address() as AddressInfo;
    const get = await createAppFetch(app);
    expect((await get(`http://127.0.0.1:${port}/nowhere`)).status).toBe(404);
    const mcp = await createMcpTestClient(app);
    expect((await mcp.callTool('add', { a: 1, b: 1 })).text).toBe('{"sum":2}');
    await mcp.close();
  });

  it('the testing kit lets an app close while clients are connected', async () => {
    const app = await makeApp({ imports: [endpoint({ serverInfo })], ...tools });
    const clients = await Promise.all([
      createMcpTestClient(app, { era: 'legacy' }),
      createMcpTestClient(app, { era: 'modern' }),
    ]);
    await app.close();
    apps.splice(0);
    await expectNothingLeft(app);
    await Promise.all(clients.map((mcp) => mcp.close()));
  });

  it('the testing kit lets an app close at once while a call hangs, whatever NODE_ENV is', async () => {
    vi.stubEnv('NODE_ENV', undefined);
    for (const era of ['legacy', 'modern'] as const) {
      const app = await makeApp({ imports: [endpoint({ serverInfo })], ...tools }, (builder) =>
        builder.overrideProvider(McpClock).useValue(new ManualClock()),
      );
      const mcp = await createMcpTestClient(app, { era });
      const outcome = mcp.callTool('wait').catch((error: unknown) => error);
      await app.get(Doors).reached.promise;
      // The clock stands still: a close that waited for the call would never end.
      await app.close();
      apps.splice(0);
      expect(await outcome).toMatchObject({ message: expect.stringContaining('shutting down') });
      await mcp.close();
    }
  });

  it('the testing kit waits for calls for the time that the option says', async () => {
    const clock = new ManualClock();
    const app = await makeApp({ imports: [endpoint({ serverInfo, drainMs: 1_000 })], ...tools }, (builder) =>
      builder.overrideProvider(McpClock).useValue(clock),
    );
    const mcp = await createMcpTestClient(app);
    const call = mcp.callTool('wait');
    const { reached, opened } = app.get(Doors);
    await reached.promise;
    const closing = app.close();
    apps.splice(0);
    await eventually(() => expect(app.get(McpSessionService).accepting).toBe(false));
    opened.open();
    expect((await call).isError).toBe(false);
    await closing;
    await mcp.close();
  });

  it('the testing kit names in its error what is left, and counts the timers of a clock of the test', async () => {
    const clock = new ManualClock();
    const app = await makeApp({ imports: [endpoint({ serverInfo })], ...tools }, (builder) =>
      builder.overrideProvider(McpClock).useValue(clock),
    );
    await app.init();
    await expectNothingLeft(app);
    const mcp = await createMcpTestClient(app, { era: 'legacy' });
    await mcp.close();
    await expectNothingLeft(app);
    const timer = clock.setTimeout(() => {}, 1);
    await expect(expectNothingLeft(app, { withinMs: 0 })).rejects.toMatchObject({
      name: 'AssertionError',
      message: expect.stringMatching(/not empty after 0 ms: timers: 1\. Close all clients/),
      actual: { sessions: 0, timers: 1 },
      expected: { sessions: 0, timers: 0 },
    });
    clock.clear(timer);
    await expectNothingLeft(app);
  });

  it('the testing kit lets a test end a session in the app, and its client then gets an error', async () => {
    const app = await makeApp({ imports: [endpoint({ serverInfo })], ...tools });
    const mcp = await createMcpTestClient(app, { era: 'legacy' });
    await app.get(McpSessionService).terminate(mcp.sessionId!);
    await expect(mcp.callTool('add', { a: 1, b: 1 })).rejects.toThrow('Session not found');
    await expectNothingLeft(app);
    await mcp.close();
  });

  it('the testing kit carries bodies, headers and empty responses', async () => {
    const app = await makeApp({ imports: [endpoint({ serverInfo })], ...tools });
    const get = await createAppFetch(app);
    const large = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping', params: { filler: 'x'.repeat(3_000_000) } });
    const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
    const accepted = await get('/mcp', { method: 'POST', headers, body: large });
    const read = [accepted.status, await accepted.text()];
    expect(read).toEqual([400, expect.stringContaining('Mcp-Session-Id is missing')]);
    const tooLarge = await get('/mcp', { method: 'POST', headers, body: large.repeat(2) });
    expect(tooLarge.status).toBe(413);
    await tooLarge.text();
    const refused = await get('/mcp', { headers: { host: 'evil.example' } });
    expect([refused.status, await refused.text()]).toMatchObject([403, expect.stringContaining('evil.example')]);
  });
});
