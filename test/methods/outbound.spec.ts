import type { CreateMessageRequestParams } from '@modelcontextprotocol/server';
import { inputRequired } from '@modelcontextprotocol/server';
import type { McpContext, McpQuestion } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { TestApp, type TestAppOptions } from '../support/app.js';
import { eventually, recordedEvents, registryOf, sharedApp, testApps } from '../support/test-apps.js';
import type { SseStream } from '../support/http.js';
import { gists } from '../support/messages.js';
import { trustingGuard } from '../support/users.js';
import { ACCEPTED, Caller, ERAS, EVERYTHING, FORM, failureOf, SAMPLE, textOf } from './callers.js';

const PAGE = { mode: 'url' as const, message: 'Sign in', url: 'https://a.example' };
const TOOL = { name: 'look', inputSchema: { type: 'object' as const } };
const MODEL_LIST = {
  role: 'assistant',
  model: 'm',
  content: [
    { type: 'text', text: 'x' },
    { type: 'text', text: 'y' },
  ],
};
const TOOL_USE = { type: 'tool_use', id: '1', name: 'look', input: {} };
const ROOTS = { roots: [{ uri: 'file:///home' }] };

const OPTIONS: TestAppOptions = { adapter: 'fastify', guards: [trustingGuard], errorDetails: false };

type Messages = CreateMessageRequestParams['messages'];
const form: McpQuestion = { method: 'elicitation/create', params: FORM };
const page: McpQuestion = { method: 'elicitation/create', params: PAGE };
const sample = (more: object = {}): McpQuestion => ({
  method: 'sampling/createMessage',
  params: { ...SAMPLE, ...more },
});
const roots: McpQuestion = { method: 'roots/list' };

describe('requests and notifications of a server', () => {
  const start = testApps('fastify', { shared: true, errorDetails: false });

  const clock = new ManualClock();
  const share = sharedApp(() => TestApp.start(OPTIONS));
  let question: McpQuestion;
  /** An app whose tool `asks` asks that, and tells what came of it; `returns` leaves it to the dispatcher. */
  const asking = async (its: McpQuestion, options?: object): Promise<TestApp> => {
    question = its;
    const app = await (options ? start(options) : share());
    if (registryOf(app).list('tool').length > 0) return app;
    registryOf(app).registerTool({
      name: 'asks',
      handler: (_, ctx) =>
        ctx.ask({ q: question }).then(
          ({ q }) => JSON.stringify(q),
          (error: { name: string; code: unknown; message: string }) => {
            if (ctx.session === undefined) throw error;
            return `${error.name} ${String(error.code)}: ${error.message}`;
          },
        ),
    });
    registryOf(app).registerTool({ name: 'plainly', handler: (_, ctx) => ctx.ask({ q: question }) });
    registryOf(app).registerTool({
      name: 'returns',
      handler: (_, { inputResponses = {} }) =>
        'q' in inputResponses
          ? JSON.stringify(inputResponses['q'])
          : inputRequired({ inputRequests: { q: question as never } }),
    });
    return app;
  };
  /** Asks in a session, and answers. @returns the question, and what the tool tells of the answer */
  const answered = async (question: McpQuestion, answer: object, tool = 'asks') => {
    const caller = await Caller.of(await asking(question), 'legacy', EVERYTHING);
    const stream = await caller.questioned(tool);
    const [asked] = stream.messages;
    await caller.session.respond(asked.id, answer);
    await stream.end();
    const { result } = stream.messages.at(-1);
    return { asked, told: result.content[0].text as string, isError: result.isError as true | undefined };
  };

  describe('D20: capabilities count by mode', () => {
    const rows: readonly (readonly [
      what: string,
      declared: object,
      question: McpQuestion,
      missing: object | undefined,
    ])[] = [
      ['elicitation: a form', { elicitation: {} }, form, undefined],
      ['elicitation: a page', { elicitation: {} }, page, { elicitation: { url: {} } }],
      ['forms: a page', { elicitation: { form: {} } }, page, { elicitation: { url: {} } }],
      ['pages: a page', { elicitation: { url: {} } }, page, undefined],
      ['pages: a form', { elicitation: { url: {} } }, form, { elicitation: { form: {} } }],
      ['forms and pages: a page', { elicitation: { form: {}, url: {} } }, page, undefined],
      ['sampling: a sample', { sampling: {} }, sample(), undefined],
      ['sampling: one with tools', { sampling: {} }, sample({ tools: [TOOL] }), { sampling: { tools: {} } }],
      [
        'sampling: one with a choice of tools',
        { sampling: {} },
        sample({ toolChoice: { mode: 'auto' } }),
        { sampling: { tools: {} } },
      ],
      ['sampling with tools: one with tools', { sampling: { tools: {} } }, sample({ tools: [TOOL] }), undefined],
      ['roots: roots', { roots: {} }, roots, undefined],
      ['nothing: roots', {}, roots, { roots: {} }],
      ['nothing: a form', {}, form, { elicitation: { form: {} } }],
      ['something else: a sample', { experimental: { elicitation: {} } }, sample(), { sampling: {} }],
    ];
    /** Of the whole capability when nothing of it is declared. */
    const nameOf = (missing: object, declared: object): string => {
      const [[name, members]] = Object.entries(missing) as [[string, object]];
      return [name, ...(name in declared ? Object.keys(members) : [])].join('.');
    };

    it.each(rows)('a session declares %s', async (_, declared, question, missing) => {
      const app = await asking(question);
      const caller = await Caller.of(app, 'legacy', declared);
      const standalone = await caller.session.listen();
      for (const tool of ['asks', 'returns']) {
        const response = await caller.request('tools/call', { name: tool });
        if (missing) {
          // Nothing was sent: the answer is the only message.
          expect(response.header('content-type')).toMatch(/json/);
          const answer = await response.json();
          if (tool === 'returns') {
            expect(answer.error).toMatchObject({ code: -32021, data: { requiredCapabilities: missing } });
            expect(answer.error.message).toContain(`"${nameOf(missing, declared)}"`);
          } else {
            expect(textOf(answer)).toMatch(/^McpServerRequestError CLIENT_LACKS_CAPABILITY/);
            expect(textOf(answer)).toContain(`"${nameOf(missing, declared)}"`);
          }
          continue;
        }
        const stream = await response.sse().count(1);
        expect(stream.messages[0].method).toBe(question.method);
        stream.destroy();
        await caller.session.notify('notifications/cancelled', { requestId: 2 });
      }
      const asked = app.service.request(caller.session.sessionId!, question);
      if (missing) await expect(asked).rejects.toMatchObject({ code: 'CLIENT_LACKS_CAPABILITY' });
      else {
        await standalone.count(1);
        asked.catch(() => {});
      }
      standalone.destroy();
    });

    it.each(rows)('a request of revision 2026-07-28 declares %s', async (_, declared, question, missing) => {
      const caller = await Caller.of(await asking(question), 'modern', declared);
      for (const tool of ['asks', 'returns']) {
        const { status, result, error } = await caller.call(tool);
        if (!missing) {
          expect(result).toMatchObject({
            resultType: 'input_required',
            inputRequests: { q: { method: question.method } },
          });
        } else {
          expect(status).toBe(400);
          expect(error).toMatchObject({ code: -32021, data: { requiredCapabilities: missing } });
        }
      }
    });
  });

  describe('D21: tool uses and tool results of a sampling question are paired', () => {
    const text = { type: 'text', text: 'x' };
    const use = (id: string): object => ({ type: 'tool_use', id, name: 'look', input: {} });
    const result = (toolUseId: string): object => ({ type: 'tool_result', toolUseId, content: [] });
    const said = (...blocks: object[]): object => ({ role: 'user', content: blocks });
    const used = (...blocks: object[]): object => ({ role: 'assistant', content: blocks });

    const WRONG: readonly (readonly [what: string, messages: object[], text: RegExp])[] = [
      ['a result beside a text', [used(use('1')), said(result('1'), text)], /must contain nothing else/],
      ['a result without a message before it', [said(result('1'))], /no "tool_use"/],
      ['a result of no use', [used(text), said(result('1'))], /no "tool_use"/],
      ['a result of another use', [used(use('1')), said(result('2'))], /must answer exactly/],
      ['too few results', [used(use('1'), use('2')), said(result('1'))], /must answer exactly/],
      ['too many results', [used(use('1')), said(result('1'), result('2'))], /must answer exactly/],
      ['a use without a result', [used(use('1')), said(text)], /must answer exactly/],
      [
        'a single block instead of a list',
        [
          { role: 'assistant', content: use('1') },
          { role: 'user', content: text },
        ],
        /must answer/,
      ],
    ];
    const RIGHT: readonly (readonly [what: string, messages: object[]])[] = [
      ['one of one', [said(text), used(text, use('1')), said(result('1'))]],
      ['two of two, in any order', [used(use('1'), use('2')), said(result('2'), result('1'))]],
      [
        'single blocks',
        [
          { role: 'assistant', content: use('1') },
          { role: 'user', content: result('1') },
        ],
      ],
      ['no tools at all', [said(text), used(text), said(text)]],
      ['a use at the end', [said(text), used(use('1'))]],
    ];
    const about = (messages: object[]): McpQuestion => sample({ messages: messages as Messages, tools: [TOOL] });

    describe.each(ERAS)('in the %s era', (era) => {
      it.each(WRONG)('%s is -32602', async (_, messages, says) => {
        const app = await asking(about(messages));
        const caller = await Caller.of(app, era, EVERYTHING);
        for (const tool of ['plainly', 'returns']) {
          const { result: none, error } = await caller.call(tool);
          expect(none).toBeUndefined();
          expect(error).toMatchObject({ code: -32602, message: expect.stringMatching(says) });
        }
      });

      it.each(RIGHT)('%s is asked', async (_, messages) => {
        const app = await asking(about(messages));
        const caller = await Caller.of(app, era, EVERYTHING);
        if (era === 'modern') {
          const { result: asked } = await caller.call('plainly');
          expect(asked.inputRequests.q.params.messages).toEqual(messages);
          return;
        }
        const stream = await caller.questioned('plainly');
        expect(stream.messages[0].params.messages).toEqual(messages);
        stream.destroy();
      });
    });
  });

  describe('D22: questions on the wire', () => {
    const schema = z.object({ name: z.string().min(2).describe('Of the user'), size: z.enum(['s', 'm']).optional() });
    const restricted = {
      type: 'object',
      properties: {
        name: { type: 'string', minLength: 2, description: 'Of the user' },
        size: { type: 'string', enum: ['s', 'm'] },
      },
      required: ['name'],
    };
    const asked = async (question: McpQuestion, era: 'legacy' | 'modern') => {
      const caller = await Caller.of(await asking(question), era, EVERYTHING);
      if (era === 'modern') return (await caller.call('asks')).result.inputRequests.q;
      const stream = await caller.questioned('asks');
      stream.destroy();
      return stream.messages[0];
    };

    it.each(ERAS)('a form has the mode "form" and the schema of forms, in the %s era', async (era) => {
      const { method, params } = await asked(
        { method: 'elicitation/create', params: { message: 'Who?', requestedSchema: schema } },
        era,
      );
      expect(method).toBe('elicitation/create');
      expect(params).toMatchObject({ mode: 'form', message: 'Who?', requestedSchema: restricted });
      expect((await asked(form, era)).params).toMatchObject({ mode: 'form', ...FORM });
    });

    it.each(ERAS)('a question for roots has parameters, though it needs none, in the %s era', async (era) => {
      expect(await asked(roots, era)).toMatchObject({ method: 'roots/list', params: {} });
    });

    it('a URL has an id where the revision requires one', async () => {
      const first = await asked(page, 'legacy');
      const second = await asked(page, 'legacy');
      expect(first.params).toEqual({ ...PAGE, elicitationId: expect.stringMatching(/^.{16,}$/) });
      expect(second.params.elicitationId).not.toBe(first.params.elicitationId);
      const own = { method: 'elicitation/create' as const, params: { ...PAGE, elicitationId: 'mine' } };
      expect((await asked(own, 'legacy')).params).toEqual({ ...PAGE, elicitationId: 'mine' });
      for (const question of [page, own]) expect((await asked(question, 'modern')).params).toEqual(PAGE);
    });

    it.each<[string, unknown]>([
      ['an object in an object', z.object({ address: z.object({ street: z.string() }) })],
      ['a list of objects', z.object({ all: z.array(z.object({ a: z.string() })) })],
      ['a record', z.record(z.string(), z.string())],
      ['no object', z.string()],
    ])('a schema with %s is not asked, in either era', async (_, requestedSchema) => {
      const question = { method: 'elicitation/create', params: { message: 'x', requestedSchema } } as McpQuestion;
      const app = await asking(question);
      for (const era of ERAS) {
        const caller = await Caller.of(app, era, EVERYTHING);
        expect(failureOf(await caller.call('plainly'))).toMatch(/^Internal error/);
        expect(await caller.call('returns')).toMatchObject({ error: { code: -32603 } });
      }
      expect(app.log.texts('error').length).toBeGreaterThanOrEqual(2);
    });
  });

  describe('D23: answers in a session', () => {
    const text = { type: 'text', text: 'Paris' };
    const use = { type: 'tool_use', id: '1', name: 'look', input: {} };
    const said = (content: unknown): object => ({ role: 'assistant', model: 'm', content });

    it.each<[string, McpQuestion, object]>([
      ['an accepted form', form, ACCEPTED],
      ['a declined form', form, { action: 'decline' }],
      ['a cancelled form', form, { action: 'cancel' }],
      ['an accepted page', page, { action: 'accept' }],
      ['a sample', sample(), said(text)],
      ['a sample with a list', sample(), said([text, text])],
      ['a use of a tool that the sample has', sample({ tools: [TOOL] }), said([text, use])],
      ['roots', roots, ROOTS],
    ])('an answer may be %s', async (_, question, answer) => {
      const { told, isError } = await answered(question, answer);
      expect([JSON.parse(told), isError]).toEqual([expect.objectContaining(answer), undefined]);
    });

    it.each<[string, McpQuestion, object]>([
      ['a form without an action', form, {}],
      ['a form with an unknown action', form, { action: 'maybe' }],
      ['an accepted form without content', form, { action: 'accept' }],
      ['a form with another type', form, { action: 'accept', content: { name: 5 } }],
      ['a form without what it requires', form, { action: 'accept', content: {} }],
      ['a page without an action', page, { content: {} }],
      ['an empty sample', sample(), {}],
      ['a sample without a model', sample(), { role: 'assistant', content: text }],
      ['a use of a tool beside a text, without tools', sample(), said([text, use])],
      ['a use of a tool without tools', sample(), said(use)],
      ['a sample with an unknown block', sample({ tools: [TOOL] }), said([{ type: 'video' }])],
      ['no roots', roots, { trees: [] }],
      ['roots that are no files', roots, { roots: [{ uri: 'https://a.example' }] }],
    ])('%s is a typed error', async (_, question, answer) => {
      expect((await answered(question, answer)).told).toMatch(/^McpServerRequestError INVALID_ANSWER: .*"q"/);
      const { told, isError } = await answered(question, answer, 'returns');
      expect([told.includes('"q"'), isError]).toEqual([true, true]);
    });
  });

  /** Repeats a call of a modern client with one answer, as often as it is asked. */
  const repeated = async (answer: object) => {
    const caller = await Caller.of(await asking(sample()), 'modern', EVERYTHING);
    let { result } = await caller.call('asks');
    let asked = 0;
    for (; result.resultType === 'input_required' && asked < 20; asked++) {
      const { requestState } = result;
      const inputResponses = { q: answer };
      ({ result } = await caller.ask('tools/call', { name: 'asks', arguments: {}, requestState, inputResponses }));
    }
    return { asked, result };
  };

  it('D23: an answer of a model to a request of revision 2026-07-28 may have a list as its content', async () => {
    const answer = MODEL_LIST;
    const { asked, result } = await repeated(answer);
    expect([asked, JSON.parse(result.content[0].text)]).toEqual([1, answer]);
  });

  it('M8: a client that repeats its request with an invalid answer is asked eight times, then the call fails', async () => {
    const { asked, result } = await repeated({ ...MODEL_LIST, content: [TOOL_USE] });
    expect([asked, result.isError]).toEqual([8, true]);
    expect(textOf({ result } as never)).toContain('8 times without a valid answer to the question "q"');
  });

  it('D23: an answer of more than 10,000 values is refused, and the error says so', async () => {
    const accepted = (count: number): object => ({
      action: 'accept',
      content: { name: 'Ann', ...Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, 'x'])) },
    });
    // Beside the others there are an action, a content and a name.
    expect((await answered(form, accepted(9_997))).told).toMatch(/^\{"action":"accept"/);
    for (const tool of ['asks', 'returns'])
      expect((await answered(form, accepted(9_998), tool)).told).toContain(
        `answer to the question "q" (elicitation/create) does not match the question, or has more than 10000 values`,
      );
  });

  it('D37: an answer that would try too many alternatives of the schema of its form does not match it', async () => {
    const toldOf = async (levels: number): Promise<string> => {
      const alternatives = Array.from({ length: levels }, (_, at) => {
        const $ref = `#/$defs/level${at + 1}`;
        return [`level${at}`, { anyOf: [{ $ref }, { $ref }] }];
      });
      const properties = { name: { type: 'string', $ref: '#/$defs/level0' } };
      const $defs = { ...Object.fromEntries(alternatives), [`level${levels}`]: { minLength: 3 } };
      const params = { message: 'Who?', requestedSchema: { type: 'object', properties, $defs } };
      return (await answered({ method: 'elicitation/create', params } as McpQuestion, ACCEPTED)).told;
    };
    expect(await toldOf(5)).toMatch(/^\{"action":"accept"/);
    expect(await toldOf(16)).toMatch(/^McpServerRequestError INVALID_ANSWER: .*"q"/);
  });

  describe('D24: a question to a session ends', () => {
    const clocked = async (options: object = {}) => {
      const app = await asking(roots, { clock, serverRequestTimeoutMs: 10_000, ...options });
      const caller = await Caller.of(app, 'legacy', EVERYTHING);
      const events = recordedEvents(app);
      const stream = await caller.questioned('asks');
      return { app, caller, events, stream, id: stream.messages[0].id as string };
    };
    const toldOf = (stream: SseStream): unknown => gists(stream.messages).at(-1);

    it('a question to a session ends after its time, and is cancelled at the client', async () => {
      const { app, stream, id } = await clocked();
      await clock.advance(9_999);
      await app.settled({ outbound: 1 });
      await clock.advance(1);
      await stream.end();
      expect(stream.messages[1]).toMatchObject({ method: 'notifications/cancelled', params: { requestId: id } });
      expect(toldOf(stream)).toMatch(/^ProtocolError -32001: .*"roots\/list" within 10000 ms/);
      await app.settled({ outbound: 0, inFlight: 0 });
    });

    it('a question to a session ends once: an answer that comes later is ignored', async () => {
      const { caller, events, stream, id } = await clocked();
      await clock.advance(10_000);
      await stream.end();
      await caller.session.respond(id, ROOTS);
      const { sessionId } = caller.session;
      await eventually(() => expect(events).toContainEqual({ type: 'unknown-response', sessionId, requestId: id }));
    });

    it('a question to a session ends with the error that the client answers', async () => {
      const { app, caller, stream, id } = await clocked();
      const error = { code: -32050, message: 'not today', data: { why: 'because' } };
      await (await caller.session.post({ jsonrpc: '2.0', id, error })).text();
      await stream.end();
      expect(toldOf(stream)).toMatch(/^McpServerRequestError CLIENT_ERROR: .*-32050.*not today/);
      await app.settled({ outbound: 0, inFlight: 0 });
    });

    it("D24: a question to a session ends with an error that is the tool's failure, when it catches none, and never the code of its answer", async () => {
      const { caller } = await clocked();
      const stream = await caller.questioned('plainly');
      const error = { code: 12_345, message: `\u0007${'x'.repeat(5_000)}` };
      await (await caller.session.post({ jsonrpc: '2.0', id: stream.messages[0].id, error })).text();
      await stream.end();
      const { result } = stream.messages.at(-1);
      expect(result.isError).toBe(true);
      expect(result.content[0].text).toMatch(
        /^The client answered "roots\/list" with the error 12345: "\\u0007x{90,93}…\.$/,
      );
    });

    it('a question to a session ends with its call when that is cancelled, without an answer', async () => {
      const { app, caller, stream } = await clocked();
      await caller.session.notify('notifications/cancelled', { requestId: 2 });
      expect(await stream.end()).toBe('end');
      expect(gists(stream.messages)).toEqual(['request roots/list']);
      await app.settled({ outbound: 0, inFlight: 0 });
    });

    it('a question to a session ends with its session', async () => {
      const { app, stream, caller } = await clocked();
      expect(await app.service.terminate(caller.session.sessionId!)).toBe(true);
      await stream.end();
      expect(gists(stream.messages)).toEqual(['request roots/list', 'error -32000']);
      await app.settled({ outbound: 0, inFlight: 0, sessions: 0 });
    });
  });

  describe('D25: McpSessionService.request()', () => {
    const listening = async (options: object = {}) => {
      const app = await start({ clock, serverRequestTimeoutMs: 10_000, ...options });
      const { session } = await Caller.of(app, 'legacy', EVERYTHING);
      return { app, session, stream: await session.listen() };
    };
    const outcomeOf = (asked: Promise<unknown>): Promise<unknown> => asked.catch((error: unknown) => error);

    it('McpSessionService.request() receives progress, which restarts its timeout if configured', async () => {
      const { app, session, stream } = await listening();
      const heard: unknown[] = [];
      const options = {
        timeout: 1_000,
        resetTimeoutOnProgress: true,
        onprogress: (progress: unknown) => heard.push(progress),
      };
      const outcome = outcomeOf(app.service.request(session.sessionId!, { method: 'roots/list' }, options));
      await stream.count(1);
      const { id, params } = stream.messages[0];
      expect(params._meta).toEqual({ progressToken: id });
      for (const progress of [1, 2, 3]) {
        await clock.advance(900);
        await session.notify('notifications/progress', { progressToken: id, progress, total: 3 });
        await eventually(() => expect(heard).toHaveLength(progress));
      }
      expect(heard.at(-1)).toEqual({ progress: 3, total: 3 });
      await session.respond(id, ROOTS);
      expect(await outcome).toEqual(ROOTS);
      stream.destroy();
    });

    it('McpSessionService.request() keeps its timeout despite progress, unless it is configured to restart', async () => {
      const { app, session, stream } = await listening();
      const options = { timeout: 1_000, onprogress: () => {} };
      const outcome = outcomeOf(app.service.request(session.sessionId!, { method: 'roots/list' }, options));
      await stream.count(1);
      await clock.advance(900);
      await session.notify('notifications/progress', { progressToken: stream.messages[0].id, progress: 1 });
      await clock.advance(100);
      expect(await outcome).toMatchObject({ code: -32001 });
      stream.destroy();
    });

    it('McpSessionService.request() ends at its total timeout, however much progress there is', async () => {
      const { app, session, stream } = await listening();
      const heard: unknown[] = [];
      const options = {
        timeout: 1_000,
        maxTotalTimeout: 1_500,
        resetTimeoutOnProgress: true,
        onprogress: () => heard.push(1),
      };
      const outcome = outcomeOf(app.service.request(session.sessionId!, { method: 'roots/list' }, options));
      await stream.count(1);
      const { id } = stream.messages[0];
      await clock.advance(900);
      await session.notify('notifications/progress', { progressToken: id, progress: 1 });
      await eventually(() => expect(heard).toHaveLength(1));
      await clock.advance(700);
      await session.notify('notifications/progress', { progressToken: id, progress: 2 });
      expect(await outcome).toMatchObject({ code: -32001 });
      await stream.count(2);
      expect(stream.messages[1]).toMatchObject({ method: 'notifications/cancelled', params: { requestId: id } });
      stream.destroy();
    });

    it.each([
      ['ping', undefined, {}, { pong: true }],
      ['roots/list', undefined, ROOTS, { trees: [] }],
      ['sampling/createMessage', SAMPLE, { role: 'assistant', model: 'm', content: { type: 'text', text: 'x' } }, {}],
      ['sampling/createMessage', SAMPLE, MODEL_LIST, { ...MODEL_LIST, content: [TOOL_USE] }],
      ['elicitation/create', FORM, ACCEPTED, { action: 'maybe' }],
      ['tasks/list', {}, { tasks: [] }, { tasks: 5 }],
    ] as const)(
      'McpSessionService.request() asks with any method of the specification, and checks the result: %s',
      async (method, params, right, wrong) => {
        const { app, session, stream } = await listening();
        const ask = () =>
          outcomeOf(
            app.service.request(session.sessionId!, { method, ...(params && { params: { ...params } }) } as never),
          );
        const first = ask();
        await stream.count(1);
        // Clients in Go refuse roots/list without parameters (D22).
        expect(stream.messages[0].params).toEqual(params ?? (method === 'roots/list' ? {} : undefined));
        await session.respond(stream.messages[0].id, right);
        expect(await first).toEqual(right);
        const second = ask();
        await stream.count(2);
        await session.respond(stream.messages[1].id, wrong);
        expect(await second).toMatchObject({ name: 'McpServerRequestError', code: 'INVALID_ANSWER' });
        stream.destroy();
      },
    );
  });

  describe.each(ERAS)('D43: in the %s era', (era) => {
    it('progress of a call is a finite number that grows, whatever its handler reports', async () => {
      const app = await start();
      registryOf(app).registerTool({
        name: 'reports',
        handler: async (_: object, ctx: McpContext) => {
          for (const value of [NaN, -1, Infinity, 0, 0, 3, 2, '4' as unknown as number, 5])
            await ctx.progress(value, NaN, 'x');
          await ctx.progress({ progress: 6, total: Infinity });
          await ctx.progress({ progress: 7, total: 10 });
          return 'done';
        },
      });
      const caller = await Caller.of(app, era);
      const response = await caller.request('tools/call', { name: 'reports' }, { progressToken: 'p' });
      const stream = response.sse();
      await stream.end();
      expect(stream.messages.slice(0, -1).map(({ params }) => params)).toEqual([
        ...[-1, 0, 3, 5].map((progress) => ({ progressToken: 'p', progress, message: 'x' })),
        { progressToken: 'p', progress: 6 },
        { progressToken: 'p', progress: 7, total: 10 },
      ]);
    });
  });

  describe('D26: notifications are those of the era', () => {
    const COMPLETE = 'notifications/elicitation/complete';
    const told = async (era: 'legacy' | 'modern', method: string, capabilities: object = {}): Promise<string[]> => {
      const app = await start();
      registryOf(app).registerTool({
        name: 'tells',
        handler: async (_: object, ctx: McpContext) =>
          ctx.notify(method, { elicitationId: '1' }).then(() => 'sent', String),
      });
      const caller = await Caller.of(app, era, capabilities);
      const response = await caller.request('tools/call', { name: 'tells' });
      if (response.header('content-type') !== 'text/event-stream') return gists([await response.json()]) as string[];
      const stream = response.sse();
      await stream.end();
      return gists(stream.messages) as string[];
    };

    it.each([
      ['legacy', 'notifications/subscriptions/acknowledged'],
      ['legacy', 'notifications/initialized'],
      ['legacy', 'notifications/roots/list_changed'],
      ['modern', COMPLETE],
      ['modern', 'notifications/tasks/status'],
      ['modern', 'notifications/initialized'],
    ] as const)('in the %s era, %s is not sent', async (era, method) => {
      const [only, ...more] = await told(era, method, EVERYTHING);
      expect(more).toEqual([]);
      expect(only).toMatch(new RegExp(`^Error: "${method}" cannot be sent`));
    });

    it.each(ERAS)('in the %s era, those of it are, and those of the application', async (era) => {
      for (const method of ['notifications/resources/list_changed', 'notifications/mine']) {
        expect(await told(era, method)).toEqual([method, 'sent']);
      }
    });

    it('the end of a visit to a URL needs a client that visits URLs', async () => {
      for (const elicitation of [{}, { form: {} }]) {
        const [only, ...more] = await told('legacy', COMPLETE, { elicitation });
        expect([only, more]).toEqual([expect.stringContaining('"elicitation.url"'), []]);
      }
      expect(await told('legacy', COMPLETE, { elicitation: { url: {} } })).toEqual([COMPLETE, 'sent']);
    });
  });

  describe('D27: log messages', () => {
    const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'] as const;
    const logging = async (): Promise<TestApp> => {
      const app = await start();
      registryOf(app).registerTool({
        name: 'logs',
        handler: async (_: object, ctx: McpContext) => {
          for (const level of LEVELS.toReversed()) await ctx.log(level, level);
          return 'done';
        },
      });
      return app;
    };
    const told = async (caller: Caller, meta: Record<string, unknown> = {}): Promise<unknown[]> => {
      const response = await caller.request('tools/call', { name: 'logs' }, meta);
      if (response.header('content-type') !== 'text/event-stream') return gists([await response.json()]);
      const stream = response.sse();
      await stream.end();
      return gists(stream.messages);
    };
    const from = (level: (typeof LEVELS)[number]) => [...LEVELS.slice(LEVELS.indexOf(level)).toReversed(), 'done'];

    it('log messages of all levels reach a session that has not said otherwise, and then those that are as grave', async () => {
      const caller = await Caller.of(await logging(), 'legacy');
      expect(await told(caller)).toEqual(from('debug'));
      // What a request says of itself is of the other era.
      expect(await told(caller, { 'io.modelcontextprotocol/logLevel': 'emergency' })).toEqual(from('debug'));
      for (const level of LEVELS) {
        expect((await caller.ask('logging/setLevel', { level })).result).toEqual({});
        expect(await told(caller)).toEqual(from(level));
      }
    });

    it('log messages reach a request of revision 2026-07-28 that asks for them, and no other', async () => {
      const caller = await Caller.of(await logging(), 'modern');
      for (const level of LEVELS) {
        expect(await told(caller, { 'io.modelcontextprotocol/logLevel': level })).toEqual(from(level));
      }
      expect(await told(caller)).toEqual(['done']);
    });
  });
});
