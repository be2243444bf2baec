import { createHash } from 'node:crypto';
import { Client } from '@modelcontextprotocol/client';
import { Injectable } from '@nestjs/common';
import { context, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import type { ReadableSpan } from '@opentelemetry/sdk-trace-base';
import { McpCtx, Tool, type McpContext } from 'nestjs-mcp-streamable';
import { StreamableClientTransport } from 'nestjs-mcp-streamable/client';
import { OtelClientInstrumentation, OtelInstrumentation, traceContextMeta } from 'nestjs-mcp-streamable/otel';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, type TestApp } from '../support/app.js';
import { testApps } from '../support/test-apps.js';
import { LATEST, type RawClient } from '../support/raw-client.js';
import { Telemetry } from './telemetry.js';
import { loneFetch } from '../support/ways.js';

const requestedSchema = { type: 'object' as const, properties: { yes: { type: 'boolean' as const } } };
const DURATION = 'mcp.client.operation.duration';
const NETWORK = { 'network.transport': 'tcp', 'network.protocol.name': 'http' };

@Injectable()
class Tools {
  @Tool({ name: 'ask' })
  async ask(@McpCtx() ctx: McpContext): Promise<string> {
    const answer = ctx.elicit('sure', { message: 'Sure?', requestedSchema });
    return answer.then(
      ({ action }) => action,
      (error: Error) => error.name,
    );
  }
  @Tool({ name: 'roots' })
  async roots(@McpCtx() ctx: McpContext): Promise<string> {
    return `${(await ctx.roots('r')).length}`;
  }
  @Tool({ name: 'fails' })
  fails(): never {
    throw new Error('no');
  }
  @Tool({ name: 'waits' })
  waits(@McpCtx() ctx: McpContext): Promise<string> {
    return new Promise((resolve) => ctx.signal.addEventListener('abort', () => resolve('over')));
  }
}

const hashOf = (sessionId: string): string =>
  `sha256:${createHash('sha256').update(sessionId).digest('hex').slice(0, 32)}`;

let telemetry: Telemetry;
beforeEach(() => {
  telemetry = new Telemetry();
});
afterEach(() => telemetry.close());

const endOf = ({ attributes, status }: ReadableSpan) => ({
  type: attributes['error.type'],
  code: attributes['rpc.response.status_code'],
  failed: status.code === SpanStatusCode.ERROR,
});
const SUCCESS = { type: undefined, code: undefined, failed: false };
const isBelow = (child: ReadableSpan, parent: ReadableSpan): void => {
  expect(child.parentSpanContext?.spanId).toBe(parent.spanContext().spanId);
  expect(child.spanContext().traceId).toBe(parent.spanContext().traceId);
};

describe.each(ONE_ADAPTER)('a request of the server to its client, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers: [Tools] });
  const asking = async (options: object = {}): Promise<RawClient> => {
    const app = await start({ instrumentation: new OtelInstrumentation(), ...options });
    return app.client().initialize(LATEST, { elicitation: {}, roots: {} });
  };

  /** Calls the tool that asks, and reads its question. */
  const asked = async (client: RawClient) => {
    const stream = (await client.call('ask', {}, { id: 'call' })).sse();
    await stream.count(1);
    const [{ id, method, params }] = stream.messages;
    expect(method).toBe('elicitation/create');
    return { stream, id: id as string, params };
  };
  const theSpan = (): ReadableSpan => {
    const spans = telemetry.named('elicitation/create');
    expect(spans).toHaveLength(1);
    return spans[0]!;
  };

  it('a request of the server to its client is a CLIENT span below the SERVER span of the tool, by the conventions', async () => {
    const client = await asking();
    const { stream, id } = await asked(client);
    expect(telemetry.named('elicitation/create')).toEqual([]);
    await client.respond(id, { action: 'accept', content: { yes: true } });
    await stream.end();
    const span = theSpan();
    expect(span.kind).toBe(SpanKind.CLIENT);
    expect(endOf(span)).toEqual(SUCCESS);
    expect(span.attributes).toEqual({
      ...NETWORK,
      'mcp.method.name': 'elicitation/create',
      'mcp.protocol.version': LATEST,
      'mcp.session.id': hashOf(client.sessionId!),
      'jsonrpc.request.id': id,
    });
    const [tool] = telemetry.named('tools/call ask');
    expect(tool!.kind).toBe(SpanKind.SERVER);
    isBelow(span, tool!);
  });

  it('a request of the server to its client is a success when the user declines, since that is an answer', async () => {
    const client = await asking();
    const { stream, id } = await asked(client);
    await client.respond(id, { action: 'decline' });
    await stream.end();
    expect(endOf(theSpan())).toEqual(SUCCESS);
  });

  it.each([
    [-32603, '-32603'],
    [-32602, '-32602'],
    [4711, '_OTHER'],
  ])(
    'a request of the server to its client has the code with which the client refused, if a specification has it: %d is %s',
    async (code, type) => {
      const client = await asking();
      const { stream, id } = await asked(client);
      await (await client.post({ jsonrpc: '2.0', id, error: { code, message: 'no' } })).text();
      await stream.end();
      expect(endOf(theSpan())).toEqual({ type, code: type, failed: true });
    },
  );

  it('a request of the server to its client ends as a timeout when the client does not answer', async () => {
    const client = await asking({ serverRequestTimeoutMs: 20 });
    const { stream } = await asked(client);
    await stream.end();
    expect(endOf(theSpan())).toEqual({ type: 'timeout', code: undefined, failed: true });
  });

  it('a request of the server to its client is cancelled with the call, and with the session', async () => {
    const client = await asking();
    const { stream } = await asked(client);
    await client.notify('notifications/cancelled', { requestId: 'call' });
    await stream.end();
    expect(endOf(theSpan())).toEqual({ type: 'cancelled', code: undefined, failed: true });
    const other = await asked(client);
    await (await client.delete()).text();
    await other.stream.end();
    const last = telemetry.named('elicitation/create').at(-1)!;
    expect(endOf(last)).toEqual({ type: 'cancelled', code: undefined, failed: true });
    expect(telemetry.named('elicitation/create')).toHaveLength(2);
  });

  it('a request of the server to its client has no span when nothing was sent because the client lacks the capability', async () => {
    const app = await start({ instrumentation: new OtelInstrumentation() });
    const client = await app.client().initialize(LATEST, {});
    await (await client.call('ask')).text();
    expect(telemetry.named('elicitation/create')).toEqual([]);
  });

  it('a request of the server to its client does not tell the client of the trace, or what the app keeps in its baggage', async () => {
    const { stream, params } = await asked(await asking());
    expect(JSON.stringify(params)).not.toMatch(/traceparent|baggage/);
    stream.destroy();
  });

  it('a request of the server to its client is measured as a duration of the sender, without labels for session and request', async () => {
    const client = await asking();
    const { stream, id } = await asked(client);
    await (await client.post({ jsonrpc: '2.0', id, error: { code: -32603, message: 'no' } })).text();
    await stream.end();
    const labels = { ...NETWORK, 'mcp.method.name': 'elicitation/create', 'mcp.protocol.version': LATEST };
    expect((await telemetry.points(DURATION)).map(({ attributes, count }) => ({ attributes, count }))).toEqual([
      { attributes: { ...labels, 'error.type': '-32603', 'rpc.response.status_code': '-32603' }, count: 1 },
    ]);
  });
});

describe.each(ONE_ADAPTER)('a request of our client, to a server on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers: [Tools] });
  let client: Client;
  afterEach(() => client.close());

  const connect = async (era: 'legacy' | 'modern' = 'legacy'): Promise<TestApp> => {
    const app = await start({ instrumentation: new OtelInstrumentation() });
    const transport = new StreamableClientTransport(app.url, {
      fetch: loneFetch,
      requestMeta: traceContextMeta,
      instrumentation: new OtelClientInstrumentation(),
      standaloneStream: false,
    });
    client = new Client(
      { name: 'test', version: '1.0.0' },
      era === 'modern' ? { versionNegotiation: { mode: { pin: '2026-07-28' } } } : {},
    );
    await client.connect(transport);
    return app;
  };
  /** What the client has sent, and what the server has received. */
  const both = (name: string): [ReadableSpan, ReadableSpan] => {
    const of = (kind: SpanKind) => telemetry.named(name).filter((span) => span.kind === kind);
    expect([of(SpanKind.CLIENT).length, of(SpanKind.SERVER).length]).toEqual([1, 1]);
    return [of(SpanKind.CLIENT)[0]!, of(SpanKind.SERVER)[0]!];
  };

  it.each(['legacy', 'modern'] as const)(
    'a request of our client is a CLIENT span, the parent of the span of the server: %s',
    async (era) => {
      const url = new URL((await connect(era)).url);
      const agent = trace.getTracer('agent').startSpan('agent') as unknown as ReadableSpan & { end(): void };
      await context.with(trace.setSpan(context.active(), agent as never), () =>
        client.callTool({ name: 'roots', arguments: {} }).catch(() => {}),
      );
      agent.end();
      const [sent, received] = both('tools/call roots');
      isBelow(received, sent);
      isBelow(sent, agent);
      expect(sent.attributes).toMatchObject({
        ...NETWORK,
        'mcp.method.name': 'tools/call',
        'gen_ai.tool.name': 'roots',
        'gen_ai.operation.name': 'execute_tool',
        'server.address': url.hostname,
        'server.port': Number(url.port),
        'mcp.protocol.version': era === 'modern' ? '2026-07-28' : LATEST,
        'jsonrpc.request.id': received.attributes['jsonrpc.request.id'],
      });
      const { 'mcp.session.id': sessionId } = sent.attributes;
      expect(received.attributes['mcp.session.id']).toBe(
        sessionId === undefined ? undefined : hashOf(String(sessionId)),
      );
    },
  );

  it('a request of our client ends as its sender sees it: with a result, a failed tool, a code, or cancelled', async () => {
    const { service } = await connect();
    await client.callTool({ name: 'fails', arguments: {} });
    await expect(client.callTool({ name: 'invented', arguments: {} })).rejects.toThrow('invented');
    const cancelling = new AbortController();
    const waiting = client.callTool({ name: 'waits', arguments: {} }, { signal: cancelling.signal });
    await expect.poll(() => service.nodeCounts().inFlight).toBe(1);
    cancelling.abort('enough');
    await expect(waiting).rejects.toThrow('enough');
    const sent = () => telemetry.spans.filter(({ kind }) => kind === SpanKind.CLIENT);
    await expect.poll(sent).toHaveLength(4);
    expect(sent().map((span) => [span.name, endOf(span)])).toEqual([
      ['initialize', SUCCESS],
      ['tools/call fails', { type: 'tool_error', code: undefined, failed: true }],
      ['tools/call invented', { type: '-32602', code: '-32602', failed: true }],
      ['tools/call waits', { type: 'cancelled', code: undefined, failed: true }],
    ]);
    const points = await telemetry.points(DURATION);
    // Names of tools only where there is such a tool, as far as the client can know.
    expect(points.map(({ attributes }) => [attributes['mcp.method.name'], attributes['gen_ai.tool.name']])).toEqual([
      ['initialize', undefined],
      ['tools/call', 'fails'],
      ['tools/call', undefined],
      ['tools/call', undefined],
    ]);
    expect(points.every(({ attributes }) => !('mcp.session.id' in attributes))).toBe(true);
  });

  it('a request of our client has the HTTP status when the server does not answer it', async () => {
    const app = await start({});
    const transport = new StreamableClientTransport(app.url, {
      fetch: () => Promise.resolve(new Response('no', { status: 403 })),
      instrumentation: new OtelClientInstrumentation(),
    });
    client = new Client({ name: 'test', version: '1.0.0' });
    await expect(client.connect(transport)).rejects.toThrow('403');
    expect(telemetry.spans.map((span) => [span.name, endOf(span)])).toEqual([
      ['initialize', { type: '403', code: undefined, failed: true }],
    ]);
  });
});
