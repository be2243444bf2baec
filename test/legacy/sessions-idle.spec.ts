import type { McpSessionEvent } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { ONE_ADAPTER, gate, type TestApp, type TestAppOptions, NOTHING } from '../support/app.js';
import { expectRefusal, NO_SUCH_SESSION } from '../support/refusal.js';
import { ForsakenPost, connectionsGone } from '../support/raw-socket.js';
import { recordedEvents, testApps } from '../support/test-apps.js';

const IDLE = 60_000;
/** A session ends at the first look after its time, and looks are a tenth of it apart. */
const LOOK = IDLE / 10;

describe.each(ONE_ADAPTER)('idle sessions on %s', (adapter) => {
  let app: TestApp;
  let events: McpSessionEvent[];
  let release: ReturnType<typeof gate<void>>;
  const clock = new ManualClock();
  const waits = () => release.promise.then(() => 'waited');
  const launch = testApps(adapter, {
    shared: true,
    clock,
    idleTimeoutMs: IDLE,
    tools: { quick: () => 'quick', waits },
  });

  const start = async (options: Partial<TestAppOptions> = {}): Promise<void> => {
    release = gate();
    app = await launch(options);
    events = recordedEvents(app);
  };
  const ends = (): McpSessionEvent[] => events.filter(({ type }) => type === 'closed');

  it('S13: a session without activity ends as by DELETE', async () => {
    await start();
    const client = await app.client().initialize();
    await app.service.notify(client.sessionId!, {
      method: 'notifications/message',
      params: { level: 'info', data: 1 },
    });
    await clock.advance(IDLE - 1);
    await app.settled({ sessions: 1, live: 1, events: 1 });
    await clock.advance(LOOK);
    await app.settled({ ...NOTHING, events: 0 });
    expect(ends()).toEqual([{ type: 'closed', sessionId: client.sessionId, reason: 'idle' }]);
    await expectRefusal(await client.call('quick', {}, { id: 1 }), { ...NO_SUCH_SESSION, id: 1 });
    await expectRefusal(await client.get('0_0'), NO_SUCH_SESSION);
    await expectRefusal(await client.delete(), NO_SUCH_SESSION);
    await client.initialize();
  });

  it.each<[string, (client: Awaited<ReturnType<TestApp['client']>>) => Promise<unknown>]>([
    ['a request', async (client) => (await client.call('quick')).text()],
    ['a notification', (client) => client.notify('notifications/whatever')],
    ['a response', (client) => client.respond('nobody-asked', {})],
    ['a stream that is opened and closed', async (client) => (await client.listen()).destroy()],
  ])('S13: %s counts as activity', async (_, sign) => {
    await start();
    const client = await app.client().initialize();
    for (let i = 0; i < 5; i++) {
      await clock.advance(IDLE - 1);
      await sign(client);
      await app.settled({ readers: 0 });
    }
    await clock.advance(IDLE - 1);
    await app.settled({ sessions: 1, live: 1 });
    await clock.advance(2 * LOOK);
    await app.settled(NOTHING);
    expect(ends()).toHaveLength(1);
  });

  it('S13: a request that is refused does not count as activity', async () => {
    await start();
    const client = await app.client().initialize();
    await clock.advance(IDLE - 1);
    const stranger = app.client({ 'mcp-session-id': client.sessionId!, 'mcp-protocol-version': 'nonsense' });
    await expectRefusal(await stranger.call('quick', {}, { id: 1 }), { status: 400, code: -32000, id: 1 });
    await clock.advance(LOOK);
    await app.settled(NOTHING);
  });

  it.each(['auto', 'sse'] as const)(
    'S13: a running call keeps its session, client gone or not (%s)',
    async (responseMode) => {
      await start({ responseMode });
      const client = await app.client().initialize();
      const post = new ForsakenPost(client, client.toolCall('waits'));
      await app.settled({ inFlight: 1, readers: responseMode === 'sse' ? 1 : 0 });
      await post.hangUp();
      await connectionsGone(app);
      await app.settled({ inFlight: 1, readers: 0 });
      await clock.advance(10 * IDLE);
      await app.settled({ sessions: 1, live: 1, inFlight: 1 });
      // Idle from now on.
      release.open();
      await app.settled({ inFlight: 0 });
      await clock.advance(IDLE - LOOK - 1);
      await app.settled({ sessions: 1, live: 1 });
      await clock.advance(2 * LOOK + 1);
      await app.settled(NOTHING);
    },
  );

  it('S13: an open stream keeps its session, which is idle from the end of the stream', async () => {
    await start();
    const client = await app.client().initialize();
    const stream = await client.listen();
    await clock.advance(10 * IDLE);
    await app.settled({ sessions: 1, live: 1, readers: 1 });
    stream.destroy();
    await app.settled({ readers: 0 });
    await clock.advance(IDLE - LOOK - 1);
    await app.settled({ sessions: 1, live: 1 });
    await clock.advance(2 * LOOK + 1);
    await app.settled(NOTHING);
  });

  it('S13: sessions that are idle end, and no other', async () => {
    await start();
    const idle = await Promise.all(Array.from({ length: 10 }, () => app.client().initialize()));
    const active = await Promise.all(Array.from({ length: 10 }, () => app.client().initialize()));
    await clock.advance(IDLE / 2);
    for (const client of active) await (await client.call('quick')).text();
    await clock.advance(IDLE / 2 + LOOK);
    await app.settled({ sessions: 10, live: 10, logs: 10 });
    for (const client of idle) expect((await client.delete()).status).toBe(404);
    for (const client of active) expect((await client.call('quick')).status).toBe(200);
    const ended = new Set(ends().map(({ sessionId }) => sessionId));
    expect(ended).toEqual(new Set(idle.map(({ sessionId }) => sessionId!)));
  });

  it('S13: a session whose live copy was released ends too', async () => {
    await start();
    const client = await app.client().initialize();
    await app.service.notify(client.sessionId!, {
      method: 'notifications/message',
      params: { level: 'info', data: 1 },
    });
    await app.release(client.sessionId!);
    await app.settled({ sessions: 1, live: 0, logs: 1 });
    await clock.advance(IDLE + LOOK);
    await app.settled({ ...NOTHING, events: 0 });
    expect(ends()).toEqual([{ type: 'closed', sessionId: client.sessionId, reason: 'idle' }]);
  });

  it('S13: an ended session makes room for another', async () => {
    await start({ maxSessions: 1 });
    await app.client().initialize();
    const other = app.client();
    await expectRefusal(await other.post(other.initializeMessage()), { status: 503, code: -32000, id: 1 });
    await clock.advance(IDLE + LOOK);
    await other.initialize();
    await app.settled({ sessions: 1, live: 1 });
  });

  describe('with nothing sent after "initialize"', () => {
    const MINUTE = 60_000;
    /** The default of `keepAliveMs`, in which there is a look. */
    const LATEST = MINUTE + 15_000;

    const unused = async () => {
      await start({ idleTimeoutMs: 30 * MINUTE });
      const client = app.client();
      const response = await client.post(client.initializeMessage());
      await response.text();
      client.sessionId = response.header('mcp-session-id');
      return client;
    };

    it('S13: a session ends after a minute', async () => {
      const client = await unused();
      await clock.advance(MINUTE - 1);
      await app.settled({ sessions: 1, live: 1 });
      await clock.advance(LATEST - MINUTE + 1);
      await app.settled(NOTHING);
      expect(ends()).toEqual([{ type: 'closed', sessionId: client.sessionId, reason: 'idle' }]);
      await expectRefusal(await client.call('quick', {}, { id: 1 }), { ...NO_SUCH_SESSION, id: 1 });
    });

    it.each<[string, (client: Awaited<ReturnType<TestApp['client']>>) => Promise<unknown>]>([
      ['notifications/initialized', (client) => client.notify('notifications/initialized')],
      ['a request', async (client) => (await client.call('quick')).text()],
      ['a GET', async (client) => (await client.listen()).destroy()],
    ])('S13: %s within the minute gives a session the whole idle timeout', async (_, send) => {
      const client = await unused();
      await clock.advance(MINUTE - 1);
      await send(client);
      await app.settled({ readers: 0 });
      await clock.advance(30 * MINUTE - LATEST);
      await app.settled({ sessions: 1, live: 1 });
      expect((await client.call('quick')).status).toBe(200);
    });

    it('S13: a notification of the server does not count as use of a session', async () => {
      const client = await unused();
      const notification = { method: 'notifications/message', params: { level: 'info', data: 1 } };
      expect(await app.service.notify(client.sessionId!, notification)).toBe(1);
      await clock.advance(LATEST);
      await app.settled({ ...NOTHING, events: 0 });
    });
  });

  it('S13: without a timeout no session ends by itself', async () => {
    await start({ idleTimeoutMs: Infinity });
    const client = await app.client().initialize();
    await clock.advance(24 * 3_600_000);
    expect((await client.call('quick')).status).toBe(200);
  });

  it('S16: sessions that come and go leave no timer', async () => {
    await start();
    for (let i = 0; i < 3; i++) {
      const client = await app.client().initialize();
      await app.settled({ sessions: 1, timers: 0 });
      await client.delete();
      await app.settled(NOTHING);
    }
  });
});
