import { createRequire } from 'node:module';
import type * as Sdk from '@modelcontextprotocol/server';
import { type CallHandler, type ExecutionContext, type NestInterceptor, UseInterceptors } from '@nestjs/common';
import { McpExecutionContext, type McpContext, type McpSessionEvent } from 'nestjs-mcp-streamable';
import { config, type Observable } from 'rxjs';
import { afterEach, describe, expect, it } from 'vitest';
import { fourOf } from '../handlers/four.js';
import { gate } from '../support/app.js';
import { eventually, recordedEvents, registryOf, testApps } from '../support/test-apps.js';
import { LATEST } from '../support/raw-client.js';
import {
  ACCEPTED,
  ASKABLE,
  Caller,
  ERAS,
  type Era,
  EVERYTHING,
  FORM,
  registerAll,
  REQUESTS,
  textOf,
} from './callers.js';

/** The other copy of the SDK, which apps have that are CommonJS. */
const commonJs = createRequire(import.meta.url)('@modelcontextprotocol/server') as typeof Sdk;

const RESERVED = {
  'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1.0.0' },
  'io.modelcontextprotocol/logLevel': 'debug',
};

const SAID = { type: 'text', text: 'said' };

/** What interceptors and handlers are given. */
const seen: unknown[] = [];
class Recording implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    seen.push(McpExecutionContext.create(context).getArgs());
    return next.handle();
  }
}

describe('incoming messages', () => {
  const start = testApps('fastify', { shared: true, errorDetails: false });
  afterEach(() => void seen.splice(0));

  describe.each(ERAS)('D1: in the %s era', (era) => {
    const Four = fourOf('four', {
      onMethods: [UseInterceptors(Recording)],
      run: (_ctx, args) => {
        seen.push(args);
        return 'done';
      },
    });
    const args = { id: '7', _meta: 'mine', requestState: 'mine' };

    it('handlers see their arguments, and nothing of what the protocol keeps for itself', async () => {
      const caller = await Caller.of(await start({ providers: [Four] }), era, EVERYTHING);
      const reserved = { inputResponses: { q: ACCEPTED } };
      await caller.ask('tools/call', { name: 'four', arguments: args, ...reserved }, RESERVED);
      await caller.ask('prompts/get', { name: 'four', arguments: args, ...reserved }, RESERVED);
      await caller.ask('resources/read', { uri: 'four://fixed', ...reserved }, RESERVED);
      const uri = { uri: 'four://fixed' };
      expect(seen).toEqual([args, args, args, args, uri, uri]);
    });

    it('handlers see the other keys of _meta in ctx.meta, and an empty object if there are none', async () => {
      const Metas = fourOf('four', { run: (ctx) => String(seen.push(ctx.meta)) });
      const caller = await Caller.of(await start({ providers: [Metas] }), era, EVERYTHING);
      const meta = {
        progressToken: 'p',
        traceparent: '00-1-2-01',
        'openai/locale': 'de-CH',
        'com.example/user': { a: 1 },
      };
      await caller.ask('tools/call', { name: 'four', arguments: { id: '7' } }, { ...RESERVED, ...meta });
      await caller.ask('prompts/get', { name: 'four', arguments: { id: '7' } }, { ...RESERVED, ...meta });
      await caller.ask('resources/read', { uri: 'four://fixed' });
      expect(seen).toEqual([meta, meta, {}]);
    });

    it('handlers see the capabilities that a client declared as its era requires', async () => {
      const app = await start();
      registryOf(app).registerTool({ name: 'client', handler: (_, ctx: McpContext) => ctx.clientCapabilities });
      const caller = await Caller.of(app, era, { roots: {} });
      const meta = era === 'legacy' ? { 'io.modelcontextprotocol/clientCapabilities': { sampling: {} } } : {};
      const { result } = await caller.ask('tools/call', { name: 'client' }, { ...RESERVED, ...meta });
      expect(result.structuredContent).toEqual({ roots: {} });
    });
  });

  it.each(ERAS)('E8: optional members that are null are absent, in the %s era', async (era) => {
    const app = await start();
    registerAll(app, 'free', (args: unknown) => {
      seen.push(args);
      return 'said';
    });
    const caller = await Caller.of(app, era);
    const nulls = { arguments: null, cursor: null, inputResponses: null, requestState: null };
    const answers = [
      await caller.ask('tools/call', { name: 'free', ...nulls }, { progressToken: null }),
      await caller.ask('prompts/get', { name: 'free', ...nulls }, { progressToken: null }),
      await caller.ask('tools/list', nulls, { progressToken: null }),
    ];
    expect(answers.map(({ error }) => error)).toEqual([undefined, undefined, undefined]);
    await caller.call('free', { depth: null });
    expect(seen).toEqual([{}, {}, { depth: null }]);
  });

  it.each(ERAS)('E8: members that no revision has are ignored, wherever they are, in the %s era', async (era) => {
    const app = await start();
    registerAll(app, 'plain', () => 'said');
    const caller = await Caller.of(app, era);
    const more = { later: { than: 2026 } };
    const ref = { type: 'ref/prompt', name: 'plain', ...more };
    const argument = { name: 'a', value: '', ...more };
    const asked = [
      ...ASKABLE.map((kind) => REQUESTS[kind]('plain')),
      ['completion/complete', { ref, argument, context: more }] as const,
    ];
    for (const [method, params] of asked) {
      const { error } = await caller.ask(method, { ...params, ...more });
      expect({ method, error }).toEqual({ method, error: undefined });
    }
  });

  it('E8: params and _meta that are null are absent', async () => {
    const { session } = await Caller.of(await start(), 'legacy');
    for (const params of [null, { _meta: null }]) {
      const response = await session.post({ jsonrpc: '2.0', id: session.nextId(), method: 'tools/list', params });
      expect(await response.json()).toMatchObject({ result: { tools: [] } });
    }
  });

  describe.each(ERAS)('D2: in the %s era', (era) => {
    const other = era === 'legacy' ? 'server/discover' : 'logging/setLevel';

    it.each([
      ['an unknown method', 'no/such', { cursor: 5 }, -32601, 'Method not found'],
      ['a method of the other era', other, { level: 5 }, -32601, 'Method not found'],
      ['malformed parameters', 'tools/call', { name: 'none', arguments: 5 }, -32602, '"params.arguments"'],
      ['what is not there', 'tools/call', { name: 'none', arguments: {} }, -32602, 'Tool "none" not found'],
    ])('%s is refused before the checks that follow it', async (_, method, params, code, text) => {
      const caller = await Caller.of(await start(), era);
      const { error } = await caller.ask(method, params);
      expect(error).toMatchObject({ code, message: expect.stringContaining(text) });
    });

    it('a handler runs only when all checks have passed', async () => {
      const app = await start();
      const ran: string[] = [];
      registryOf(app).registerTool({ name: 'runs', handler: () => ran.push('ran') });
      const caller = await Caller.of(app, era);
      for (const params of [{}, { name: 'runs', arguments: [] }, { name: 'runs', arguments: {}, requestState: 5 }]) {
        expect((await caller.ask('tools/call', params)).error).toMatchObject({ code: -32602 });
      }
      expect(ran).toEqual([]);
      await caller.call('runs');
      expect(ran).toEqual(['ran']);
    });
  });

  it('D2: the envelope comes before the parameters', async () => {
    const caller = await Caller.of(await start(), 'modern');
    const { status, error } = await caller.ask(
      'tools/call',
      { name: 5 },
      { 'io.modelcontextprotocol/logLevel': 'loud' },
    );
    expect(status).toBe(400);
    expect(error).toMatchObject({ code: -32602, message: expect.stringContaining('logLevel') });
  });

  /** Every request of a client in any revision, and the eras in which it is served; extensions are none of ours. */
  const METHODS: readonly (readonly [method: string, eras: readonly Era[]])[] = [
    ...['initialize', 'ping', 'logging/setLevel', 'resources/subscribe', 'resources/unsubscribe'].map(
      (method) => [method, ['legacy']] as const,
    ),
    ...['server/discover', 'subscriptions/listen'].map((method) => [method, ['modern']] as const),
    ...['tools/list', 'tools/call', 'resources/list', 'resources/templates/list', 'resources/read'].map(
      (method) => [method, ERAS] as const,
    ),
    ...['prompts/list', 'prompts/get', 'completion/complete'].map((method) => [method, ERAS] as const),
    ...['tasks/get', 'tasks/list', 'tasks/result', 'tasks/cancel', 'roots/list', 'elicitation/create'].map(
      (method) => [method, []] as const,
    ),
    ...['', 'no/such', 'constructor', '__proto__', 'toString'].map((method) => [method, []] as const),
  ];

  it.each(ERAS)(
    'D3: an unknown method of the %s era is refused, by HTTP 404 where there is no session',
    async (era) => {
      const caller = await Caller.of(await start(), era);
      for (const [method, eras] of METHODS) {
        if (method === '' && era === 'modern') continue; // Its header is empty, which is an error of its own.
        const { status, error } = await caller.ask(method);
        const found = error?.code !== -32601;
        expect({ method, found }).toEqual({ method, found: eras.includes(era) });
        if (found) continue;
        expect(error).toEqual({ code: -32601, message: 'Method not found' });
        expect(status).toBe(era === 'modern' ? 404 : 200);
      }
    },
  );

  it.each(ERAS)('D3: a handler that says "method not found" is no missing method, in the %s era', async (era) => {
    const app = await start();
    registerAll(app, 'lost', () => {
      throw new commonJs.ProtocolError(-32601, 'Method not found');
    });
    const caller = await Caller.of(app, era);
    for (const kind of ASKABLE) {
      const { status, error } = await caller.ask(...REQUESTS[kind]('lost'));
      expect([status, error?.code]).toEqual([200, -32601]);
    }
  });

  const prompt = { type: 'ref/prompt', name: 'p' };
  const argument = { name: 'a', value: 'b' };
  /** Malformed parameters of every method, and the field that is wrong. */
  const MALFORMED: readonly (readonly [method: string, params: Record<string, unknown>, field: string])[] = [
    ['tools/list', { cursor: 5 }, 'params.cursor'],
    ['resources/list', { cursor: {} }, 'params.cursor'],
    ['resources/templates/list', { cursor: {} }, 'params.cursor'],
    ['prompts/list', { cursor: [] }, 'params.cursor'],
    ['tools/call', {}, 'params.name'],
    ['tools/call', { name: 'x', arguments: [] }, 'params.arguments'],
    ['tools/call', { name: 'x', arguments: 'a' }, 'params.arguments'],
    ['prompts/get', { name: 5 }, 'params.name'],
    ['prompts/get', { name: 'x', arguments: { q: 5 } }, 'params.arguments.q'],
    ['resources/read', {}, 'params.uri'],
    ['resources/subscribe', { uri: 5 }, 'params.uri'],
    ['resources/unsubscribe', {}, 'params.uri'],
    ['completion/complete', { argument }, 'params.ref'],
    ['completion/complete', { ref: { type: 'ref/else', name: 'p' }, argument }, 'params.ref'],
    ['completion/complete', { ref: prompt }, 'params.argument'],
    ['completion/complete', { ref: prompt, argument: { name: 'a', value: 5 } }, 'params.argument.value'],
    ['completion/complete', { ref: prompt, argument, context: 'x' }, 'params.context'],
    ['completion/complete', { ref: prompt, argument, context: { arguments: { a: 5 } } }, 'params.context.arguments.a'],
    ['logging/setLevel', { level: 'loud' }, 'params.level'],
    ['initialize', { protocolVersion: '2025-11-25', capabilities: {} }, 'clientInfo'],
  ];

  it.each(ERAS)('D5: malformed parameters are -32602, which names the field, in the %s era', async (era) => {
    const caller = await Caller.of(await start(), era);
    const served = new Map(METHODS);
    for (const [method, params, field] of MALFORMED) {
      if (!served.get(method)!.includes(era) || method === 'initialize') continue;
      const { error } = await caller.ask(method, params);
      expect({ method, params, ...error }).toMatchObject({
        code: -32602,
        message: expect.stringContaining(`"${field}"`),
      });
    }
  });

  it.each(ERAS)('D5: parameters of more than 10,000 values are not read by a schema, in the %s era', async (era) => {
    const caller = await Caller.of(await start(), era);
    const texts = (count: number): object =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, 1]));
    for (const [method, params] of [
      ['prompts/get', (many: object) => ({ name: 'x', arguments: many })],
      ['completion/complete', (many: object) => ({ ref: prompt, argument, context: { arguments: many } })],
      ['tools/list', (many: object) => ({ cursor: many })],
    ] as const) {
      const few = await caller.ask(method, params(texts(9_000)));
      expect(few.error?.message).toMatch(`The parameters of "${method}" do not match the specification: "params.`);
      expect(await caller.ask(method, params(texts(10_001)))).toMatchObject({
        error: {
          code: -32602,
          message: `The parameters of "${method}" have more than 10000 values, and are not of the usual form, so they were not read. Send less.`,
        },
      });
    }
  });

  it('D5: parameters of the usual form may have more than 10,000 values', async () => {
    const app = await start();
    registryOf(app).registerPrompt({ name: 'long', handler: () => 'said' });
    const usual = Object.fromEntries(Array.from({ length: 10_001 }, (_, at) => [`k${at}`, 'text']));
    const caller = await Caller.of(app, 'legacy');
    expect((await caller.ask('prompts/get', { name: 'long', arguments: usual })).error).toBeUndefined();
  });

  it('D5: what all requests have in common is checked where they come in', async () => {
    const app = await start();
    const caller = await Caller.of(app, 'legacy');
    const answer = await caller.ask('tools/list', {}, { progressToken: {} });
    expect(answer).toMatchObject({ status: 400, error: { message: expect.stringContaining('"_meta.progressToken"') } });
    const client = app.client();
    const bare = await client.post({
      jsonrpc: '2.0',
      id: 1,
      method: 'initialize',
      params: { protocolVersion: LATEST, capabilities: {} },
    });
    expect((await bare.json()).error).toMatchObject({ code: -32602, message: expect.stringContaining('clientInfo') });
  });

  describe('D6: parameters that the specification does not have', () => {
    const asking = async (_: object, ctx: McpContext): Promise<string> =>
      String((await ctx.elicit('q', FORM)).content?.['name']);
    const started = async (): Promise<Caller> => {
      const app = await start();
      registerAll(app, 'asks', asking);
      return Caller.of(app, 'modern', EVERYTHING);
    };

    it.each(ERAS)(
      'parameters that the specification does not have do not reach handlers, in the %s era',
      async (era) => {
        const run = (_: McpContext, args: object): string => {
          seen.push(args);
          return 'done';
        };
        const caller = await Caller.of(await start({ providers: [fourOf('four', { run })] }), era);
        const more = { extra: 1, task: { ttl: 5 } };
        await caller.ask('tools/call', { name: 'four', arguments: { id: '7' }, ...more });
        await caller.ask('prompts/get', { name: 'four', arguments: { id: '7' }, ...more });
        await caller.ask('resources/read', { uri: 'four://fixed', ...more });
        expect(seen).toEqual([{ id: '7' }, { id: '7' }, { uri: 'four://fixed' }]);
      },
    );

    it.each(ASKABLE)(
      'parameters that the specification does not have may come and go between two rounds: a state does not bind them (%s)',
      async (kind) => {
        const caller = await started();
        const [method, params] = REQUESTS[kind]('asks');
        const { result } = await caller.ask(method, { ...params, first: 1 }, { progressToken: 1, trace: 'a' });
        expect(result).toMatchObject({ resultType: 'input_required', requestState: expect.any(String) });
        const { requestState } = result;
        const again = { ...params, second: [2], requestState, inputResponses: { q: ACCEPTED } };
        expect(textOf(await caller.ask(method, again, { progressToken: 2 }))).toBe('Ann');
      },
    );

    it.each([
      ['tools/call', { name: 'asks', arguments: { a: 1 } }, { name: 'asks', arguments: { a: 2 } }],
      ['tools/call', { name: 'asks', arguments: { a: 1 } }, { name: 'asks', arguments: { a: 1, b: undefined, c: 1 } }],
      [
        'tools/call',
        { name: 'asks', arguments: { a: { b: [1, 2] } } },
        { name: 'asks', arguments: { a: { b: [2, 1] } } },
      ],
      ['tools/call', { name: 'asks' }, { name: 'asks-too' }],
      ['prompts/get', { name: 'asks', arguments: { a: '1' } }, { name: 'asks', arguments: { a: '2' } }],
      ['prompts/get', { name: 'asks' }, { name: 'asks-too' }],
      ['resources/read', { uri: 'app://asks' }, { uri: 'app://asks-too' }],
    ] as const)('a state binds what is asked for (%s, %#)', async (method, params, other) => {
      const app = await start();
      for (const name of ['asks', 'asks-too']) registerAll(app, name, asking);
      const caller = await Caller.of(app, 'modern', EVERYTHING);
      const { result } = await caller.ask(method, params);
      const answered = { requestState: result.requestState, inputResponses: { q: ACCEPTED } };
      expect((await caller.ask(method, { ...other, ...answered })).error).toMatchObject({ code: -32602 });
      // The order of keys is not what is asked for.
      expect(textOf(await caller.ask(method, { ...answered, ...params }))).toBe('Ann');
    });
  });

  describe.each(ERAS)('D7: an answer of a client, in the %s era', (era) => {
    const started = async (): Promise<Caller> => {
      const app = await start();
      registerAll(app, 'answers', (_: object, { inputResponses }: McpContext) =>
        JSON.stringify(inputResponses === undefined ? 'none' : Object.entries(inputResponses)),
      );
      return Caller.of(app, era, EVERYTHING);
    };
    const wrapped = { method: 'elicitation/create', result: ACCEPTED };

    it.each(ASKABLE)('an answer of a client is dropped key by key where it is no answer (%s)', async (kind) => {
      const caller = await started();
      const [method, params] = REQUESTS[kind]('answers');
      const inputResponses = JSON.parse(
        `{"right":${JSON.stringify(ACCEPTED)},"text":"x","nothing":null,"list":[],"number":5,"flag":true,
          "wrapped":${JSON.stringify(wrapped)},"method":{"method":"x"},"result":{"result":{}},
          "__proto__":{"action":"cancel"},"constructor":{"action":"decline"},"empty":{}}`,
      ) as object;
      const answer = await caller.ask(method, { ...params, inputResponses });
      expect(JSON.parse(textOf(answer))).toEqual([
        ['right', ACCEPTED],
        ['constructor', { action: 'decline' }],
        ['empty', {}],
      ]);
    });

    it.each(['x', 5, true, ['a', ACCEPTED]])(
      'an answer of a client counts as no answer when it is no object (%#)',
      async (inputResponses) => {
        const caller = await started();
        const answer = await caller.ask('tools/call', { name: 'answers', inputResponses });
        expect(textOf(answer)).toBe('[]');
        expect(textOf(await caller.ask('tools/call', { name: 'answers' }))).toBe('"none"');
      },
    );

    it.each(ASKABLE)('an answer of a client has a state that is a text, or is refused (%s)', async (kind) => {
      const caller = await started();
      const [method, params] = REQUESTS[kind]('answers');
      for (const requestState of [5, {}, [], true, '', 'forged']) {
        const { error } = await caller.ask(method, { ...params, requestState });
        expect({ requestState, error }).toMatchObject({
          error: { code: -32602, message: expect.stringContaining('requestState') },
        });
      }
    });
  });

  describe('D8: a call that is cancelled', () => {
    const started = async () => {
      const [entered, go] = [gate<McpContext>(), gate()];
      const app = await start({});
      const handler = async (_: object, ctx: McpContext): Promise<string> => {
        entered.open(ctx);
        await go.promise;
        if (ctx.signal.aborted) throw new Error('too late');
        return 'done';
      };
      registryOf(app).registerTool({ name: 'waits', handler });
      return { app, entered, go, client: await app.client().initialize() };
    };

    it('a call that is cancelled gets neither answer nor error, and its handler gets the reason', async () => {
      const { app, entered, go, client } = await started();
      const events = recordedEvents(app);
      const posted = client.call('waits', {}, { id: 'call' });
      const { signal } = await entered.promise;
      await client.notify('notifications/cancelled', { requestId: 'call', reason: 'no longer needed' });
      expect(signal.aborted).toBe(true);
      expect(String(signal.reason)).toContain('no longer needed');
      go.open();
      const stream = (await posted).sse();
      expect(await stream.end()).toBe('end');
      expect(stream.messages).toEqual([]);
      await app.settled({ inFlight: 0 });
      expect(events.filter(({ type }) => type === 'protocol-error')).toEqual([]);
    });

    it('a call that is cancelled is named by its id: a cancellation without one is ignored, and so is that of "initialize"', async () => {
      const { app, entered, go, client } = await started();
      await client.notify('notifications/cancelled', { requestId: 1 });
      const posted = client.call('waits', {}, { id: 'call' });
      const { signal } = await entered.promise;
      for (const params of [{}, { reason: 'x' }, { requestId: null }]) {
        await (await client.post({ jsonrpc: '2.0', method: 'notifications/cancelled', params })).text();
      }
      expect(signal.aborted).toBe(false);
      go.open();
      expect((await (await posted).json()).result.content[0].text).toBe('done');
      await app.settled({ inFlight: 0 });
    });
  });

  describe.each(ERAS)('D9: errors in the %s era', (era) => {
    const GENERIC = /^Internal error/;
    const failing = async (thrown: () => unknown) => {
      const app = await start();
      registerAll(app, 'fails', () => {
        throw thrown();
      });
      return { app, caller: await Caller.of(app, era) };
    };

    it('errors have the code, the text and the data that they were given', async () => {
      const { caller } = await failing(() => new commonJs.ProtocolError(-32050, 'Not today', { retry: [1] }));
      for (const kind of ASKABLE) {
        const { error } = await caller.ask(...REQUESTS[kind]('fails'));
        expect(error).toEqual({ code: -32050, message: 'Not today', data: { retry: [1] } });
      }
    });

    it.each([1.5, NaN, 2 ** 60, '-32050', undefined])(
      'errors have -32603 and no text when the code is %s',
      async (code) => {
        const { caller } = await failing(() => new commonJs.ProtocolError(code as number, 'hunter2', 'hunter2'));
        for (const kind of ASKABLE) {
          const answer = await caller.ask(...REQUESTS[kind]('fails'));
          expect(JSON.stringify(answer)).not.toContain('hunter2');
          expect(answer.error).toEqual({ code: -32603, message: expect.stringMatching(/./) });
        }
      },
    );

    it('errors say -32602 where earlier revisions said -32002', async () => {
      const { caller } = await failing(() => new commonJs.ProtocolError(-32002, 'Resource not found', { uri: 'x' }));
      for (const kind of ASKABLE) {
        const { error } = await caller.ask(...REQUESTS[kind]('fails'));
        expect(error).toEqual({ code: -32602, message: 'Resource not found', data: { uri: 'x' } });
      }
      expect((await caller.ask('resources/read', { uri: 'app://none' })).error).toMatchObject({ code: -32602 });
    });

    it('errors are made of results that JSON cannot write', async () => {
      const app = await start();
      registerAll(app, 'unwritable', () => ({ content: [SAID], contents: [], messages: [], _meta: { id: 1n } }));
      const caller = await Caller.of(app, era);
      for (const kind of ASKABLE) {
        const { error } = await caller.ask(...REQUESTS[kind]('unwritable'));
        expect(error).toMatchObject({ code: -32603, message: expect.not.stringContaining('BigInt') });
      }
    });

    it('errors whose data JSON cannot write fail as unreadable errors do', async () => {
      const circle: Record<string, unknown> = {};
      circle['self'] = circle;
      const { caller } = await failing(() => new commonJs.ProtocolError(-32050, 'hunter2', circle));
      expect(textOf(await caller.call('fails'))).toMatch(GENERIC);
      for (const kind of ['resource', 'prompt'] as const) {
        const { error } = await caller.ask(...REQUESTS[kind]('fails'));
        expect(error).toEqual({ code: -32603, message: expect.stringMatching(GENERIC) });
      }
    });

    it('errors send no details that are not meant for clients', async () => {
      const { caller } = await failing(() => Object.assign(new Error('hunter2'), { code: -32050, data: 'hunter2' }));
      for (const kind of ['resource', 'prompt'] as const) {
        const { error } = await caller.ask(...REQUESTS[kind]('fails'));
        expect(error).toEqual({ code: -32603, message: expect.stringMatching(GENERIC) });
      }
      expect(textOf(await caller.call('fails'))).toMatch(GENERIC);
    });
  });

  describe.each(ERAS)('D10: errors of another copy of the SDK, in the %s era', (era) => {
    it('errors of another copy of the SDK keep their codes', async () => {
      const { ProtocolError, ResourceNotFoundError, MissingRequiredClientCapabilityError } = commonJs;
      const app = await start();
      const errors: Record<string, () => Error> = {
        protocol: () => new ProtocolError(-32050, 'Not today', { a: 1 }),
        missing: () => new ResourceNotFoundError('app://gone'),
        incapable: () => new MissingRequiredClientCapabilityError({ requiredCapabilities: { roots: {} } }, 'No roots'),
      };
      for (const [name, make] of Object.entries(errors)) {
        registerAll(app, name, () => {
          throw make();
        });
      }
      const caller = await Caller.of(app, era);
      for (const kind of ASKABLE) {
        const codes: unknown[] = [];
        for (const name of Object.keys(errors)) codes.push((await caller.ask(...REQUESTS[kind](name))).error?.code);
        expect(codes).toEqual([-32050, -32602, -32021]);
      }
    });

    it('questions made by that copy are asked too', async () => {
      const app = await start();
      const { inputRequired } = commonJs;
      registerAll(app, 'asks', (_: object, { inputResponses = {} }: McpContext) =>
        'q' in inputResponses ? 'answered' : inputRequired({ inputRequests: { q: inputRequired.elicit(FORM) } }),
      );
      if (era === 'modern') {
        const caller = await Caller.of(app, era, EVERYTHING);
        for (const kind of ASKABLE) {
          expect((await caller.ask(...REQUESTS[kind]('asks'))).result).toMatchObject({ resultType: 'input_required' });
        }
      } else {
        const caller = await Caller.of(app, era, EVERYTHING);
        const stream = await caller.questioned('asks');
        await caller.session.respond(stream.messages[0].id, ACCEPTED);
        await stream.end();
        expect(stream.messages.at(-1).result.content[0].text).toBe('answered');
      }
    });
  });

  describe('D11: an error that asks for a visit to a URL', () => {
    const page = { mode: 'url' as const, message: 'Sign in', url: 'https://a.example', elicitationId: '1' };
    const started = async (era: Era) => {
      const app = await start();
      for (const [name, { UrlElicitationRequiredError }] of Object.entries({
        other: commonJs,
        own: await import('@modelcontextprotocol/server'),
      })) {
        registerAll(app, name, () => {
          throw new UrlElicitationRequiredError([page], 'Sign in first');
        });
      }
      return Caller.of(app, era, EVERYTHING);
    };

    it.each(ASKABLE)(
      'an error that asks for a visit to a URL passes where there are sessions, out of a %s',
      async (kind) => {
        const caller = await started('legacy');
        for (const name of ['own', 'other']) {
          const { status, result, error } = await caller.ask(...REQUESTS[kind](name));
          expect({ status, result }).toEqual({ status: 200, result: undefined });
          expect(error).toEqual({ code: -32042, message: 'Sign in first', data: { elicitations: [page] } });
        }
      },
    );

    it.each(ASKABLE)(
      'an error that asks for a visit to a URL is -32603 with advice in revision 2026-07-28, out of a %s',
      async (kind) => {
        const caller = await started('modern');
        for (const name of ['own', 'other']) {
          const { status, result, error } = await caller.ask(...REQUESTS[kind](name));
          expect({ status, result }).toEqual({ status: 200, result: undefined });
          expect(error).toEqual({ code: -32603, message: expect.stringMatching(/ctx\.elicit\(\).*inputRequired\(\)/) });
        }
      },
    );
  });

  describe('D12: notifications', () => {
    it('notifications of another era, and of none, are dropped', async () => {
      const app = await start();
      const events = recordedEvents(app);
      const legacy = await Caller.of(app, 'legacy');
      for (const method of [
        'notifications/subscriptions/acknowledged',
        'notifications/x',
        'constructor',
        '__proto__',
      ]) {
        await legacy.session.notify(method, { a: 1 });
      }
      const modern = await Caller.of(app, 'modern');
      for (const method of ['notifications/initialized', 'notifications/roots/list_changed', 'notifications/x']) {
        const message = { jsonrpc: '2.0', method, params: {} };
        const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': method };
        expect((await app.client().post(message, headers)).status).toBe(202);
      }
      expect(events.map(({ type }) => type)).toEqual(['created']);
      expect(app.log.texts('error')).toEqual([]);
      expect((await modern.ask('tools/list')).error).toBeUndefined();
    });

    it('notifications of changed roots reach the application, whatever becomes of a listener', async () => {
      const app = await start();
      const reported: unknown[] = [];
      config.onUnhandledError = (error) => void reported.push(error);
      try {
        let heard = 0;
        const broken = app.service.events$.subscribe(() => {
          throw new Error(`a listener, ${++heard}`);
        });
        const events: McpSessionEvent[] = recordedEvents(app);
        const { session } = await Caller.of(app, 'legacy', { roots: { listChanged: true } });
        await session.notify('notifications/roots/list_changed');
        await session.notify('notifications/roots/list_changed');
        const changed = { type: 'roots-changed', sessionId: session.sessionId };
        await eventually(() =>
          expect(events.filter(({ type }) => type === 'roots-changed')).toEqual([changed, changed]),
        );
        broken.unsubscribe();
        await eventually(() => expect(reported).toHaveLength(heard));
        expect(heard).toBe(3);
      } finally {
        config.onUnhandledError = null;
      }
    });
  });
});
