import { type InputRequiredResult, inputRequired, ProtocolError } from '@modelcontextprotocol/server';
import { afterEach, beforeEach, describe, expect, expectTypeOf, it } from 'vitest';
import { deferred } from '../common/promises.js';
import {
  type CallingClient,
  type ClientIdentity,
  McpCall,
  type McpSessionInfo,
  type OutboundMessage,
} from '../calls/mcp-call.js';
import { McpContext } from '../calls/mcp-context.js';
import { McpServerRequestError } from '../calls/server-request.error.js';
import { McpHandlerSignal } from '../calls/handler-signals.js';
import { ManualClock } from '../../testing/manual-clock.js';
import { RequestStates } from './request-state.js';
import { HandlerRun } from './handler-run.js';
import { RequestedSchemas } from './question.js';

type Handler = (ctx: McpContext) => unknown;
interface Round {
  responses?: object | undefined;
  state?: unknown;
}

const ALL = { elicitation: { form: {}, url: {} }, sampling: { tools: {} }, roots: {} };
const PROPERTIES = { value: { type: 'string' as const } };
const form = (message = 'What?') => ({
  message,
  requestedSchema: { type: 'object' as const, properties: PROPERTIES, required: ['value'] },
});
const accept = (value: unknown) => ({ action: 'accept', content: { value } });
const valueOf = ({ content }: { content?: Record<string, unknown> | undefined }) => content?.['value'];
const SAMPLE = { messages: [{ role: 'user' as const, content: { type: 'text' as const, text: 'Hi' } }], maxTokens: 5 };

/** A result that asks for forms, each with its key as its message. */
const asking = (...keys: string[]) => {
  const requests = keys.map((key) => [key, inputRequired.elicit(form(key))] as const);
  return inputRequired({ inputRequests: Object.fromEntries(requests) });
};

/** Runs a handler as `tools/call` does, for a client that answers as it is told to, and keeps what it reports. */
class Rig implements CallingClient {
  readonly clock = new ManualClock();
  readonly states: RequestStates;
  readonly schemas = new RequestedSchemas();
  /** A client of the legacy era answers with these. */
  answering: (question: OutboundMessage) => unknown = () => accept('sent');
  readonly sent: OutboundMessage[] = [];

  constructor(readonly era: 'modern' | 'legacy') {
    const endpoint = { name: undefined, path: 'mcp' };
    const options = { secrets: [Buffer.alloc(32)], ttlMs: 1_000, clockToleranceMs: 0, maxBytes: 65_536, endpoint };
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
    return { protocolVersion, capabilities: ALL, clientInfo: { name: 'spec', version: '1' } };
  }
  wantsLog(): boolean {
    return true;
  }
  notify(): Promise<void> {
    return Promise.resolve();
  }
  async request(question: OutboundMessage): Promise<unknown> {
    this.sent.push(question);
    return this.answering(question);
  }

  begin({ responses, state }: Round = {}, asks = true) {
    const message = { jsonrpc: '2.0', id: 1, method: asks ? 'tools/call' : 'completion/complete' } as const;
    const call = new McpCall({ era: this.era, principal: undefined, request: undefined }, message, this);
    const { states: requestStates, schemas } = this;
    const parts = { requestStates, states: {} as never, schemas, report: () => {} };
    const params = { name: 'tool', arguments: {} };
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

  it('ctx.once may be dropped', async () => {
    await new Rig('modern').call((ctx) => void ctx.once('key', () => Promise.reject(new Error('x'))));
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
    await Promise.resolve(run.serve(async () => handler(ctx))).catch(() => {});
    await expect(ctx.elicit('a', form())).rejects.toMatchObject({ name: 'McpServerRequestError', code: 'CALL_OVER' });
  });
});

describe('the legacy era', () => {
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
