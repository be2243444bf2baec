import { currentMcpCall, type McpSessionEvent, type McpSessionService } from 'nestjs-mcp-streamable';
import { McpEventLogFullError, InMemoryEventStore, type McpEventStore } from 'nestjs-mcp-streamable/stores';
import { beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestApp, type TestTool, type TestAppOptions } from '../support/app.js';
import { double } from '../support/doubles.js';
import { LATEST } from '../support/raw-client.js';
import { recordedEvents, testApps } from '../support/test-apps.js';
import { TrackedClock } from '../support/tracked-clock.js';
import { as, trustingGuard } from '../support/users.js';

const note = (data: unknown) => ({ method: 'notifications/message', params: { level: 'info', data } });

describe.each(ONE_ADAPTER)('McpSessionService on %s', (adapter) => {
  let app: TestApp;
  let events: McpSessionEvent[];
  let release: ReturnType<typeof gate<void>>;

  /** Something of the app that knows nothing of MCP but the service. */
  const deepBelow = async (
    service: McpSessionService,
    to: Parameters<McpSessionService['notify']>[0],
    data: unknown,
  ): Promise<number> => {
    await new Promise(setImmediate);
    return service.notify(to, note(data));
  };
  const tools: Record<string, TestTool> = {
    quick: () => 'quick',
    notifies: async ({ to, data }, _, sessions) => String(await deepBelow(sessions, String(to), data)),
    notifiesMe: async ({ data }, _, sessions) => String(await deepBelow(sessions, currentMcpCall()!.session!.id, data)),
    notifiesAll: async ({ data }, _, sessions) => String(await deepBelow(sessions, () => true, data)),
    notifiesLate: (_, __, sessions) => {
      const { id } = currentMcpCall()!.session!;
      void release.promise.then(() => deepBelow(sessions, id, 'late'));
      return 'answered';
    },
  };
  const begin = testApps(adapter, { shared: true, guards: [], tools });
  const start = async (options: Partial<TestAppOptions> = {}): Promise<void> => {
    release = gate();
    app = await begin(options);
    events = recordedEvents(app);
  };
  const dataOf = (messages: { params?: { data: unknown } }[]) => messages.map(({ params }) => params?.data);
  beforeEach(() => start());

  it('list() and get() return all sessions with their principals, oldest first', async () => {
    await start({ guards: [trustingGuard] });
    const ann = await app.client(as('ann')).initialize(LATEST, { roots: {} });
    const bob = await app.client(as('bob')).initialize('2025-03-26');
    const nobody = await app.client().initialize();
    const annAgain = await app.client(as('ann', 'other')).initialize();
    await app.release(bob.sessionId!);

    const ids = async (filter?: { principal: string | null }) => (await app.service.list(filter)).map(({ id }) => id);
    expect(await ids()).toEqual([ann, bob, nobody, annAgain].map(({ sessionId }) => sessionId));
    expect(await ids({ principal: 'ann' })).toEqual([ann.sessionId, annAgain.sessionId]);
    expect(await ids({ principal: 'bob' })).toEqual([bob.sessionId]);
    expect(await ids({ principal: null })).toEqual([nobody.sessionId]);
    expect(await ids({ principal: 'constructor' })).toEqual([]);

    expect(await app.service.get(ann.sessionId!)).toMatchObject({
      id: ann.sessionId,
      principal: 'ann',
      protocolVersion: LATEST,
      clientInfo: { name: 'raw', version: '1.0.0' },
      clientCapabilities: { roots: {} },
      subscriptions: [],
      createdAt: expect.any(Number),
      lastSeenAt: expect.any(Number),
    });
    for (const id of ['never-was', '__proto__', 'constructor', '']) expect(await app.service.get(id)).toBeUndefined();
    await (await ann.delete()).text();
    expect(await ids({ principal: 'ann' })).toEqual([annAgain.sessionId]);
  });

  it('counts() returns the current numbers', async () => {
    const client = await app.client().initialize();
    expect(await app.service.counts()).toEqual({
      sessions: 1,
      live: 1,
      inFlight: 0,
      outbound: 0,
      streams: 0,
      readers: 0,
      subscriptions: 0,
      tasks: 0,
      heldBytes: 0,
      logs: 1,
      loggedStreams: 0,
      events: 0,
      bytes: 0,
    });
    await client.listen();
    await app.service.notify(client.sessionId!, note('one'));
    const message = JSON.stringify({ jsonrpc: '2.0', ...note('one') });
    expect(await app.service.counts()).toEqual({
      sessions: 1,
      live: 1,
      inFlight: 0,
      outbound: 0,
      streams: 1,
      readers: 1,
      subscriptions: 0,
      tasks: 0,
      heldBytes: 0,
      logs: 1,
      loggedStreams: 1,
      events: 1,
      bytes: message.length * 2,
    });
  });

  it('notify() reaches a client that listens, on the standalone stream', async () => {
    const client = await app.client().initialize();
    const stream = await client.listen();
    expect(await app.service.notify(client.sessionId!, note('hello'))).toBe(1);
    await stream.count(1);
    expect(stream.messages).toEqual([{ jsonrpc: '2.0', ...note('hello') }]);
    expect(stream.events[0]!.id).toBe('0_1');
  });

  it('notify() keeps its message for a client that does not listen', async () => {
    const client = await app.client().initialize();
    expect(await app.service.notify(client.sessionId!, note('to a live session'))).toBe(1);
    await app.release(client.sessionId!);
    expect(await app.service.notify(client.sessionId!, note('to a record'))).toBe(1);
    await app.settled({ live: 0, streams: 0, events: 2 });
    const stream = await (await client.listen()).count(2);
    expect(dataOf(stream.messages)).toEqual(['to a live session', 'to a record']);
    await app.service.notify(client.sessionId!, note('to a rebuilt session'));
    await stream.count(3);
    expect(stream.events.map(({ id }) => id)).toEqual(['0_1', '0_2', '0_3']);
  });

  it('notify() returns 0 for an unknown session', async () => {
    const client = await app.client().initialize();
    await (await client.delete()).text();
    for (const id of [client.sessionId!, 'never-was', '__proto__', 'constructor']) {
      expect(await app.service.notify(id, note('nobody'))).toBe(0);
    }
    await app.settled({ logs: 0, events: 0, streams: 0 });
  });

  it('notify() reaches the sessions that a predicate picks', async () => {
    await start({ guards: [trustingGuard] });
    const clients = [];
    for (const user of ['ann', 'bob', 'ann', 'bob']) clients.push(await app.client(as(user)).initialize());
    const streams = await Promise.all(clients.map((client) => client.listen()));
    await app.release(clients[3]!.sessionId!);
    await streams[3]!.end();
    const asked: (string | undefined)[] = [];
    const isBob = ({ principal }: { principal: string | undefined }): boolean => {
      asked.push(principal);
      return principal === 'bob';
    };
    expect(await app.service.notify(isBob, note('for bob'))).toBe(2);
    expect(asked).toEqual(['ann', 'bob', 'ann', 'bob']);
    expect(await app.service.notify(() => true, note('for all'))).toBe(4);
    expect(await app.service.notify(() => false, note('for none'))).toBe(0);
    streams[3] = await clients[3]!.listen();
    const expected = [['for all'], ['for bob', 'for all'], ['for all'], ['for bob', 'for all']];
    for (const [i, stream] of streams.entries()) {
      await stream.count(expected[i]!.length);
      expect(dataOf(stream.messages)).toEqual(expected[i]);
    }
  });

  it('notify() makes the JSON of a notification once, however many sessions get it', async () => {
    const clients = [];
    for (let n = 0; n < 3; n++) clients.push(await app.client().initialize());
    const streams = await Promise.all(clients.map((client) => client.listen()));
    let made = 0;
    const data = { toJSON: () => `made ${++made}` };
    expect(await app.service.notify(() => true, note(data))).toBe(3);
    for (const stream of streams) {
      await stream.count(1);
      expect(dataOf(stream.messages)).toEqual(['made 1']);
    }
    await expect(app.service.notify(() => true, note(1n))).rejects.toThrow(TypeError);
    expect(await app.service.notify(() => false, note(1n))).toBe(0);
  });

  it('P6: notify() inside a call travels with the call', async () => {
    const client = await app.client().initialize();
    const standalone = await client.listen();
    const stream = (await client.call('notifiesMe', { data: 'beside the answer' }, { id: 'c' })).sse();
    expect(await stream.end()).toBe('end');
    expect(stream.messages).toMatchObject([
      note('beside the answer'),
      { id: 'c', result: { content: [{ text: '1' }] } },
    ]);
    // What is sent outside of the call comes first on the standalone stream: nothing was before it.
    await app.service.notify(client.sessionId!, note('apart'));
    expect(dataOf((await standalone.count(1)).messages)).toEqual(['apart']);
  });

  it('P6: notify() inside a call of another session goes to that session’s standalone stream', async () => {
    const [one, other] = [await app.client().initialize(), await app.client().initialize()];
    const standalone = await other.listen();
    const response = await one.call('notifies', { to: other.sessionId, data: 'from the other' });
    expect((await response.json()).result.content[0].text).toBe('1');
    expect(dataOf((await standalone.count(1)).messages)).toEqual(['from the other']);
  });

  it('P6: notify() of all, inside a call, travels with the call for its own session only', async () => {
    const clients = [await app.client().initialize(), await app.client().initialize(), await app.client().initialize()];
    const [, second, third] = await Promise.all(clients.map((client) => client.listen()));
    const stream = (await clients[0]!.call('notifiesAll', { data: 'everybody' })).sse();
    await stream.end();
    expect(dataOf(stream.messages.slice(0, -1))).toEqual(['everybody']);
    expect(stream.messages.at(-1).result.content[0].text).toBe('3');
    for (const standalone of [second!, third!])
      expect(dataOf((await standalone.count(1)).messages)).toEqual(['everybody']);
    expect((await app.service.counts()).events).toBe(4);
  });

  it('P8: notify() after its call was answered goes to the standalone stream, and events$ reports it', async () => {
    const client = await app.client().initialize();
    const standalone = await client.listen();
    expect((await client.call('notifiesLate', {}, { id: 'c' })).header('content-type')).toMatch('application/json');
    release.open();
    expect(dataOf((await standalone.count(1)).messages)).toEqual(['late']);
    expect(events.filter(({ type }) => type === 'late-message')).toEqual([
      {
        type: 'late-message',
        sessionId: client.sessionId,
        requestId: 'c',
        method: 'notifications/message',
        disposition: 'standalone',
      },
    ]);
  });

  it('P3: notify() inside a call that is answered as JSON goes to the standalone stream', async () => {
    await start({ responseMode: 'json' });
    const client = await app.client().initialize();
    const standalone = await client.listen();
    const response = await client.call('notifiesMe', { data: 'apart' });
    expect((await response.json()).result.content[0].text).toBe('1');
    expect(dataOf((await standalone.count(1)).messages)).toEqual(['apart']);
  });

  it('notify() of one session rejects when its log refuses, and one of many leaves that session out', async () => {
    const clock = new TrackedClock();
    const store = new InMemoryEventStore({}, clock);
    let full: string | undefined;
    const append: McpEventStore['append'] = (...of) =>
      of[0] === full ? Promise.reject(new McpEventLogFullError(of[1], 'maxEvents')) : store.append(...of);
    await start({ clock, eventStore: double<McpEventStore>(store, { append }) });
    const [one, other] = [await app.client().initialize(), await app.client().initialize()];
    full = one.sessionId;
    await expect(app.service.notify(one.sessionId!, note('lost'))).rejects.toMatchObject({ code: 'EVENT_LOG_FULL' });
    expect(await app.service.notify(() => true, note('for the other'))).toBe(1);
    full = undefined;
    expect(await app.service.notify(one.sessionId!, note('for this one'))).toBe(1);
    expect(dataOf((await (await one.listen()).count(1)).messages)).toEqual(['for this one']);
    expect(dataOf((await (await other.listen()).count(1)).messages)).toEqual(['for the other']);
    expect(events.filter((event) => event.type === 'store-fault' && event.fatal)).toHaveLength(2);
  });
});
