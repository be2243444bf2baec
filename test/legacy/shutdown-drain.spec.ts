import { Injectable, Module, type OnModuleDestroy } from '@nestjs/common';
import { getMcpToken, McpSessionService, McpStreamableModule } from 'nestjs-mcp-streamable';
import {
  InMemoryEventStore,
  InMemorySessionStore,
  type McpEventStore,
  type McpSessionStore,
} from 'nestjs-mcp-streamable/stores';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ADAPTERS, gate, type TestAppOptions, type TestTool, TestApp, serverInfo } from '../support/app.js';
import { double, shared } from '../support/doubles.js';
import type { RawResponse } from '../support/http.js';
import { gists } from '../support/messages.js';
import { ModernClient } from '../support/modern-client.js';
import type { RawClient } from '../support/raw-client.js';
import { expectRefusal } from '../support/refusal.js';
import { eventually } from '../support/test-apps.js';
import { serverSaying } from '../support/scripted-server.js';

const DRAIN_MS = 10_000;
const LOCAL_DRAIN_MS = 5_000;
const NOTHING = { live: 0, inFlight: 0, outbound: 0, streams: 0, readers: 0, openResponses: 0, timers: 0 };

async function expectStopping(response: RawResponse, id: string | number | null = null): Promise<void> {
  expect(response.header('retry-after')).toMatch(/^[1-9]\d*$/);
  await expectRefusal(response, { status: 503, code: -32000, id, says: ['shutting down'] });
}

describe.each(ADAPTERS)('a node that shuts down while calls run, on %s', (adapter) => {
  let clock: ManualClock;
  let app: TestApp;
  let hold: ReturnType<typeof gate<void>>;
  let aborted: number;
  let sessionStore: McpSessionStore;

  const tools: Record<string, TestTool> = {
    waits: async (_, ctx) => {
      ctx.signal.addEventListener('abort', () => aborted++);
      await hold.promise;
      return 'done after all';
    },
    talks: async (_, ctx, sessions) => {
      await ctx.log('info', 'begun');
      await hold.promise;
      await ctx.log('info', 'goes on');
      await sessions.request(ctx.session!.id, { method: 'ping' });
      return 'answered';
    },
    leaves: async (_, ctx) => {
      await ctx.log('info', 'begun');
      ctx.closeStream();
      await hold.promise;
      return 'found again';
    },
  };
  const start = async (options: Partial<TestAppOptions> = {}): Promise<void> => {
    sessionStore = shared<McpSessionStore>(new InMemorySessionStore(clock));
    const eventStore = shared<McpEventStore>(new InMemoryEventStore({}, clock));
    const stores = { sessionStore, eventStore, requestStateKeys: ['x'.repeat(32)] };
    app = await TestApp.start({
      adapter,
      port: true,
      clock,
      tools,
      sseAfterMs: 3_600_000,
      ...stores,
      ...options,
    });
  };
  /** The app begins to stop. @returns what tells when it has stopped */
  const stop = async (): Promise<{ closed: Promise<void>; over: () => boolean }> => {
    let over = false;
    const closed = app.shutDown().then(() => {
      over = true;
    });
    await eventually(() => expect(app.service.accepting).toBe(false));
    return { closed, over: () => over };
  };

  beforeEach(() => {
    [clock, hold, aborted] = [new ManualClock(), gate(), 0];
  });
  afterEach(async () => {
    vi.unstubAllEnvs();
    hold.open();
    await app.shutDown();
  });

  it('S15: running calls of both eras may end, new ones are refused, and the node stops when the last has ended', async () => {
    await start();
    const client = await app.client().initialize();
    const modern = new ModernClient(app.url);
    const calls = [client.call('waits', {}, { id: 'legacy' }), modern.call('waits', {}, { id: 'modern' })];
    const listening = await client.listen();
    await app.settled({ inFlight: 2, readers: 1 });
    expect(app.service.accepting).toBe(true);
    const { closed, over } = await stop();

    const newcomer = app.client();
    await expectStopping(await newcomer.post(newcomer.initializeMessage()), 1);
    await expectStopping(await client.call('waits', {}, { id: 'known' }), 'known');
    await expectStopping(await modern.call('waits', {}, { id: 'a' }), 'a');
    await expectStopping(await modern.request('subscriptions/listen', { notifications: {} }, { id: 'b' }), 'b');
    await expectStopping(await client.get());
    await expectStopping(await client.get('0_0'));
    await expectStopping(await client.delete());
    await clock.advance(DRAIN_MS - 1);
    expect([over(), aborted, listening.ended]).toEqual([false, 0, undefined]);

    hold.open();
    for (const response of await Promise.all(calls)) {
      expect((await response.json()).result.content[0].text).toBe('done after all');
    }
    await closed;
    expect(await listening.end()).toBe('end');
    expect(aborted).toBe(0);
    await app.settled({ ...NOTHING, sessions: 1 });
  });

  it('S15: a running call keeps its stream and may ask its client', async () => {
    await start();
    const client = await app.client().initialize();
    const stream = await (await client.call('talks', {}, { id: 'call' })).sse().count(1);
    const { closed } = await stop();
    hold.open();
    await stream.count(3);
    await client.notify('notifications/progress', { progressToken: 1, progress: 1 });
    await client.respond(stream.messages[2].id, {});
    expect(await stream.end()).toBe('end');
    expect(gists([stream.messages[1], stream.messages[3]])).toEqual(['goes on', 'answered']);
    await closed;
  });

  it('S15: a running call can be cancelled during the shutdown', async () => {
    await start();
    const client = await app.client().initialize();
    const call = client.call('waits', {}, { id: 'call' });
    await app.settled({ inFlight: 1 });
    const { closed } = await stop();
    await client.notify('notifications/cancelled', { requestId: 'call' });
    await (await call).text();
    await closed;
    expect(aborted).toBe(1);
  });

  it('S15: a client resumes the stream of its running call during the shutdown', async () => {
    await start();
    const client = await app.client().initialize();
    const left = (await client.call('leaves', {}, { id: 'call' })).sse();
    await left.end();
    const { closed } = await stop();
    const again = await client.listen(left.events.at(-1)?.id ?? left.primes.at(-1));
    await expectStopping(await client.get('0_0'));
    await expectStopping(await client.get(`${'x'.repeat(22)}_0`));
    hold.open();
    expect(await again.end()).toBe('end');
    expect(again.messages.at(-1)).toMatchObject({ id: 'call', result: { content: [{ text: 'found again' }] } });
    await closed;
  });

  it('S15: calls that are left after drainMs get an error that says that they may be repeated', async () => {
    await start({ drainMs: 500 });
    const client = await app.client().initialize();
    const undecided = client.call('waits', {}, { id: 1 });
    const modern = new ModernClient(app.url).call('waits', {}, { id: 2 });
    const stream = await (await client.call('talks', {}, { id: 3 })).sse().count(1);
    await app.settled({ inFlight: 3 });
    const { closed, over } = await stop();
    await clock.advance(499);
    expect([over(), aborted]).toEqual([false, 0]);
    await clock.advance(1);
    const text = expect.stringMatching(/shutting down (?!.*session).*Repeat it/);
    expect(await (await undecided).json()).toMatchObject({ id: 1, error: { code: -32000, message: text } });
    expect((await modern).status).toBe(503);
    expect(await (await modern).json()).toMatchObject({ id: 2, error: { message: text } });
    expect(await stream.end()).toBe('end');
    expect(stream.messages.at(-1)).toMatchObject({ id: 3, error: { code: -32000, message: text } });
    await closed;
    expect(aborted).toBe(2);
    await app.settled({ ...NOTHING, sessions: 1, timers: 0 });
  });

  it('S15: a node on which no call runs stops at once, whatever streams are open', async () => {
    await start();
    const client = await app.client().initialize();
    const listening = await client.listen();
    const params = { notifications: { toolsListChanged: true } };
    const subscribed = await (await new ModernClient(app.url).request('subscriptions/listen', params)).sse().count(1);
    // The clock stands still.
    await app.shutDown();
    expect(await listening.end()).toBe('end');
    expect(await subscribed.end()).toBe('end');
    await app.settled({ ...NOTHING, sessions: 1 });
  });

  it('S15: a node whose sessions are in its memory lets running calls end, unless NODE_ENV is for tests or development', async () => {
    for (const env of [undefined, 'production', 'Test']) {
      vi.stubEnv('NODE_ENV', env);
      [hold, aborted] = [gate(), 0];
      await start({ sessionStore: new InMemorySessionStore(clock) });
      const kept = (await app.client().initialize()).call('waits', {}, { id: 1 });
      const modern = new ModernClient(app.url).call('waits', {}, { id: 2 });
      await app.settled({ inFlight: 2 });
      const { closed, over } = await stop();
      await clock.advance(LOCAL_DRAIN_MS - 1);
      expect([env, over(), aborted]).toEqual([env, false, 0]);
      hold.open();
      for (const response of await Promise.all([kept, modern])) {
        expect((await response.json()).result.content[0].text).toBe('done after all');
      }
      // The clock stands still: the last call ends the wait.
      await closed;
      expect([env, aborted]).toEqual([env, 0]);
      await app.settled({ ...NOTHING, sessions: 0, logs: 0 });
    }
  });

  it('S15: a node whose sessions are in its memory ends calls that run for longer than the default of drainMs', async () => {
    vi.stubEnv('NODE_ENV', 'production');
    await start({ sessionStore: new InMemorySessionStore(clock) });
    const lost = (await app.client().initialize()).call('waits', {}, { id: 1 });
    await app.settled({ inFlight: 1 });
    const { closed } = await stop();
    await clock.advance(LOCAL_DRAIN_MS);
    const text = expect.stringMatching(/shutting down.*Start a new session, and repeat the request/);
    expect(await (await lost).json()).toMatchObject({ id: 1, error: { message: text } });
    await closed;
    expect(aborted).toBe(1);
  });

  it('S15: a node whose sessions are in its memory waits for no call in tests and development, unless drainMs is set', async () => {
    for (const env of ['test', 'development']) {
      vi.stubEnv('NODE_ENV', env);
      await start({ sessionStore: new InMemorySessionStore(clock) });
      const lost = (await app.client().initialize()).call('waits', {}, { id: 1 });
      await app.settled({ inFlight: 1 });
      await app.shutDown();
      const text = expect.stringMatching(/shutting down.*Start a new session, and repeat the request/);
      expect(await (await lost).json()).toMatchObject({ id: 1, error: { message: text } });
    }
    await start({ sessionStore: new InMemorySessionStore(clock), drainMs: 1_000 });
    const kept = (await app.client().initialize()).call('waits', {}, { id: 1 });
    await app.settled({ inFlight: 1 });
    const { closed } = await stop();
    hold.open();
    expect((await (await kept).json()).result.content[0].text).toBe('done after all');
    await closed;
    await app.settled({ ...NOTHING, sessions: 0, logs: 0 });
  });
});

describe.each(ADAPTERS)('requests that arrived just before the shutdown, on %s', (adapter) => {
  let app: TestApp;
  let client: RawClient;
  let clock: ManualClock;
  let asked: ReturnType<typeof gate<void>>;
  let go: ReturnType<typeof gate<void>>;
  let held: string;

  beforeEach(async () => {
    [clock, asked, go, held] = [new ManualClock(), gate(), gate(), ''];
    const sessionStore = new InMemorySessionStore(clock);
    const eventStore = new InMemoryEventStore({}, clock);
    /** Holds the first call of a method. */
    const holding =
      <Arguments extends unknown[], Result>(name: string, method: (...of: Arguments) => Promise<Result>) =>
      async (...of: Arguments): Promise<Result> => {
        if (name === held) {
          held = '';
          asked.open();
          await go.promise;
        }
        return method(...of);
      };
    app = await TestApp.start({
      adapter,
      port: true,
      clock,
      tools: { quick: () => 'quick' },
      sessionStore: double<McpSessionStore>(sessionStore, {
        get: holding('get', (id) => sessionStore.get(id)),
        touch: holding('touch', (id) => sessionStore.touch(id)),
        delete: holding('delete', (id) => sessionStore.delete(id)),
        create: holding('create', (...of) => sessionStore.create(...of)),
      }),
      eventStore: double<McpEventStore>(eventStore, {
        open: holding('open', (session) => eventStore.open(session)),
        read: holding('read', async (...of) => eventStore.read(...of)),
      }),
    });
    client = await app.client().initialize();
  });

  const requests: Record<string, () => Promise<RawResponse>> = {
    POST: () => client.call('quick', {}, { id: 7 }),
    notification: () => client.post({ jsonrpc: '2.0', method: 'notifications/roots/list_changed' }),
    GET: () => client.get(),
    'GET of a stream': () => client.get('0_0'),
    DELETE: () => client.delete(),
    initialize: () => client.post({ ...client.initializeMessage(), id: 7 }, { 'mcp-session-id': 'x'.repeat(22) }),
  };

  it.each([
    ['POST', 'get'],
    ['POST', 'open'],
    ['notification', 'get'],
    ['GET', 'get'],
    ['GET', 'open'],
    ['GET', 'read'],
    ['GET of a stream', 'get'],
    ['GET of a stream', 'read'],
    ['DELETE', 'get'],
    ['DELETE', 'delete'],
    ['initialize', 'get'],
    ['initialize', 'open'],
    ['initialize', 'create'],
  ])('E13: %s that waits for "%s" of a store is told to come again', async (what, method) => {
    // So that it must be looked for.
    await app.release(client.sessionId!);
    held = method;
    const requested = requests[what]!();
    await asked.promise;
    const closing = app.shutDown();
    await eventually(() => expect(app.service.accepting).toBe(false));
    await eventually(async () => expect(await app.service.list()).toEqual([]));
    go.open();
    await expectStopping(await requested, ['POST', 'initialize'].includes(what) ? 7 : null);
    await closing;
    expect(await app.service.counts()).toMatchObject({ sessions: 0, live: 0, inFlight: 0, logs: 0 });
    expect(clock.pending).toBe(0);
  });
});

describe.each(ADAPTERS)('the order of a shutdown on %s', (adapter) => {
  const destroyed: string[] = [];

  @Injectable()
  class Database implements OnModuleDestroy {
    onModuleDestroy(): void {
      destroyed.push('database');
    }
  }
  @Module({ providers: [Database] })
  class DeepModule {}

  it.each([false, true])('S15: providers of the app live until calls have ended (isGlobal: %s)', async (isGlobal) => {
    destroyed.length = 0;
    const hold = gate();
    const server = () => {
      const made = serverSaying(() => 'me');
      made.registerTool('waits', {}, async () => {
        await hold.promise;
        return { content: [{ type: 'text', text: `destroyed: ${destroyed.join()}` }] };
      });
      return made;
    };
    const endpoint = (name: string) =>
      McpStreamableModule.forRoot({ serverInfo, server, name, path: name, isGlobal, drainMs: 60_000 });
    const app = await TestApp.of(adapter, {
      imports: [endpoint('one'), endpoint('two'), DeepModule],
      providers: [Database],
    });
    const services = ['one', 'two'].map((name) => app.app.get<McpSessionService>(getMcpToken(McpSessionService, name)));
    const [one, two] = [await app.clientAt('one').initialize(), await app.clientAt('two').initialize()];
    const calls = [one.call('waits'), two.call('waits')];
    await eventually(async () => {
      for (const service of services) expect(await service.counts()).toMatchObject({ inFlight: 1 });
    });
    const closing = app.stop();
    await eventually(() => expect(services.map(({ accepting }) => accepting)).toEqual([false, false]));
    for (const client of [one, two]) await expectStopping(await client.call('waits', {}, { id: 'late' }), 'late');
    hold.open();
    for (const response of await Promise.all(calls)) {
      expect((await response.json()).result.content[0].text).toBe('destroyed: ');
    }
    await closing;
    for (const service of services) expect(await service.counts()).toMatchObject({ sessions: 0, inFlight: 0, logs: 0 });
    expect(destroyed).toEqual(['database', 'database']);
  });
});
