import {
  type InputRequiredResult,
  inputRequired,
  MissingRequiredClientCapabilityError,
  ProtocolError,
} from '@modelcontextprotocol/server';
import { afterEach, beforeEach, describe, expect, expectTypeOf, it } from 'vitest';
import { deferred } from '../../common/promises.js';
import {
  type CallingClient,
  type ClientIdentity,
  McpCall,
  type McpSessionInfo,
  type OutboundMessage,
  type OutboundOptions,
} from '../../calls/mcp-call.js';
import { McpContext } from '../../calls/mcp-context.js';
import type { McpQuestion } from '../../calls/mcp-questions.js';
import { McpServerRequestError } from '../../calls/server-request.error.js';
import { McpHandlerSignal } from '../handlers.errors.js';
import { ManualClock } from '../../../testing/manual-clock.js';
import { reachesLevel } from '../../protocol/notifications.js';
import { RequestStates } from './request-state.js';
import { HandlerRun } from './handler-run.js';
import { RequestedSchemas } from './question.js';

type Handler = (ctx: McpContext) => unknown;
interface Round {
  responses?: object | undefined;
  state?: unknown;
  principal?: string;
  args?: object;
}

const ALL = { elicitation: { form: {}, url: {} }, sampling: { tools: {} }, roots: {} };
const PROPERTIES = { value: { type: 'string' as const } };
const form = (message = 'What?') => ({
  message,
  requestedSchema: { type: 'object' as const, properties: PROPERTIES, required: ['value'] },
});
const accept = (value: unknown) => ({ action: 'accept', content: { value } });
const valueOf = ({ content }: { content?: Record<string, unknown> | undefined }) => content?.['value'];
const text = { role: 'assistant', content: { type: 'text', text: 'Hello' }, model: 'm' };
const USE = [{ type: 'tool_use', id: '1', name: 'look', input: {} }];
const PAY = { message: 'Pay', url: 'https://a.example/pay' };
const SAMPLE = { messages: [{ role: 'user' as const, content: { type: 'text' as const, text: 'Hi' } }], maxTokens: 5 };

/** A result that asks for forms, each with its key as its message. */
const asking = (...keys: string[]) => {
  const requests = keys.map((key) => [key, inputRequired.elicit(form(key))] as const);
  return inputRequired({ inputRequests: Object.fromEntries(requests) });
};
/** Asks by its result, and keeps a state. */
const confirms: Handler = (ctx) => {
  const confirmed = ctx.inputResponses?.['Sure?'];
  if (confirmed) return [ctx.requestState, valueOf(confirmed as never)];
  return inputRequired({ ...asking('Sure?'), requestState: 'step 1' });
};

/** Runs a handler as `tools/call` does, for a client that answers as it is told to, and keeps what it reports. */
class Rig implements CallingClient {
  readonly reports: string[] = [];
  readonly clock = new ManualClock();
  readonly states: RequestStates;
  readonly schemas = new RequestedSchemas();
  capabilities: object = ALL;
  logLevel: string | undefined;
  method = 'tools/call';
  /** A client of the legacy era answers with these. */
  answering: (question: OutboundMessage, options: OutboundOptions) => unknown = () => accept('sent');
  readonly sent: OutboundMessage[] = [];
  readonly options: OutboundOptions[] = [];
  readonly said: OutboundMessage[] = [];

  constructor(
    readonly era: 'modern' | 'legacy',
    maxBytes = 65_536,
  ) {
    const endpoint = { name: undefined, path: 'mcp' };
    const options = { secrets: [Buffer.alloc(32)], ttlMs: 1_000, clockToleranceMs: 0, maxBytes, endpoint };
    this.states = new RequestStates(options, this.clock);
  }

  /** Clients of the legacy era have sessions. */
  get info(): McpSessionInfo | undefined {
    if (this.era === 'modern') return undefined;
    const { protocolVersion, clientInfo, capabilities } = this.identity();
    return { id: 's', principal: undefined, protocolVersion, clientInfo, clientCapabilities: capabilities };
  }
  identity(): ClientIdentity {
    const protocolVersion = this.era === 'modern' ? '2026-07-28' : '2025-11-25';
    return { protocolVersion, capabilities: { ...this.capabilities }, clientInfo: { name: 'spec', version: '1' } };
  }
  wantsLog(level: string): boolean {
    return reachesLevel(level, this.logLevel);
  }
  notify(notification: OutboundMessage): Promise<void> {
    this.said.push(notification);
    return Promise.resolve();
  }
  async request(question: OutboundMessage, options: OutboundOptions): Promise<unknown> {
    this.sent.push(question);
    this.options.push(options);
    return this.answering(question, options);
  }

  begin({ responses, state, principal, args = {} }: Round = {}, asks = true) {
    const message = { jsonrpc: '2.0', id: 1, method: asks ? this.method : 'completion/complete' } as const;
    const call = new McpCall({ era: this.era, principal, request: undefined }, message, this);
    const { states: requestStates, schemas } = this;
    const parts = { requestStates, states: {} as never, schemas, report: (said: string) => this.reports.push(said) };
    const params = { name: 'tool', arguments: args };
    const inputResponses = responses as Record<string, object> | undefined;
    const request = asks ? { target: 'tool', params, inputResponses, requestState: state } : undefined;
    const run = new HandlerRun(call, parts, request);
    return { call, run, ctx: new McpContext(call, run) };
  }

  /** Messages of the forms that a client of the legacy era was sent. */
  get asked(): unknown[] {
    return this.sent.map(({ params }) => params?.['message']);
  }

  async call(handler: Handler, round?: Round): Promise<unknown> {
    const { run, ctx } = this.begin(round);
    return run.serve(async () => handler(ctx));
  }

  /** Calls until there is a result, as a client that answers each question by its key; in the legacy era by its message. */
  async converse(handler: Handler, answers: Record<string, unknown>): Promise<{ result: unknown; asked: string[][] }> {
    this.answering = ({ params }) => answers[params?.['message'] as string];
    const asked: string[][] = [];
    let round: Round = {};
    while (asked.length < 10) {
      const result = await this.call(handler, round);
      if ((result as InputRequiredResult | undefined)?.resultType !== 'input_required') return { result, asked };
      const { inputRequests = {}, requestState } = result as InputRequiredResult;
      asked.push(Object.keys(inputRequests));
      const responses = Object.fromEntries(Object.keys(inputRequests).map((key) => [key, answers[key]]));
      round = { responses, state: requestState };
    }
    throw new Error('no end');
  }
}

const unhandled: unknown[] = [];
const note = (reason: unknown): void => void unhandled.push(reason);
const turn = () => new Promise((resolve) => void setImmediate(resolve));
beforeEach(() => {
  unhandled.length = 0;
  process.on('unhandledRejection', note);
});
afterEach(async () => {
  await turn();
  process.off('unhandledRejection', note);
  expect(unhandled).toEqual([]);
});

describe('M8: a question without an answer', () => {
  it('a question without an answer ends the run, and has its answer in the next', async () => {
    const rig = new Rig('modern');
    const handler: Handler = async (ctx) => valueOf(await ctx.elicit('name', form()));
    const first = (await rig.call(handler)) as InputRequiredResult;
    expect(first).toEqual({
      resultType: 'input_required',
      inputRequests: { name: { method: 'elicitation/create', params: { mode: 'form', ...form() } } },
      requestState: expect.stringMatching(/^[\w-]{60,}$/),
    });
    expect(await rig.call(handler, { state: first.requestState, responses: { name: accept('Ann') } })).toBe('Ann');
  });

  it('a question without an answer is asked after those before it, which are not asked again', async () => {
    const rig = new Rig('modern');
    const runs: unknown[][] = [];
    const handler: Handler = async (ctx) => {
      const got: unknown[] = [];
      runs.push(got);
      for (const key of ['a', 'b', 'c']) got.push(valueOf(await ctx.elicit(key, form(key))));
      return got.join('');
    };
    const answers = { a: accept('1'), b: accept('2'), c: accept('3') };
    expect(await rig.converse(handler, answers)).toEqual({ result: '123', asked: [['a'], ['b'], ['c']] });
    expect(runs).toEqual([[], ['1'], ['1', '2'], ['1', '2', '3']]);
  });

  it('a question without an answer is asked together with others', async () => {
    const rig = new Rig('modern');
    const handler: Handler = async (ctx) => {
      const { who, what, where } = await ctx.ask({
        who: { method: 'elicitation/create', params: form() },
        what: { method: 'sampling/createMessage', params: SAMPLE },
        where: { method: 'roots/list' },
      });
      return [valueOf(who), (what.content as { text?: string }).text, where.roots.length];
    };
    const answers = { who: accept('Ann'), what: text, where: { roots: [] } };
    expect(await rig.converse(handler, answers)).toEqual({
      result: ['Ann', 'Hello', 0],
      asked: [['who', 'what', 'where']],
    });
  });

  it('a question without an answer is kept although another one was not answered', async () => {
    const rig = new Rig('modern');
    const handler: Handler = async (ctx) => {
      const answers = await Promise.all([ctx.elicit('a', form()), ctx.elicit('b', form())]);
      return answers.map(valueOf);
    };
    const first = (await rig.call(handler)) as InputRequiredResult;
    expect(Object.keys(first.inputRequests!)).toEqual(['a', 'b']);
    const second = (await rig.call(handler, {
      state: first.requestState,
      responses: { b: accept('2') },
    })) as InputRequiredResult;
    expect(Object.keys(second.inputRequests!)).toEqual(['a']);
    expect(await rig.call(handler, { state: second.requestState, responses: { a: accept('1') } })).toEqual(['1', '2']);
  });

  it.each([
    ['of another kind', { roots: [] }],
    ['that does not fit', accept(7)],
    ['that is no answer', 'yes'],
  ])('a question without an answer is asked again when the answer is one %s', async (_, wrong) => {
    const rig = new Rig('modern');
    const handler: Handler = async (ctx) => valueOf(await ctx.elicit('name', form()));
    const first = (await rig.call(handler)) as InputRequiredResult;
    const responses = { name: wrong };
    const second = (await rig.call(handler, { state: first.requestState, responses })) as InputRequiredResult;
    expect(second.inputRequests).toEqual(first.inputRequests);
    expect(await rig.call(handler, { state: second.requestState, responses: { name: accept('Ann') } })).toBe('Ann');
  });

  it('M8: a question without an answer is asked eight times in a row, then it fails', async () => {
    const rig = new Rig('modern');
    const handler: Handler = async (ctx) =>
      valueOf(await ctx.elicit('name', form()).catch(({ code }: McpServerRequestError) => accept(code)));
    let round: Round = {};
    const outcomes: unknown[] = [];
    for (let times = 1; times <= 9; times++) {
      const result = (await rig.call(handler, round)) as InputRequiredResult;
      outcomes.push(result.inputRequests ? Object.keys(result.inputRequests)[0] : result);
      // Answers that do not fit, of no sound form, and none at all count alike.
      round = { state: result.requestState, responses: [{ name: accept(7) }, { name: 'yes' }, {}][times % 3] };
    }
    expect(outcomes).toEqual([...Array.from({ length: 8 }, () => 'name'), 'INVALID_ANSWER']);
  });

  it('M8: a question without an answer does not fail while others are answered', async () => {
    const rig = new Rig('modern');
    const keys = Array.from({ length: 12 }, (_, index) => `q${index}`);
    const handler: Handler = async (ctx) =>
      (await Promise.all(keys.map((key) => ctx.elicit(key, form(key))))).map(valueOf).join('');
    let result = await rig.call(handler);
    for (const key of keys) {
      const { requestState } = result as InputRequiredResult;
      result = await rig.call(handler, { state: requestState, responses: { [key]: accept('x') } });
    }
    expect(result).toBe('x'.repeat(12));
  });

  it('a question without an answer may be answered before it is asked: a first run with answers', async () => {
    const rig = new Rig('modern');
    const handler: Handler = async (ctx) => valueOf(await ctx.elicit('name', form()));
    expect(await rig.call(handler, { responses: { name: accept('Ann') } })).toBe('Ann');
  });

  it('a question without an answer has the answer that was given first', async () => {
    const rig = new Rig('modern');
    const handler: Handler = async (ctx) => [
      valueOf(await ctx.elicit('a', form())),
      valueOf(await ctx.elicit('b', form())),
    ];
    const first = (await rig.call(handler)) as InputRequiredResult;
    const second = (await rig.call(handler, {
      state: first.requestState,
      responses: { a: accept('1') },
    })) as InputRequiredResult;
    const responses = { a: accept('changed'), b: accept('2') };
    expect(await rig.call(handler, { state: second.requestState, responses })).toEqual(['1', '2']);
  });

  it.each(['constructor', 'toString', 'hasOwnProperty', '0'])(
    'a question without an answer may have the key %j',
    async (key) => {
      const rig = new Rig('modern');
      const handler: Handler = async (ctx) => valueOf(await ctx.elicit(key, form()));
      expect(await rig.converse(handler, { [key]: accept('Ann') })).toEqual({ result: 'Ann', asked: [[key]] });
    },
  );

  it('a question without an answer keeps no answers to questions that were not asked', async () => {
    const rig = new Rig('modern');
    const handler: Handler = async (ctx) => valueOf(await ctx.elicit('name', form()));
    const first = (await rig.call(handler, { responses: { junk: accept('x'.repeat(10_000)) } })) as InputRequiredResult;
    expect(first.requestState!.length).toBeLessThan(300);
  });

  it('a question without an answer is dropped when the handler does not await it', async () => {
    const rig = new Rig('modern');
    const handler: Handler = (ctx) => {
      void ctx.elicit('a', form());
      void ctx.ask({ b: { method: 'roots/list' } });
      return 'done';
    };
    const { asked, result } = await rig.converse(handler, { a: accept('x'), b: { roots: [] } });
    expect({ asked, result }).toEqual({ asked: [['a', 'b']], result: 'done' });
  });
});

describe('M8: a question suspends its run', () => {
  const asks = (ctx: McpContext) => ctx.elicit('name', form()).then(valueOf);
  const handlers: Record<string, Handler> = {
    'a catch that returns': async (ctx) => {
      try {
        return await asks(ctx);
      } catch {
        return 'a default';
      }
    },
    'a catch that throws something else': async (ctx) => {
      try {
        return await asks(ctx);
      } catch {
        throw new Error('wrapped');
      }
    },
    'a finally that returns': async (ctx) => {
      try {
        return await asks(ctx);
      } finally {
        // oxlint-disable-next-line no-unsafe-finally
        return (await ctx.elicit('name', form()).catch(() => ({ content: { value: 'none' } }))).content?.['value'];
      }
    },
    'a race that something else wins': (ctx) =>
      Promise.race([Promise.resolve('quick'), asks(ctx)])
        .then(async (won) => {
          await turn();
          return ctx.once('x', () => won);
        })
        .then(() => asks(ctx)),
    allSettled: async (ctx) => {
      const [outcome] = await Promise.allSettled([asks(ctx)]);
      return outcome.status === 'fulfilled' ? outcome.value : 'rejected';
    },
    'a denial': async (ctx) => {
      await asks(ctx).catch(() => {
        throw new ProtocolError(-32000, 'denied');
      });
      return asks(ctx);
    },
    retries: async (ctx) => {
      for (let attempt = 0; attempt < 3; attempt++) {
        try {
          return await asks(ctx);
        } catch {
          await turn();
        }
      }
      throw new Error('gave up');
    },
  };

  it.each(Object.entries(handlers))('despite %s', async (_, handler) => {
    const rig = new Rig('modern');
    const { asked, result } = await rig.converse(handler, { name: accept('Ann') });
    expect({ asked, result }).toEqual({ asked: [['name']], result: 'Ann' });
  });

  it('a question suspends its run and waits for the handler, whose later questions are asked too', async () => {
    const rig = new Rig('modern');
    const handler: Handler = async (ctx) => {
      const answers = await Promise.allSettled([ctx.elicit('a', form()), turn().then(() => ctx.elicit('b', form()))]);
      return answers.map(({ status }) => status).join();
    };
    const { asked, result } = await rig.converse(handler, { a: accept('1'), b: accept('2') });
    expect({ asked, result }).toEqual({ asked: [['a', 'b']], result: 'fulfilled,fulfilled' });
  });

  it('a question suspends its run by a McpHandlerSignal that it throws', async () => {
    const rig = new Rig('modern');
    const thrown: unknown[] = [];
    await rig.call((ctx) => ctx.elicit('name', form()).catch((error: unknown) => thrown.push(error)));
    expect(thrown).toEqual([expect.any(McpHandlerSignal)]);
    expect(thrown[0]).toMatchObject({ name: 'HandlerSuspended', message: expect.stringContaining('"name"') });
  });

  it('a question does not suspend its run when the handler throws before it asks', async () => {
    const rig = new Rig('modern');
    await expect(rig.call(() => Promise.reject(new Error('mine')))).rejects.toThrow('mine');
  });
});

describe('M8: ctx.once', () => {
  it('ctx.once runs in one run, and keeps its result for all later ones', async () => {
    const rig = new Rig('modern');
    let runs = 0;
    const handler: Handler = async (ctx) => {
      const number = await ctx.once('number', () => ++runs);
      await ctx.once('nothing', async () => void (await turn()));
      const a = valueOf(await ctx.elicit('a', form()));
      const b = valueOf(await ctx.elicit('b', form()));
      return [number, a, b];
    };
    expect(await rig.converse(handler, { a: accept('1'), b: accept('2') })).toMatchObject({ result: [1, '1', '2'] });
    expect(runs).toBe(1);
  });

  it('ctx.once is waited for when the run is suspended meanwhile', async () => {
    const rig = new Rig('modern');
    const slow = deferred<string>();
    let runs = 0;
    const handler: Handler = async (ctx) => {
      const charged = ctx.once('charge', () => {
        runs++;
        return slow.promise;
      });
      return Promise.all([charged, ctx.elicit('a', form()).then(valueOf)]);
    };
    const first = rig.call(handler);
    await turn();
    slow.resolve('charged');
    const { requestState: state } = (await first) as InputRequiredResult;
    expect(await rig.call(handler, { state, responses: { a: accept('1') } })).toEqual(['charged', '1']);
    expect(runs).toBe(1);
  });

  it('ctx.once says so when the result is not JSON', async () => {
    const rig = new Rig('modern');
    await expect(rig.call((ctx) => ctx.once('key', () => new Date(0)))).rejects.toThrow(
      'The result of ctx.once("key") cannot be kept',
    );
  });

  it('ctx.once may be dropped', async () => {
    await new Rig('modern').call((ctx) => void ctx.once('key', () => Promise.reject(new Error('x'))));
  });

  it('ctx.once that asks itself is done when it has its answer', async () => {
    const rig = new Rig('modern');
    const handler: Handler = (ctx) => ctx.once('key', async () => valueOf(await ctx.elicit('a', form())));
    expect(await rig.converse(handler, { a: accept('1') })).toEqual({ result: '1', asked: [['a']] });
  });
});

describe('M8: a state', () => {
  const handler: Handler = async (ctx) => valueOf(await ctx.elicit('name', form()));
  const answered = { name: accept('Ann') };
  const refused = {
    code: -32602,
    message: 'Invalid or expired requestState',
    data: { reason: 'invalid_request_state' },
  };
  const state = async (rig: Rig, round?: Round) =>
    ((await rig.call(handler, round)) as InputRequiredResult).requestState;

  it('D7: a state that is expired, foreign or forged, or no text, is refused before the handler runs', async () => {
    const rig = new Rig('modern');
    const mine = await state(rig);
    const spent: Round[] = [
      { state: 'nonsense' },
      { state: mine, principal: 'bob' },
      { state: mine, args: { other: 1 } },
      { state: `${mine}x` },
      { state: '' },
      ...[0, null, {}, [mine]].map((forged) => ({ state: forged })),
    ];
    let runs = 0;
    for (const round of spent) {
      const call = async () => rig.call(() => runs++, { responses: answered, ...round });
      await expect(call()).rejects.toMatchObject(refused);
    }
    await rig.clock.advance(1_000);
    await expect((async () => rig.call(() => runs++, { state: mine }))()).rejects.toMatchObject(refused);
    expect(runs).toBe(0);
  });

  it('a state that becomes too large fails the call with a generic error, and the log has the reason', async () => {
    const rig = new Rig('modern', 2_048);
    const call = rig.call(async (ctx) => {
      await ctx.once('secret', () => 's3cret'.repeat(1_000));
      return handler(ctx);
    });
    await expect(call).rejects.toMatchObject({
      code: -32603,
      message: expect.not.stringContaining('maxRequestStateBytes'),
    });
    expect(rig.reports).toEqual([expect.stringMatching(/^"tools\/call" of "tool" failed.*"maxRequestStateBytes"/)]);
    expect(rig.reports.join()).not.toContain('s3cret');
  });
});

describe('M6: a client that lacks a capability', () => {
  it.each<[string, object, McpQuestion, object]>([
    ['elicitation', {}, { method: 'elicitation/create', params: form() }, { elicitation: { form: {} } }],
    [
      'URLs',
      { elicitation: {} },
      { method: 'elicitation/create', params: { mode: 'url', message: 'x', url: 'https://a.example' } },
      { elicitation: { url: {} } },
    ],
    ['sampling', { elicitation: {} }, { method: 'sampling/createMessage', params: SAMPLE }, { sampling: {} }],
    [
      'tools',
      { sampling: {} },
      { method: 'sampling/createMessage', params: { ...SAMPLE, tools: [] } },
      { sampling: { tools: {} } },
    ],
    ['roots', {}, { method: 'roots/list' }, { roots: {} }],
  ])(
    'a client that lacks a capability gets the name of the capability: %s',
    async (_, capabilities, question, requiredCapabilities) => {
      const rig = new Rig('modern');
      rig.capabilities = capabilities;
      const call = rig.call((ctx) => ctx.ask({ key: question }));
      await expect(call).rejects.toBeInstanceOf(MissingRequiredClientCapabilityError);
      await expect(call).rejects.toMatchObject({ code: -32021, data: { requiredCapabilities } });
    },
  );

  it.each<[string, Handler]>([
    ['caught', (ctx) => ctx.roots('r').catch(() => 'none')],
    ['wrapped', (ctx) => ctx.roots('r').catch(() => Promise.reject(new Error('wrapped')))],
    ['dropped', (ctx) => void ctx.roots('r')],
    ['among others', (ctx) => Promise.all([ctx.elicit('a', form()), ctx.roots('r'), ctx.elicit('b', form())])],
    [
      'followed by others',
      async (ctx) => {
        await ctx.roots('r').catch(() => {});
        return ctx.elicit('a', form());
      },
    ],
  ])('a client that lacks a capability is refused although the error was %s', async (_, handler) => {
    const rig = new Rig('modern');
    rig.capabilities = { elicitation: {} };
    await expect(rig.call(handler)).rejects.toMatchObject({
      code: -32021,
      data: { requiredCapabilities: { roots: {} } },
    });
  });

  it('a client that lacks a capability can be spared the question', async () => {
    const rig = new Rig('modern');
    rig.capabilities = { roots: {} };
    const handler: Handler = (ctx) => ('sampling' in ctx.clientCapabilities ? ctx.sample('s', SAMPLE) : 'without');
    expect(await rig.call(handler)).toBe('without');
  });
});

describe('a method that cannot ask', () => {
  it('a method that cannot ask fails with a typed error in the modern era', async () => {
    const { run, ctx } = new Rig('modern').begin({}, false);
    const outcome = run.serve(() => ctx.elicit('a', form()));
    await expect(outcome).rejects.toBeInstanceOf(McpServerRequestError);
    await expect(outcome).rejects.toThrow('The question "a" cannot be asked during "completion/complete"');
  });

  it('a method that cannot ask asks in the legacy era', async () => {
    const { run, ctx } = new Rig('legacy').begin({}, false);
    expect(await run.serve(() => ctx.elicit('a', form()))).toEqual(accept('sent'));
  });

  it.each<[string, Handler]>([
    ['returned', () => 'done'],
    ['failed', () => Promise.reject(new Error('mine'))],
    ['asked', (ctx) => ctx.elicit('first', form())],
    ['returned questions', () => inputRequired({ requestState: 'step 1' })],
  ])('a method that cannot ask is a run that is over: its handler has %s', async (_, handler) => {
    const { run, ctx } = new Rig('modern').begin();
    await run.serve(async () => handler(ctx)).catch(() => {});
    await expect(ctx.elicit('a', form())).rejects.toMatchObject({ name: 'McpServerRequestError', code: 'CALL_OVER' });
  });
});

describe('the legacy era', () => {
  it('the legacy era sends questions while the handler waits, side by side', async () => {
    const rig = new Rig('legacy');
    const answers = deferred();
    rig.answering = () => answers.promise.then(() => accept('x'));
    const call = rig.call((ctx) =>
      ctx.ask({
        a: { method: 'elicitation/create', params: form('1') },
        b: { method: 'elicitation/create', params: form('2') },
      }),
    );
    await turn();
    expect(rig.sent).toEqual([
      { method: 'elicitation/create', params: { mode: 'form', ...form('1') } },
      { method: 'elicitation/create', params: { mode: 'form', ...form('2') } },
    ]);
    answers.resolve();
    expect(await call).toEqual({ a: accept('x'), b: accept('x') });
  });

  it('the legacy era leaves errors to the handler', async () => {
    const rig = new Rig('legacy');
    rig.answering = () => Promise.reject(new McpServerRequestError('NO_STREAM', 'no'));
    expect(await rig.call((ctx) => ctx.roots('r').catch(({ code }: McpServerRequestError) => code))).toBe('NO_STREAM');
    await rig.call((ctx) => void ctx.roots('dropped'));
  });

  it.each<[string, unknown, Handler]>([
    ['a form', accept(7), (ctx) => ctx.elicit('a', form())],
    ['a model', { ...text, content: USE }, (ctx) => ctx.sample('a', SAMPLE)],
    [
      'a model with tools',
      { ...text, content: [{ type: 'nonsense' }] },
      (ctx) => ctx.sample('a', { ...SAMPLE, tools: [] }),
    ],
    ['roots', { roots: 'none' }, (ctx) => ctx.roots('a')],
  ])('D23: a malformed answer is a typed error: %s', async (_, answer, handler) => {
    const rig = new Rig('legacy');
    rig.answering = () => answer;
    await expect(rig.call(handler)).rejects.toMatchObject({ name: 'McpServerRequestError', code: 'INVALID_ANSWER' });
  });

  it('D23: an answer has the fields of the specification, with tools where they were offered', async () => {
    const rig = new Rig('legacy');
    rig.answering = () => ({ ...text, content: USE });
    expect(await rig.call((ctx) => ctx.sample('a', { ...SAMPLE, tools: [] }))).toMatchObject({ content: USE });
  });

  it('the legacy era may ask again what failed', async () => {
    const rig = new Rig('legacy');
    rig.answering = () => (rig.sent.length === 1 ? Promise.reject(new Error('lost')) : accept('x'));
    const handler: Handler = (ctx) => ctx.elicit('a', form()).catch(() => ctx.elicit('a', form()));
    expect(await rig.call(handler)).toEqual(accept('x'));
  });

  it('the legacy era runs a step of once() once', async () => {
    let runs = 0;
    const handler: Handler = (ctx) => Promise.all([ctx.once('a', () => ++runs), ctx.once('a', () => ++runs)]);
    const rig = new Rig('legacy');
    expect([await rig.call(handler), await rig.call(handler)]).toEqual([
      [1, 1],
      [2, 2],
    ]);
  });
});

describe.each(['modern', 'legacy'] as const)('in both eras: %s', (era) => {
  const answer = { responses: { a: accept('sent') } };

  it('a question has one answer in a run', async () => {
    const rig = new Rig(era);
    const handler: Handler = (ctx) => Promise.all([ctx.elicit('a', form()), ctx.elicit('a', form())]);
    expect(await rig.call(handler, answer)).toEqual([accept('sent'), accept('sent')]);
    expect(rig.sent.length).toBeLessThanOrEqual(1);
  });

  it('a key has one question in a run', async () => {
    const rig = new Rig(era);
    const call = rig.call(async (ctx) => {
      await ctx.elicit('a', form('Remove the first?'));
      await ctx.elicit('a', form('Remove all?'));
    }, answer);
    await expect(call).rejects.toThrow('two different questions with the key "a"');
  });

  it('a loop that waits for another answer comes to an end', async () => {
    const rig = new Rig(era);
    const call = rig.call(async (ctx) => {
      while (valueOf(await ctx.elicit('a', form())) !== 'never') continue;
    }, answer);
    await expect(call).rejects.toThrow('asked the question "a" 1000 times');
  });

  it('what cannot be a question is an error of the handler', async () => {
    const rig = new Rig(era);
    await expect(rig.call((ctx) => ctx.roots('__proto__'))).rejects.toThrow('cannot be the key of a question');
    await expect(rig.call((ctx) => ctx.ask({ a: { method: 'ping' } as never }))).rejects.toThrow('A question is');
    const requestedSchema = { type: 'nonsense' } as never;
    await expect(rig.call((ctx) => ctx.elicit('a', { message: 'x', requestedSchema }))).rejects.toThrow(
      'cannot be used',
    );
    expect(rig.sent).toEqual([]);
  });

  it('D21: a sampling question whose tool uses are not answered is refused', async () => {
    const rig = new Rig(era);
    const use = {
      role: 'assistant' as const,
      content: { type: 'tool_use' as const, id: '1', name: 'look', input: {} },
    };
    const params = { messages: [use, ...SAMPLE.messages], maxTokens: 5, tools: [] };
    await expect(rig.call((ctx) => ctx.sample('a', params))).rejects.toMatchObject({ code: -32602 });
    expect(rig.sent).toEqual([]);
  });

  it('D28: results may be questions, with a state of the handler', async () => {
    const rig = new Rig(era);
    const { result, asked } = await rig.converse(confirms, { 'Sure?': accept('yes') });
    expect(result).toEqual(['step 1', 'yes']);
    expect([asked, rig.asked]).toEqual(era === 'modern' ? [[['Sure?']], []] : [[], ['Sure?']]);
  });

  it('D28: a run after such a result knows what was asked and done before', async () => {
    const rig = new Rig(era);
    let done = 0;
    const handler: Handler = async (ctx) => {
      const number = await ctx.once('n', () => ++done);
      const asked = valueOf(await ctx.elicit('a', form('a')));
      const { b } = ctx.inputResponses ?? {};
      return b ? [number, asked, valueOf(b as never)] : asking('b');
    };
    expect((await rig.converse(handler, { a: accept('1'), b: accept('2') })).result).toEqual([1, '1', '2']);
    expect([done, rig.asked]).toEqual([1, era === 'modern' ? [] : ['a', 'b']]);
  });

  it('D28: a question of a result has its answer in the next run, and keeps it when it is asked again', async () => {
    const rig = new Rig(era);
    const runs: string[][] = [];
    const handler: Handler = async (ctx) => {
      const responses = ctx.inputResponses ?? {};
      await ctx.once('noted', () => runs.length);
      runs.push(Object.keys(responses));
      if (runs.length === 1) return asking('a');
      const a = valueOf(await ctx.elicit('a', form('a')));
      return responses['b'] ? [a, valueOf(responses['b'] as never)] : asking('b');
    };
    expect((await rig.converse(handler, { a: accept('1'), b: accept('2') })).result).toEqual(['1', '2']);
    expect(runs).toEqual([[], ['a'], ['b']]);
    expect(rig.asked).toEqual(era === 'modern' ? [] : ['a', 'b']);
  });

  it.each<[string, () => unknown, string | RegExp]>([
    ['nothing is asked', () => ({ resultType: 'input_required' }), 'with neither questions nor a state'],
    [
      'a list of no questions is',
      () => ({ resultType: 'input_required', inputRequests: {} }),
      'with neither questions nor a state',
    ],
    [
      'a question is none',
      () => ({ resultType: 'input_required', inputRequests: { a: { method: 'ping' } } }),
      'A question is',
    ],
    ['a question is null', () => ({ resultType: 'input_required', inputRequests: { a: null } }), 'A question is'],
    [
      'a form has no parameters',
      () => ({ resultType: 'input_required', inputRequests: { a: { method: 'elicitation/create' } } }),
      'A question is',
    ],
    [
      'a schema is none',
      () =>
        inputRequired({ inputRequests: { a: { method: 'elicitation/create', params: { message: 'x' } } as never } }),
      '"requestedSchema"',
    ],
  ])('D28: a result by which %s is -32603, of tools too', async (_, result, message) => {
    const rig = new Rig(era);
    const call = rig.call(result);
    await expect(call).rejects.toMatchObject({ code: -32603, message: expect.stringMatching(message) });
    expect(rig.sent).toEqual([]);
  });

  it('gives the handler the capabilities of the client', () => {
    const rig = new Rig(era);
    rig.capabilities = { roots: {} };
    expect(rig.begin().ctx.clientCapabilities).toEqual({ roots: {} });
  });

  it('D26: a notification that is not of the era fails, and only those that are go out', async () => {
    const rig = new Rig(era);
    const { ctx } = rig.begin();
    const foreign = era === 'modern' ? 'notifications/tasks/status' : 'notifications/subscriptions/acknowledged';
    await expect(ctx.notify(foreign)).rejects.toThrow('cannot be sent');
    void ctx.notify('notifications/initialized');
    await ctx.notify('x.example/said', { a: 1 });
    expect(rig.said).toEqual([{ method: 'x.example/said', params: { a: 1 } }]);
  });

  it('D27: log messages go out if the client wants their level', async () => {
    const rig = new Rig(era);
    const { ctx } = rig.begin();
    rig.logLevel = 'warning';
    await ctx.log('info', 'no');
    await ctx.log('error', { why: 'yes' }, 'spec');
    expect(rig.said).toEqual([
      { method: 'notifications/message', params: { level: 'error', data: { why: 'yes' }, logger: 'spec' } },
    ]);
  });
});

describe('results of a handler that are questions, in the modern era', () => {
  it('M8: questions that a handler returns in the modern era are sent with the state of the handler sealed in ours', async () => {
    const rig = new Rig('modern');
    const first = (await rig.call(confirms)) as InputRequiredResult;
    expect(first.requestState).toMatch(/^[\w-]{60,}$/);
    expect(Object.keys(first.inputRequests!)).toEqual(['Sure?']);
    const responses = { 'Sure?': accept('yes') };
    expect(await rig.call(confirms, { state: first.requestState, responses })).toEqual(['step 1', 'yes']);
    const forged = async () => rig.call(confirms, { state: 'step 1', responses });
    await expect(forged()).rejects.toMatchObject({ code: -32602 });
  });

  it('questions that a handler returns in the modern era are left alone when there is nothing to keep', async () => {
    const result = asking('a');
    expect(await new Rig('modern').call(() => result)).toEqual(result);
  });

  it('D20: questions that a handler returns in the modern era are -32021 for a client that lacks a capability, by mode', async () => {
    const rig = new Rig('modern');
    rig.capabilities = { elicitation: {} };
    const call = rig.call(() => inputRequired({ inputRequests: { pay: inputRequired.elicitUrl(PAY) } }));
    await expect(call).rejects.toBeInstanceOf(MissingRequiredClientCapabilityError);
    await expect(call).rejects.toMatchObject({ data: { requiredCapabilities: { elicitation: { url: {} } } } });
  });
});

describe('D28: results of a handler that are questions, in the legacy era', () => {
  const METHODS = ['tools/call', 'prompts/get', 'resources/read'] as const;
  /** Returns how a round that failed reaches the client. */
  const failureOf = async (rig: Rig, handler: Handler) => {
    const outcome = await rig.call(handler).catch((error: unknown) => error);
    if (rig.method !== 'tools/call') {
      expect(outcome).toBeInstanceOf(ProtocolError);
      expect(outcome).toMatchObject({ code: -32603 });
      return (outcome as Error).message;
    }
    expect(outcome).toEqual({ content: [{ type: 'text', text: expect.any(String) }], isError: true });
    return (outcome as { content: [{ text: string }] }).content[0].text;
  };
  const rigFor = (method: string): Rig => Object.assign(new Rig('legacy'), { method });
  /** Fails when its time comes, or when it is given up. */
  const pending = ({ signal }: OutboundOptions = {}) =>
    new Promise((_, reject) => signal!.addEventListener('abort', () => reject(signal!.reason as Error)));

  it('questions that a handler returns in the legacy era are asked side by side, and the handler runs again with all answers', async () => {
    const rig = new Rig('legacy');
    const answers = deferred();
    rig.answering = ({ method, params }) =>
      answers.promise.then(() => {
        if (method === 'roots/list') return { roots: [] };
        return method === 'sampling/createMessage' ? text : accept((params as { message: string }).message);
      });
    const call = rig.call((ctx) => {
      if (ctx.inputResponses) return ctx.inputResponses;
      const { inputRequests } = asking('a', 'b');
      return inputRequired({
        inputRequests: { ...inputRequests, c: inputRequired.createMessage(SAMPLE), d: inputRequired.listRoots() },
      });
    });
    await turn();
    expect(rig.sent.map(({ method }) => method)).toEqual([
      'elicitation/create',
      'elicitation/create',
      'sampling/createMessage',
      'roots/list',
    ]);
    answers.resolve();
    expect({ ...((await call) as object) }).toEqual({ a: accept('a'), b: accept('b'), c: text, d: { roots: [] } });
  });

  it('D22: questions that a handler returns in the legacy era are sent in the form of those revisions', async () => {
    const rig = new Rig('legacy');
    rig.answering = ({ params }) => (params?.['mode'] === 'url' ? { action: 'accept' } : accept('x'));
    await rig.call((ctx) => {
      if (ctx.inputResponses) return 'done';
      const { form: _, ...plain } = { form: 0, ...form('a') };
      const a = { method: 'elicitation/create', params: plain } as never;
      return inputRequired({ inputRequests: { a, pay: inputRequired.elicitUrl(PAY) } });
    });
    expect(rig.sent.map(({ params }) => params)).toEqual([
      { mode: 'form', ...form('a') },
      { mode: 'url', ...PAY, elicitationId: expect.stringMatching(/^[\w-]{36}$/) },
    ]);
  });

  it('questions that a handler returns in the legacy era have ten minutes a question, and more while there is progress', async () => {
    const rig = new Rig('legacy');
    await rig.call(confirms);
    expect(rig.options).toEqual([
      expect.objectContaining({
        timeoutMs: 600_000,
        resetTimeoutOnProgress: true,
        onprogress: expect.any(Function),
        signal: expect.any(AbortSignal),
      }),
    ]);
  });

  it('questions that a handler returns in the legacy era have a state that the next run has, and no client', async () => {
    const rig = new Rig('legacy');
    const states: unknown[] = [];
    await rig.call((ctx) => {
      states.push(ctx.requestState);
      if (states.length === 1) return inputRequired({ ...asking('a'), requestState: 'step 1' });
      return states.length === 2 ? asking('b') : 'done';
    });
    expect(states).toEqual([undefined, 'step 1', undefined]);
    expect(JSON.stringify(rig.sent)).not.toContain('step 1');
  });

  it('questions that a handler returns in the legacy era may be a state alone: the handler runs again, and has no answers', async () => {
    const rig = new Rig('legacy');
    const seen: unknown[] = [];
    const call = rig.call((ctx) => {
      seen.push([ctx.requestState, ctx.inputResponses]);
      return seen.length < 3 ? inputRequired({ requestState: `step ${seen.length}` }) : 'done';
    });
    expect(await call).toBe('done');
    expect(seen).toEqual([
      [undefined, undefined],
      ['step 1', undefined],
      ['step 2', undefined],
    ]);
    expect(rig.sent).toEqual([]);
  });

  it('questions that a handler returns in the legacy era have answers without a prototype: their names are the handler’s', async () => {
    const rig = new Rig('legacy');
    const { inputResponses } = (await rig.call((ctx) =>
      ctx.inputResponses ? { inputResponses: ctx.inputResponses } : asking('constructor', '0'),
    )) as { inputResponses: object };
    expect(Object.getPrototypeOf(inputResponses)).toBeNull();
    expect(Object.keys(inputResponses).toSorted()).toEqual(['0', 'constructor']);
  });

  it.each(METHODS)(
    'questions that a handler returns in the legacy era are asked eight times in a row at most: %s',
    async (method) => {
      const rig = rigFor(method);
      let runs = 0;
      expect(await failureOf(rig, () => asking(`${++runs}`))).toContain(`"${method}" asked for input 8 times`);
      expect([runs, rig.asked.length]).toEqual([9, 8]);
    },
  );

  it('questions that a handler returns in the legacy era may be asked eight times', async () => {
    const rig = new Rig('legacy');
    let runs = 0;
    expect(await rig.call(() => (++runs <= 8 ? asking(`${runs}`) : 'done'))).toBe('done');
  });

  it.each(METHODS)(
    'questions that a handler returns in the legacy era fail with the first that fails, and the others are cancelled: %s',
    async (method) => {
      const rig = rigFor(method);
      const signals: AbortSignal[] = [];
      rig.answering = async (_, options) => {
        signals.push(options.signal!);
        if (signals.length === 2) throw new ProtocolError(-1, 'no time');
        return pending(options);
      };
      let runs = 0;
      const handler: Handler = () => {
        runs++;
        return asking('a', 'b', 'c');
      };
      expect(await failureOf(rig, handler)).toContain(`"${method}" needs could not be obtained: no time`);
      expect(signals.map(({ aborted }) => aborted)).toEqual([true, true, true]);
      expect(signals[0]!.reason).toMatchObject({ message: expect.stringContaining('Another question') });
      expect(runs).toBe(1);
    },
  );

  it.each<[string, unknown, Partial<McpQuestion>]>([
    ['content that does not fit', accept(7), { method: 'elicitation/create', params: form() }],
    ['no content', { action: 'accept' }, { method: 'elicitation/create', params: form() }],
    ['another kind', { roots: [] }, { method: 'elicitation/create', params: form() }],
    [
      'the use of a tool that was not offered',
      { ...text, content: USE },
      { method: 'sampling/createMessage', params: SAMPLE },
    ],
    ['roots that are none', { roots: [{ uri: 'https://a.example' }] }, { method: 'roots/list' }],
  ])(
    'D23: questions that a handler returns in the legacy era fail with a malformed answer: %s',
    async (_, answer, question) => {
      const rig = new Rig('legacy');
      rig.answering = () => answer;
      const failure = await failureOf(rig, () => inputRequired({ inputRequests: { a: question as never } }));
      expect(failure).toContain('The client’s answer to the question "a"'.replace('’', "'"));
    },
  );

  it.each(METHODS)(
    'D20: questions that a handler returns in the legacy era fail for a client that lacks a capability, by mode, and nothing is sent: %s',
    async (method) => {
      const rig = rigFor(method);
      rig.capabilities = { elicitation: {} };
      const { inputRequests } = asking('a');
      const handler: Handler = () =>
        inputRequired({ inputRequests: { ...inputRequests, pay: inputRequired.elicitUrl(PAY) } });
      expect(await failureOf(rig, handler)).toContain(
        '"pay" (elicitation/create) is needed, but this client did not declare the capability "elicitation.url"',
      );
      expect(rig.sent).toEqual([]);
    },
  );

  it('questions that a handler returns in the legacy era leave what the handler throws in a later run as it is', async () => {
    const rig = new Rig('legacy');
    const thrown = new Error('mine');
    const call = rig.call((ctx) => (ctx.inputResponses ? Promise.reject(thrown) : asking('a')));
    await expect(call).rejects.toBe(thrown);
  });

  it('questions that a handler returns in the legacy era end with their call while the client is asked', async () => {
    const rig = new Rig('legacy');
    rig.answering = (_question, options) => pending(options);
    const { call, run } = rig.begin();
    let runs = 0;
    const outcome = run.serve(async () => {
      runs++;
      return asking('a', 'b');
    });
    await turn();
    call.cancelled(new Error('enough'));
    await expect(outcome).rejects.toThrow('enough');
    expect(runs).toBe(1);
  });

  it('questions that a handler returns in the legacy era are not asked when their call was cancelled before', async () => {
    const rig = new Rig('legacy');
    const { call, run } = rig.begin();
    let runs = 0;
    const outcome = run.serve(async () => {
      runs++;
      call.cancelled(new Error('enough'));
      return inputRequired({ requestState: 'step 1' });
    });
    await expect(outcome).rejects.toThrow('enough');
    expect(runs).toBe(1);
  });
});

it('answers are typed by their questions', () => {
  const types = (ctx: McpContext) =>
    ctx.ask({
      form: { method: 'elicitation/create', params: form() },
      text: { method: 'sampling/createMessage', params: SAMPLE },
      tools: { method: 'sampling/createMessage', params: { ...SAMPLE, tools: [] } },
      roots: { method: 'roots/list' },
    });
  type Answers = Awaited<ReturnType<typeof types>>;
  expectTypeOf<Answers['form']['action']>().toEqualTypeOf<'accept' | 'decline' | 'cancel'>();
  expectTypeOf<Answers['text']['model']>().toEqualTypeOf<string>();
  expectTypeOf<Extract<Answers['text']['content'], unknown[]>>().not.toEqualTypeOf<never>();
  expectTypeOf<Extract<Answers['tools']['content'], unknown[]>>().not.toEqualTypeOf<never>();
  expectTypeOf<Answers['roots']['roots'][number]['uri']>().toEqualTypeOf<string>();
  const built = (ctx: McpContext) => ctx.ask({ a: inputRequired.listRoots() });
  expectTypeOf<Awaited<ReturnType<typeof built>>>().toHaveProperty('a');
  const once = (ctx: McpContext) => ctx.once('a', () => Promise.resolve(1));
  expectTypeOf<ReturnType<typeof once>>().toEqualTypeOf<Promise<number>>();
});
