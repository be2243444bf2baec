import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';
import { Catch, Injectable, Module, NotFoundException } from '@nestjs/common';
import { APP_FILTER, APP_INTERCEPTOR, BaseExceptionFilter, NestFactory } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { createMcpTestClient, expectNothingLeft } from 'nestjs-mcp-streamable/testing';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { ANALYTICS, PostHogCalls } from '../../examples/snippets/posthog-calls.js';
import { SENTRY, SentryCalls, type SentryScope } from '../../examples/snippets/sentry-calls.js';
import { eventually } from '../support/eventually.js';

@Injectable()
class ShopTools {
  @Tool({ name: 'order' })
  order(): string {
    return 'ordered';
  }

  @Tool({ name: 'refuse' })
  refuse(): never {
    throw new NotFoundException('There is no such item.');
  }

  @Tool({ name: 'crash' })
  crash(): never {
    throw new Error('host db-7 is away');
  }
}

const serverInfo = { name: 'shop', version: '1.0.0' };
const principal = () => 'ann';

it('Sentry: a report of a call names the handler and the caller, and the filter of Sentry reports unexpected errors alone', async () => {
  const scope = { setTags: vi.fn(), setUser: vi.fn() } satisfies SentryScope;
  const captured: unknown[] = [];
  /** As `SentryGlobalFilter` does. */
  @Catch()
  class GlobalFilter extends BaseExceptionFilter {
    override catch(...args: Parameters<BaseExceptionFilter['catch']>): void {
      if (!('getStatus' in (args[0] as object))) captured.push(args[0]);
      super.catch(...args);
    }
  }
  const testing = await Test.createTestingModule({
    imports: [McpStreamableModule.forRoot({ serverInfo, principal, errorDetails: false })],
    providers: [
      ShopTools,
      { provide: SENTRY, useValue: { getIsolationScope: () => scope } },
      { provide: APP_INTERCEPTOR, useClass: SentryCalls },
      { provide: APP_FILTER, useClass: GlobalFilter },
    ],
  }).compile();
  const app = testing.createNestApplication({ logger: false });
  const mcp = await createMcpTestClient(app);
  expect((await mcp.callTool('order')).text).toBe('ordered');
  expect(scope.setTags.mock.calls).toEqual([[{ 'mcp.kind': 'tool', 'mcp.name': 'order' }]]);
  expect(scope.setUser.mock.calls).toEqual([[{ id: 'ann' }]]);
  expect((await mcp.callTool('refuse')).text).toBe('There is no such item.');
  expect(captured).toEqual([]);
  const { text, isError } = await mcp.callTool('crash');
  expect(isError).toBe(true);
  expect(text).not.toContain('db-7');
  expect(captured).toMatchObject([{ message: 'host db-7 is away' }]);
  await mcp.close();
  await expectNothingLeft(app);
  await app.close();
});

it('PostHog: one event for each call of a tool that exists, without its arguments', async () => {
  const capture = vi.fn();
  const testing = await Test.createTestingModule({
    imports: [McpStreamableModule.forRoot({ serverInfo, principal })],
    providers: [ShopTools, PostHogCalls, { provide: ANALYTICS, useValue: { capture } }],
  }).compile();
  const app = testing.createNestApplication({ logger: false });
  const mcp = await createMcpTestClient(app);
  await mcp.callTool('order', { card: '4111' });
  await mcp.callTool('refuse');
  await expect(mcp.callTool('made_up')).rejects.toThrow('made_up');
  await mcp.list.tools();
  await mcp.close();
  const events = capture.mock.calls.map(([event]) => event as { properties: object });
  expect(events).toMatchObject([
    { distinctId: 'ann', event: 'mcp_tool_called', properties: { tool: 'order', outcome: 'ok' } },
    { distinctId: 'ann', event: 'mcp_tool_called', properties: { tool: 'refuse', outcome: 'tool_error' } },
  ]);
  expect(JSON.stringify(events)).not.toContain('4111');
  await app.close();
});

describe('@nestjs/observe', () => {
  let seen = '';
  const collector = createServer((request, response) => {
    void (async () => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const body = Buffer.concat(chunks);
      seen += request.headers['content-encoding'] === 'gzip' ? gunzipSync(body).toString() : body.toString();
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    })();
  });

  beforeAll(async () => {
    await new Promise<void>((resolve) => collector.listen(0, '127.0.0.1', resolve));
    vi.stubEnv('OBSERVE_ENDPOINT', `http://127.0.0.1:${(collector.address() as AddressInfo).port}`);
    vi.stubEnv('OBSERVE_APP_KEY', 'key');
    vi.stubEnv('OBSERVE_APP_SECRET', 'secret');
  });

  afterAll(async () => {
    vi.unstubAllEnvs();
    collector.closeAllConnections();
    await new Promise((resolve) => collector.close(resolve));
  });

  it('a trace has the services that a tool calls, in both eras', async () => {
    // The package reads the address of its collector when it is loaded.
    const { AppModule, ObserveInstrument } = await import('../../examples/snippets/observed-app.js');
    const app = await NestFactory.create(AppModule, { instrument: ObserveInstrument, logger: false });
    for (const era of ['legacy', 'modern'] as const) {
      const mcp = await createMcpTestClient(app, { era });
      expect((await mcp.callTool('count_items', { item: 'abc' })).text).toBe('There are 3.');
      await mcp.close();
    }
    // A worker thread sends every five seconds.
    await eventually(() => expect(seen.split('"c":"Stock","m":"count"')).toHaveLength(3));
    await expectNothingLeft(app);
    await app.close();
  });
});

it('an instrumentation of Nest that puts a proxy around each instance does not make one endpoint two', async () => {
  const auth = (path: string) => ({
    resource: `https://api.example.com/${path}`,
    authorizationServers: ['https://idp.example.com/'],
  });
  const endpoint = (name: string) =>
    McpStreamableModule.forRoot({ name, path: name, serverInfo: { name, version: '1.0.0' }, auth: auth(name) });
  @Module({ imports: [endpoint('one'), endpoint('two')] })
  class TwoEndpoints {}
  /** A proxy whose methods run on what it stands for, as that of `@nestjs/observe`. */
  const proxied = (target: object): object =>
    new Proxy(target, {
      get: (_, name) => {
        const value: unknown = Reflect.get(target, name);
        return typeof value === 'function' && name !== 'constructor' ? value.bind(target) : value;
      },
    });
  const instanceDecorator = (instance: unknown): unknown =>
    typeof instance === 'object' && instance?.constructor.name.match(/^Mcp|ProtectedResource/)
      ? proxied(instance)
      : instance;
  const app = await NestFactory.create(TwoEndpoints, { instrument: { instanceDecorator }, logger: false });
  await app.init();
  await app.close();
});
