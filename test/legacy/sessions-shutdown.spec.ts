import type { McpSessionEvent } from 'nestjs-mcp-streamable';
import {
  InMemoryEventStore,
  InMemorySessionStore,
  type McpEventStore,
  type McpSessionStore,
} from 'nestjs-mcp-streamable/stores';
import { afterEach, describe, expect, it } from 'vitest';
import { gate, ONE_ADAPTER, TestApp, type TestAppOptions, type TestTool } from '../support/app.js';
import { double, shared } from '../support/doubles.js';
import { Deployment } from '../support/nodes.js';
import { RawClient } from '../support/raw-client.js';
import { scripted } from '../support/scripted-server.js';
import { eventually } from '../support/test-apps.js';
import { TrackedClock } from '../support/tracked-clock.js';

const NOTHING = {
  sessions: 0,
  live: 0,
  inFlight: 0,
  outbound: 0,
  streams: 0,
  readers: 0,
  logs: 0,
  events: 0,
  openResponses: 0,
  timers: 0,
};
const error = (message: RegExp) => ({ error: { code: -32000, message: expect.stringMatching(message) } });
const ENDED = error(/shutting down.*Start a new session, and repeat the request/);
/** Another node has the session. */
const REPEATABLE = error(/shutting down (?!.*session).*Repeat it/);

describe.each(ONE_ADAPTER)('shutdown on %s', (adapter) => {
  let app: TestApp;
  let events: McpSessionEvent[];
  let aborted: number;

  const waits: TestTool = async ({ talk }, ctx) => {
    if (talk) await ctx.log('info', 'begun');
    await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
    aborted++;
    return 'too late';
  };
  const start = async (options: Partial<TestAppOptions> = {}): Promise<void> => {
    [events, aborted] = [[], 0];
    app = await TestApp.start({
      adapter,
      port: true,
      tools: { waits, quick: () => 'quick' },
      ...options,
    });
    app.service.events$.subscribe((event) => events.push(event));
  };
  const stores = () => {
    const clock = new TrackedClock();
    return { clock, sessionStore: new InMemorySessionStore(clock), eventStore: new InMemoryEventStore({}, clock) };
  };
  /** A session with everything that can be open. @returns settles when all of it has ended as it should */
  const busySession = async (ended = ENDED): Promise<{ client: RawClient; over: Promise<void> }> => {
    const client = await app.client().initialize();
    const undecided = client.call('waits', {}, { id: 1 });
    const streaming = await (await client.call('waits', { talk: true }, { id: 2 })).sse().count(1);
    const standalone = await client.listen();
    await app.settled({ inFlight: 2, readers: 2 });
    const over = async (): Promise<void> => {
      expect(await (await undecided).json()).toMatchObject({ id: 1, ...ended });
      expect(await streaming.end()).toBe('end');
      expect(streaming.messages.at(-1)).toMatchObject({ id: 2, ...ended });
      expect(await standalone.end()).toBe('end');
      expect(aborted).toBe(2);
    };
    return { client, over: over() };
  };
  afterEach(() => app.close());

  it('S15: a shutdown answers open calls, ends streams, and leaves nothing of sessions in memory', async () => {
    await start();
    const { client, over } = await busySession();
    const forgotten = await app.client().initialize();
    await app.release(forgotten.sessionId!);
    await app.shutDown();
    await over;
    await app.settled(NOTHING);
    const closed = events.filter(({ type }) => type === 'closed');
    expect(closed).toHaveLength(2);
    for (const { sessionId } of [client, forgotten]) {
      expect(closed).toContainEqual({ type: 'closed', sessionId, reason: 'shutdown' });
    }
  });

  it('S15: a shutdown keeps the records of a shared session store, and drops the logs of its node', async () => {
    const { clock, sessionStore, eventStore } = stores();
    const requestStateKeys = ['x'.repeat(32)];
    await start({
      clock,
      sessionStore: shared<McpSessionStore>(sessionStore),
      eventStore,
      drainMs: 0,
      requestStateKeys,
    });
    const { client, over } = await busySession(REPEATABLE);
    await app.shutDown();
    await over;
    await app.settled({ ...NOTHING, sessions: 1 });
    expect(await sessionStore.get(client.sessionId!)).toMatchObject({ id: client.sessionId });
    await sessionStore.delete(client.sessionId!);
  });

  it('S15: a shutdown drops the logs in a shared event store when the records were in memory', async () => {
    const { clock, sessionStore, eventStore } = stores();
    await start({ clock, sessionStore, eventStore: shared<McpEventStore>(eventStore) });
    const { over } = await busySession();
    await app.shutDown();
    await over;
    await app.settled(NOTHING);
  });

  it('S15: sessions in shared stores survive a restart, unread messages included', async () => {
    const deployment = new Deployment();
    app = await deployment.node({ adapter, tools: { quick: () => 'quick' } });
    const client = await app.client().initialize('2025-06-18');
    const stream = await client.listen();
    const say = (data: string) =>
      app.service.notify(client.sessionId!, { method: 'notifications/message', params: { level: 'info', data } });
    await say('read');
    await stream.count(1);
    await app.shutDown();
    expect(await stream.end()).toBe('end');
    expect(await app.service.get(client.sessionId!)).toBeDefined();

    app = await deployment.node({ adapter, tools: { quick: () => 'quick again' } });
    await app.settled({ sessions: 1, live: 0, logs: 1, events: 1 });
    const later = new RawClient(app.url);
    [later.sessionId, later.protocolVersion] = [client.sessionId, client.protocolVersion];
    expect((await (await later.call('quick')).json()).result.content[0].text).toBe('quick again');
    await say('unread');
    const again = await (await later.listen()).count(1);
    expect(again.events.map(({ id, message }) => [id, message.params.data])).toEqual([['0_2', 'unread']]);
    expect((await later.delete()).status).toBe(204);
    await again.end();
  });

  it('S15: a shutdown answers open calls also while the stores are unavailable', async () => {
    const { clock, sessionStore, eventStore } = stores();
    let away = false;
    const gone = () => Promise.reject(new Error('away'));
    await start({
      clock,
      sessionStore: double<McpSessionStore>(sessionStore, {
        list: (...of) => (away ? gone() : sessionStore.list(...of)),
      }),
      eventStore: double<McpEventStore>(eventStore, { drop: (...of) => (away ? gone() : eventStore.drop(...of)) }),
    });
    const { client, over } = await busySession();
    away = true;
    await app.shutDown();
    await over;
    await app.settled({ live: 0, inFlight: 0, streams: 0, readers: 0, openResponses: 0 });
    expect(events.filter(({ type }) => type === 'store-fault')).toHaveLength(2);
    away = false;
    await sessionStore.delete(client.sessionId!);
    await eventStore.drop(client.sessionId!);
  });

  it('E13: a GET whose log is read while the node stops gets 503', async () => {
    const { clock, sessionStore, eventStore } = stores();
    const hold = gate();
    let reads = 0;
    const slow = double<McpEventStore>(eventStore, {
      read: async (...of) => {
        const found = await eventStore.read(...of);
        reads++;
        await hold.promise;
        return found;
      },
    });
    await start({ clock, sessionStore, eventStore: slow });
    const client = await app.client().initialize();
    const answer = client.get();
    await eventually(() => expect(reads).toBe(1));
    const stopped = app.shutDown();
    await app.settled({ live: 0 });
    hold.open();
    expect((await answer).status).toBe(503);
    await stopped;
  });

  it('S15: a shutdown that is asked for twice happens once', async () => {
    await start();
    const { over } = await busySession();
    await Promise.all([app.shutDown(), app.shutDown()]);
    await over;
    await app.settled(NOTHING);
    expect(events.filter(({ type }) => type === 'closed')).toHaveLength(1);
  });

  describe('with an SDK server: its close', () => {
    it('S14: a server that is closed while the session store is unavailable still ends its session', async () => {
      const { clock, sessionStore, eventStore } = stores();
      let away = false;
      const remove = (id: string) => (away ? Promise.reject(new Error('away')) : sessionStore.delete(id));
      let close!: () => Promise<void>;
      await start({
        clock,
        eventStore,
        sessionStore: double<McpSessionStore>(sessionStore, { delete: remove }),
        tools: {},
        server: scripted({}, (server) => (close = () => server.close())),
      });
      const client = await app.client().initialize();
      const stream = await client.listen();
      away = true;
      await close();
      expect(await stream.end()).toBe('end');
      expect((await client.call('quick')).status).toBe(404);
      expect(events.filter(({ type }) => type === 'store-fault')).toHaveLength(1);
      // What could not be removed then can be removed now.
      away = false;
      expect(await app.service.terminate(client.sessionId!)).toBe(true);
      await app.settled(NOTHING);
    });
  });
});
