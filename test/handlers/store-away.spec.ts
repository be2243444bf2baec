import type { McpContext, McpSessionEvent } from 'nestjs-mcp-streamable';
import {
  InMemoryEventStore,
  InMemorySessionStore,
  InMemoryStateStore,
  type McpEventStore,
  type McpSessionStore,
  type McpStateStore,
} from 'nestjs-mcp-streamable/stores';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, type TestApp } from '../support/app.js';
import { recordedEvents, registryOf, testApps } from '../support/test-apps.js';
import { ModernClient } from '../support/modern-client.js';
import { NodeBackend } from '../support/node-backend.js';
import { as } from '../support/users.js';

const MAY_BE_REPEATED = expect.stringMatching(/storage of this server is unavailable.*may be repeated/);

describe.each(ONE_ADAPTER)('when a store is unavailable while a handler runs, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true });
  const clock = new ManualClock();
  const backend = new NodeBackend();
  const stores = {
    sessionStore: backend.over<McpSessionStore>(new InMemorySessionStore(clock)),
    stateStore: backend.over<McpStateStore>(new InMemoryStateStore(clock)),
    eventStore: backend.over<McpEventStore>(new InMemoryEventStore({}, clock)),
  };
  let app: TestApp;
  let events: McpSessionEvent[];

  /** What a handler does with its context, by name. The store is away from when it has begun. */
  const doings: Record<string, (ctx: McpContext) => Promise<unknown>> = {
    'opens state': (ctx) => ctx.state('x'.repeat(22)),
    'begins state': async (ctx) => (await ctx.state()).patch({ a: 1 }),
    'opens state of the principal': (ctx) => ctx.principalState(),
    'reports progress': (ctx) => ctx.progress(1),
    'sends a log message': (ctx) => ctx.log('info', 'x'),
    'sends a notification': (ctx) => ctx.notify('notifications/message', { level: 'info', data: 'x' }),
  };
  const opened: Record<string, (ctx: McpContext) => Promise<() => Promise<unknown>>> = {
    'changes state': async (ctx) => {
      const state = await ctx.state();
      await state.patch({ a: 1 });
      return () => state.patch({ a: 2 });
    },
    'forgets state': async (ctx) => {
      const state = await ctx.principalState();
      await state.patch({ a: 1 });
      return () => state.delete();
    },
  };

  beforeEach(async () => {
    // Notifications of a call then go to the standalone stream, and the call outlives the failure of that.
    app = await start({ clock, ...stores, responseMode: 'json' });
    events = recordedEvents(app);
    const registry = registryOf(app);
    const outcome = async (doing: Promise<unknown>, caught: boolean): Promise<string> => {
      const error = await doing.then(
        () => undefined,
        (thrown: unknown) => thrown as Error & { code: string },
      );
      if (error && !caught) throw error;
      return error ? `${error.name} ${error.code} ${String(error.cause)}` : 'fine';
    };
    for (const name of [...Object.keys(doings), ...Object.keys(opened)]) {
      const run = async (ctx: McpContext, caught: boolean): Promise<string> => {
        const go = await (opened[name]?.(ctx) ?? (() => doings[name]!(ctx)));
        backend.away();
        return outcome(go(), caught);
      };
      registry.registerTool({ name, handler: (_: unknown, ctx: McpContext) => run(ctx, false) });
      registry.registerTool({ name: `${name}, and looks`, handler: (_: unknown, ctx: McpContext) => run(ctx, true) });
      registry.registerPrompt({ name, handler: (_: unknown, ctx: McpContext) => run(ctx, false) });
    }
  });
  afterEach(async () => {
    backend.back();
    // States expire.
    await clock.advance(3_600_000);
  });

  /** Turns the clock until the retries of the log are over. */
  async function patiently<T>(answer: Promise<T>): Promise<T> {
    const there = answer.then(() => true);
    const later = () => clock.advance(1_000).then(() => false);
    while (!(await Promise.race([there, later()])));
    return answer;
  }
  const names = [...Object.keys(doings), ...Object.keys(opened)];

  it.each(names)(
    'a tool that %s answers that the request may be repeated, and the log has the reason',
    async (name) => {
      const client = await app.client(as('ann')).initialize();
      const response = await patiently(client.call(name, {}, { progressToken: 'p' }));
      const { result } = await response.json();
      expect(result).toMatchObject({ isError: true, content: [{ type: 'text', text: MAY_BE_REPEATED }] });
      expect(events).toContainEqual(expect.objectContaining({ type: 'store-fault' }));
      expect(app.log.texts('error').join('\n')).toMatch(/A store failed.*the backend is away/);
    },
  );

  it.each(names)('a tool that %s gets a typed error, with that of the store as its cause', async (name) => {
    const client = await app.client(as('ann')).initialize();
    const response = await patiently(client.call(`${name}, and looks`, {}, { progressToken: 'p' }));
    const { result } = await response.json();
    expect(result.content[0].text).toMatch(
      /^(McpStateError|McpServerRequestError) STORE_UNAVAILABLE Error: .*backend is away/,
    );
  });

  it.each(names)('a prompt that %s fails with the same text', async (name) => {
    const client = await app.client(as('ann')).initialize();
    const params = { name, _meta: { progressToken: 'p' } };
    const response = await patiently(client.post({ jsonrpc: '2.0', id: 1, method: 'prompts/get', params }));
    expect((await response.json()).error).toMatchObject({ code: -32603, message: MAY_BE_REPEATED });
  });

  it.each(names.filter((name) => name.includes('state')))('a modern tool that %s says it too', async (name) => {
    const response = await new ModernClient(app.url, as('ann')).call(name, {}, { id: 1 });
    expect((await response.json()).result).toMatchObject({ isError: true, content: [{ text: MAY_BE_REPEATED }] });
  });
});
