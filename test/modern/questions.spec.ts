import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { McpOptionError } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, type TestApp, type TestAppOptions } from '../support/app.js';
import { testApps } from '../support/test-apps.js';
import { ModernClient, type ModernRequest } from '../support/modern-client.js';
import { Deployment } from '../support/nodes.js';
import { as, trustingGuard } from '../support/users.js';
import { AskingHandlers } from './questions.tools.js';
import { loneFetch } from '../support/ways.js';

const CAPABILITIES = { elicitation: {}, sampling: {}, roots: {} };
const accept = (name: unknown) => ({ action: 'accept', content: { name } });
const textOf = ({ content }: { content: { text?: string }[] }): unknown => content.map(({ text }) => text).join();
const INVALID_STATE = {
  code: -32602,
  message: 'Invalid or expired requestState',
  data: { reason: 'invalid_request_state' },
};
const KEY = 'k'.repeat(32);

interface Asked {
  inputRequests: Record<string, { method: string; params: { message: string } }>;
  requestState: string;
}

/** Calls tools as a client that can answer, and says how. */
function rounds(app: TestApp, headers: Record<string, string> = {}) {
  const client = new ModernClient(app.url, headers);
  const options: ModernRequest = { capabilities: CAPABILITIES };
  const request = async (method: string, params: Record<string, unknown>) => client.ask(method, params, options);
  return {
    request,
    call: (name: string, more: object = {}) => request('tools/call', { name, arguments: {}, ...more }),
    async asked(name: string, more: object = {}): Promise<Asked> {
      const { result } = await request('tools/call', { name, arguments: {}, ...more });
      expect(result).toMatchObject({ resultType: 'input_required', requestState: expect.any(String) });
      return result as Asked;
    },
  };
}

const unhandled: unknown[] = [];
const note = (reason: unknown): void => void unhandled.push(reason);
beforeEach(() => void process.on('unhandledRejection', note));
afterEach(() => {
  process.off('unhandledRejection', note);
  expect(unhandled.splice(0)).toEqual([]);
});

describe.each(ONE_ADAPTER)('questions of handlers, on %s', (adapter) => {
  const begin = testApps(adapter, { shared: true, providers: [AskingHandlers] });
  const start = async (options?: Partial<TestAppOptions>): Promise<TestApp> => {
    const app = await begin(options);
    for (const { app: node } of app.nodes) node.get(AskingHandlers, { strict: false }).runs.length = 0;
    return app;
  };
  const runsOf = ({ nodes }: TestApp): string[] =>
    nodes.flatMap(({ app }) => app.get(AskingHandlers, { strict: false }).runs);

  it('M8: a question ends the run of its handler, and the next run gets the answer', async () => {
    const app = await start();
    const client = rounds(app);
    const first = await client.asked('greet');
    expect(first).toMatchObject({
      inputRequests: {
        name: {
          method: 'elicitation/create',
          params: { mode: 'form', message: 'Who are you?', requestedSchema: { type: 'object', required: ['name'] } },
        },
      },
      _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'test' } },
    });
    const answered = { inputResponses: { name: accept('Ann') }, requestState: first.requestState };
    expect(textOf((await client.call('greet', answered)).result)).toBe('Hello Ann');
    expect(runsOf(app)).toEqual(['greet', 'greet']);
    expect(app.log.texts('error')).toEqual([]);
  });

  it('M8: a request without a state is a first run, with the answers that it carries', async () => {
    const client = rounds(await start());
    expect(textOf((await client.call('greet', { inputResponses: { name: accept('Ann') } })).result)).toBe('Hello Ann');
  });

  it('M8: a question is asked again until its answer fits the schema', async () => {
    const client = rounds(await start());
    let { requestState } = await client.asked('greet');
    for (const wrong of [
      accept(''),
      accept(5),
      { roots: [] },
      { method: 'x', result: accept('Ann') },
      { action: 'accept' },
    ]) {
      const again = await client.asked('greet', { inputResponses: { name: wrong }, requestState });
      expect(Object.keys(again.inputRequests)).toEqual(['name']);
      ({ requestState } = again);
    }
    const result = await client.call('greet', { inputResponses: { name: { action: 'decline' } }, requestState });
    expect(textOf(result.result)).toBe('Hello decline');
  });

  it('M8: an answer under a name of the prototype is ignored', async () => {
    const client = rounds(await start());
    const inputResponses = JSON.parse(
      '{"__proto__":{"name":{"action":"accept","content":{"name":"Eve"}}},"constructor":{}}',
    );
    const asked = await client.asked('greet', { inputResponses });
    expect(Object.keys(asked.inputRequests)).toEqual(['name']);
  });

  it('M8: a step of once() runs once over several rounds of questions', async () => {
    const app = await start();
    const client = rounds(app);
    const args = { arguments: { item: 'tea' } };
    const first = await client.asked('order', args);
    const second = await client.asked('order', {
      ...args,
      inputResponses: { who: accept('Ann') },
      requestState: first.requestState,
    });
    expect(Object.keys(second.inputRequests)).toEqual(['where']);
    const third = await client.call('order', {
      ...args,
      inputResponses: { where: accept('Rome') },
      requestState: second.requestState,
    });
    expect(textOf(third.result)).toBe('7: tea for Ann in Rome');
    expect(runsOf(app)).toEqual(['number']);
  });

  it.each(['caught', 'filtered', 'intercepted', 'dropped'])(
    'M8: a question is asked, whatever the app does with its error (%s)',
    async (name) => {
      const app = await start();
      const client = rounds(app);
      const { inputRequests, requestState } = await client.asked(name);
      expect(Object.keys(inputRequests)).toEqual(['name']);
      const { result } = await client.call(name, { inputResponses: { name: accept('Ann') }, requestState });
      expect(textOf(result)).toBe(name === 'dropped' ? 'done' : 'Hello Ann');
    },
  );

  it.each(['streamed', 'generated'])(
    'M8: the progress that is sent before a question precedes the question: %s',
    async (name) => {
      const client = new ModernClient((await start()).url);
      const response = await client.call(name, {}, { capabilities: CAPABILITIES, progressToken: 'p' });
      const stream = response.sse();
      await stream.end();
      expect(stream.messages).toMatchObject([
        { method: 'notifications/progress', params: { progressToken: 'p', progress: 1 } },
        { result: { resultType: 'input_required', inputRequests: { name: {} } } },
      ]);
    },
  );

  it('M8: prompts and resources can ask too', async () => {
    const client = rounds(await start());
    const requests: [string, Record<string, unknown>, string][] = [
      ['prompts/get', { name: 'letter' }, 'messages'],
      ['resources/read', { uri: 'app://greeting' }, 'contents'],
      ['resources/read', { uri: 'app://greeting/hi' }, 'contents'],
    ];
    for (const [method, params, field] of requests) {
      const { requestState } = (await client.request(method, params)).result as Asked;
      const inputResponses = { name: accept('Ann') };
      const { result } = await client.request(method, { ...params, requestState, inputResponses });
      expect(JSON.stringify(result[field])).toContain('Hello Ann');
    }
  });

  it('M8: a completion that asks fails with the reason', async () => {
    const client = rounds(await start());
    const ref = { type: 'ref/resource', uri: 'app://greeting/{word}' };
    const { error } = await client.request('completion/complete', { ref, argument: { name: 'word', value: 'h' } });
    expect(error).toMatchObject({ code: -32603, message: expect.stringContaining('"word" cannot be asked during') });
  });

  it('M8: handlers may return inputRequired() themselves, and their state is sealed', async () => {
    const client = rounds(await start());
    const { requestState } = await client.asked('by hand');
    expect(requestState).not.toContain('step');
    const inputResponses = { name: accept('Ann') };
    expect(textOf((await client.call('by hand', { inputResponses, requestState })).result)).toBe('step 1: Ann');
    const forged = await client.call('by hand', { inputResponses, requestState: 'step 1' });
    expect(forged.error).toEqual(INVALID_STATE);
  });

  it('M8: a state belongs to its caller, method, name and arguments', async () => {
    const app = await start();
    const client = rounds(app, as('ann'));
    const item = (item: string) => ({ arguments: { item } });
    const { requestState } = await client.asked('order', item('tea'));
    const inputResponses = { who: accept('Ann'), name: accept('Ann') };
    const foreign = [
      await rounds(app, as('bob')).call('order', { ...item('tea'), inputResponses, requestState }),
      await rounds(app).call('order', { ...item('tea'), inputResponses, requestState }),
      await client.call('order', { ...item('coffee'), inputResponses, requestState }),
      await client.call('greet', { inputResponses, requestState }),
      await client.request('prompts/get', { name: 'letter', inputResponses, requestState }),
      await client.call('order', { ...item('tea'), inputResponses, requestState: `${requestState}A` }),
      await client.call('order', { ...item('tea'), inputResponses, requestState: `B${requestState.slice(1)}` }),
      await client.call('order', { ...item('tea'), inputResponses, requestState: '' }),
      await client.call('order', { ...item('tea'), inputResponses, requestState: 'x'.repeat(100_000) }),
      await client.call('order', { ...item('tea'), inputResponses, requestState: { a: 1 } }),
    ];
    for (const { error } of foreign) expect(error.code).toBe(-32602);
    for (const { error } of foreign.slice(0, -1)) expect(error).toEqual(INVALID_STATE);
    const { result } = await client.call('order', { ...item('tea'), inputResponses, requestState });
    expect(result).toMatchObject({ resultType: 'input_required', inputRequests: { where: {} } });
  });

  it('M8: a state is refused after its time to live', async () => {
    const clock = new ManualClock();
    const client = rounds(await start({ clock, requestStateTtlMs: 60_000, clockToleranceMs: 0 }));
    const { requestState } = await client.asked('greet');
    const answered = { inputResponses: { name: accept('Ann') }, requestState };
    await clock.advance(59_999);
    expect(textOf((await client.call('greet', answered)).result)).toBe('Hello Ann');
    await clock.advance(1);
    expect((await client.call('greet', answered)).error).toEqual(INVALID_STATE);
  });

  it('M8: a node whose clock is ahead opens a state, and refuses it when the tolerance is over, too', async () => {
    const clock = new ManualClock();
    const options = { requestStateTtlMs: 60_000, requestStateKeys: ['k'.repeat(32)], clockToleranceMs: 5_000 };
    const { requestState } = await rounds(await start({ ...options, clock: new ManualClock() })).asked('greet');
    const ahead = rounds(await start({ ...options, clock }));
    const answered = { inputResponses: { name: accept('Ann') }, requestState };
    await clock.advance(64_999);
    expect(textOf((await ahead.call('greet', answered)).result)).toBe('Hello Ann');
    await clock.advance(1);
    expect((await ahead.call('greet', answered)).error).toEqual(INVALID_STATE);
  });

  it('M8: a state that becomes too large fails the call with a generic error, and the log has the reason', async () => {
    const app = await start();
    const { error } = await rounds(app).call('forgetful');
    expect(error).toMatchObject({ code: -32603 });
    expect(JSON.stringify(error)).not.toMatch(/maxRequestStateBytes|s3cret/);
    expect(app.log.texts('error')).toEqual([expect.stringMatching(/of "forgetful" failed.*"maxRequestStateBytes"/)]);
  });

  it('M6: a client without a required capability gets HTTP 400 before the stream has begun', async () => {
    const client = new ModernClient((await start()).url);
    const response = await client.call('sampled', {}, { capabilities: { elicitation: {} } });
    expect(response.status).toBe(400);
    expect((await response.json()).error).toMatchObject({
      code: -32021,
      message: expect.stringContaining('"text" (sampling/createMessage)'),
      data: { requiredCapabilities: { sampling: {} } },
    });
  });

  it('M6: a client without a required capability gets the error in a stream that has begun, whatever the handler catches', async () => {
    const client = new ModernClient((await start()).url);
    const response = await client.call('sampled late', {}, { capabilities: {}, progressToken: 1 });
    expect(response.status).toBe(200);
    const stream = response.sse();
    await stream.end();
    expect(stream.messages.at(-1)).toMatchObject({
      error: { code: -32021, data: { requiredCapabilities: { sampling: {} } } },
    });
  });

  it.each(['caught', 'filtered', 'intercepted', 'by hand', 'all'])(
    'M6: a client without a required capability gets 400, whatever the app does with the error (%s)',
    async (name) => {
      const client = new ModernClient((await start()).url);
      const response = await client.call(name, {}, { capabilities: { elicitation: { url: {} } } });
      expect(response.status).toBe(400);
      const { error } = await response.json();
      expect(error).toMatchObject({ code: -32021, data: { requiredCapabilities: { elicitation: { form: {} } } } });
    },
  );

  describe('asked of the official client', () => {
    const clients = askedClients();

    it.each(['auto', 'legacy'] as const)('M8: the same tools in both eras: %s', async (mode) => {
      const app = await start();
      const client = await clients(app, mode);
      expect(client.getNegotiatedProtocolVersion()).toBe(mode === 'auto' ? '2026-07-28' : '2025-11-25');
      const call = async (name: string, args = {}) =>
        textOf((await client.callTool({ name, arguments: args })) as never);
      expect(await call('greet')).toBe('Hello Who are you?');
      expect(await call('order', { item: 'tea' })).toBe('7: tea for For whom? in Where to?');
      expect(await call('all')).toBe('Who? model file:///root');
      expect(await call('caught')).toBe('Hello Who are you?');
      expect(await call('filtered')).toBe('Hello Who are you?');
      expect(await call('intercepted')).toBe('Hello Who are you?');
      expect(await call('streamed')).toBe('Hello Who are you?');
      expect(await call('generated')).toBe('Hello Who are you?');
      expect(await call('by hand')).toBe('step 1: Who?');
      expect(JSON.stringify(await client.getPrompt({ name: 'letter' }))).toContain('Hello Who are you?');
      expect(JSON.stringify(await client.readResource({ uri: 'app://greeting' }))).toContain('Hello Who are you?');
      expect(runsOf(app).filter((run) => run === 'number')).toHaveLength(1);
      expect(app.log.texts('error')).toEqual([]);
    });
  });

  describe('of several nodes', () => {
    const deployed = async (options: Partial<TestAppOptions>[]): Promise<TestApp[]> => {
      const deployment = new Deployment();
      const nodes: TestApp[] = [];
      for (const more of options) {
        nodes.push(
          await deployment.node({
            adapter,
            server: undefined,
            guards: [trustingGuard],
            module: { providers: [AskingHandlers] },
            ...more,
          }),
        );
      }
      closing.push(...nodes);
      return nodes;
    };
    const closing: TestApp[] = [];
    afterEach(async () => {
      for (const { app } of closing.splice(0)) await app.close();
    });
    const old = 'o'.repeat(32);

    it('M8: one node asks, and another one continues, also while keys are rotated', async () => {
      const [one, two] = await deployed([{ requestStateKeys: [old] }, { requestStateKeys: [KEY, old] }]);
      const { requestState } = await rounds(one!).asked('greet');
      const answered = { inputResponses: { name: accept('Ann') }, requestState };
      expect(textOf((await rounds(two!).call('greet', answered)).result)).toBe('Hello Ann');
      const newer = await rounds(two!).asked('greet');
      const refused = await rounds(one!).call('greet', { ...answered, requestState: newer.requestState });
      expect(refused.error).toEqual(INVALID_STATE);
    });

    it('M8: an app with shared sessions does not start without requestStateKeys, unless nothing is sealed', async () => {
      const keyless = { requestStateKeys: undefined };
      await expect(deployed([keyless])).rejects.toThrow(McpOptionError);
      await expect(deployed([keyless])).rejects.toThrow('"requestStateKeys" is required');
      await deployed([{ ...keyless, eras: 'legacy' }]);
    });
  });
});

/** Clients of the official kind that answer everything; each is closed after its test. */
function askedClients(): (app: TestApp, mode: 'auto' | 'legacy') => Promise<Client> {
  const open: Client[] = [];
  afterEach(async () => {
    for (const client of open.splice(0)) await client.close();
  });
  return async (app, mode) => {
    const capabilities = { elicitation: { form: {} }, sampling: {}, roots: {} };
    const client = new Client({ name: 'asked', version: '1.0.0' }, { capabilities, versionNegotiation: { mode } });
    client.setRequestHandler('elicitation/create', ({ params }) => accept(params.message) as never);
    client.setRequestHandler('sampling/createMessage', () => ({
      role: 'assistant',
      model: 'model',
      content: { type: 'text', text: 'Hello' },
    }));
    client.setRequestHandler('roots/list', () => ({ roots: [{ uri: 'file:///root' }] }));
    open.push(client);
    await client.connect(new StreamableHTTPClientTransport(new URL(app.url), { fetch: loneFetch }));
    return client;
  };
}
