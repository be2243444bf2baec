import { inputRequired } from '@modelcontextprotocol/server';
import type { McpHandlerFunction, McpContext } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { describe, expect, it } from 'vitest';
import type { TestApp } from '../support/app.js';
import { testApps } from '../support/test-apps.js';
import type { SseStream } from '../support/http.js';
import { gists } from '../support/messages.js';
import { ACCEPTED, ASKABLE, Caller, EVERYTHING, FORM, registerAll, REQUESTS, SAMPLE, textOf } from './callers.js';

const form = inputRequired.elicit(FORM);
const QUESTIONS = {
  who: form,
  model: inputRequired.createMessage(SAMPLE),
  roots: inputRequired.listRoots(),
};
const ANSWERS: Readonly<Record<string, object>> = {
  'elicitation/create': ACCEPTED,
  'sampling/createMessage': { role: 'assistant', model: 'm', content: { type: 'text', text: 'Paris' } },
  'roots/list': { roots: [{ uri: 'file:///home' }] },
};
type Kind = (typeof ASKABLE)[number];

/** One for all tests: apps on one clock are shared. */
const clock = new ManualClock();

/** Handlers that return `inputRequired()`, called by a client that has a session. */
describe('D28: inputRequired() in the legacy era', () => {
  const startApp = testApps('fastify', { shared: true });
  const start = async (handler: McpHandlerFunction<object>, options: object = {}): Promise<TestApp> => {
    const app = await startApp(options);
    registerAll(app, 'asks', handler);
    return app;
  };
  const asked = async (app: TestApp, kind: Kind, capabilities: object = EVERYTHING) => {
    const caller = await Caller.of(app, 'legacy', capabilities);
    const response = await caller.request(...REQUESTS[kind]('asks'));
    return { caller, stream: response.sse() };
  };
  /** The requests of the server on a stream so far. */
  const requests = (stream: SseStream) => stream.messages.filter(({ id, method }) => id !== undefined && method);
  const respond = async ({ session }: Caller, { id, method }: { id: string; method: string }): Promise<void> =>
    session.respond(id, ANSWERS[method]!);
  const last = async (stream: SseStream) => {
    expect(await stream.end()).toBe('end');
    return stream.messages.at(-1);
  };
  /** A failure that the model reads, of a tool; an error of the others. */
  const expectFailure = (kind: Kind, message: { result?: unknown; error?: unknown }, text: RegExp): void => {
    if (kind === 'tool') {
      expect(message.result).toEqual({ content: [{ type: 'text', text: expect.stringMatching(text) }], isError: true });
    } else expect(message.error).toEqual({ code: -32603, message: expect.stringMatching(text) });
  };

  describe.each(ASKABLE)('of a %s', (kind) => {
    it('inputRequired() in the legacy era is fulfilled: all questions are asked side by side, and the handler runs again with the answers', async () => {
      const runs: unknown[] = [];
      const app = await start((_, { inputResponses, requestState }: McpContext) => {
        runs.push([inputResponses, requestState]);
        if (inputResponses) return `answered: ${Object.keys(inputResponses).toSorted().join()}`;
        return inputRequired({ inputRequests: QUESTIONS, requestState: 'step 1' });
      });
      const { caller, stream } = await asked(app, kind);
      await stream.count(3);
      // None is answered yet.
      expect(requests(stream).map(({ method }) => method)).toEqual([
        'elicitation/create',
        'sampling/createMessage',
        'roots/list',
      ]);
      expect(runs).toHaveLength(1);
      for (const question of requests(stream).toReversed()) await respond(caller, question);
      const message = await last(stream);
      expect(textOf(message)).toBe('answered: model,roots,who');
      const responses = {
        who: ANSWERS['elicitation/create'],
        model: ANSWERS['sampling/createMessage'],
        roots: ANSWERS['roots/list'],
      };
      expect(runs).toEqual([
        [undefined, undefined],
        [responses, 'step 1'],
      ]);
      expect(message.result).not.toHaveProperty('inputRequests');
      await app.settled({ outbound: 0, inFlight: 0 });
    });

    it('inputRequired() in the legacy era has its state back in each round, and the answers of the last one', async () => {
      const runs: unknown[] = [];
      const app = await start((_, { inputResponses = {}, requestState = '0' }: McpContext) => {
        runs.push([requestState, Object.keys(inputResponses)]);
        const step = Number(requestState) + 1;
        if (step > 3) return 'done';
        return inputRequired({ inputRequests: { [`q${step}`]: form }, requestState: String(step) });
      });
      const { caller, stream } = await asked(app, kind);
      for (let round = 1; round <= 3; round++) {
        await stream.count(round);
        await respond(caller, stream.messages[round - 1]);
      }
      expect(textOf(await last(stream))).toBe('done');
      expect(runs).toEqual([
        ['0', []],
        ['1', ['q1']],
        ['2', ['q2']],
        ['3', ['q3']],
      ]);
    });

    it('inputRequired() in the legacy era ends after eight rounds', async () => {
      let runs = 0;
      const app = await start(() => {
        runs++;
        return inputRequired({ inputRequests: { again: form } });
      });
      const { caller, stream } = await asked(app, kind);
      for (let round = 1; round <= 8; round++) {
        await stream.count(round);
        await respond(caller, stream.messages[round - 1]);
      }
      expectFailure(kind, await last(stream), /asked for input 8 times in a row/);
      expect(requests(stream)).toHaveLength(8);
      expect(runs).toBe(9);
    });

    it.each([
      ['an error', { error: { code: -32050, message: 'not today' } }, /not today/],
      ['an answer that is none', { result: { action: 'accept', content: { name: 5 } } }, /does not match the question/],
    ])(
      'inputRequired() in the legacy era fails with the first %s, and the other questions are taken back',
      async (_, answer, text) => {
        let runs = 0;
        const app = await start(() => {
          runs++;
          return inputRequired({ inputRequests: QUESTIONS });
        });
        const { caller, stream } = await asked(app, kind);
        await stream.count(3);
        const [first, ...others] = requests(stream);
        await (await caller.session.post({ jsonrpc: '2.0', id: first.id, ...answer })).text();
        expectFailure(kind, await last(stream), text);
        const cancelled = stream.messages.filter(({ method }) => method === 'notifications/cancelled');
        expect(cancelled.map(({ params }) => params.requestId)).toEqual(others.map(({ id }) => id));
        expect(runs).toBe(1);
        await app.settled({ outbound: 0, inFlight: 0 });
      },
    );

    it.each([
      ['serverRequestTimeoutMs', 10_000, 10_000],
      ['ten minutes', 3_600_000, 600_000],
    ])('inputRequired() in the legacy era waits for %s', async (_, serverRequestTimeoutMs, limit) => {
      const app = await start(() => inputRequired({ inputRequests: QUESTIONS }), {
        clock,
        serverRequestTimeoutMs,
        idleTimeoutMs: Infinity,
        keepAliveMs: 5_000_000,
      });
      const { stream } = await asked(app, kind);
      await stream.count(3);
      await clock.advance(limit - 1);
      await app.settled({ outbound: 3 });
      await clock.advance(1);
      expectFailure(kind, await last(stream), new RegExp(`within ${limit} ms`));
      await app.settled({ outbound: 0, inFlight: 0 });
    });

    it('inputRequired() in the legacy era waits longer for a client that reports progress', async () => {
      const handler = (_: object, { inputResponses }: McpContext) =>
        inputResponses ? 'answered' : inputRequired({ inputRequests: { who: form } });
      const app = await start(handler, { clock, serverRequestTimeoutMs: 10_000, keepAliveMs: 5_000_000 });
      const { caller, stream } = await asked(app, kind);
      await stream.count(1);
      const [{ id: progressToken, params }] = requests(stream);
      expect(params._meta).toEqual({ progressToken });
      for (let progress = 1; progress <= 3; progress++) {
        await clock.advance(9_000);
        await caller.session.notify('notifications/progress', { progressToken, progress });
      }
      await respond(caller, stream.messages[0]);
      expect(textOf(await last(stream))).toBe('answered');
    });

    it('inputRequired() in the legacy era fails before anything is sent when the client cannot answer all of it', async () => {
      const app = await start(() => inputRequired({ inputRequests: QUESTIONS }));
      const caller = await Caller.of(app, 'legacy', { elicitation: {}, roots: {} });
      expect((await caller.ask(...REQUESTS[kind]('asks'))).error).toEqual({
        code: -32021,
        message: expect.stringMatching(/"model" \(sampling\/createMessage\).*"sampling"/),
        data: { requiredCapabilities: { sampling: {} } },
      });
      await app.settled({ outbound: 0, inFlight: 0 });
    });

    it('inputRequired() in the legacy era with a state alone runs the handler again', async () => {
      const states: unknown[] = [];
      const app = await start((_, { requestState }: McpContext) => {
        states.push(requestState);
        return states.length === 3 ? 'done' : inputRequired({ requestState: `try ${states.length}` });
      });
      const caller = await Caller.of(app, 'legacy');
      expect(textOf(await caller.ask(...REQUESTS[kind]('asks')))).toBe('done');
      expect(states).toEqual([undefined, 'try 1', 'try 2']);
    });

    it('inputRequired() in the legacy era asks nothing more when the call is cancelled', async () => {
      let runs = 0;
      const app = await start(() => {
        runs++;
        return inputRequired({ inputRequests: QUESTIONS });
      });
      const { caller, stream } = await asked(app, kind);
      await stream.count(3);
      await caller.session.notify('notifications/cancelled', { requestId: 2 });
      expect(await stream.end()).toBe('end');
      expect(requests(stream)).toHaveLength(3);
      await app.settled({ outbound: 0, inFlight: 0 });
      expect(runs).toBe(1);
      expect(app.log.texts('error')).toEqual([]);
    });

    it('inputRequired() in the legacy era without anything to ask is a mistake of the handler', async () => {
      const app = await start(() => ({ resultType: 'input_required' }));
      const caller = await Caller.of(app, 'legacy', EVERYTHING);
      const { error } = await caller.ask(...REQUESTS[kind]('asks'));
      expect(error).toMatchObject({ code: -32603, message: expect.stringContaining('inputRequired()') });
    });

    it('inputRequired() in the legacy era that throws when it is read tells the client nothing, and the operator what', async () => {
      const secret = (): never => {
        throw new Error('hunter2');
      };
      const question = new Proxy({}, { get: secret });
      const app = await start(() => ({ resultType: 'input_required', inputRequests: { q: question } }));
      for (const era of ['legacy', 'modern'] as const) {
        const answer = await (await Caller.of(app, era, EVERYTHING)).ask(...REQUESTS[kind]('asks'));
        expect(answer.error).toMatchObject({ code: -32603, message: expect.stringContaining('cannot be asked') });
        expect(JSON.stringify(answer)).not.toContain('hunter2');
      }
      expect(app.log.texts('error')).toEqual([expect.stringContaining('hunter2'), expect.stringContaining('hunter2')]);
    });
  });

  it('inputRequired() in the legacy era goes beside what a handler asks while it runs', async () => {
    const app = await start(async (_, ctx: McpContext) => {
      const { content } = await ctx.elicit('before', FORM);
      if (ctx.inputResponses) return `${String(content?.['name'])}, ${Object.keys(ctx.inputResponses).join()}`;
      return inputRequired({ inputRequests: { roots: QUESTIONS.roots } });
    });
    const { caller, stream } = await asked(app, 'tool');
    for (const count of [1, 2]) {
      await stream.count(count);
      await respond(caller, stream.messages[count - 1]);
    }
    // What was answered in the first run is known in the second.
    expect(textOf(await last(stream))).toBe('Ann, roots');
    expect(gists(requests(stream))).toEqual(['request elicitation/create', 'request roots/list']);
  });
});
