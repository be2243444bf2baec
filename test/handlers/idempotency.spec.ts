import { type CanActivate, ConflictException, Injectable, UseGuards } from '@nestjs/common';
import {
  McpArgs,
  McpCatalogue,
  type McpCatalogueTool,
  type McpContext,
  McpCtx,
  McpHandlerDefinitionError,
  McpRegistry,
  McpToolCaller,
  Tool,
} from 'nestjs-mcp-streamable';
import { InMemorySessionStore, InMemoryStateStore } from 'nestjs-mcp-streamable/stores';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { gate, ONE_ADAPTER, type TestApp, type TestAppOptions } from '../support/app.js';
import { double, shared } from '../support/doubles.js';
import { NodeBackend } from '../support/node-backend.js';
import { Deployment, type Member } from '../support/nodes.js';
import { eventually, testApps } from '../support/test-apps.js';
import { addressGuard, as, decidesByArguments, from, trustingGuard } from '../support/users.js';

const Payment = z.object({ requestId: z.string().optional(), amount: z.number() });
type Payment = z.infer<typeof Payment>;
const idempotency = { argument: 'requestId' } as const;
const CAPABILITIES = { elicitation: {} };

@Injectable()
class Mood implements CanActivate {
  static refuses = false;
  canActivate(context: Parameters<CanActivate['canActivate']>[0]): boolean {
    decidesByArguments(context);
    return !Mood.refuses;
  }
}

@Injectable()
class Bank {
  /** What was done, in order. */
  readonly effects: string[] = [];
  static door = gate();
  static began = gate();

  @Tool({ name: 'pay', inputSchema: Payment, idempotency })
  pay(@McpArgs() { amount }: Payment): object {
    this.effects.push(`pay ${amount}`);
    return { content: [{ type: 'text', text: `paid ${amount}, number ${this.effects.length}` }] };
  }

  @Tool({ name: 'other', inputSchema: Payment, idempotency })
  other(@McpArgs() { amount }: Payment): string {
    this.effects.push(`other ${amount}`);
    return `other ${this.effects.length}`;
  }

  @Tool({ name: 'slow', inputSchema: Payment, idempotency })
  async slow(@McpArgs() { amount }: Payment): Promise<string> {
    this.effects.push(`slow ${amount}`);
    Bank.began.open();
    await Bank.door.promise;
    return `slow ${this.effects.length}`;
  }

  @Tool({ name: 'brief', inputSchema: Payment, idempotency: { ...idempotency, ttlMs: 1_000 } })
  async brief(@McpArgs() { amount }: Payment): Promise<string> {
    this.effects.push(`brief ${amount}`);
    Bank.began.open();
    await Bank.door.promise;
    return `brief ${this.effects.length}`;
  }

  @Tool({ name: 'narrow', inputSchema: Payment, idempotency, maxConcurrent: 2 })
  async narrow(@McpArgs() { amount }: Payment): Promise<string> {
    this.effects.push(`narrow ${amount}`);
    Bank.began.open();
    await Bank.door.promise;
    return `narrow ${amount}`;
  }

  @Tool({ name: 'obeys', inputSchema: Payment, idempotency, timeoutMs: 1_000 })
  async obeys(@McpArgs() { amount }: Payment, @McpCtx() { signal }: McpContext): Promise<string> {
    this.effects.push(`obeys ${amount}`);
    Bank.began.open();
    await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
    return 'never';
  }

  @Tool({ name: 'fails', inputSchema: Payment, idempotency })
  fails(@McpArgs() { amount }: Payment): string {
    this.effects.push(`fails ${amount}`);
    throw new ConflictException(`No ${this.effects.length}.`);
  }

  @Tool({ name: 'fails_early', inputSchema: Payment, idempotency: { ...idempotency, errors: 'free' } })
  failsEarly(@McpArgs() { amount }: Payment): string {
    this.effects.push(`fails_early ${amount}`);
    if (this.effects.length === 1) throw new ConflictException('Not yet.');
    return 'now';
  }

  @Tool({ name: 'large', inputSchema: Payment, idempotency: { ...idempotency, maxBytes: 100 } })
  large(): string {
    this.effects.push('large');
    return 'x'.repeat(200);
  }

  @Tool({
    name: 'by_key',
    inputSchema: Payment,
    idempotency: { key: ({ amount }) => (amount > 9 ? 'much' : undefined) },
  })
  byKey(@McpArgs() { amount }: Payment): string {
    this.effects.push(`by_key ${amount}`);
    return `by_key ${this.effects.length}`;
  }

  @Tool({ name: 'few', inputSchema: Payment, idempotency: { ...idempotency, maxKeys: 2, ttlMs: 60_000 } })
  few(@McpArgs() { amount }: Payment): string {
    this.effects.push(`few ${amount}`);
    return 'few';
  }

  @Tool({ name: 'tries', inputSchema: Payment, idempotency: { ...idempotency, maxKeys: 1, errors: 'free' } })
  tries(@McpArgs() { amount }: Payment): string {
    this.effects.push(`tries ${amount}`);
    if (amount < 0) throw new ConflictException('Too little.');
    return 'enough';
  }

  @Tool({ name: 'guarded', inputSchema: Payment, idempotency })
  @UseGuards(Mood)
  guarded(@McpArgs() { amount }: Payment): string {
    this.effects.push(`guarded ${amount}`);
    return 'a secret';
  }

  @Tool({ name: 'asks', inputSchema: Payment, idempotency })
  async asks(@McpArgs() { amount }: Payment, @McpCtx() ctx: McpContext): Promise<string> {
    const form = { message: 'Sure?', requestedSchema: { type: 'object', properties: {} } } as const;
    const { action } = await ctx.elicit('sure', form);
    this.effects.push(`asks ${amount}`);
    return `${action} ${this.effects.length}`;
  }
}

interface Answer {
  readonly result?: { readonly content: readonly { readonly text: string }[]; readonly isError?: boolean };
  readonly error?: unknown;
}

const textOf = ({ result, error }: Answer): string => result?.content[0]?.text ?? `error ${JSON.stringify(error)}`;

/** Keys belong to their caller, and outlive a test: the users of each test are others. */
let round = 0;
const user = (name = 'anna'): Record<string, string> => as(`${name}_${round}`);

/** Calls a tool in the modern era. */
async function call(app: TestApp, name: string, args: object, by = user(), more: object = {}): Promise<string> {
  const client = app.modern(by);
  return textOf(await client.ask('tools/call', { name, arguments: args, ...more }, { capabilities: CAPABILITIES }));
}

const effectsOf = ({ nodes }: TestApp): string[] =>
  nodes.flatMap(({ app }) => app.get(Bank, { strict: false }).effects);

/** What another version, or another program, may have left under a key. */
const NO_RECORDS = [
  null,
  5,
  'running',
  [],
  {},
  { args: 'a', run: 'r' },
  { args: 'a', run: 'r', state: 'paused' },
  { args: 'a', run: 'r', state: 'running', node: null },
  { args: 'a', run: 'r', state: 'done', result: 'paid' },
];

describe.each(ONE_ADAPTER)('idempotent tools, on %s', (adapter) => {
  const launch = testApps(adapter, { providers: [Bank], shared: true });
  const clock = new ManualClock();
  const start = async (options: Partial<TestAppOptions> = {}): Promise<TestApp> => {
    [Bank.door, Bank.began, Mood.refuses] = [gate(), gate(), false];
    round++;
    const app = await launch(options);
    for (const node of app.nodes) node.app.get(Bank, { strict: false }).effects.length = 0;
    return app;
  };

  it('a repeat gets the result of the first call, and the tool has run once', async () => {
    const app = await start();
    const args = { requestId: 'r1', amount: 5 };
    expect(await call(app, 'pay', args)).toBe('paid 5, number 1');
    expect(await call(app, 'pay', { amount: 5, requestId: 'r1' })).toBe('paid 5, number 1');
    const session = await app.client(user()).initialize();
    expect(textOf(await (await session.call('pay', args)).json())).toBe('paid 5, number 1');
    expect(await call(app, 'pay', { requestId: 'r2', amount: 5 })).toBe('paid 5, number 2');
    expect(effectsOf(app)).toEqual(['pay 5', 'pay 5']);
  });

  it('a call without a key runs each time', async () => {
    const app = await start();
    for (const _ of [1, 2]) await call(app, 'pay', { amount: 1 });
    for (const _ of [1, 2]) await call(app, 'by_key', { amount: 1 });
    expect(effectsOf(app)).toHaveLength(4);
  });

  it('a function of the arguments makes the key', async () => {
    const app = await start();
    const results = [await call(app, 'by_key', { amount: 10 }), await call(app, 'by_key', { amount: 10 })];
    expect(results).toEqual(['by_key 1', 'by_key 1']);
    expect(await call(app, 'by_key', { amount: 11 })).toContain('with other arguments');
    expect(effectsOf(app)).toEqual(['by_key 10']);
  });

  it('other arguments under the same key are refused, while the first call runs and later', async () => {
    const app = await start();
    const first = call(app, 'slow', { requestId: 'r', amount: 1 });
    await Bank.began.promise;
    expect(await call(app, 'slow', { requestId: 'r', amount: 2 })).toContain('with other arguments');
    Bank.door.open();
    expect(await first).toBe('slow 1');
    expect(await call(app, 'slow', { requestId: 'r', amount: 2 })).toContain('with other arguments');
    expect(await call(app, 'slow', { requestId: 'r' })).toContain('not valid');
    expect(effectsOf(app)).toEqual(['slow 1']);
  });

  it('a key is that of its caller and of its tool', async () => {
    const app = await start();
    const args = { requestId: 'r', amount: 1 };
    await call(app, 'pay', args);
    await call(app, 'pay', args, user('ben'));
    await call(app, 'pay', args, {});
    await call(app, 'other', args);
    // Anonymous callers are their sessions.
    for (const _ of [1, 2]) await (await (await app.client().initialize()).call('pay', args)).text();
    expect(effectsOf(app)).toHaveLength(6);
  });

  it('the guards decide about each repeat: who is refused gets no kept result', async () => {
    const app = await start();
    const args = { requestId: 'r', amount: 1 };
    expect(await call(app, 'guarded', args)).toBe('a secret');
    Mood.refuses = true;
    expect(await call(app, 'guarded', args)).toBe('Forbidden resource');
    Mood.refuses = false;
    expect(await call(app, 'guarded', args)).toBe('a secret');
    expect(effectsOf(app)).toEqual(['guarded 1']);
  });

  it('a call that was refused before the tool ran leaves its key free', async () => {
    const app = await start();
    Mood.refuses = true;
    await call(app, 'guarded', { requestId: 'r', amount: 1 });
    Mood.refuses = false;
    expect(await call(app, 'guarded', { requestId: 'r', amount: 1 })).toBe('a secret');
    expect(await call(app, 'pay', { requestId: 'r', amount: 'much' })).toContain('not valid');
    expect(await call(app, 'pay', { requestId: 'r', amount: 1 })).toBe('paid 1, number 2');
  });

  it('a failure is the result of repeats too, unless errors are free', async () => {
    const app = await start();
    const args = { requestId: 'r', amount: 1 };
    for (const _ of [1, 2]) expect(await call(app, 'fails', args)).toBe('No 1.');
    app.nodes[0]!.app.get(Bank).effects.length = 0;
    expect(await call(app, 'fails_early', args)).toBe('Not yet.');
    expect(await call(app, 'fails_early', args)).toBe('now');
    expect(await call(app, 'fails_early', args)).toBe('now');
    expect(effectsOf(app)).toEqual(['fails_early 1', 'fails_early 1']);
  });

  it('a repeat learns that a result was too large to be kept', async () => {
    const app = await start();
    expect(await call(app, 'large', { requestId: 'r', amount: 1 })).toHaveLength(200);
    expect(await call(app, 'large', { requestId: 'r', amount: 1 })).toMatch(/was not run again.*200|not run again/);
    expect(effectsOf(app)).toEqual(['large']);
  });

  it('what was interrupted is unknown to the next caller, and then the key is free', async () => {
    const app = await start({ clock });
    const args = { requestId: 'r', amount: 1 };
    const calls = [call(app, 'obeys', args), call(app, 'obeys', args)];
    await Bank.began.promise;
    await clock.advance(1_000);
    const [first, second] = await Promise.all(calls);
    expect(first).toContain('did not finish within 1000 ms');
    expect(second).toContain('whether it had an effect is not known');
    expect(await call(app, 'obeys', args)).toContain('whether it had an effect is not known');
    expect(effectsOf(app)).toHaveLength(1);
    const again = call(app, 'obeys', args);
    await eventually(() => expect(effectsOf(app)).toHaveLength(2));
    await clock.advance(1_000);
    await again;
    await clock.advance(60_000);
  });

  it('a client that has left finds the result when it repeats its call', async () => {
    const app = await start({ sseAfterMs: 0 });
    const args = { requestId: 'r', amount: 1 };
    const response = await app.modern(user()).call('slow', args);
    await Bank.began.promise;
    response.destroy();
    await app.settled({ inFlight: 0 });
    const repeat = call(app, 'slow', args);
    await eventually(async () => expect((await app.service.counts()).inFlight).toBe(1));
    Bank.door.open();
    expect(await repeat).toBe('slow 1');
    expect(effectsOf(app)).toEqual(['slow 1']);
  });

  it('a repeat that is cancelled while it waits leaves nothing', async () => {
    const app = await start({ sseAfterMs: 0 });
    const args = { requestId: 'r', amount: 1 };
    const first = call(app, 'slow', args);
    await Bank.began.promise;
    const response = await app.modern(user()).call('slow', args);
    await eventually(async () => expect((await app.service.counts()).inFlight).toBe(2));
    response.destroy();
    await app.settled({ inFlight: 1 });
    Bank.door.open();
    expect(await first).toBe('slow 1');
  });

  it('repeats that wait take no place of "maxConcurrent"', async () => {
    const app = await start();
    const first = call(app, 'narrow', { requestId: 'r', amount: 1 });
    await Bank.began.promise;
    const repeats = Array.from({ length: 5 }, () => call(app, 'narrow', { requestId: 'r', amount: 1 }));
    const other = call(app, 'narrow', { requestId: 'other', amount: 2 });
    await eventually(() => expect(effectsOf(app)).toEqual(['narrow 1', 'narrow 2']));
    Bank.door.open();
    expect(await Promise.all([first, ...repeats])).toEqual(Array.from({ length: 6 }, () => 'narrow 1'));
    expect(await other).toBe('narrow 2');
  });

  it('a caller has a bounded number of keys, which expire', async () => {
    const app = await start({ clock });
    const few = (requestId: string, by?: string) => call(app, 'few', { requestId, amount: 1 }, user(by));
    expect([await few('1'), await few('2')]).toEqual(['few', 'few']);
    expect(await few('3')).toContain('"maxKeys"');
    expect([await few('2'), await few('3', 'ben')]).toEqual(['few', 'few']);
    await clock.advance(60_000);
    expect(await few('3')).toBe('few');
    expect(effectsOf(app)).toHaveLength(4);
  });

  it('the anonymous callers of one address have the keys of a caller, and leave those of other addresses', async () => {
    const app = await start({ guards: [trustingGuard, addressGuard] });
    const few = async (address: string, requestId: string, tool = 'few', amount = 1): Promise<string> => {
      const { result } = await app
        .modern(from(address))
        .ask('tools/call', { name: tool, arguments: { requestId, amount } });
      return result.content[0].text;
    };
    expect([await few('2001:db8::1', '1'), await few('2001:db8::2', '2')]).toEqual(['few', 'few']);
    expect(await few('2001:db8::1', '3')).toContain('has used 2 idempotency keys');
    expect(await few('10.0.0.1', '3')).toBe('few');
    expect(effectsOf(app)).toHaveLength(3);
    // A client repeats its call over another network.
    for (const key of ['1', '2', '3']) expect(await few('10.0.0.2', key)).toBe('few');
    for (const key of ['1', '2', '3']) expect(await few('2001:db8::1', key)).toBe('few');
    expect(effectsOf(app)).toHaveLength(3);
    // A key that was freed counts no longer.
    for (const key of ['1', '2']) expect(await few('10.0.0.1', key, 'tries', -1)).toBe('Too little.');
    expect(await few('10.0.0.1', '3', 'tries')).toBe('enough');
    expect(await few('10.0.0.1', '4', 'tries')).toContain('has used 1 idempotency keys');
  });

  it('keys of any form are keys, and what is none is refused', async () => {
    const app = await start();
    const keys = ['__proto__', 'constructor', ':', ' ', '\u0000', 'a'.repeat(256), '\ud800'];
    for (const requestId of keys) {
      const first = await call(app, 'pay', { requestId, amount: 1 });
      expect(await call(app, 'pay', { requestId, amount: 1 })).toBe(first);
    }
    expect(effectsOf(app)).toHaveLength(keys.length);
    for (const requestId of ['', 'a'.repeat(257)])
      expect(await call(app, 'pay', { requestId, amount: 1 })).toContain('must be a text of 1 to 256 characters');
    expect(effectsOf(app)).toHaveLength(keys.length);
  });

  it('a handler that asks keeps its key free between the rounds, and its result is that of repeats', async () => {
    const app = await start();
    const client = app.modern(user());
    const params = { name: 'asks', arguments: { requestId: 'r', amount: 1 } };
    const ask = (more: object = {}) => client.ask('tools/call', { ...params, ...more }, { capabilities: CAPABILITIES });
    const { result } = await ask();
    expect(result.resultType).toBe('input_required');
    const answers = { inputResponses: { sure: { action: 'accept' } }, requestState: result.requestState };
    expect(textOf(await ask(answers))).toBe('accept 1');
    expect(textOf(await ask(answers))).toBe('accept 1');
    expect(textOf(await ask())).toBe('accept 1');
    expect(effectsOf(app)).toEqual(['asks 1']);
  });

  it('a tool does not run while the store is away', async () => {
    const backend = new NodeBackend();
    const app = await start({ stateStore: backend.over(new InMemoryStateStore()) });
    backend.away();
    expect(await call(app, 'pay', { requestId: 'r', amount: 1 })).toContain('storage of this server is unavailable');
    expect(effectsOf(app)).toEqual([]);
    backend.back();
    expect(await call(app, 'pay', { requestId: 'r', amount: 1 })).toBe('paid 1, number 1');
  });

  it('a call whose key the store has taken without an answer did not run, and its repeat runs', async () => {
    const clock = new ManualClock();
    const store = new InMemoryStateStore(clock);
    let isLost = true;
    const add: typeof store.add = async (...given) => {
      const added = await store.add(...given);
      if (isLost) throw new Error('the connection was lost');
      return added;
    };
    const app = await start({ clock, stateStore: double(store, { add }) });
    const args = { requestId: 'r', amount: 1 };
    expect(await call(app, 'pay', args)).toContain('storage of this server is unavailable');
    isLost = false;
    await app.settled({ timers: 0 });
    expect(await call(app, 'pay', args)).toBe('paid 1, number 1');
    expect(effectsOf(app)).toEqual(['pay 1']);
  });

  it('a result that the store did not take is answered, given to repeats, and stored when the store is back', async () => {
    const clock = new ManualClock();
    const backend = new NodeBackend();
    const app = await start({ clock, stateStore: backend.over(new InMemoryStateStore(clock)) });
    const args = { requestId: 'r', amount: 1 };
    const calls = [call(app, 'slow', args), call(app, 'slow', args)];
    await Bank.began.promise;
    backend.away();
    Bank.door.open();
    expect(await Promise.all(calls)).toEqual(['slow 1', 'slow 1']);
    expect(await call(app, 'slow', args)).toBe('slow 1');
    backend.back();
    await clock.advance(1_000);
    await app.settled({ timers: 0 });
    expect(await call(app, 'slow', args)).toBe('slow 1');
    expect(effectsOf(app)).toEqual(['slow 1']);
  });

  it('a call whose key has no record of a call in the store does not run, and asks the store once', async () => {
    const store = new InMemoryStateStore();
    const asked: string[] = [];
    const app = await start({ stateStore: reported(store, (method, key) => asked.push(`${method} ${key}`)) });
    for (const [at, value] of NO_RECORDS.entries()) {
      const args = { requestId: `r${at}`, amount: at };
      await call(app, 'pay', args);
      const key = asked.flatMap((each) => /^add (.*:i\..*)$/.exec(each)?.[1] ?? []).at(-1)!;
      await store.set(key, value);
      asked.length = 0;
      const texts = await Promise.all(Array.from({ length: 5 }, () => call(app, 'pay', args)));
      for (const text of texts) expect(text).toContain('an entry for this call that the server cannot read');
      expect(asked.length).toBeLessThan(20);
      expect(await store.get(key)).toEqual(value);
    }
    expect(effectsOf(app)).toEqual(NO_RECORDS.map((_, at) => `pay ${at}`));
    expect(app.log.texts('error').join()).toContain('is no record of a call');
  });

  it('a call over a store that refuses a key and does not have it does not run, and does not ask for ever', async () => {
    const store = new InMemoryStateStore();
    let asked = 0;
    const stateStore = reported(store, () => asked++);
    const add: typeof store.add = (key, ...rest) =>
      key.includes(':i.') ? stateStore.delete(key) : store.add(key, ...rest);
    const app = await start({ stateStore: double(stateStore, { add }) });
    const text = await call(app, 'pay', { requestId: 'r', amount: 1 });
    expect(text).toContain('an entry for this call that the server cannot read');
    expect(asked).toBeLessThan(50);
    expect(effectsOf(app)).toEqual([]);
  });

  it('a registered tool is idempotent too', async () => {
    const app = await start();
    let runs = 0;
    app.app.get(McpRegistry).registerTool({
      name: 'plugin',
      inputSchema: Payment,
      idempotency: { key: ({ requestId }: Payment) => requestId },
      handler: () => `run ${++runs}`,
    });
    for (const _ of [1, 2]) expect(await call(app, 'plugin', { requestId: 'r', amount: 1 })).toBe('run 1');
  });

  it.each([
    ['of no kind', {}, 'neither "key" nor "argument"'],
    ['of two kinds', { key: () => 'k', argument: 'id' }, 'both "key" and "argument"'],
    ['with an argument that the tool does not have', { argument: 'nothing' }, 'Available: "id", "count".'],
    ['with an argument that is no text', { argument: 'count' }, 'A key is a string.'],
    ['with an option that does not exist', { argument: 'id', ttl: 5 }, 'ttl'],
    ['that no time is kept', { argument: 'id', ttlMs: 0 }, 'at least 1'],
    ['with an unknown use of errors', { argument: 'id', errors: 'drop' }, 'one of "keep", "free"'],
    ['that is no object', 'requestId', '"idempotency" cannot be used'],
  ])('a tool with keys %s is no tool', async (_what, given, text) => {
    const registry = (await start()).app.get(McpRegistry);
    const inputSchema = z.object({ id: z.string(), count: z.number() });
    const register = () =>
      registry.registerTool({ name: 'a', inputSchema, idempotency: given as never, handler: () => 'done' });
    expect(register).toThrow(McpHandlerDefinitionError);
    expect(register).toThrow(text);
  });
});

describe.each(ONE_ADAPTER)('the store of idempotent tools, on %s', (adapter) => {
  const launch = testApps(adapter, { providers: [Bank] });
  const launchAlone = testApps(adapter);
  const withoutAdd = (): NonNullable<TestAppOptions['stateStore']> => {
    const store = new InMemoryStateStore();
    return {
      get: (key) => store.get(key),
      set: (key, value, ttlMs) => store.set(key, value, ttlMs),
      delete: (key) => store.delete(key),
    };
  };

  it('one without add() promises the same within one process, and the log says so', async () => {
    [Bank.door, Bank.began] = [gate(), gate()];
    const app = await launch({ stateStore: withoutAdd() });
    const [warning] = app.log.texts('warn').filter((text) => text.includes('add()'));
    expect(warning).toContain('(pay, other, slow');
    const calls = Array.from({ length: 20 }, () => call(app, 'slow', { requestId: 'r', amount: 1 }));
    await Bank.began.promise;
    Bank.door.open();
    expect(new Set(await Promise.all(calls))).toEqual(new Set(['slow 1']));
    expect(effectsOf(app)).toEqual(['slow 1']);
  });

  it.each([
    ['has no add()', withoutAdd, 'has no method add()'],
    ['is the one in memory', () => undefined, 'in the memory of this process'],
  ])('an app whose nodes share their sessions does not start with one that %s', async (_what, make, text) => {
    const sessionStore = shared(new InMemorySessionStore());
    const stateStore = make();
    const options = { sessionStore, requestStateKeys: ['k'.repeat(32)], ...(stateStore && { stateStore }) };
    const start = launch(options);
    await expect(start).rejects.toThrow(McpHandlerDefinitionError);
    await expect(start).rejects.toThrow(text);
  });

  it('a tool that is registered later needs the same store', async () => {
    const options = { sessionStore: shared(new InMemorySessionStore()), requestStateKeys: ['k'.repeat(32)] };
    const app = await launchAlone(options);
    const registry = app.app.get(McpRegistry);
    const handler = () => 'done';
    for (const effect of [{ confirm: 'Sure?' }, { idempotency: { key: () => 'k' } }])
      expect(() => registry.registerTool({ name: 'late', handler, ...effect })).toThrow(
        'in the memory of this process',
      );
    const tool = registry.registerTool({ name: 'late', handler });
    expect(() => tool.update({ confirm: 'Sure?' })).toThrow('in the memory of this process');
    expect(await call(app, 'late', {})).toBe('done');
  });
});

describe('a tool of a catalogue with a key', () => {
  @McpCatalogue()
  @Injectable()
  class Plugins {
    list(): McpCatalogueTool[] {
      const schema = { type: 'object', properties: { id: { type: 'string' } } };
      const names = ['first', 'second'];
      return [
        { name: 'plain' },
        ...names.map((name) => ({ name, inputSchema: schema, idempotency: { argument: 'id' } })),
      ];
    }
    call(name: string): string {
      return name;
    }
  }
  const start = testApps(ONE_ADAPTER[0]!, { providers: [Plugins] });
  const listed = async (app: TestApp): Promise<string[]> => {
    const tools = await app.app.get(McpToolCaller).listTools({ principal: 'ann' });
    return tools.map(({ name }) => name);
  };

  it('D44: a tool of a catalogue with a key is left out where other nodes would not see its calls', async () => {
    const app = await start({
      sessionStore: shared(new InMemorySessionStore()),
      requestStateKeys: ['k'.repeat(32)],
    });
    expect(await listed(app)).toEqual(['plain']);
    const lines = app.log.texts('warn').filter((text) => text.includes('is left out'));
    expect(lines).toEqual(Array(2).fill(expect.stringContaining('in the memory of this process')));
  });

  it('D44: a tool of a catalogue with a key keeps its promise within one process without add(), and the log says so once', async () => {
    const store = new InMemoryStateStore();
    const stateStore: TestAppOptions['stateStore'] = {
      get: (key) => store.get(key),
      set: (key, value, ttlMs) => store.set(key, value, ttlMs),
      delete: (key) => store.delete(key),
    };
    const app = await start({ stateStore });
    expect(await listed(app)).toEqual(['first', 'plain', 'second']);
    expect(app.log.texts('warn').filter((text) => text.includes('add()'))).toHaveLength(1);
  });
});

describe('idempotent tools on several nodes', () => {
  const adapter = ONE_ADAPTER[0]!;
  const limits = { maxRunningCalls: 5_000, maxRunningCallsPerPrincipal: 5_000 };

  it('repeats at the same moment have one effect for each key', async () => {
    [Bank.door, Bank.began] = [gate(), gate()];
    const clock = new ManualClock();
    const deployment = new Deployment(clock);
    const stateStore = new InMemoryStateStore(clock);
    const options = { adapter, stateStore, providers: [Bank], ...limits };
    const nodes = [await deployment.member(options), await deployment.member(options)];
    const calls = Array.from({ length: 100 }, (_, n) =>
      call(nodes[n % 2]!.app, 'slow', { requestId: `r${n % 10}`, amount: n % 10 }, {}),
    );
    const effects = (): string[] => nodes.flatMap(({ app }) => effectsOf(app));
    await eventually(() => expect(effects()).toHaveLength(10));
    Bank.door.open();
    // A second is the longest pause between two looks at the call of another node.
    await clock.advance(2_000);
    const results = await Promise.all(calls);
    for (let key = 0; key < 10; key++) expect(new Set(results.filter((_, n) => n % 10 === key)).size).toBe(1);
    expect(effects().toSorted()).toEqual(Array.from({ length: 10 }, (_, n) => `slow ${n}`));
    await deployment.close();
  });

  it('a repeat on another node waits for the call, and gets its result', async () => {
    const { clock, deployment, nodes } = await pair();
    const [one, other] = nodes;
    const args = { requestId: 'r', amount: 1 };
    const first = call(one.app, 'slow', args);
    await Bank.began.promise;
    const repeats = [call(other.app, 'slow', args), call(other.app, 'slow', { ...args, amount: 2 })];
    expect(await repeats[1]).toContain('with other arguments');
    // Longer than the lease, which the node renews while it runs the call.
    await clock.advance(120_000);
    Bank.door.open();
    await clock.advance(1_000);
    expect(await Promise.all([first, repeats[0]])).toEqual(['slow 1', 'slow 1']);
    expect(effectsOf(other.app)).toEqual([]);
    await deployment.close();
  });

  it('a call that takes longer than its result is kept has its key until it ends', async () => {
    const { clock, deployment, nodes } = await pair();
    const [one, other] = nodes;
    const args = { requestId: 'r', amount: 1 };
    const first = call(one.app, 'brief', args);
    await Bank.began.promise;
    await clock.advance(60_000);
    const repeat = call(other.app, 'brief', args);
    await clock.advance(1_000);
    expect(effectsOf(other.app)).toEqual([]);
    Bank.door.open();
    expect(await first).toBe('brief 1');
    await clock.advance(500);
    await clock.advance(500);
    expect(await repeat).toBe('brief 1');
    await clock.advance(1_000);
    expect(await call(other.app, 'brief', args)).toBe('brief 1');
    expect(effectsOf(other.app)).toEqual(['brief 1']);
    await deployment.close();
  });

  it.each(['at once, when the bus says so', 'when its lease is over'])(
    'the call of a dead node is unknown to one repeat, and then its key is free: %s',
    async (how) => {
      const { clock, deployment, nodes } = await pair();
      const [dead, alive] = nodes;
      const args = { requestId: 'r', amount: 1 };
      const first = call(dead.app, 'slow', args);
      await Bank.began.promise;
      dead.backend.die();
      if (how.startsWith('at once')) deployment.kill(dead);
      const repeats = [call(alive.app, 'slow', args), call(alive.app, 'slow', args)];
      await clock.advance(how.startsWith('at once') ? 1_000 : 31_000);
      for (const repeat of repeats) expect(await repeat).toContain('whether it had an effect is not known');
      Bank.door.open();
      expect(await call(alive.app, 'slow', args)).toBe('slow 1');
      expect(await call(alive.app, 'slow', args)).toBe('slow 1');
      await first;
      await deployment.bury(dead);
      await deployment.close();
    },
  );

  it('a call that seemed dead and fails later does not replace the result of the one after it', async () => {
    const { clock, deployment, nodes } = await pair();
    const [slow, other] = nodes;
    const args = { requestId: 'r', amount: 1 };
    const cancelled = new AbortController();
    const first = within(slow, 'slow', args, cancelled.signal);
    await Bank.began.promise;
    slow.store.away();
    await clock.advance(31_000);
    expect(await patiently(clock, call(other.app, 'slow', args))).toContain('whether it had an effect is not known');
    const stuck = Bank.door;
    Bank.door = gate();
    Bank.door.open();
    expect(await call(other.app, 'slow', args)).toBe('slow 1');
    slow.store.back();
    cancelled.abort();
    stuck.fail(new Error('It was cancelled.'));
    await first;
    await clock.advance(10_000);
    expect(await call(other.app, 'slow', args)).toBe('slow 1');
    await deployment.close();
  });

  it('a result of a node that lives is found after an outage of the store, however long, before the key is told to be unknown', async () => {
    const { clock, deployment, nodes } = await pair();
    const [one, other] = nodes;
    const args = { requestId: 'r', amount: 1 };
    const first = call(one.app, 'slow', args);
    await Bank.began.promise;
    for (const { store } of nodes) store.away();
    Bank.door.open();
    expect(await first).toBe('slow 1');
    await clock.advance(3_600_000);
    expect(await call(one.app, 'slow', args)).toBe('slow 1');
    for (const { store } of nodes) store.back();
    for (const _ of [1, 2]) expect(await patiently(clock, call(other.app, 'slow', args))).toBe('slow 1');
    expect(effectsOf(other.app)).toEqual([]);
    await deployment.close();
  });

  it('a call that goes on through an outage of the store has its key until it ends', async () => {
    const { clock, deployment, nodes } = await pair();
    const [one, other] = nodes;
    const args = { requestId: 'r', amount: 1 };
    const first = call(one.app, 'slow', args);
    await Bank.began.promise;
    for (const { store } of nodes) store.away();
    await clock.advance(60_000);
    for (const { store } of nodes) store.back();
    const repeat = call(other.app, 'slow', args);
    await clock.advance(20_000);
    Bank.door.open();
    expect(await patiently(clock, repeat)).toBe('slow 1');
    expect(await first).toBe('slow 1');
    expect(effectsOf(other.app)).toEqual([]);
    await deployment.close();
  });

  it('a result that would be over when the store is back frees its key', async () => {
    const { clock, deployment, nodes } = await pair();
    const [one, other] = nodes;
    const args = { requestId: 'r', amount: 1 };
    const first = call(one.app, 'brief', args);
    await Bank.began.promise;
    for (const { store } of nodes) store.away();
    Bank.door.open();
    expect(await first).toBe('brief 1');
    await clock.advance(60_000);
    for (const { store } of nodes) store.back();
    await clock.advance(5_000);
    expect(await call(other.app, 'brief', args)).toBe('brief 1');
    expect(effectsOf(other.app)).toEqual(['brief 1']);
    await deployment.close();
  });

  it('a node that stops stores a result within drainMs, when the store is back', async () => {
    const { clock, deployment, nodes } = await pair({ drainMs: 10_000 });
    const [leaves, stays] = nodes;
    const args = { requestId: 'r', amount: 1 };
    const first = call(leaves.app, 'slow', args);
    await Bank.began.promise;
    leaves.store.away();
    Bank.door.open();
    await first;
    clock.setTimeout(() => leaves.store.back(), 4_000);
    await deployment.stop(leaves);
    expect(await call(stays.app, 'slow', args)).toBe('slow 1');
    expect(effectsOf(stays.app)).toEqual([]);
    await deployment.close();
  });

  it('a node that stops while the store is away logs what repeats learn, and they learn that', async () => {
    const { clock, deployment, nodes } = await pair({ drainMs: 1_000 });
    const [leaves, stays] = nodes;
    const args = { requestId: 'r', amount: 1 };
    const first = call(leaves.app, 'slow', args);
    await Bank.began.promise;
    leaves.store.away();
    Bank.door.open();
    await first;
    await deployment.stop(leaves);
    expect(nodes.flatMap(({ app }) => app.log.texts('error')).join()).toMatch(
      /without having stored the ends.*\(1\).*the next call.*is not known, and the one after that runs the tool again/,
    );
    const repeats = [await patiently(clock, call(stays.app, 'slow', args)), await call(stays.app, 'slow', args)];
    expect(repeats).toEqual([expect.stringContaining('whether it had an effect is not known'), 'slow 1']);
    expect(effectsOf(stays.app)).toEqual(['slow 1']);
    await deployment.close();
  });

  it('a repeat that leaves while the store is slow leaves no timer', async () => {
    const { clock, deployment, nodes } = await pair();
    const [runs, other] = nodes;
    const args = { requestId: 'r', amount: 1 };
    const first = call(runs.app, 'slow', args);
    await Bank.began.promise;
    const timers = clock.pending;
    const cancelled = new AbortController();
    other.store.pause();
    const repeat = within(other, 'slow', args, cancelled.signal);
    await eventually(() => expect(other.store.waiting).toBe(1));
    cancelled.abort();
    other.store.back();
    await repeat;
    await eventually(() => expect(other.store.running).toBe(0));
    expect(clock.pending).toBe(timers);
    Bank.door.open();
    expect(await first).toBe('slow 1');
    await deployment.close();
  });

  it('a repeat that leaves while it waits for another node leaves no timer', async () => {
    const { clock, deployment, nodes } = await pair();
    const [runs, other] = nodes;
    const args = { requestId: 'r', amount: 1 };
    const first = call(runs.app, 'slow', args);
    await Bank.began.promise;
    const timers = clock.pending;
    const cancelled = new AbortController();
    const repeat = within(other, 'slow', args, cancelled.signal);
    await eventually(() => {
      expect(clock.pending).toBeGreaterThan(timers);
      expect(other.store.running).toBe(0);
    });
    cancelled.abort();
    await repeat;
    await eventually(() => expect(clock.pending).toBe(timers));
    Bank.door.open();
    expect(await first).toBe('slow 1');
    await deployment.close();
  });

  it('the calls of a node that stops are unknown to repeats at once', async () => {
    const { clock, deployment, nodes } = await pair();
    const [leaves, stays] = nodes;
    const args = { requestId: 'r', amount: 1 };
    const first = call(leaves.app, 'slow', args);
    await Bank.began.promise;
    await deployment.stop(leaves);
    await first;
    const repeat = call(stays.app, 'slow', args);
    await clock.advance(1_000);
    expect(await repeat).toContain('whether it had an effect is not known');
    Bank.door.open();
    await deployment.close();
  });

  async function pair(options: Partial<TestAppOptions> = {}) {
    [Bank.door, Bank.began] = [gate(), gate()];
    const clock = new ManualClock();
    const deployment = new Deployment(clock);
    const stateStore = new InMemoryStateStore(clock);
    const member = async () => {
      const backend = new NodeBackend();
      const node = await deployment.member({
        adapter,
        stateStore: backend.over(stateStore),
        providers: [Bank],
        ...options,
      });
      Object.assign(node.backend, { die: both(node.backend, backend) });
      return Object.assign(node, { store: backend });
    };
    return { clock, deployment, nodes: [await member(), await member()] as const };
  }
});

/** Calls a tool from within a node, as an anonymous caller, until the signal aborts. */
async function within({ app }: Member, name: string, args: Payment, signal: AbortSignal): Promise<void> {
  const call = app.app.get(McpToolCaller, { strict: false }).callTool(name, { ...args }, { signal });
  await expect(call).rejects.toThrow('aborted');
}

/** Ends both ways of a node to what it shares. */
function both(one: NodeBackend, other: NodeBackend): () => void {
  const die = one.die.bind(one);
  return () => {
    die();
    other.die();
  };
}

/** Turns the clock until there is an answer. */
async function patiently<T>(clock: ManualClock, answer: Promise<T>): Promise<T> {
  const there = answer.then(() => true);
  while (!(await Promise.race([there, clock.advance(1_000).then(() => false)])));
  return answer;
}

/** A store that reports each call. */
function reported(store: InMemoryStateStore, report: (method: string, key: string) => void): InMemoryStateStore {
  return new Proxy(store, {
    get: (target, method) => {
      const value: unknown = Reflect.get(target, method, target);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]): unknown => {
        report(String(method), String(args[0]));
        return Reflect.apply(value, target, args);
      };
    },
  });
}
