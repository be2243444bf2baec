import { Injectable } from '@nestjs/common';
import { McpArgs, McpCtx, Prompt, Tool, McpUnknownStateError, type McpContext } from 'nestjs-mcp-streamable';
import { InMemoryStateStore, type McpStateStore } from 'nestjs-mcp-streamable/stores';
import { Keyv } from 'keyv';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { Carts, Checkout, Preferences } from '../../examples/snippets/carts.js';
import { ONE_ADAPTER, type TestApp } from '../support/app.js';
import { testApps, type TestAppsOptions } from '../support/test-apps.js';
import { ModernClient } from '../support/modern-client.js';
import { expectRefusal, NO_SUCH_SESSION } from '../support/refusal.js';
import { as } from '../support/users.js';

const IDLE = 60_000;
const LOOK = IDLE / 10;

const CartArgs = z.object({ cart: z.string().optional(), item: z.string().optional(), count: z.number().nullish() });

@Injectable()
class Tools {
  @Tool({ name: 'add', inputSchema: CartArgs })
  async add(@McpArgs() { cart, item, count }: z.infer<typeof CartArgs>, @McpCtx() ctx: McpContext): Promise<object> {
    const state = await ctx.state(cart);
    const data = item === undefined ? state.data : await state.patch({ [item]: count });
    return { cart: state.handle, data };
  }

  @Tool({ name: 'drop', inputSchema: z.object({ cart: z.string() }) })
  async drop(@McpArgs('cart') cart: string, @McpCtx() ctx: McpContext): Promise<string> {
    return String(await (await ctx.state(cart)).delete());
  }

  @Tool({ name: 'prefer', inputSchema: z.object({ theme: z.string().optional() }) })
  async prefer(@McpArgs('theme') theme: string | undefined, @McpCtx() ctx: McpContext): Promise<object> {
    const state = await ctx.principalState();
    return { ...(theme === undefined ? state.data : await state.patch({ theme })) };
  }

  @Tool({ name: 'forget' })
  async forget(@McpCtx() ctx: McpContext): Promise<string> {
    return String(await (await ctx.principalState()).delete());
  }

  @Tool({ name: 'forgiving' })
  async forgiving(@McpCtx() ctx: McpContext): Promise<string> {
    const error: unknown = await ctx.state('x').catch((thrown: unknown) => thrown);
    return error instanceof McpUnknownStateError ? error.code : 'none';
  }

  @Prompt({ name: 'sum', arguments: [{ name: 'cart', required: true }] })
  async sum(@McpArgs('cart') cart: string, @McpCtx() ctx: McpContext): Promise<string> {
    return JSON.stringify((await ctx.state(cart)).data);
  }
}

interface Answer {
  text: string;
  isError: boolean;
}

/** Somebody who asks for handlers, of either era. */
interface Caller {
  call(name: string, args?: object): Promise<Answer>;
  prompt(name: string, args: object): Promise<{ error?: { code: number; message: string } }>;
}

type Meet = (app: TestApp, headers?: Record<string, string>) => Promise<Caller>;

const answer = ({ result }: { result: { content: { text: string }[]; isError?: boolean } }): Answer => ({
  text: result.content[0]!.text,
  isError: result.isError === true,
});

const legacy: Meet = async (app, headers) => {
  const client = await app.client(headers).initialize();
  const params = (name: string, args: object) => ({ name, arguments: args });
  return {
    call: async (name, args = {}) => answer(await (await client.call(name, args)).json()),
    prompt: async (name, args) => {
      const message = { jsonrpc: '2.0', id: client.nextId(), method: 'prompts/get', params: params(name, args) };
      return (await client.post(message)).json();
    },
  };
};

const modern: Meet = (app, headers) => {
  const client = new ModernClient(app.url, headers);
  return Promise.resolve({
    call: async (name, args = {}) => answer(await client.ask('tools/call', { name, arguments: args })),
    prompt: async (name, args) => client.ask('prompts/get', { name, arguments: args }),
  });
};

const ERAS: [string, Meet][] = [
  ['legacy', legacy],
  ['modern', modern],
];

const EACH = ONE_ADAPTER.flatMap((adapter) => ERAS.map(([era, meet]) => [era, adapter, meet] as const));

const carted = async (caller: Caller, args: object = { item: 'tea', count: 1 }) => {
  const { text, isError } = await caller.call('add', args);
  if (isError) throw new Error(text);
  return JSON.parse(text) as { cart: string; data: Record<string, unknown> };
};

describe.each(EACH)('state that outlives a call, %s on %s', (era, adapter, meet) => {
  const start = testApps(adapter, { shared: true, providers: [Tools] });
  /** Apps end their states by time, as nobody else does. */
  const clock = new ManualClock();
  const withTime = async (options: TestAppsOptions = {}) => {
    const app = await start({ clock, idleTimeoutMs: IDLE, ...options });
    return { app, over: () => clock.advance(IDLE + LOOK) };
  };

  it('state that outlives a call is found by its handle in later calls, from any client of the same principal', async () => {
    const { app, over } = await withTime();
    const ann = await meet(app, as('ann'));
    const { cart, data } = await carted(ann);
    expect(cart).toMatch(/^[A-Za-z0-9]{22}$/);
    expect(data).toEqual({ tea: 1 });
    const elsewhere = await meet(app, as('ann', 'token2'));
    expect(await carted(elsewhere, { cart, item: 'milk', count: 2 })).toEqual({ cart, data: { tea: 1, milk: 2 } });
    expect(await carted(ann, { cart, item: 'tea', count: null })).toEqual({ cart, data: { milk: 2 } });
    await app.settled({ states: 1 });
    await over();
  });

  it('state that outlives a call is found in the other era', async () => {
    const { app, over } = await withTime();
    const { cart } = await carted(await meet(app, as('ann')));
    const other = era === 'legacy' ? modern : legacy;
    expect(await carted(await other(app, as('ann')), { cart })).toEqual({ cart, data: { tea: 1 } });
    await over();
  });

  it('state that outlives a call belongs to one principal: other callers get advice, and cannot tell whether it exists', async () => {
    const { app, over } = await withTime();
    const ann = await meet(app, as('ann'));
    const { cart } = await carted(ann);
    const told = async (caller: Caller, handle: string) => {
      const { text, isError } = await caller.call('add', { cart: handle, item: 'tea', count: 9 });
      expect(isError).toBe(true);
      expect(text).toContain(`"${handle}"`);
      expect(text).toContain('Call again without a handle');
      return text.replace(handle, '…');
    };
    const unknown = await told(ann, 'x'.repeat(22));
    expect(await told(await meet(app, as('bob')), cart)).toBe(unknown);
    expect(await told(await meet(app), cart)).toBe(unknown);
    expect(await told(ann, '__proto__')).toBe(unknown);
    expect(await carted(ann, { cart })).toEqual({ cart, data: { tea: 1 } });
    const { error } = await (await meet(app, as('bob'))).prompt('sum', { cart });
    expect(error).toMatchObject({ code: -32602, message: expect.stringContaining(cart) as string });
    expect(await ann.call('forgiving')).toEqual({ text: 'UNKNOWN_STATE', isError: false });
    expect(app.log.texts('error')).toEqual([]);
    await over();
  });

  it('state that outlives a call of the principal needs no handle, and a principal', async () => {
    const { app } = await withTime();
    const ann = await meet(app, as('ann'));
    expect((await ann.call('prefer', { theme: 'dark' })).text).toBe('{"theme":"dark"}');
    expect((await (await meet(app, as('ann', 'token2'))).call('prefer')).text).toBe('{"theme":"dark"}');
    expect((await (await meet(app, as('bob'))).call('prefer')).text).toBe('{}');
    const nobody = await (await meet(app)).call('prefer');
    expect(nobody).toEqual({ isError: true, text: expect.stringContaining('the caller is anonymous') as string });
    expect((await ann.call('forget')).text).toBe('true');
    expect((await ann.call('prefer')).text).toBe('{}');
  });

  it('state that outlives a call costs nothing before something is stored, no timer then, and leaves nothing when it is deleted', async () => {
    const { app } = await withTime({ eras: era as 'legacy' | 'modern' });
    const caller = await meet(app);
    for (let n = 0; n < 5; n++) await carted(caller, {});
    await app.settled({ states: 0, timers: 0 });
    const { cart } = await carted(caller);
    await app.settled({ states: 1, timers: 0 });
    expect((await caller.call('drop', { cart })).text).toBe('true');
    await app.settled({ states: 0, timers: 0 });
    expect((await caller.call('add', { cart })).isError).toBe(true);
  });

  it('state that outlives a call expires when it is not used for the idle timeout, also without a session', async () => {
    const { app } = await withTime({ eras: era as 'legacy' | 'modern' });
    const caller = await meet(app);
    const { cart } = await carted(caller);
    await app.service.terminateAll();
    await app.settled({ sessions: 0, live: 0, states: 1, ...(app.nodes.length === 1 && { timers: 0 }) });
    const again = await meet(app);
    for (let n = 0; n < 5; n++) {
      await clock.advance(IDLE - LOOK);
      expect((await carted(await meet(app), { cart })).data).toEqual({ tea: 1 });
    }
    await app.service.terminateAll();
    await clock.advance(IDLE + 2 * LOOK);
    await app.settled({ sessions: 0, states: 0, timers: 0 });
    if (era === 'modern') expect((await again.call('add', { cart })).isError).toBe(true);
  });

  it('state that outlives a call is bounded in number and size, whatever sessions there are', async () => {
    const { app, over } = await withTime({
      maxSessionsPerPrincipal: 1,
      maxStatesPerPrincipal: 2,
      maxAnonymousStates: 1,
      maxStateBytes: 100,
    });
    const ann = await meet(app, as('ann'));
    const { cart } = await carted(ann);
    await ann.call('prefer', { theme: 'dark' });
    const more = await ann.call('add', { item: 'tea', count: 1 });
    expect(more).toEqual({ isError: true, text: expect.stringContaining('"maxStatesPerPrincipal"') as string });
    const large = await ann.call('add', { cart, item: 'x'.repeat(100), count: 1 });
    expect(large).toEqual({ isError: true, text: expect.stringContaining('"maxStateBytes"') as string });
    expect(await carted(ann, { cart })).toEqual({ cart, data: { tea: 1 } });
    const nobody = await meet(app);
    await carted(nobody);
    const another = await nobody.call('add', { item: 'tea', count: 1 });
    expect(another).toEqual({ isError: true, text: expect.stringContaining('"maxAnonymousStates"') as string });
    expect((await ann.call('drop', { cart })).text).toBe('true');
    await carted(ann);
    await over();
  });
});

describe.each(ONE_ADAPTER)('a state is no session, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers: [Tools] });

  it('a state is no session for a request with its handle as Mcp-Session-Id', async () => {
    const clock = new ManualClock();
    const app = await start({ clock, idleTimeoutMs: IDLE });
    const { cart } = await carted(await modern(app, as('ann')));
    const client = app.client({ ...as('ann'), 'mcp-session-id': cart });
    await expectRefusal(await client.call('add', {}, { id: 1 }), { ...NO_SUCH_SESSION, id: 1 });
    await expectRefusal(await client.get(), NO_SUCH_SESSION);
    await expectRefusal(await client.delete(), NO_SUCH_SESSION);
    expect(await app.service.get(cart)).toBeUndefined();
    expect(await app.service.list()).toEqual([]);
    await app.settled({ sessions: 0, live: 0, states: 1, logs: 0 });
    await clock.advance(IDLE + LOOK);
    await app.settled({ states: 0, timers: 0 });
  });

  it('a state stays when a node stops that shares it, and is there for the one that is left', async () => {
    const clock = new ManualClock();
    const stateStore = new InMemoryStateStore(clock);
    const options = { clock, stateStore, idleTimeoutMs: IDLE };
    const app = await start(options);
    const { cart } = await carted(await modern(app, as('ann')));
    const other = await start(options);
    await app.shutDown();
    expect(await carted(await modern(other, as('ann')), { cart })).toEqual({ cart, data: { tea: 1 } });
    await clock.advance(IDLE);
    await other.settled({ states: 0 });
  });
});

/** Two apps of one module: what they share is in the Keyv, as a Redis or a database would keep it behind one. */
describe.each(ONE_ADAPTER)('state in a Keyv as it is, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers: [Tools] });

  it('state in a Keyv is kept from call to call and from node to node, is of one principal, and is deleted', async () => {
    const stateStore: McpStateStore = new Keyv({ throwOnErrors: true });
    const [here, there] = [await start({ stateStore }), await start({ stateStore })];
    const ann = await legacy(here, as('ann'));
    const { cart } = await carted(ann);
    const elsewhere = await modern(there, as('ann'));
    expect((await carted(elsewhere, { cart, item: 'milk', count: 2 })).data).toEqual({ tea: 1, milk: 2 });
    expect((await (await modern(there, as('bob'))).call('add', { cart })).isError).toBe(true);
    await ann.call('prefer', { theme: 'dark' });
    expect((await elsewhere.call('prefer')).text).toBe('{"theme":"dark"}');
    expect((await ann.call('drop', { cart })).text).toBe('true');
    expect((await elsewhere.call('add', { cart })).isError).toBe(true);
  });

  it('state in a Keyv has no cap', async () => {
    const app = await start({ stateStore: new Keyv(), maxStatesPerPrincipal: 1 });
    const ann = await modern(app, as('ann'));
    expect((await carted(ann)).cart).not.toBe((await carted(ann)).cart);
  });

  it.each([
    ['null', null],
    ['a text', 'dark'],
    ['a list', [1]],
    ['data that is no object', { data: 'dark', usedAt: 0 }],
    ['data without a time', { data: { theme: 'dark' } }],
  ])('state for which the store has %s is neither read nor replaced', async (_what, value) => {
    const store = new InMemoryStateStore();
    const keys: string[] = [];
    const stateStore: McpStateStore = {
      get: (key) => {
        keys.push(key);
        return store.get(key);
      },
      set: (...args) => store.set(...args),
      delete: (key) => store.delete(key),
    };
    const app = await start({ stateStore });
    const ann = await modern(app, as('ann'));
    await ann.call('prefer', { theme: 'dark' });
    const key = keys.at(-1)!;
    await store.set(key, value);
    const { text, isError } = await ann.call('prefer', { theme: 'light' });
    expect([isError, text]).toEqual([true, expect.stringContaining('storage of this server is unavailable')]);
    expect(await store.get(key)).toEqual(value);
    expect(app.log.texts('error').join('\n')).toContain('is no state');
  });

  it('state in a Keyv that fails is reported to the client and to the operator', async () => {
    const refuse = () => Promise.reject(new Error('the disk is full'));
    const storage = Object.assign(new Map<string, unknown>(), { set: refuse });
    const stateStore = new Keyv({ store: storage }).on('error', () => {});
    const app = await start({ stateStore });
    const { text, isError } = await (await modern(app, as('ann'))).call('add', { item: 'tea', count: 1 });
    expect([isError, text]).toEqual([true, expect.stringContaining('storage of this server is unavailable')]);
    expect(app.log.texts('error').join('\n')).toMatch(/A store failed.*did not keep a value/);
  });
});

describe.each(ONE_ADAPTER)('the code of the guide to state, on %s', (adapter) => {
  const clock = new ManualClock();
  const start = testApps(adapter, {
    shared: true,
    providers: [Carts, Preferences, Checkout],
    clock,
    idleTimeoutMs: IDLE,
  });

  it('a cart by its handle, preferences of a principal', async () => {
    const app = await start();
    const ann = await legacy(app, as('ann'));
    const { cart } = JSON.parse((await ann.call('add_to_cart', { item: 'lamp', count: 1 })).text) as { cart: string };
    const { text } = await (await modern(app, as('ann'))).call('add_to_cart', { item: 'chair', count: 4, cart });
    expect(JSON.parse(text)).toEqual({ cart, items: { lamp: 1, chair: 4 } });
    expect((await ann.call('speak', { language: 'it' })).text).toBe('From now on in it.');
    expect((await ann.call('speak', { language: 'it' })).text).toBe('You spoke it already.');
    await clock.advance(IDLE + LOOK);
  });

  it('a checkout that asks, and begins once', async () => {
    const app = await start();
    const client = new ModernClient(app.url, as('ann'));
    const options = { capabilities: { elicitation: { form: {} } } };
    const call = { name: 'begin_checkout', arguments: {} };
    const { result: asked } = await client.ask('tools/call', call, options);
    const inputResponses = { address: { action: 'accept', content: { street: 'Elm' } } };
    const again = { ...call, inputResponses, requestState: asked.requestState as string };
    const { text } = answer(await client.ask('tools/call', again, options));
    expect(text).toMatch(/^Go on with the checkout \w{22}\.$/);
    await app.settled({ states: 1 });
    await clock.advance(IDLE + LOOK);
  });
});
