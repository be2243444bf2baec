import 'reflect-metadata';
import { Inject, Injectable, Module } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  getMcpToken,
  InjectMcp,
  McpClient,
  McpClientModule,
  type McpClientOptions,
  type McpToolCallEvent,
} from 'nestjs-mcp-streamable/client';
import { firstValueFrom, lastValueFrom, take, toArray } from 'rxjs';
import { afterEach, describe, expect, it } from 'vitest';
import { gate, type TestTool } from '../support/app.js';
import { FakeMcpServer, result, status } from '../support/fake-mcp-server.js';
import { eventually, testApps } from '../support/test-apps.js';
import { TrackedClock } from '../support/tracked-clock.js';
import { loneFetch } from '../support/ways.js';

@Injectable()
class Buyer {
  constructor(@InjectMcp(McpClient, 'orders') readonly orders: McpClient) {}
}

const start = testApps('fastify', { shared: true, retryMs: 10 });
const modules: TestingModule[] = [];
const clocks: TrackedClock[] = [];
// Before the apps are closed: a client that was there still would come back to an app that has ended its session.
afterEach(async () => {
  for (const module of modules.splice(0)) await module.close();
  for (const clock of clocks.splice(0)) expect(clock.pending).toBe(0);
});

function options(url: string, more: Partial<McpClientOptions> = {}): McpClientOptions {
  const clock = new TrackedClock();
  clocks.push(clock);
  return { url, fetch: loneFetch, clock, ...more };
}

async function buyer(orders: McpClientOptions): Promise<Buyer> {
  const testing = Test.createTestingModule({
    imports: [McpClientModule.forRoot({ clients: { orders } })],
    providers: [Buyer],
  });
  const module = await testing.compile();
  await module.init();
  modules.push(module);
  return module.get(Buyer);
}

describe('McpClientModule, with our own server', () => {
  const cancelled: unknown[] = [];
  const tools: Record<string, TestTool> = {
    count: async (_, ctx) => {
      for (const progress of [1, 2]) await ctx.progress({ progress, total: 2, message: `step ${progress}` });
      return 'counted';
    },
    wait: async (_, ctx) => {
      await ctx.progress(1);
      const stopped = gate();
      ctx.signal.addEventListener('abort', () => stopped.open());
      await stopped.promise;
      cancelled.push(ctx.signal.reason);
      return 'cancelled';
    },
  };

  it('McpClientModule connects when it is first used, once for all, and is closed with the app', async () => {
    const app = await start({ tools });
    const { orders } = await buyer(options(app.url));
    expect((await app.service.counts()).sessions).toBe(0);
    const [first, second] = await Promise.all([orders.client(), orders.client()]);
    expect(second).toBe(first);
    expect((await app.service.counts()).sessions).toBe(1);
    expect(await orders.callTool('count')).toMatchObject({ content: [{ text: 'counted' }] });
    expect(first.getServerVersion()).toMatchObject({ name: 'test' });
    await modules.pop()!.close();
    await app.settled({ sessions: 0 });
    await expect(orders.client()).rejects.toThrow('"orders" is closed');
    await expect(lastValueFrom(orders.callTool$('count'))).rejects.toMatchObject({ code: 'NOT_CONNECTED' });
    expect(await lastValueFrom(orders.state$, { defaultValue: 'completed' })).toBe('completed');
  });

  it('callTool$ emits progress, then the result, then completes', async () => {
    const app = await start({ tools });
    const { orders } = await buyer(options(app.url));
    const events = await lastValueFrom(orders.callTool$('count').pipe(toArray()));
    expect(events).toMatchObject([
      { type: 'progress', progress: 1, total: 2, message: 'step 1' },
      { type: 'progress', progress: 2, total: 2, message: 'step 2' },
      { type: 'result', result: { content: [{ text: 'counted' }] } },
    ] satisfies Partial<McpToolCallEvent>[] | object[]);
  });

  it('callTool$ is cold, and unsubscribing cancels the call on the server', async () => {
    const app = await start({ tools });
    const { orders } = await buyer(options(app.url));
    const call$ = orders.callTool$('wait');
    expect((await app.service.counts()).sessions).toBe(0);
    expect(await firstValueFrom(call$.pipe(take(1)))).toMatchObject({ type: 'progress' });
    await eventually(() => expect(cancelled).toHaveLength(1));
    await app.settled({ inFlight: 0 });
    // Unsubscribed before it was connected: not called at all.
    const { orders: other } = await buyer(options(app.url));
    other.callTool$('wait').subscribe().unsubscribe();
    await other.client();
    expect((await app.service.counts()).inFlight).toBe(0);
  });

  it('callTool$ fails with the error of the call', async () => {
    const app = await start({ tools });
    const { orders } = await buyer(options(app.url));
    await expect(lastValueFrom(orders.callTool$('no such tool'))).rejects.toBeInstanceOf(Error);
  });

  it('C7: McpClientModule comes back in a new session by itself when the server has lost the old one', async () => {
    const app = await start({ tools });
    const { orders } = await buyer(options(app.url));
    const before = await orders.client();
    const recovered = firstValueFrom(orders.recoveries$);
    await app.service.terminateAll();
    expect(await orders.callTool('count')).toMatchObject({ content: [{ text: 'counted' }] });
    expect(await recovered).toMatchObject({ outcome: 'recovered' });
    expect(await orders.client()).toBe(before);
  });

  it('C7: without "recover" the next use connects anew', async () => {
    const app = await start({ tools });
    const configured: unknown[] = [];
    const { orders } = await buyer(
      options(app.url, { recover: false, configure: (client) => configured.push(client) }),
    );
    const before = await orders.client();
    await app.service.terminateAll();
    await expect(orders.callTool('count')).rejects.toMatchObject({ code: 'SESSION_LOST' });
    expect(await orders.callTool('count')).toMatchObject({ content: [{ text: 'counted' }] });
    expect(await orders.client()).not.toBe(before);
    expect(configured).toEqual([before, await orders.client()]);
  });
});

describe('McpClientModule', () => {
  let fake: FakeMcpServer;
  afterEach(() => fake?.close());

  it.each([
    ['a text', 'secret'],
    ['a function', () => Promise.resolve('secret')],
    ['a provider of the SDK', { tokens: () => ({ access_token: 'secret', token_type: 'Bearer' }) } as never],
  ])('McpClientModule sends credentials: %s', async (_, auth) => {
    fake = (await FakeMcpServer.start()).begins().on({ rpc: 'ping' }, result({})).on({ method: 'DELETE' }, status(204));
    const { orders } = await buyer(options(fake.url, { auth, headers: { 'x-tenant': 'a' } }));
    const client = await orders.client();
    await client.ping();
    await fake.arrived({ method: 'GET' });
    await orders.close();
    for (const { headers } of fake.requests) {
      expect(headers).toMatchObject({ authorization: 'Bearer secret', 'x-tenant': 'a' });
    }
  });

  it('a failed connection fails the calls that wait for it, and the next call connects anew', async () => {
    fake = (await FakeMcpServer.start()).on({ rpc: 'initialize' }, status(401)).begins();
    fake.on({ method: 'DELETE' }, status(204));
    const { orders } = await buyer(options(fake.url));
    const both = await Promise.allSettled([orders.client(), orders.client()]);
    expect(both).toMatchObject([{ reason: { status: 401 } }, { reason: { status: 401 } }]);
    await orders.client();
    await fake.arrived({ method: 'GET' });
    await orders.close();
  });

  it('McpClientModule closes while it connects', async () => {
    fake = (await FakeMcpServer.start()).on({ rpc: 'initialize' }, () => {});
    const { orders } = await buyer(options(fake.url));
    const client = orders.client();
    client.catch(() => {});
    await fake.arrived({ rpc: 'initialize' });
    await Promise.all([orders.close(), orders.close()]);
    await expect(client).rejects.toBeInstanceOf(Error);
    await fake.quiet();
  });

  it('forRootAsync names the clients that the factory configures', async () => {
    @Module({ providers: [{ provide: 'URL', useValue: 'http://127.0.0.1:9/mcp' }], exports: ['URL'] })
    class SettingsModule {}
    @Injectable()
    class Both {
      constructor(
        @InjectMcp(McpClient, 'orders') readonly orders: McpClient,
        @Inject(getMcpToken(McpClient, 'stock')) readonly stock: McpClient,
      ) {}
    }
    const clients = McpClientModule.forRootAsync({
      names: ['orders', 'stock'],
      imports: [SettingsModule],
      inject: ['URL'],
      useFactory: (url: string) => ({ clients: { orders: { url }, stock: { url } } }),
    });
    const module = await Test.createTestingModule({ imports: [clients], providers: [Both] }).compile();
    modules.push(module);
    const both = module.get(Both);
    expect([both.orders.name, both.stock.name]).toEqual(['orders', 'stock']);
    expect(both.orders).toBeInstanceOf(McpClient);
  });

  it.each([
    ['no names', () => McpClientModule.forRootAsync({ useFactory: () => ({ clients: {} }) }), '"names"'],
    [
      'a client that the factory does not configure',
      () =>
        McpClientModule.forRootAsync({
          names: ['orders'],
          useFactory: () => ({ clients: { stock: { url: 'http://h' } } }),
        }),
      'no client "orders". It configured "stock"',
    ],
    ['a URL that is none', () => McpClientModule.forRoot({ clients: { orders: { url: 'orders' } } }), '"url"'],
    [
      'an option of the transport that cannot work',
      () => McpClientModule.forRoot({ clients: { orders: { url: 'http://h', silenceMs: -1 } } }),
      '"silenceMs"',
    ],
  ])('the app does not start with %s', async (_, imported, message) => {
    const compiling = async (): Promise<unknown> => Test.createTestingModule({ imports: [imported()] }).compile();
    await expect(compiling()).rejects.toThrow(message);
  });
});
