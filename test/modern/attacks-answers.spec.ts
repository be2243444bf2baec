import { inputRequired } from '@modelcontextprotocol/server';
import { Injectable } from '@nestjs/common';
import { type McpHandlerFunction, type McpContext, McpCtx, ResourceTemplate } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, type TestApp, NOTHING } from '../support/app.js';
import { registryOf, testApps } from '../support/test-apps.js';

type Handlers = Readonly<Record<string, McpHandlerFunction<Record<string, unknown>>>>;

const INTERNAL_ERROR = -32603;
const INVALID_REQUEST = -32600;
const capabilities = { elicitation: {}, sampling: {}, roots: {} };
const cyclic: { self?: object } = {};
cyclic.self = cyclic;
const traps = {
  get trap(): never {
    throw new Error('secret');
  },
};
const SAMPLE = { messages: [], maxTokens: 1 };
const form = { message: 'm', requestedSchema: { type: 'object', properties: {} } } as const;

/** What JSON has no words for, in every place that nobody has looked at before. */
const unwritable: Handlers = {
  'a bigint in _meta': () => ({ content: [], _meta: { id: 1n } }),
  'a question with a bigint': (_, ctx) => ctx.sample('q', { ...SAMPLE, metadata: { id: 1n as never } }),
  'a question with a cycle': (_, ctx) => ctx.sample('q', { ...SAMPLE, metadata: cyclic as never }),
  'a question of the SDK with a bigint': () =>
    inputRequired({ inputRequests: { q: { method: 'roots/list', params: { _meta: { id: 1n } } } } }),
};

/** Found before the answer is written, so that the model can read of it. */
const unstructured: Handlers = {
  'a bigint': () => ({ content: [], structuredContent: { id: 1n } }),
  'a cycle': () => ({ content: [], structuredContent: cyclic }),
  'a getter that throws': () => ({ content: [], structuredContent: { deep: traps } }),
};

/** What is said in passing, and cannot be said. */
const heedless: Handlers = {
  log: (_, ctx) => void ctx.log('info', { id: 1n }),
  notify: (_, ctx) => void ctx.notify('notifications/mine', cyclic),
  progress: (_, ctx) => void ctx.progress({ progress: 1, total: 2n as never }),
};

@Injectable()
class Remembering {
  @ResourceTemplate({ uriTemplate: 'attack://{+name}', name: 'remembering' })
  async read(@McpCtx() ctx: McpContext): Promise<string> {
    await ctx.once('much', () => 'x'.repeat(100_000));
    await ctx.elicit('q', form);
    return 'read';
  }
}

const nested = (depth: number): string => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`;

describe.each(ONE_ADAPTER)('attacks on the answers of modern requests, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true });
  const options = { capabilities, logLevel: 'debug', progressToken: 1 };

  const expectUnwritable = async (app: TestApp, { id, error, result }: Answer, asked: number) => {
    expect({ id, result }).toEqual({ id: asked, result: undefined });
    expect(error).toEqual({ code: INTERNAL_ERROR, message: expect.stringMatching(/cannot be written as JSON.*log/) });
    expect(app.log.texts('error').join()).toMatch(/BigInt|circular|secret/);
    await app.settled(NOTHING);
  };

  it.each(Object.keys(unwritable))('P1: a tool that answers with %s ends its request', async (name) => {
    const app = await start({ tools: unwritable });
    const answer = await app.modern().ask('tools/call', { name, arguments: {} }, { ...options, id: 5 });
    await expectUnwritable(app, answer, 5);
  });

  it.each(Object.keys(unstructured))(
    'P1: structured content with %s is an error that the model reads',
    async (name) => {
      const app = await start({ tools: unstructured });
      const { result } = await app.modern().ask('tools/call', { name, arguments: {} }, options);
      const text = expect.stringContaining('cannot be written as JSON');
      expect(result).toMatchObject({ isError: true, content: [{ type: 'text', text }] });
      expect(app.log.texts('error').join()).toMatch(/BigInt|circular|secret/);
      await app.settled(NOTHING);
    },
  );

  it('P1: resources and prompts with such an answer end their requests, streams too', async () => {
    const app = await start({ responseMode: 'sse' });
    const client = app.modern();
    const _meta = { id: 1n };
    const contents = [{ uri: 'attack://a', text: 'a' }];
    registryOf(app).registerResource({ name: 'a', uri: 'attack://a', handler: () => ({ contents, _meta }) });
    registryOf(app).registerPrompt({ name: 'a', handler: () => ({ messages: [], _meta }) });
    await expectUnwritable(app, await client.ask('resources/read', { uri: 'attack://a' }, { id: 1 }), 1);
    await expectUnwritable(app, await client.ask('prompts/get', { name: 'a' }, { id: 2 }), 2);
  });

  // A rejection that nobody awaits would fail the run: it ends a process.
  it.each(Object.keys(heedless))(
    'M9: a message that cannot be sent (%s) does not affect the call, nor the process',
    async (name) => {
      const client = (await start({ tools: heedless })).modern();
      const { result } = await client.ask('tools/call', { name, arguments: {} }, options);
      expect(result.content).toEqual([{ type: 'text', text: 'done' }]);
    },
  );

  it('M8: a URI with line breaks writes no lines of its own into the log', async () => {
    const app = await start({ providers: [Remembering] });
    const client = app.modern();
    const uri = 'attack://a\n[Nest] LOG somebody was let in\u001B[31m';
    const name = `=?base64?${Buffer.from(uri).toString('base64')}?=`;
    const { error } = await client.ask('resources/read', { uri }, { capabilities, headers: { 'mcp-name': name } });
    expect(error.code).toBe(INTERNAL_ERROR);
    const [line, ...more] = app.log.texts('error');
    expect(more).toEqual([]);
    expect(line).toContain('somebody was let in');
    // oxlint-disable-next-line no-control-regex -- that is what must not be there
    expect(line).not.toMatch(/[\u0000-\u001F]/);
  });

  it('M8: arguments that are nested too deeply to be bound to a state are an error of the client', async () => {
    const app = await start({ tools: { ask: (_, ctx) => ctx.elicit('q', form) } });
    const client = app.modern();
    const message = client.message('tools/call', { name: 'ask', arguments: '@' }, { capabilities, id: 3 });
    const body = JSON.stringify(message).replace('"@"', nested(30_000));
    const { id, error } = await (await client.post(body, client.headersOf(message))).json();
    expect([id, error.code]).toEqual([3, INVALID_REQUEST]);
    expect(error.message).toContain('512 levels');
    expect(app.log.texts('error')).toEqual([]);
  });

  it('M8: answers that are nested too deeply to be kept in a state are an error of the client', async () => {
    const twice: McpHandlerFunction<Record<string, unknown>> = async (_, ctx) => {
      await ctx.sample('first', SAMPLE);
      await ctx.elicit('second', form);
    };
    const client = (await start({ tools: { twice } })).modern();
    const answer = { role: 'assistant', model: 'm', content: { type: 'text', text: 't' }, _meta: { deep: '@' } };
    const params = { name: 'twice', arguments: {}, inputResponses: { first: answer } };
    const message = client.message('tools/call', params, { capabilities, id: 4 });
    const body = JSON.stringify(message).replace('"@"', nested(30_000));
    const { id, error } = await (await client.post(body, client.headersOf(message))).json();
    expect([id, error.code]).toEqual([4, INVALID_REQUEST]);
    expect(error.message).toContain('512 levels');
  });
});

interface Answer {
  id: unknown;
  error?: object;
  result?: object;
}
