import type { McpSessionEvent } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestApp, type TestAppOptions, type TestTool } from '../support/app.js';
import { LATEST } from '../support/raw-client.js';
import { eventually, recordedEvents, testApps } from '../support/test-apps.js';
import { as, trustingGuard } from '../support/users.js';

const note = (data: unknown) => ({ method: 'notifications/message', params: { level: 'info', data } });

/** The ends of sessions are tested in the files about these ends. */
describe.each(ONE_ADAPTER)('events$ on %s', (adapter) => {
  let app: TestApp;
  const clock = new ManualClock();
  let events: McpSessionEvent[];
  let release: ReturnType<typeof gate<void>>;

  const tools: Record<string, TestTool> = {
    quick: () => 'quick',
    talks: async (_, ctx) => {
      await ctx.log('info', 'one');
      await release.promise;
      return 'said';
    },
    saysLater: (_, ctx, sessions) => {
      void release.promise.then(async () => {
        await ctx.log('info', 'late');
        await ctx.notify('notifications/progress', { progressToken: 1, progress: 1 });
        await sessions.request(ctx.session!.id, { method: 'ping' }).catch(() => {});
      });
      return 'answered';
    },
  };
  const begin = testApps(adapter, { shared: true, guards: [], clock, tools });
  const start = async (options: Partial<TestAppOptions> = {}): Promise<void> => {
    release = gate();
    app = await begin(options);
    events = recordedEvents(app);
  };
  /** The events of these types, without the session they are about. */
  const heard = (...types: McpSessionEvent['type'][]) =>
    events.filter(({ type }) => types.includes(type)).map(({ sessionId: _, ...rest }) => rest);
  beforeEach(() => start());

  it('events report who has begun a session, and that it has ended', async () => {
    await start({ guards: [trustingGuard] });
    const client = await app.client(as('ann')).initialize('2025-06-18', { roots: {} });
    const { sessionId } = client;
    await (await client.delete()).text();
    await app.settled({ logs: 0 });
    const session = {
      id: sessionId,
      principal: 'ann',
      protocolVersion: '2025-06-18',
      clientInfo: { name: 'raw', version: '1.0.0' },
      clientCapabilities: { roots: {} },
    };
    expect(events).toEqual([
      { type: 'created', sessionId, session },
      { type: 'closed', sessionId, reason: 'deleted' },
    ]);
  });

  it('an event reports that a session was rebuilt', async () => {
    const ofOneNode: McpSessionEvent[] = [];
    app.service.events$.subscribe((event) => ofOneNode.push(event));
    const client = await app.client().initialize(LATEST);
    await app.release(client.sessionId!);
    await (await client.call('quick')).text();
    const [created, rebuilt] = ofOneNode as { session?: unknown }[];
    expect(rebuilt).toEqual({ type: 'rebuilt', sessionId: client.sessionId, session: created!.session });
  });

  it('events report when a stream gets a reader, and when it loses one', async () => {
    const client = await app.client().initialize();
    const standalone = await client.listen();
    const stream = await (await client.call('talks')).sse().count(1);
    const streamId = stream.events[0]!.id!.split('_')[0]!;
    const opened = ['0', streamId].map((streamId) => ({ type: 'stream-attached', streamId }));
    expect(heard('stream-attached', 'stream-detached')).toEqual(opened);
    standalone.destroy();
    await app.settled({ readers: 1 });
    release.open();
    await stream.end();
    const closed = ['0', streamId].map((streamId) => ({ type: 'stream-detached', streamId }));
    expect(heard('stream-attached', 'stream-detached')).toEqual([...opened, ...closed]);
  });

  it('G7: an event reports that a newer reader has replaced one', async () => {
    const client = await app.client().initialize();
    const streams = [await client.listen(), await client.listen()];
    await eventually(() => expect(heard('reader-replaced')).toEqual([{ type: 'reader-replaced', streamId: '0' }]));
    await clock.advance(15_000);
    expect(await streams[0]!.end()).toBe('end');
    expect(heard('stream-attached', 'stream-detached').map(({ type }) => type)).toEqual([
      'stream-attached',
      'stream-attached',
      'stream-detached',
    ]);
    streams[1]!.destroy();
  });

  it('P8: events report which messages were late, and whether they were delivered or dropped', async () => {
    const client = await app.client().initialize();
    await (await client.call('saysLater', {}, { id: 'c' })).text();
    release.open();
    await expect.poll(() => heard('late-message')).toHaveLength(3);
    const late = { type: 'late-message', requestId: 'c' };
    expect(heard('late-message')).toEqual([
      { ...late, method: 'notifications/message', disposition: 'standalone' },
      { ...late, method: 'notifications/progress', disposition: 'dropped' },
      { ...late, method: 'ping', disposition: 'refused' },
    ]);
  });

  it('P1: an event reports an answer of a client to an unknown request', async () => {
    const client = await app.client().initialize();
    await client.respond('nobody asked', {});
    await client.notify('notifications/progress', { progressToken: '__proto__', progress: 1 });
    await (await client.post({ jsonrpc: '2.0', error: { code: -32700, message: 'what?' } })).text();
    expect(heard('unknown-response')).toEqual([
      { type: 'unknown-response', requestId: 'nobody asked' },
      { type: 'unknown-response', requestId: undefined },
      { type: 'unknown-response', requestId: undefined },
    ]);
  });

  it('G6: an event reports that a client resumed at evicted events', async () => {
    await start({ clock: new ManualClock(), eventLog: { maxEvents: 100 } });
    const client = await app.client().initialize();
    for (let i = 1; i <= 103; i++) await app.service.notify(client.sessionId!, note(i));
    const stream = await (await client.listen('0_1')).count(100);
    expect(stream.events[0]!.id).toBe('0_4');
    expect(heard('events-evicted')).toEqual([{ type: 'events-evicted', streamId: '0', after: 1, oldest: 4 }]);
  });

  it('events$ completes with the app, once', async () => {
    let completed = 0;
    app.service.events$.subscribe({ complete: () => completed++ });
    const client = await app.client().initialize();
    const stream = await client.listen();
    await app.shutDown();
    await stream.end();
    expect(completed).toBe(1);
    expect(heard('closed')).toEqual([{ type: 'closed', reason: 'shutdown' }]);
    const late: unknown[] = [];
    app.service.events$.subscribe({ complete: () => late.push('completed') });
    expect(late).toEqual(['completed']);
  });
});
