import { MissingRequiredClientCapabilityError } from '@modelcontextprotocol/server';
import { Injectable } from '@nestjs/common';
import { McpArgs, McpCtx, type McpContext, Prompt, Resource, Tool } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ONE_ADAPTER } from '../support/app.js';
import { testApps } from '../support/test-apps.js';
import { ModernClient, MODERN } from '../support/modern-client.js';
import { expectRefusal } from '../support/refusal.js';

const VERSION = 'io.modelcontextprotocol/protocolVersion';
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';
const LOG_LEVEL = 'io.modelcontextprotocol/logLevel';
const INFO = 'io.modelcontextprotocol/clientInfo';

const called: string[] = [];

@Injectable()
class Tools {
  @Tool({ name: 'add', inputSchema: z.object({ a: z.number(), b: z.number() }) })
  add(@McpArgs() { a, b }: { a: number; b: number }): string {
    called.push('add');
    return String(a + b);
  }

  @Tool({ name: 'who' })
  who(@McpCtx() { requestId, session, clientCapabilities }: McpContext): object {
    return { requestId, session: session ?? 'none', clientCapabilities };
  }

  @Tool({ name: 'needs-sampling' })
  async needs(@McpCtx() context: McpContext): Promise<string> {
    if (!context.clientCapabilities['sampling']) {
      throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { sampling: {} } }, 'A model is needed.');
    }
    return 'sampled';
  }

  @Tool({ name: 'needs-later' })
  async needsLater(@McpCtx() context: McpContext): Promise<string> {
    await context.progress(1);
    return this.needs(context);
  }

  @Resource({ uri: 'app://one', name: 'one' })
  one(): string {
    return 'one';
  }

  @Prompt({ name: 'hi' })
  hi(): string {
    return 'hi';
  }
}

describe.each(ONE_ADAPTER)('the _meta of a modern request, on %s', (adapter) => {
  const start = testApps(adapter, { providers: [Tools], shared: true });
  const client = async (headers?: Record<string, string>): Promise<ModernClient> => {
    called.length = 0;
    return new ModernClient((await start()).url, headers);
  };
  /** A request whose `_meta` is just this; its headers are those of a modern client. */
  const posted = async (meta: unknown, more: Record<string, unknown> = {}) => {
    const made = await client();
    const message = made.message('tools/call', { name: 'add', arguments: { a: 1, b: 2 }, ...more }, { id: 9 });
    message.params['_meta'] = meta;
    return made.post(message, made.headersOf(message));
  };
  const complete = { [VERSION]: MODERN, [CAPABILITIES]: {}, [INFO]: { name: 'raw', version: '1.0.0' } };
  const without = (key: string): object => Object.fromEntries(Object.entries(complete).filter(([k]) => k !== key));

  it('M2 D4: a request is served with revision and capabilities alone, without a clientInfo', async () => {
    const response = await posted(without(INFO));
    expect(response.status).toBe(200);
    expect((await response.json()).result.content[0].text).toBe('3');
  });

  it.each<[string, unknown]>([
    ['no _meta', undefined],
    ['an empty _meta', {}],
    ['no protocolVersion', without(VERSION)],
    ['no clientCapabilities', without(CAPABILITIES)],
    ['a protocolVersion that is a number', { ...complete, [VERSION]: 20260728 }],
    ['a protocolVersion that is null', { ...complete, [VERSION]: null }],
    ['a protocolVersion that is an object', { ...complete, [VERSION]: {} }],
    ['clientCapabilities that are a text', { ...complete, [CAPABILITIES]: 'all' }],
    ['clientCapabilities that are null', { ...complete, [CAPABILITIES]: null }],
    ['clientCapabilities that are an array', { ...complete, [CAPABILITIES]: [] }],
    ['clientCapabilities with a malformed member', { ...complete, [CAPABILITIES]: { sampling: 'yes' } }],
    ['a clientInfo that is a text', { ...complete, [INFO]: 'raw' }],
    ['a clientInfo that is null', { ...complete, [INFO]: null }],
    ['a clientInfo without a version', { ...complete, [INFO]: { name: 'raw' } }],
    ['a clientInfo whose name is a number', { ...complete, [INFO]: { name: 1, version: '1.0.0' } }],
    ['a logLevel that is none', { ...complete, [LOG_LEVEL]: 'loud' }],
    ['a logLevel that is a number', { ...complete, [LOG_LEVEL]: 4 }],
    ['a logLevel that is null', { ...complete, [LOG_LEVEL]: null }],
  ])('M2 D4: a request with %s gets 400 with invalid params, and no handler runs', async (_, meta) => {
    await expectRefusal(await posted(meta), { status: 400, code: -32602, id: 9 });
    expect(called).toEqual([]);
  });

  it.each([[['a']], ['text'], [7]])('M2: a _meta that is no object counts as a missing one (%#)', async (meta) => {
    const response = await posted(meta);
    expect(response.status).toBe(400);
    expect((await response.json()).error.code).toBeLessThanOrEqual(-32600);
    expect(called).toEqual([]);
  });

  it.each<[name: string, version: string, requested?: string]>([
    ['of the future', '2099-01-01'],
    ['of the past', '1999-01-01'],
    ['of the other era', '2025-11-25'],
    ['without a character', ''],
    ['that a prototype has', 'constructor'],
    ['that is long', 'x'.repeat(10_000), `${'x'.repeat(200)}…`],
  ])('M3: a revision %s is not served', async (_, version, requested = version) => {
    const made = await client();
    const message = made.message('tools/list', {}, { id: 4, meta: { [VERSION]: version } });
    const headers = { ...made.headersOf(message), 'mcp-protocol-version': version };
    const { data } = await expectRefusal(await made.post(message, headers), { status: 400, code: -32022, id: 4 });
    expect(data).toMatchObject({ requested });
    expect((data as { supported: string[] }).supported).toContain(MODERN);
  });

  it.each([
    'initialize',
    'notifications/x',
    'ping',
    'logging/setLevel',
    'resources/subscribe',
    'resources/unsubscribe',
    'tasks/list',
    'sampling/createMessage',
    'roots/list',
    'elicitation/create',
    '__proto__',
    'constructor',
    'ü',
  ])('M5: a request of the method %s gets 404', async (method) => {
    const made = await client();
    // A header can say no more than ASCII.
    const headers = method === 'ü' ? { 'mcp-method': '=?base64?w7w=?=' } : {};
    const response = await made.request(method, { uri: 'app://one', level: 'info' }, { id: 5, headers });
    if (method === 'ü') return void (await expectRefusal(response, { status: 400, code: -32020, id: 5 }));
    const { code } = await expectRefusal(response, { status: 404, code: -32601, id: 5 });
    expect(code).toBe(-32601);
  });

  it.each([
    ['tools/call', { name: 'none' }],
    ['prompts/get', { name: 'none' }],
    ['resources/read', { uri: 'app://none' }],
  ])('M5: %s of an unknown name gets 200 with the error', async (method, params) => {
    const made = await client();
    const response = await made.request(method, params, { id: 5 });
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({ id: 5, error: { code: -32602 } });
  });

  it.each([
    ['tools/call', {}],
    ['tools/call', { name: 7 }],
    ['tools/call', { name: 'add', arguments: 'x' }],
    ['prompts/get', {}],
    ['resources/read', { uri: 7 }],
  ])('M2: %s with malformed params is invalid (%#)', async (method, params) => {
    const made = await client();
    const response = await made.request(method, params, { id: 5 });
    expect((await response.json()).error.code).toBe(-32602);
    expect(called).toEqual([]);
  });

  it('M6: a missing capability gets 400 with its name before the head', async () => {
    const made = await client();
    const response = await made.call('needs-sampling', {}, { id: 6 });
    const { data } = await expectRefusal(response, { status: 400, code: -32021, id: 6 });
    expect(data).toEqual({ requiredCapabilities: { sampling: {} } });
    const able = await made.call('needs-sampling', {}, { capabilities: { sampling: {} } });
    expect((await able.json()).result.content[0].text).toBe('sampled');
  });

  it('M6: a missing capability gets the same error in a stream that has begun', async () => {
    const made = await client();
    const response = await made.call('needs-later', {}, { id: 6, progressToken: 1 });
    expect([response.status, response.header('content-type')]).toEqual([200, 'text/event-stream']);
    const stream = response.sse();
    expect(await stream.end()).toBe('end');
    expect(stream.messages).toMatchObject([
      { method: 'notifications/progress' },
      { id: 6, error: { code: -32021, data: { requiredCapabilities: { sampling: {} } } } },
    ]);
  });

  it('M11: session ids and cursors are ignored, on whatever is asked for, and none are given', async () => {
    const made = await client({ 'mcp-session-id': 'constructor', 'last-event-id': '!' });
    for (const [method, params] of [
      ['server/discover', {}] as const,
      ['tools/list', {}] as const,
      ['prompts/get', { name: 'hi' }] as const,
      ['tools/call', { name: 'who' }] as const,
      ['resources/read', { uri: 'app://one' }] as const,
    ]) {
      const response = await made.request(method, params);
      expect(response.status).toBe(200);
      expect(response.header('mcp-session-id')).toBeUndefined();
      await response.text();
    }
  });

  it.each<[string | number]>([[0], ['0'], [-1], [''], ['x'.repeat(256)], [Number.MAX_SAFE_INTEGER], ['__proto__']])(
    'M1: the id %.20j comes back as it was',
    async (id) => {
      const made = await client();
      const { id: answered, result } = await made.ask('tools/call', { name: 'who' }, { id });
      expect(answered).toStrictEqual(id);
      expect(result.structuredContent.requestId).toStrictEqual(id);
    },
  );
});
