import { afterEach, describe, expect, it } from 'vitest';
import { Server } from '@modelcontextprotocol/server';
import type { NestInterceptor } from '@nestjs/common';
import type { McpSessionEvent } from 'nestjs-mcp-streamable';
import { InMemoryEventStore, InMemorySessionStore, type McpSessionStore } from 'nestjs-mcp-streamable/stores';
import { race, timer, map } from 'rxjs';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { ONE_ADAPTER, gate, TestApp, type TestAppOptions } from '../support/app.js';
import { double } from '../support/doubles.js';
import { expectAway, expectGenericFailure, expectRefusal } from '../support/refusal.js';
import { scripted } from '../support/scripted-server.js';
import { TrackedClock } from '../support/tracked-clock.js';
import { ForsakenPost, connectionsGone } from '../support/raw-socket.js';

const NOTHING = { sessions: 0, live: 0, inFlight: 0, streams: 0, readers: 0, logs: 0, openResponses: 0, timers: 0 };

let app: TestApp;
let events: McpSessionEvent[];
const start = async (options: TestAppOptions): Promise<TestApp> => {
  app = await TestApp.start(options);
  events = [];
  app.service.events$.subscribe((event) => events.push(event));
  return app;
};
const initialize = () => {
  const client = app.client();
  return client.post(client.initializeMessage());
};
afterEach(() => app.close());

describe.each(ONE_ADAPTER)('an initialize that a store fails on %s', (adapter) => {
  it.each(['creates none', 'has created it'])(
    'S2: an initialize leaves nothing behind when the session store fails to create a record, and %s',
    async (how) => {
      const clock = new TrackedClock();
      const store = new InMemorySessionStore(clock);
      let away = true;
      const create: McpSessionStore['create'] = async (...of) => {
        if (away && how === 'creates none') throw new Error('the store is away');
        const outcome = await store.create(...of);
        if (away) throw new Error('the store does not answer');
        return outcome;
      };
      await start({ adapter, clock, sessionStore: double(store, { create }), maxSessions: 1 });
      await expectAway(await initialize());
      await expectAway(await initialize());
      await app.settled(NOTHING);
      // Its place is free again.
      away = false;
      await app.client().initialize();
    },
  );

  it('S2: an initialize leaves nothing behind when the event store fails', async () => {
    const clock = new TrackedClock();
    const store = new InMemoryEventStore({}, clock);
    let away = true;
    const open = (session: string) => (away ? Promise.reject(new Error('away')) : store.open(session));
    await start({ adapter, clock, eventStore: double(store, { open }), maxSessions: 1 });
    await expectAway(await initialize());
    await app.settled(NOTHING);
    away = false;
    await app.client().initialize();
  });
});

describe.each(ONE_ADAPTER)('with an SDK server: an initialize that fails on %s', (adapter) => {
  it('S2: an initialize leaves nothing behind when its handler fails, whose error is the answer', async () => {
    await start({
      adapter,
      server: scripted({}, (server) =>
        server.setRequestHandler('initialize', () => {
          throw new Error('not for you');
        }),
      ),
    });
    const response = await initialize();
    expect(response.header('mcp-session-id')).toBeUndefined();
    const body = await response.json();
    expect(body).toMatchObject({ jsonrpc: '2.0', id: 1, error: { message: expect.stringMatching(/not for you/) } });
    await app.settled(NOTHING);
    expect(events.filter(({ type }) => type === 'created')).toEqual([]);
  });

  it('S2: an initialize leaves nothing behind when its server is closed meanwhile', async () => {
    await start({
      adapter,
      server: scripted({}, (server) =>
        server.setRequestHandler('initialize', async () => {
          await server.close();
          throw new Error('closed');
        }),
      ),
    });
    const response = await initialize();
    expect(response.header('mcp-session-id')).toBeUndefined();
    expect(await response.json()).toMatchObject({ id: 1, error: { code: -32000 } });
    await app.settled(NOTHING);
  });

  it('S2: an initialize leaves nothing behind when its handler takes too long', async () => {
    const clock = new ManualClock();
    const begun = gate();
    await start({
      adapter,
      clock,
      requestTimeoutMs: 5_000,
      server: scripted({}, (server) =>
        server.setRequestHandler('initialize', () => {
          begun.open();
          return new Promise(() => {});
        }),
      ),
    });
    const response = initialize();
    await begun.promise;
    await clock.advance(5_000);
    expect(await (await response).json()).toMatchObject({ id: 1, error: { code: -32001 } });
    await app.settled(NOTHING);
  });

  it('S2: an initialize leaves nothing behind when the session store fails to note the revision that was negotiated', async () => {
    const clock = new TrackedClock();
    const store = new InMemorySessionStore(clock);
    const patch = () => Promise.reject(new Error('the store is away'));
    await start({
      adapter,
      clock,
      sessionStore: double(store, { patch }),
      server: scripted({}, (server) =>
        server.setRequestHandler('initialize', () => ({
          protocolVersion: '2025-03-26',
          capabilities: {},
          serverInfo: { name: 'test', version: '1' },
        })),
      ),
    });
    await expectAway(await initialize());
    await app.settled(NOTHING);
    expect(events.map(({ type }) => type)).toEqual(['store-fault']);
  });

  it.each(['factory', 'handler', 'create', 'open'] as const)(
    'S2: an initialize leaves nothing behind when the client goes away during the %s',
    async (moment) => {
      const clock = new TrackedClock();
      const [reached, go] = [gate(), gate()];
      const pass = async () => {
        reached.open();
        await go.promise;
      };
      const sessions = new InMemorySessionStore(clock);
      const log = new InMemoryEventStore({}, clock);
      await start({
        adapter,
        clock,
        maxSessions: 1,
        sessionStore: double(sessions, {
          ...(moment === 'create' && { create: async (...of) => pass().then(() => sessions.create(...of)) }),
        }),
        eventStore: double(log, {
          ...(moment === 'open' && { open: async (...of) => pass().then(() => log.open(...of)) }),
        }),
        server: async () => {
          if (moment === 'factory') await pass();
          const server = new Server({ name: 'test', version: '1' }, { capabilities: {} });
          if (moment === 'handler') {
            server.setRequestHandler('initialize', async ({ params }) => {
              await pass();
              const { protocolVersion } = params;
              return { protocolVersion, capabilities: {}, serverInfo: { name: 'test', version: '1' } };
            });
          }
          return server;
        },
      });
      const client = app.client();
      const post = new ForsakenPost(client, client.initializeMessage());
      await reached.promise;
      await post.hangUp();
      await connectionsGone(app);
      go.open();
      await app.settled(NOTHING);
      // The only place is free.
      await app.client().initialize();
      expect(events.map(({ type }) => type)).toEqual(['created']);
    },
  );

  it('S2: an initialize leaves nothing behind when the app has answered in its place', async () => {
    const go = gate();
    const timeout: NestInterceptor = {
      intercept: (_, next) =>
        race(
          next.handle(),
          timer(20).pipe(
            map(() => {
              throw new Error('too slow for this app');
            }),
          ),
        ),
    };
    await start({
      adapter,
      configure: (nest) => void nest.useGlobalInterceptors(timeout),
      server: scripted({}, (server) =>
        server.setRequestHandler('initialize', async () => {
          await go.promise;
          return { protocolVersion: '2025-11-25', capabilities: {}, serverInfo: { name: 'test', version: '1' } };
        }),
      ),
    });
    await expectGenericFailure(await initialize(), 1);
    go.open();
    await app.settled(NOTHING);
  });

  it('S2: an initialize leaves nothing behind when the app is shut down meanwhile', async () => {
    const [reached, go] = [gate(), gate()];
    let made = 0;
    await start({
      adapter,
      server: async () => {
        if (++made === 2) {
          reached.open();
          await go.promise;
        }
        return new Server({ name: 'test', version: '1' }, { capabilities: {} });
      },
    });
    await app.client().initialize();
    const response = initialize();
    await reached.promise;
    const closed = app.shutDown();
    // The end of the other session says that the end has begun.
    await app.settled({ live: 0, sessions: 0 });
    go.open();
    await expectRefusal(await response, { status: 503, code: -32000, id: 1, says: [/shutting down/] });
    await closed;
    await app.settled(NOTHING);
  });
});
