import { logsTwice, scripted } from '../support/scripted-server.js';
import type { Server } from '@modelcontextprotocol/server';
import type { McpSessionRecord } from 'nestjs-mcp-streamable/stores';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestAppOptions, type TestTool } from '../support/app.js';
import { double } from '../support/doubles.js';
import { gists } from '../support/messages.js';
import { at, Deployment, type Member } from '../support/nodes.js';
import { LATEST, type RawClient } from '../support/raw-client.js';
import { eventually } from '../support/test-apps.js';
import { AnyResource } from '../support/test-tools.js';

const IDLE_MS = 600_000;

const logs: TestTool = async (_, ctx) => {
  await ctx.log('info', 'an info');
  await ctx.log('error', 'an error');
  return 'logged';
};

const ofAnotherVersion = (record: McpSessionRecord | undefined) => record && { ...record, format: record.format! + 1 };

describe.each(ONE_ADAPTER)('changes that a node misses while it rebuilds a session, on %s', (adapter) => {
  let deployment: Deployment;
  let clock: ManualClock;
  let said: string[];

  beforeEach(() => {
    [clock, said] = [new ManualClock(), []];
    deployment = new Deployment(clock);
  });
  afterEach(() => deployment.close());

  const start = (name: string, options: Partial<TestAppOptions> = {}): Promise<Member> =>
    deployment.member({
      adapter,
      idleTimeoutMs: IDLE_MS,
      sseAfterMs: 3_600_000,
      tools: { logs, quick: () => name },
      providers: [AnyResource],
      ...options,
    });
  /** Of an SDK server, which notes its subscriptions. */
  const serverOf = (name: string) =>
    scripted({ logs: logsTwice, quick: () => name }, (server) => {
      const say = (what: string) => {
        said.push(`${name} ${what}`);
        return {};
      };
      server.setRequestHandler('resources/subscribe', ({ params: { uri } }) => say(`+${uri}`));
      server.setRequestHandler('resources/unsubscribe', ({ params: { uri } }) => say(`-${uri}`));
    });
  const send = async (to: RawClient, method: string, params: object): Promise<unknown> =>
    (await (await to.post({ jsonrpc: '2.0', id: `${method} ${JSON.stringify(params)}`, method, params })).json())
      .result;

  const startServer: typeof start = (name, options) =>
    start(name, { server: serverOf(name), tools: {}, providers: [], ...options });
  /** Sets a level and subscribes on one node while another one rebuilds the session: both have effect there too. */
  const expectBothChanges = async (startOne: typeof start, subscribed: () => Promise<void>): Promise<void> => {
    const hold = gate();
    const { sessionStore } = deployment;
    let read = 0;
    const slow = double(sessionStore, {
      touch: async (id) => {
        read++;
        await hold.promise;
        return sessionStore.touch(id);
      },
    });
    const [a, b] = [await startOne('a'), await startOne('b', { sessionStore: slow })];
    const client = await a.app.client().initialize(LATEST);
    const there = at(b.app, client);
    const first = there.call('quick', {}, { id: 'first' });
    await eventually(() => expect(read).toBe(1));
    expect(await send(client, 'logging/setLevel', { level: 'error' })).toEqual({});
    expect(await send(client, 'resources/subscribe', { uri: 'doc:1' })).toEqual({});
    hold.open();
    expect(gists([await (await first).json()])).toEqual(['b']);
    await clock.advance(0);
    await subscribed();
    const call = (await there.call('logs', {}, { id: 'l' })).sse();
    await call.end();
    expect(gists(call.messages)).toEqual(['an error', 'logged']);
  };

  it('nodes: a change that comes while another node rebuilds the session has effect there too', () =>
    expectBothChanges(start, async () => {
      const there = deployment.members[1]!.app;
      const [session] = await there.service.list();
      expect(session!.subscriptions).toEqual(['doc:1']);
      expect(await there.service.resourceUpdated('doc:1')).toBe(1);
    }));

  it('nodes: a change that comes while a node compares its session with the record has effect', async () => {
    const hold = gate();
    const { sessionStore } = deployment;
    let read = 0;
    const slow = double(sessionStore, {
      get: async (id) => {
        const record = await sessionStore.get(id);
        read++;
        await hold.promise;
        return record;
      },
    });
    const { app, bus } = await start('a', { sessionStore: slow });
    const client = await app.client().initialize(LATEST);
    await send(client, 'logging/setLevel', { level: 'debug' });
    bus.reconnect();
    await eventually(() => expect(read).toBe(1));
    expect(await send(client, 'logging/setLevel', { level: 'error' })).toEqual({});
    hold.open();
    await clock.advance(0);
    const call = (await client.call('logs')).sse();
    await call.end();
    expect(gists(call.messages)).toEqual(['an error', 'logged']);
  });

  it('S18: nodes: a session of another version is unknown, is not written, and can be ended', async () => {
    const { sessionStore } = deployment;
    /** The records as they are for a node whose sessions have another format. */
    const others = double(sessionStore, {
      get: async (id) => ofAnotherVersion(await sessionStore.get(id)),
      list: async (filter) => (await sessionStore.list(filter)).map((record) => ofAnotherVersion(record)!),
    });
    const [a, b] = [await start('a'), await start('b', { sessionStore: others })];
    const client = await a.app.client().initialize(LATEST);
    await send(client, 'resources/subscribe', { uri: 'doc:1' });
    const there = at(b.app, client);
    for (const response of [
      await there.call('quick'),
      await there.get(),
      await there.get('0_0'),
      await there.delete(),
    ]) {
      expect([response.status, await response.text()]).toEqual([404, expect.stringContaining('Session not found')]);
    }
    const { service } = b.app;
    expect([await service.list(), await service.get(client.sessionId!)]).toEqual([[], undefined]);
    const before = await deployment.eventStore.stats();
    expect(await service.notify(client.sessionId!, { method: 'notifications/message' })).toBe(0);
    expect(await service.resourceUpdated('doc:1')).toBe(0);
    expect(await deployment.eventStore.stats()).toEqual(before);
    expect(gists([await (await client.call('quick')).json()])).toEqual(['a']);
    expect(await service.terminate(client.sessionId!)).toBe(true);
    expect((await client.call('quick')).status).toBe(404);
  });

  it('nodes: a session of a dead node expires on a node that does not know it', async () => {
    const [a, b] = [await start('a'), await start('b')];
    b.bus.fate = () => 'lost';
    await a.app.client().initialize(LATEST);
    await deployment.stop(a);
    b.bus.reconnect();
    await clock.advance(2 * IDLE_MS);
    await b.app.settled({ sessions: 0, logs: 0, timers: 0 });
  });

  describe('with an SDK server', () => {
    it('nodes: a change that comes while another node rebuilds the session has effect there too', () =>
      expectBothChanges(startServer, () =>
        eventually(() => expect(said.toSorted()).toEqual(['a +doc:1', 'b +doc:1'])),
      ));

    it('nodes: an answer that comes while another node rebuilds the session reaches the handler that asked there', async () => {
      const answered: unknown[] = [];
      const asks = (server: Server) => {
        server.oninitialized = () => void server.listRoots().then(({ roots }) => answered.push(roots));
      };
      const [a, b] = [await startServer('a'), await startServer('b', { server: scripted({ quick: () => 'b' }, asks) })];
      const client = await a.app.client().initialize(LATEST, { roots: {} });
      const listening = await client.listen();
      const first = at(b.app, client).call('quick', {}, { id: 'first' });
      await listening.count(1);
      await client.respond(listening.messages[0].id, { roots: [] });
      expect(gists([await (await first).json()])).toEqual(['b']);
      await eventually(() => expect(answered).toEqual([[]]));
      listening.destroy();
    });

    it('nodes: a change that is not in the record yet is not overwritten by an older record', async () => {
      const a = await startServer('a');
      const client = await a.app.client().initialize(LATEST);
      a.backend.refuse('patch');
      const setting = send(client, 'resources/subscribe', { uri: 'doc:1' });
      await eventually(() => expect(said).toEqual(['a +doc:1']));
      a.bus.reconnect();
      await clock.advance(5_000);
      a.backend.back();
      await clock.advance(2_000);
      expect(await setting).toEqual({});
      await clock.advance(0);
      expect(said).toEqual(['a +doc:1']);
      expect((await a.app.service.get(client.sessionId!))?.subscriptions).toEqual(['doc:1']);
    });
  });
});
