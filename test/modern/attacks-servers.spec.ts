import { LEGACY_REVISIONS, MODERN_REVISIONS, Server, type McpServerFunction } from 'nestjs-mcp-streamable/server';
import type { ServerContext } from '@modelcontextprotocol/server';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestApp, type TestAppOptions, NOTHING } from '../support/app.js';
import { eventually, testApps } from '../support/test-apps.js';
import { ModernClient } from '../support/modern-client.js';
import { RecordedLog } from '../support/recorded-log.js';
import { expectRefusal } from '../support/refusal.js';
import { forsakenCall } from '../support/raw-socket.js';

const supportedProtocolVersions = [...LEGACY_REVISIONS, ...MODERN_REVISIONS];
const REQUEST_FAILED = -32000;

type Handler = (server: Server, ctx: ServerContext) => Promise<string> | string;

function serverWith(handler: Handler): Server {
  const capabilities = { tools: {}, logging: {} };
  const server = new Server({ name: 'own', version: '1.0.0' }, { capabilities, supportedProtocolVersions });
  server.setRequestHandler('tools/call', async (_, ctx) => {
    const text = await handler(server, ctx);
    return { content: [{ type: 'text' as const, text }] };
  });
  return server;
}

describe.each(ONE_ADAPTER)("attacks by an application's own servers on modern requests, on %s", (adapter) => {
  const begin = testApps(adapter, { shared: true });
  let log: RecordedLog;
  beforeEach(() => {
    log = new RecordedLog();
  });
  afterEach(() => log.release());
  const start = async (
    server: McpServerFunction,
    options?: Partial<TestAppOptions>,
  ): Promise<{ app: TestApp; client: ModernClient }> => {
    const app = await begin({ server, ...options });
    log.attach(app.app);
    return { app, client: new ModernClient(app.url) };
  };

  it('server: a server that its handler closes answers with an error, and has its "onclose" called once', async () => {
    let closed = 0;
    const signals: AbortSignal[] = [];
    const { app, client } = await start(() => {
      const server = serverWith(async (own, { mcpReq }) => {
        signals.push(mcpReq.signal);
        await own.close();
        return 'nobody hears it';
      });
      server.onclose = () => closed++;
      return server;
    });
    const { id, error } = await client.ask('tools/call', { name: 'any' }, { id: 3 });
    expect([id, error.code, error.message]).toEqual([3, REQUEST_FAILED, expect.stringContaining('closed')]);
    expect([closed, signals.map(({ aborted }) => aborted)]).toEqual([1, [true]]);
    await app.settled(NOTHING);
  });

  it('server: a server that is closed while it streams ends the stream with an error', async () => {
    const close = gate();
    const { app, client } = await start(() =>
      serverWith(async (own, { mcpReq }) => {
        await mcpReq.log('info', 'a word');
        await close.promise;
        await own.close();
        return 'nobody hears it';
      }),
    );
    const stream = await (await client.call('any', {}, { id: 5, logLevel: 'info' })).sse().count(1);
    close.open();
    expect(await stream.end()).toBe('end');
    expect(stream.messages[1]).toMatchObject({ id: 5, error: { code: REQUEST_FAILED } });
    await app.settled(NOTHING);
  });

  it('server: a server whose "onclose" throws affects no other request, however its request ends', async () => {
    const entered = gate();
    const { app, client } = await start(() => {
      const server = serverWith((_, ctx) => {
        if (ctx.mcpReq.envelope?.['io.modelcontextprotocol/logLevel' as never] === 'info') return 'answered';
        entered.open();
        return new Promise<string>(() => {});
      });
      server.onclose = () => {
        throw new Error('the pool is gone');
      };
      return server;
    });
    const { result } = await client.ask('tools/call', { name: 'any' }, { logLevel: 'info' });
    expect(result.content[0].text).toBe('answered');
    // An error in the "close" of a response would end the process.
    const posted = forsakenCall(client, 'any');
    await entered.promise;
    await posted.hangUp();
    await app.settled(NOTHING);
    const waiting = [client.call('any'), client.call('any')];
    await app.settled({ inFlight: 2 });
    await app.shutDown();
    for (const response of await Promise.all(waiting)) expect(response.status).toBe(503);
    expect(log.texts('error').filter((text) => text.includes('the pool is gone'))).toHaveLength(4);
  });

  it('S15: a server whose factory never settles delays no shutdown, and the requests that wait for it are answered', async () => {
    let making = 0;
    // The clock stands still: a shutdown that waited for a time would never end.
    const clock = new ManualClock();
    const { app, client } = await start(
      () => {
        making++;
        return new Promise<never>(() => {});
      },
      { clock },
    );
    const called = client.call('any', {}, { id: 6 });
    const listened = client.request('subscriptions/listen', { notifications: { toolsListChanged: true } }, { id: 7 });
    await eventually(() => expect(making).toBe(2));
    await app.shutDown();
    await expectRefusal(await called, { status: 503, code: REQUEST_FAILED, id: 6 });
    await expectRefusal(await listened, { status: 503, code: REQUEST_FAILED, id: 7 });
    await app.settled(NOTHING);
  });
});
