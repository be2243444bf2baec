import {
  type InputRequiredResult,
  inputRequired,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  type ServerContext,
} from '@modelcontextprotocol/server';
import { afterEach, beforeEach, describe, expect, expectTypeOf, it } from 'vitest';
import { deferred } from '../../base/deferred.js';
import type { McpCall } from '../../context/mcp-call.js';
import { McpContext } from '../../context/mcp-context.js';
import type { McpQuestion } from '../../context/mcp-questions.js';
import { HandlerSignal } from '../../handlers/results/handler-signal.js';
import { ServerRequestError } from '../../session/session.errors.js';
import { ManualClock } from '../../testing/manual-clock.js';
import { SdkClientPort } from '../handlers/sdk-client-port.js';
import { RequestStates } from '../modern/request-state.js';
import { HandlerRun } from './handler-run.js';
import { RequestedSchemas } from './requested-schemas.js';

type Handler = (ctx: McpContext) => unknown;
interface Round {
  responses?: object;
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
const SAMPLE = { messages: [{ role: 'user' as const, content: { type: 'text' as const, text: 'Hi' } }], maxTokens: 5 };

/** Runs a handler as `tools/call` does, and keeps what it reports. */
class Rig {
  readonly reports: string[] = [];
  readonly clock = new ManualClock();
  readonly states: RequestStates;
  readonly schemas = new RequestedSchemas();
  capabilities: object = ALL;
  /** What a client of the legacy era answers. */
  answering: (question: unknown) => unknown = () => accept('sent');
  readonly sent: unknown[] = [];

  constructor(
    readonly era: 'modern' | 'legacy',
    maxBytes = 65_536,
  ) {
    const endpoint = { name: undefined, path: 'mcp' };
    this.states = new RequestStates({ secrets: [Buffer.alloc(32)], ttlMs: 1_000, maxBytes, endpoint }, this.clock);
  }

  begin({ responses, state, principal, args = {} }: Round = {}, asks = true): { run: HandlerRun; ctx: McpContext } {
    const { era, capabilities } = this;
    const session = era === 'legacy' ? { clientCapabilities: capabilities } : undefined;
    const call = { era, principal, session } as Partial<McpCall> as McpCall;
    const send = async (question: unknown) => {
      this.sent.push(question);
      return this.answering(question);
    };
    const mcpReq = {
      method: asks ? 'tools/call' : 'completion/complete',
      inputResponses: responses,
      requestState: () => state,
      envelope: { 'io.modelcontextprotocol/clientCapabilities': capabilities },
      elicitInput: send,
      requestSampling: send,
      send,
    };
    const sdk = { mcpReq } as unknown as ServerContext;
    const parts = { states: this.states, schemas: this.schemas, report: (said: string) => this.reports.push(said) };
    const request = asks ? { target: 'tool', params: { name: 'tool', arguments: args } } : undefined;
    const run = new HandlerRun(call, sdk, new SdkClientPort(sdk, 1_000), parts, request);
    return { run, ctx: new McpContext(call, run, undefined) };
  }

  async call(handler: Handler, round?: Round): Promise<unknown> {
    const { run, ctx } = this.begin(round);
    return run.finish(async () => handler(ctx));
  }

  /** Calls until there is a result, as a client that answers each question by its key. */
  async converse(handler: Handler, answers: Record<string, unknown>): Promise<{ result: unknown; asked: string[][] }> {
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
  it('ends the run, and has its answer in the next', async () => {
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

  it('is asked after those before it, which are not asked again', async () => {
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

  it('is asked together with others', async () => {
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

  it('is kept although another one was not answered', async () => {
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
  ])('is asked again when the answer is one %s', async (_, wrong) => {
    const rig = new Rig('modern');
    const handler: Handler = async (ctx) => valueOf(await ctx.elicit('name', form()));
    const first = (await rig.call(handler)) as InputRequiredResult;
    const responses = { name: wrong };
    const second = (await rig.call(handler, { state: first.requestState, responses })) as InputRequiredResult;
    expect(second.inputRequests).toEqual(first.inputRequests);
    expect(await rig.call(handler, { state: second.requestState, responses: { name: accept('Ann') } })).toBe('Ann');
  });

  it('may be answered before it is asked: a first run with answers', async () => {
    const rig = new Rig('modern');
    const handler: Handler = async (ctx) => valueOf(await ctx.elicit('name', form()));
    expect(await rig.call(handler, { responses: { name: accept('Ann') } })).toBe('Ann');
  });

  it('has the answer that was given first', async () => {
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

  it.each(['constructor', 'toString', 'hasOwnProperty', '0'])('may have the key %j', async (key) => {
    const rig = new Rig('modern');
    const handler: Handler = async (ctx) => valueOf(await ctx.elicit(key, form()));
    expect(await rig.converse(handler, { [key]: accept('Ann') })).toEqual({ result: 'Ann', asked: [[key]] });
  });

  it('keeps nothing of what nobody asked for', async () => {
    const rig = new Rig('modern');
    const handler: Handler = async (ctx) => valueOf(await ctx.elicit('name', form()));
    const first = (await rig.call(handler, { responses: { junk: accept('x'.repeat(10_000)) } })) as InputRequiredResult;
    expect(first.requestState!.length).toBeLessThan(300);
  });

  it('is dropped without a trace when nobody waits for it', async () => {
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

describe('M8: the mark wins', () => {
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

  it.each(Object.entries(handlers))('over %s', async (_, handler) => {
    const rig = new Rig('modern');
    const { asked, result } = await rig.converse(handler, { name: accept('Ann') });
    expect({ asked, result }).toEqual({ asked: [['name']], result: 'Ann' });
  });

  it('and waits for the handler: what it asks on the way out is asked too', async () => {
    const rig = new Rig('modern');
    const handler: Handler = async (ctx) => {
      const answers = await Promise.allSettled([ctx.elicit('a', form()), turn().then(() => ctx.elicit('b', form()))]);
      return answers.map(({ status }) => status).join();
    };
    const { asked, result } = await rig.converse(handler, { a: accept('1'), b: accept('2') });
    expect({ asked, result }).toEqual({ asked: [['a', 'b']], result: 'fulfilled,fulfilled' });
  });

  it('throws a signal that is one', async () => {
    const rig = new Rig('modern');
    const thrown: unknown[] = [];
    await rig.call((ctx) => ctx.elicit('name', form()).catch((error: unknown) => thrown.push(error)));
    expect(thrown).toEqual([expect.any(HandlerSignal)]);
    expect(thrown[0]).toMatchObject({ name: 'HandlerSuspended', message: expect.stringContaining('"name"') });
  });

  it('but not over what a handler throws before it asks', async () => {
    const rig = new Rig('modern');
    await expect(rig.call(() => Promise.reject(new Error('mine')))).rejects.toThrow('mine');
  });
});

describe('M8: ctx.once', () => {
  it('is done in one run, and known in all later ones', async () => {
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

  it('is waited for when the run is suspended meanwhile', async () => {
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

  it('says so when the result is not JSON', async () => {
    const rig = new Rig('modern');
    await expect(rig.call((ctx) => ctx.once('key', () => new Date(0)))).rejects.toThrow(
      'The result of ctx.once("key") cannot be kept',
    );
  });

  it('may be dropped', async () => {
    await new Rig('modern').call((ctx) => void ctx.once('key', () => Promise.reject(new Error('x'))));
  });

  it('that asks itself is done when it has its answer', async () => {
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

  it('that is expired, foreign or forged is refused before the handler runs', async () => {
    const rig = new Rig('modern');
    const mine = await state(rig);
    const spent: Round[] = [
      { state: 'nonsense' },
      { state: mine, principal: 'bob' },
      { state: mine, args: { other: 1 } },
      { state: `${mine}x` },
      { state: '' },
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

  it('that becomes too large fails the call, says so in the log, and tells the client nothing', async () => {
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
  ])('is told which: %s', async (_, capabilities, question, requiredCapabilities) => {
    const rig = new Rig('modern');
    rig.capabilities = capabilities;
    const call = rig.call((ctx) => ctx.ask({ key: question }));
    await expect(call).rejects.toBeInstanceOf(MissingRequiredClientCapabilityError);
    await expect(call).rejects.toMatchObject({ code: -32021, data: { requiredCapabilities } });
  });

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
  ])('is refused although the error was %s', async (_, handler) => {
    const rig = new Rig('modern');
    rig.capabilities = { elicitation: {} };
    await expect(rig.call(handler)).rejects.toMatchObject({
      code: -32021,
      data: { requiredCapabilities: { roots: {} } },
    });
  });

  it('can be spared the question', async () => {
    const rig = new Rig('modern');
    rig.capabilities = { roots: {} };
    const handler: Handler = (ctx) => ('sampling' in ctx.clientCapabilities ? ctx.sample('s', SAMPLE) : 'without');
    expect(await rig.call(handler)).toBe('without');
  });
});

describe('what cannot ask', () => {
  it('fails typed in the modern era, and says so', async () => {
    const { run, ctx } = new Rig('modern').begin({}, false);
    const outcome = run.finish(() => ctx.elicit('a', form()));
    await expect(outcome).rejects.toBeInstanceOf(ServerRequestError);
    await expect(outcome).rejects.toThrow('The question "a" cannot be asked during "completion/complete"');
  });

  it('asks in the legacy era', async () => {
    const { run, ctx } = new Rig('legacy').begin({}, false);
    expect(await run.finish(() => ctx.elicit('a', form()))).toEqual(accept('sent'));
  });

  it('is a run that is over', async () => {
    const { run, ctx } = new Rig('modern').begin();
    await run.finish(() => Promise.resolve('done'));
    await expect(ctx.elicit('a', form())).rejects.toMatchObject({ name: 'ServerRequestError', code: 'CALL_OVER' });
  });
});

describe('the legacy era', () => {
  it('sends questions while the handler waits, side by side', async () => {
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
      { mode: 'form', ...form('1') },
      { mode: 'form', ...form('2') },
    ]);
    answers.resolve();
    expect(await call).toEqual({ a: accept('x'), b: accept('x') });
  });

  it('leaves errors to the handler', async () => {
    const rig = new Rig('legacy');
    rig.answering = () => Promise.reject(new ServerRequestError('NO_STREAM', 'no'));
    expect(await rig.call((ctx) => ctx.roots('r').catch(({ code }: ServerRequestError) => code))).toBe('NO_STREAM');
    await rig.call((ctx) => void ctx.roots('dropped'));
  });

  it('may ask again what failed', async () => {
    const rig = new Rig('legacy');
    rig.answering = () => (rig.sent.length === 1 ? Promise.reject(new Error('lost')) : accept('x'));
    const handler: Handler = (ctx) => ctx.elicit('a', form()).catch(() => ctx.elicit('a', form()));
    expect(await rig.call(handler)).toEqual(accept('x'));
  });

  it('does once what is to be done once', async () => {
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

  it('results that the handler makes by itself keep its state', async () => {
    const rig = new Rig(era);
    const handler: Handler = (ctx) => {
      const { confirm } = ctx.inputResponses ?? {};
      if (confirm) return [ctx.requestState, valueOf(confirm as never)];
      return inputRequired({ inputRequests: { confirm: inputRequired.elicit(form()) }, requestState: 'step 1' });
    };
    const first = (await rig.call(handler)) as InputRequiredResult;
    expect(first.requestState).toMatch(/^[\w-]{60,}$/);
    expect(Object.keys(first.inputRequests!)).toEqual(['confirm']);
    const responses = { confirm: accept('yes') };
    expect(await rig.call(handler, { state: first.requestState, responses })).toEqual(['step 1', 'yes']);
    const forged = async () => rig.call(handler, { state: 'step 1', responses });
    await expect(forged()).rejects.toMatchObject({ code: -32602 });
  });

  it('and are left alone when there is nothing to keep', async () => {
    const result = inputRequired({ inputRequests: { confirm: inputRequired.elicit(form()) } });
    expect(await new Rig(era).call(() => result)).toEqual(result);
  });

  it('and remember what was asked and done', async () => {
    const rig = new Rig(era);
    let runs = 0;
    const handler: Handler = async (ctx) => {
      const number = await ctx.once('n', () => ++runs);
      const asked = valueOf(await ctx.elicit('a', form()));
      const { confirm } = ctx.inputResponses ?? {};
      if (!confirm) return inputRequired({ inputRequests: { confirm: inputRequired.elicit(form()) } });
      return [number, asked, valueOf(confirm as never)];
    };
    const first = (await rig.call(handler, answer)) as InputRequiredResult;
    const round = { state: first.requestState, responses: { confirm: accept('yes') } };
    expect(await rig.call(handler, round)).toEqual([1, 'sent', 'yes']);
    expect(rig.sent.length).toBeLessThanOrEqual(1);
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
  expectTypeOf<Extract<Answers['text']['content'], unknown[]>>().toEqualTypeOf<never>();
  expectTypeOf<Extract<Answers['tools']['content'], unknown[]>>().not.toEqualTypeOf<never>();
  expectTypeOf<Answers['roots']['roots'][number]['uri']>().toEqualTypeOf<string>();
  const built = (ctx: McpContext) => ctx.ask({ a: inputRequired.listRoots() });
  expectTypeOf<Awaited<ReturnType<typeof built>>>().toHaveProperty('a');
  const once = (ctx: McpContext) => ctx.once('a', () => Promise.resolve(1));
  expectTypeOf<ReturnType<typeof once>>().toEqualTypeOf<Promise<number>>();
});
