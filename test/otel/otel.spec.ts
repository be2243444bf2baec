import { Injectable, UseGuards, Inject } from '@nestjs/common';
import { Client } from '@modelcontextprotocol/client';
import { context, propagation, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { ClsModule, ClsService } from 'nestjs-cls';
import {
  McpArgs,
  McpCatalogue,
  type McpCatalogueTool,
  type McpCaller,
  McpCtx,
  McpStreamableModule,
  Tool,
  type McpContext,
  type McpStreamableModuleOptions,
} from 'nestjs-mcp-streamable';
import { McpServer } from 'nestjs-mcp-streamable/server';
import { StreamableClientTransport, type McpFetchLike } from 'nestjs-mcp-streamable/client';
import { OtelInstrumentation, traceContextMeta } from 'nestjs-mcp-streamable/otel';
import { Observable } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ModernClient } from '../support/modern-client.js';
import { describeRedis } from '../support/redis.js';
import { RedisRoom } from '../support/redis-room.js';
import { Telemetry } from './telemetry.js';
import { TestApp, serverInfo } from '../support/app.js';
import { as, Never, trustingGuard } from '../support/users.js';
import { loneFetch } from '../support/ways.js';

const WORK = 'work of the app';
const requestStateKeys = ['one secret for both of the nodes, of 32 bytes'];

@Injectable()
class Tools {
  constructor(@Inject(ClsService) private readonly cls: ClsService) {}

  @Tool({ name: 'work', description: 'Works, in a span of its own' })
  work(): Observable<string> {
    return new Observable((subscriber) => {
      trace.getTracer('app').startActiveSpan(WORK, (span) => {
        const tenant = propagation.getActiveBaggage()?.getEntry('tenant')?.value;
        subscriber.next(`${this.cls.get<string>('path')} ${tenant}`);
        subscriber.complete();
        span.end();
      });
    });
  }

  @Tool({ name: 'fails', description: 'Fails', inputSchema: z.object({ secret: z.string() }) })
  fails(@McpArgs() { secret }: { secret: string }): never {
    throw new Error(`no ${secret.length}`);
  }

  @Tool({ name: 'denied', description: 'Lets nobody in' })
  @UseGuards(Never)
  denied(): string {
    return 'in';
  }

  @Tool({ name: 'waits', description: 'Waits for its end' })
  waits(@McpCtx() ctx: McpContext): Promise<string> {
    return new Promise((resolve) => ctx.signal.addEventListener('abort', () => resolve('over')));
  }
}

/** Each caller has a tool of its own. */
@McpCatalogue()
@Injectable()
class Plugins {
  list({ principal }: McpCaller): McpCatalogueTool[] {
    return [{ name: `plugin_of_${principal}` }];
  }
  call(name: string): string {
    return name;
  }
}

const cls = ClsModule.forRoot({
  global: true,
  middleware: {
    mount: true,
    setup: (store, request: { originalUrl?: string }) => store.set('path', request.originalUrl),
  },
});

function startApp(
  instrumentation: OtelInstrumentation,
  more: Partial<McpStreamableModuleOptions> = {},
): Promise<TestApp> {
  const endpoint = McpStreamableModule.forRoot({ serverInfo, instrumentation, ...more });
  return TestApp.of('fastify', { imports: [cls, endpoint], providers: [Tools, Never, Plugins] });
}

let telemetry: Telemetry;
beforeEach(() => {
  telemetry = new Telemetry();
});
afterEach(() => telemetry.close());

const traceOf = (span: { spanContext(): { traceId: string } }): string => span.spanContext().traceId;

describe('OpenTelemetry', () => {
  let app: TestApp;
  const start = async (options?: ConstructorParameters<typeof OtelInstrumentation>[0]): Promise<void> => {
    app = await startApp(new OtelInstrumentation(options));
  };
  afterEach(() => app.close());

  it('each request of either era has one span that follows the conventions, whose name does not contain a URI', async () => {
    await start();
    const legacy = await app.client().initialize();
    await (await legacy.call('work', {}, { id: 7 })).text();
    await (await legacy.post({ jsonrpc: '2.0', id: 8, method: 'resources/read', params: { uri: 'a://b' } })).text();
    await new ModernClient(app.client().url).ask('tools/call', { name: 'work', arguments: {} });
    const [ofLegacy, ofModern] = telemetry.named('tools/call work');
    expect(ofLegacy!.kind).toBe(SpanKind.SERVER);
    expect(ofLegacy!.status.code).toBe(SpanStatusCode.UNSET);
    expect(ofLegacy!.attributes).toEqual({
      'mcp.method.name': 'tools/call',
      'mcp.protocol.version': '2025-11-25',
      'mcp.session.id': expect.stringMatching(/^sha256:/),
      'gen_ai.tool.name': 'work',
      'gen_ai.operation.name': 'execute_tool',
      'jsonrpc.request.id': '7',
      'network.transport': 'tcp',
      'network.protocol.name': 'http',
      'client.address': '127.0.0.1',
      'client.port': expect.any(Number),
    });
    expect(ofModern!.attributes).toMatchObject({ 'mcp.protocol.version': '2026-07-28', 'gen_ai.tool.name': 'work' });
    expect(ofModern!.attributes).not.toHaveProperty('mcp.session.id');
    const [read] = telemetry.named('resources/read');
    expect(read!.attributes).toMatchObject({ 'mcp.resource.uri': 'a://b', 'rpc.response.status_code': '-32602' });
    expect(telemetry.named('initialize')).toHaveLength(1);
  });

  it('a span of a failed or cancelled call has the status error; that of a mistake of the client has not', async () => {
    await start();
    const client = await app.client().initialize();
    await (await client.call('fails', { secret: 'x' })).text();
    await (await client.call('denied')).text();
    await (await client.call('invented 4711')).text();
    await (await client.post({ jsonrpc: '2.0', id: 'odd', method: 'no/such/method' })).text();
    const waiting = client.call('waits', {}, { id: 'waiting' });
    await expect.poll(() => app.service.counts()).toMatchObject({ inFlight: 1 });
    await client.notify('notifications/cancelled', { requestId: 'waiting' });
    await (await waiting).text();
    const ended = telemetry.spans.map(({ name, attributes, status }) => ({
      name,
      type: attributes['error.type'],
      code: attributes['rpc.response.status_code'],
      error: status.code === SpanStatusCode.ERROR,
    }));
    expect(ended.slice(-5)).toEqual([
      { name: 'tools/call fails', type: 'tool_error', code: undefined, error: true },
      { name: 'tools/call denied', type: 'denied', code: undefined, error: true },
      { name: 'tools/call', type: undefined, code: '-32602', error: false },
      { name: '_OTHER', type: undefined, code: '-32601', error: false },
      { name: 'tools/call waits', type: 'cancelled', code: undefined, error: true },
    ]);
  });

  it('durations are metrics in seconds, and their labels have no session id, URI or name that a client invented', async () => {
    await start();
    const client = await app.client().initialize();
    await (await client.call('fails', { secret: 'x' })).text();
    await (await client.call('invented 4711')).text();
    await (await client.post({ jsonrpc: '2.0', id: 'odd', method: 'no/such/method' })).text();
    await client.delete();
    const points = await telemetry.points('mcp.server.operation.duration');
    const network = {
      'network.transport': 'tcp',
      'network.protocol.name': 'http',
      'mcp.protocol.version': '2025-11-25',
    };
    const tool = { ...network, 'mcp.method.name': 'tools/call', 'gen_ai.operation.name': 'execute_tool' };
    expect(points.map(({ attributes }) => attributes)).toEqual([
      { ...network, 'mcp.method.name': 'initialize' },
      { ...tool, 'gen_ai.tool.name': 'fails', 'error.type': 'tool_error' },
      { ...tool, 'rpc.response.status_code': '-32602' },
      { ...network, 'mcp.method.name': '_OTHER', 'rpc.response.status_code': '-32601' },
    ]);
    expect(points[0]!.boundaries).toEqual([0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]);
    const [session] = await telemetry.points('mcp.server.session.duration');
    expect(session).toMatchObject({ attributes: network, count: 1 });
  });

  it('a metric has one name for all tools of a catalogue, and a span that of the tool', async () => {
    app = await startApp(new OtelInstrumentation(), { guards: [trustingGuard] });
    for (const user of ['ann', 'bob'])
      await new ModernClient(app.url, as(user)).ask('tools/call', { name: `plugin_of_${user}` });
    const points = await telemetry.points('mcp.server.operation.duration');
    expect(points).toMatchObject([{ count: 2, attributes: { 'gen_ai.tool.name': 'Plugins.*' } }]);
    expect(telemetry.spans.map(({ attributes }) => attributes['gen_ai.tool.name'])).toEqual([
      'plugin_of_ann',
      'plugin_of_bob',
    ]);
  });

  it('a span cuts long texts of clients, and a metric never has a method that a client invented, however its call ends', async () => {
    let missing = false;
    const server = (): McpServer => {
      if (missing) throw new Error('no server');
      return new McpServer(serverInfo);
    };
    const endpoint = McpStreamableModule.forRoot({ serverInfo, instrumentation: new OtelInstrumentation(), server });
    app = await TestApp.of('fastify', { imports: [endpoint] });
    const client = await app.client().initialize();
    missing = true;
    await app.service.release(client.sessionId!);
    const long = 'x'.repeat(100_000);
    await (
      await client.post({ jsonrpc: '2.0', id: long.slice(0, 256), method: long, params: { name: long, uri: long } })
    ).text();
    await (await client.post({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: long } })).text();
    const points = await telemetry.points('mcp.server.operation.duration');
    expect(points.map(({ attributes }) => [attributes['mcp.method.name'], attributes['error.type']])).toEqual([
      ['initialize', undefined],
      ['_OTHER', '-32603'],
      ['tools/call', '-32603'],
    ]);
    const sizes = telemetry.spans.map(({ name, attributes }) => JSON.stringify([name, attributes]).length);
    expect(Math.max(...sizes)).toBeLessThan(5_000);
  });

  it('a span has arguments and results only when the options ask for them', async () => {
    await start();
    await new ModernClient(app.client().url).ask('tools/call', { name: 'fails', arguments: { secret: 'hush' } });
    expect(JSON.stringify(telemetry.spans.map(({ attributes, events }) => [attributes, events]))).not.toContain('hush');
    await app.close();
    await start({ recordArguments: true, recordResults: true });
    await new ModernClient(app.client().url).ask('tools/call', { name: 'fails', arguments: { secret: 'hush' } });
    expect(telemetry.spans.at(-1)!.attributes).toMatchObject({
      'gen_ai.tool.call.arguments': '{"secret":"hush"}',
      'gen_ai.tool.call.result': expect.stringContaining('no 4'),
    });
  });

  it('the trace context in _meta is the parent of a span, which links to the ambient span, unless the options do not accept it', async () => {
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
    const meta = { traceparent, baggage: 'tenant=acme' };
    const ambient = trace.getTracer('http').startSpan('POST /mcp');
    const inHttpSpan = new (class extends OtelInstrumentation {
      override call<T>(...args: Parameters<OtelInstrumentation['call']>): T {
        return context.with(trace.setSpan(context.active(), ambient), () => super.call(...args)) as T;
      }
    })();
    app = await startApp(inHttpSpan);
    const modern = new ModernClient(app.client().url);
    const { result } = await modern.ask('tools/call', { name: 'work', arguments: {} }, { meta });
    expect(result.content[0].text).toBe('/mcp undefined');
    await modern.ask('tools/call', { name: 'work', arguments: {} });
    const [withContext, without] = telemetry.named('tools/call work');
    expect(withContext!.parentSpanContext).toMatchObject({ spanId: '00f067aa0ba902b7', isRemote: true });
    expect(withContext!.links.map((link) => link.context.spanId)).toEqual([ambient.spanContext().spanId]);
    expect(without!.parentSpanContext).toMatchObject({ spanId: ambient.spanContext().spanId });
    expect(without!.links).toEqual([]);
    await app.close();
    await start({ acceptContext: false });
    await new ModernClient(app.client().url).ask('tools/call', { name: 'work', arguments: {} }, { meta });
    expect(telemetry.named('tools/call work').at(-1)!.parentSpanContext).toBeUndefined();
  });

  it('the baggage of a client is the handler\'s only where "acceptBaggage" says so', async () => {
    const meta = { traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', baggage: 'tenant=acme' };
    const tenant = async (options: object): Promise<string> => {
      await start(options);
      const modern = new ModernClient(app.client().url);
      const { result } = await modern.ask('tools/call', { name: 'work', arguments: {} }, { meta });
      await app.close();
      return result.content[0].text;
    };
    expect(await tenant({})).toBe('/mcp undefined');
    expect(await tenant({ acceptBaggage: true })).toBe('/mcp acme');
    expect(await tenant({ acceptBaggage: true, acceptContext: false })).toBe('/mcp undefined');
    await start();
  });

  it('a span has the id of a session as it is when there is a principal, and its hash when the id is the credential', async () => {
    app = await startApp(new OtelInstrumentation(), { principal: ({ headers }: never) => headers['x-user'] });
    const ids: string[] = [];
    for (const headers of [undefined, { 'x-user': 'ann' }]) {
      const client = await app.client(headers).initialize();
      await (await client.call('fails', { secret: 'x' })).text();
      ids.push(client.sessionId!);
    }
    const shownIds = telemetry.named('tools/call fails').map(({ attributes }) => attributes['mcp.session.id']);
    expect(shownIds).toEqual([expect.stringMatching(/^sha256:[0-9a-f]{32}$/), ids[1]]);
    expect(JSON.stringify(telemetry.spans.map(({ attributes }) => attributes))).not.toContain(ids[0]);
  });

  it('a subscription of a modern client is one span, from its beginning to its end', async () => {
    await start();
    const modern = new ModernClient(app.client().url);
    const response = await modern.request('subscriptions/listen', { notifications: { toolsListChanged: true } });
    await response.sse().count(1);
    expect(telemetry.spans).toEqual([]);
    response.destroy();
    await expect.poll(() => telemetry.named('subscriptions/listen')).toHaveLength(1);
    expect(telemetry.spans[0]!.status.code).toBe(SpanStatusCode.UNSET);
  });
});

describeRedis('OpenTelemetry on two nodes', () => {
  let room: RedisRoom;
  let nodes: TestApp[];

  beforeEach(async () => {
    room = await RedisRoom.open();
    nodes = [];
    for (const name of ['a', 'b']) {
      const instrumentation = new OtelInstrumentation({ tracerProvider: named(name) });
      nodes.push(await startApp(instrumentation, { backend: () => room.node(), requestStateKeys }));
    }
  });
  afterEach(async () => {
    for (const { service } of nodes) await service.terminateAll();
    await Promise.all(nodes.map(({ app }) => app.close()));
    await room.close();
  });

  /** Its spans carry the name of their node. */
  const named = (node: string) => ({
    getTracer: (scope: string) => {
      const tracer = telemetry.tracers.getTracer(scope);
      const startSpan: typeof tracer.startSpan = (name, options, parent) =>
        tracer.startSpan(name, { ...options, attributes: { ...options?.attributes, node } }, parent);
      return { startSpan, startActiveSpan: tracer.startActiveSpan.bind(tracer) };
    },
  });

  /** A client whose requests go to the nodes in turn. */
  const connected = async (era: 'legacy' | 'modern') => {
    let sent = 0;
    const inTurn: McpFetchLike = (_, init) => loneFetch(`${nodes[sent++ % 2]!.base}/mcp`, init);
    const transport = new StreamableClientTransport(`${nodes[0]!.base}/mcp`, {
      fetch: inTurn,
      requestMeta: traceContextMeta,
      standaloneStream: false,
    });
    const negotiation = era === 'modern' ? { versionNegotiation: { mode: { pin: '2026-07-28' } } } : {};
    const client = new Client({ name: 'test', version: '1.0.0' }, negotiation);
    await client.connect(transport);
    return client;
  };

  it.each(['legacy', 'modern'] as const)(
    'one trace leads from a %s client through both nodes and the tool into a span of the app, also when the call fails or is cancelled',
    async (era) => {
      const root = trace.getTracer('agent').startSpan('agent');
      await context.with(trace.setSpan(context.active(), root), async () => {
        const client = await connected(era);
        for (let call = 0; call < 2; call++) {
          const { content } = await client.callTool({ name: 'work', arguments: {} });
          expect(content).toMatchObject([{ text: '/mcp undefined' }]);
        }
        expect(await client.callTool({ name: 'fails', arguments: { secret: 'x' } })).toMatchObject({ isError: true });
        const cancelling = new AbortController();
        const waiting = client.callTool({ name: 'waits', arguments: {} }, { signal: cancelling.signal });
        await expect
          .poll(async () =>
            (await Promise.all(nodes.map(({ service }) => service.counts()))).some((n) => n.inFlight > 0),
          )
          .toBe(true);
        cancelling.abort('enough');
        await expect(waiting).rejects.toThrow('enough');
        await expect.poll(() => telemetry.named('tools/call waits')).toHaveLength(1);
        await client.close();
      });
      root.end();
      const works = telemetry.named('tools/call work');
      expect(works.map(({ attributes }) => String(attributes['node'])).toSorted()).toEqual(['a', 'b']);
      const served = [...works, ...telemetry.named('tools/call fails'), ...telemetry.named('tools/call waits')];
      expect(served.map(({ attributes }) => attributes['error.type'])).toEqual([
        undefined,
        undefined,
        'tool_error',
        'cancelled',
      ]);
      for (const span of served) {
        expect(traceOf(span)).toBe(traceOf(root));
        expect(span.parentSpanContext!.spanId).toBe(root.spanContext().spanId);
      }
      const own = telemetry.named(WORK);
      expect(own.map(({ parentSpanContext }) => parentSpanContext!.spanId)).toEqual(
        works.map((span) => span.spanContext().spanId),
      );
      expect(own.every((span) => traceOf(span) === traceOf(root))).toBe(true);
    },
  );
});
