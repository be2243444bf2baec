import type { Server } from '@modelcontextprotocol/server';
import { ResourceTemplate, type McpSessionEvent } from 'nestjs-mcp-streamable';
import type { McpServerContext } from 'nestjs-mcp-streamable/server';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, TestApp, type TestAppOptions, type TestTool } from '../support/app.js';
import { testApps } from '../support/test-apps.js';
import { gists } from '../support/messages.js';
import { LATEST, type RawClient } from '../support/raw-client.js';
import { expectGenericFailure, expectRefusal, NO_SUCH_SESSION } from '../support/refusal.js';
import { scripted, scriptedServer, type ScriptedTool } from '../support/scripted-server.js';
import { as, trustingGuard } from '../support/users.js';

class Docs {
  @ResourceTemplate({ uriTemplate: 'docs:///{name}', name: 'docs' })
  read(): string {
    return 'text';
  }
}

const TOOLS: Record<string, TestTool> = {
  quick: () => 'quick',
  logs: async (_, ctx) => {
    await ctx.log('info', 'for the curious');
    await ctx.log('error', 'for everybody');
  },
  asks: async (_, ctx, sessions) => {
    await sessions.request(ctx.session!.id, { method: 'ping' }, { onprogress: () => {} });
    return 'answered';
  },
  waits: (_, ctx) => new Promise((resolve) => ctx.signal.addEventListener('abort', () => resolve('too late'))),
  who: (_, ctx) => JSON.stringify({ ...ctx.session, capabilities: ctx.clientCapabilities }),
};

const text = async (client: RawClient, tool: string): Promise<string> =>
  (await (await client.call(tool)).json()).result.content[0].text;
const request = async (client: RawClient, method: string, params: object): Promise<void> => {
  await (await client.post({ jsonrpc: '2.0', id: client.nextId(), method, params })).text();
};
/** Subscribes to resources, one of which cannot be subscribed to, and ends one subscription: one and three are left. */
const subscribe = async (client: RawClient, refused: string): Promise<void> => {
  for (const uri of ['docs:///one', refused, 'docs:///two', 'docs:///three'])
    await request(client, 'resources/subscribe', { uri });
  await request(client, 'resources/unsubscribe', { uri: 'docs:///two' });
};
const say = (app: TestApp, client: RawClient, data: unknown) =>
  app.service.notify(client.sessionId!, { method: 'notifications/message', params: { level: 'error', data } });

/** The tool `logs` is heard on the level that the client has set, before and after the session is rebuilt. */
async function expectLogLevelKept(app: TestApp): Promise<void> {
  const client = await app.client().initialize();
  const set = await client.post({ jsonrpc: '2.0', id: 'l', method: 'logging/setLevel', params: { level: 'error' } });
  expect(await set.json()).toEqual({ jsonrpc: '2.0', id: 'l', result: {} });
  const logged = async () => {
    const stream = (await client.call('logs')).sse();
    await stream.end();
    return stream.messages.slice(0, -1).map(({ params }) => params.data);
  };
  expect(await logged()).toEqual(['for everybody']);
  await app.release(client.sessionId!);
  expect(await logged()).toEqual(['for everybody']);
  expect(await app.service.get(client.sessionId!)).toMatchObject({ logLevel: 'error' });
}

/** The tool `asks` asks with another id after the session is rebuilt; an answer to the old id is not taken. */
async function expectFreshIds(app: TestApp, events: readonly McpSessionEvent[]): Promise<void> {
  const client = await app.client().initialize();
  const asked: { id: string; token: string }[] = [];
  const ask = async () => {
    const stream = await (await client.call('asks')).sse().count(1);
    const [{ id, params }] = stream.messages;
    asked.push({ id, token: params._meta.progressToken });
    return stream;
  };
  const before = await ask();
  await app.release(client.sessionId!);
  await before.end();
  const after = await ask();
  expect(new Set(asked.flatMap(({ id, token }) => [id, token])).size).toBe(2);
  // The answer to the old question is not taken for one to the new.
  await client.respond(asked[0]!.id, {});
  await client.notify('notifications/progress', { progressToken: asked[0]!.token, progress: 1 });
  await app.settled({ outbound: 1, inFlight: 1 });
  expect(events.filter(({ type }) => type === 'unknown-response')).toHaveLength(2);
  await client.respond(asked[1]!.id, {});
  await after.end();
  expect(after.messages.at(-1).result.content[0].text).toBe('answered');
  await app.settled({ outbound: 0, inFlight: 0 });
}

describe.each(ONE_ADAPTER)('a session that is rebuilt from its record on %s', (adapter) => {
  let app: TestApp;
  let events: McpSessionEvent[];

  const begin = testApps(adapter, { shared: true, guards: [], tools: TOOLS, providers: [Docs] });
  const start = async (options: Partial<TestAppOptions> = {}): Promise<void> => {
    const its: McpSessionEvent[] = (events = []);
    app = await begin(options);
    app.service.events$.subscribe((event) => its.push(event));
  };
  const rebuilt = () => events.filter(({ type }) => type === 'rebuilt');
  beforeEach(() => start());

  it('rebuild: continues with the next POST, and stays live', async () => {
    const client = await app.client().initialize(LATEST, { roots: { listChanged: true } });
    const before = await text(client, 'who');
    expect(JSON.parse(before)).toMatchObject({
      id: client.sessionId,
      clientInfo: { name: 'raw', version: '1.0.0' },
      capabilities: { roots: { listChanged: true } },
    });
    await app.release(client.sessionId!);
    await app.settled({ sessions: 1, live: 0 });
    expect(await text(client, 'who')).toBe(before);
    expect(await text(client, 'who')).toBe(before);
    expect(events.map(({ type }) => type)).toEqual(['created', 'rebuilt']);
    await app.settled({ sessions: 1, live: 1, logs: 1 });
  });

  it('rebuild: continues with the next GET, which gets the messages sent meanwhile', async () => {
    const client = await app.client().initialize();
    const first = await client.listen();
    await say(app, client, 'before');
    await first.count(1);
    await app.release(client.sessionId!);
    expect(await first.end()).toBe('end');
    await say(app, client, 'meanwhile');
    await app.settled({ live: 0, events: 2 });
    const second = await client.listen();
    await second.count(1);
    await say(app, client, 'after');
    await second.count(2);
    expect([...first.events, ...second.events].map(({ id, message }) => [id, message.params.data])).toEqual([
      ['0_1', 'before'],
      ['0_2', 'meanwhile'],
      ['0_3', 'after'],
    ]);
    await app.settled({ live: 1, readers: 1 });
  });

  it('rebuild: keeps its streams, so that a client can resume one and gets the answer', async () => {
    const client = await app.client().initialize();
    const stream = (await client.call('logs')).sse();
    await stream.end();
    const open = await (await client.call('asks')).sse().count(1);
    await app.release(client.sessionId!);
    await open.end();
    expect(open.messages.at(-1)).toMatchObject({ error: { code: -32000 } });
    const replayed = (await client.get(stream.events[0]!.id)).sse();
    expect(await replayed.end()).toBe('end');
    expect(replayed.events).toEqual(stream.events.slice(1));
    const answer = (await client.get(open.events[0]!.id)).sse();
    expect(await answer.end()).toBe('end');
    expect(answer.events).toEqual(open.events.slice(1));
    // The stream that has nothing more to say says so (G2).
    expect((await client.get(open.events.at(-1)!.id)).status).toBe(405);
  });

  it('S11, rebuild: answers the calls of the live copy that is released, and frees their ids', async () => {
    const client = await app.client().initialize();
    const waiting = client.call('waits', {}, { id: 'w' });
    await app.settled({ inFlight: 1 });
    await app.release(client.sessionId!);
    expect(await (await waiting).json()).toMatchObject({ id: 'w', error: { code: -32000 } });
    expect((await client.call('quick', {}, { id: 'w' })).status).toBe(200);
    await app.settled({ inFlight: 0, streams: 0 });
  });

  it.each(['2025-03-26', '2025-06-18', '2025-11-25'])(
    'S9, rebuild: keeps the negotiated revision %s',
    async (version) => {
      const client = await app.client().initialize(version);
      await app.release(client.sessionId!);
      // Not yet rebuilt: the record says it.
      const wrong = { 'mcp-protocol-version': version === '2025-06-18' ? '2025-11-25' : '2025-06-18' };
      await expectRefusal(await client.post(client.toolCall('quick', {}, { id: 'x' }), wrong), {
        status: 400,
        code: -32000,
        id: 'x',
      });
      await app.settled({ live: 0 });
      expect(JSON.parse(await text(client, 'who'))).toMatchObject({ protocolVersion: version });
      const batch = await client.post([client.toolCall('quick'), client.toolCall('quick')]);
      expect(batch.status).toBe(version === '2025-03-26' ? 200 : 400);
      expect((await client.listen()).primes).toHaveLength(version === '2025-11-25' ? 1 : 0);
    },
  );

  it('S1, rebuild: keeps the negotiated revision, not the requested one', async () => {
    const client = await app.client().initialize('2024-11-05');
    await app.release(client.sessionId!);
    expect(JSON.parse(await text(client, 'who'))).toMatchObject({ protocolVersion: '2025-11-25' });
  });

  it('rebuild: keeps the log level', () => expectLogLevelKept(app));

  it('rebuild: keeps the subscriptions that the client has not ended', async () => {
    const client = await app.client().initialize();
    await subscribe(client, 'other:///one');
    for (let i = 0; i < 2; i++) {
      await app.release(client.sessionId!);
      expect((await app.service.get(client.sessionId!))?.subscriptions).toEqual(['docs:///one', 'docs:///three']);
      const stream = await client.listen();
      const uris = ['docs:///one', 'other:///one', 'docs:///two', 'docs:///three'];
      for (const uri of uris) await app.service.resourceUpdated(uri);
      await stream.count(2);
      expect(stream.messages.map(({ params }) => params.uri)).toEqual(['docs:///one', 'docs:///three']);
    }
    expect(rebuilt()).toHaveLength(2);
  });

  it('rebuild: never uses the id of a server request twice, nor its progress token', () => expectFreshIds(app, events));

  it('rebuild: is rebuilt once, however many requests come at a time', async () => {
    const client = await app.client().initialize();
    await app.release(client.sessionId!);
    const posts = Array.from({ length: 10 }, () => client.call('quick'));
    const gets = [client.listen(), client.listen()];
    const asked = app.service.request(client.sessionId!, { method: 'roots/list' }).catch((error) => error.code);
    for (const post of posts) expect(gists([await (await post).json()])).toEqual(['quick']);
    await Promise.all(gets);
    expect(await asked).toBe('CLIENT_LACKS_CAPABILITY');
    expect(rebuilt()).toHaveLength(1);
    await app.settled({ sessions: 1, live: 1, readers: 2, inFlight: 0 });
  });

  it('S7, rebuild: requests of other principals do not rebuild it', async () => {
    await start({ guards: [trustingGuard] });
    const client = await app.client(as('ann')).initialize();
    await app.release(client.sessionId!);
    client.headers = as('bob');
    await expectRefusal(await client.call('quick', {}, { id: 1 }), { ...NO_SUCH_SESSION, id: 1 });
    await expectRefusal(await client.get(), NO_SUCH_SESSION);
    await expectRefusal(await client.delete(), NO_SUCH_SESSION);
    await app.settled({ sessions: 1, live: 0 });
    expect(rebuilt()).toEqual([]);
    client.headers = as('ann', 'refreshed');
    expect(await text(client, 'quick')).toBe('quick');
    expect(rebuilt()).toHaveLength(1);
  });
});

describe.each(ONE_ADAPTER)('with an SDK server: a session that is rebuilt from its record on %s', (adapter) => {
  let app: TestApp;
  let made: { server: Server; context: McpServerContext }[];
  let events: McpSessionEvent[];

  const tools: Record<string, ScriptedTool> = {
    quick: () => 'quick',
    which: () => `server ${made.length}`,
    logs: async (_, ctx) => {
      await ctx.mcpReq.log('info', 'for the curious');
      await ctx.mcpReq.log('error', 'for everybody');
      return 'done';
    },
    asks: async (_, ctx) => {
      await ctx.mcpReq.send({ method: 'ping' }, { onprogress: () => {} });
      return 'answered';
    },
  };
  const onServer = (server: Server, context: McpServerContext) => void made.push({ server, context });
  const start = async (server: TestAppOptions['server'] = scripted(tools, onServer)): Promise<void> => {
    [made, events] = [[], []];
    app = await TestApp.start({ adapter, server });
    app.service.events$.subscribe((event) => events.push(event));
  };
  afterEach(() => app.close());

  it('rebuild: gets one more server, which knows the client, and stays live', async () => {
    await start();
    const client = await app.client().initialize(LATEST, { roots: { listChanged: true } });
    await app.release(client.sessionId!);
    expect(await text(client, 'which')).toBe('server 2');
    expect(await text(client, 'which')).toBe('server 2');
    expect(made.map(({ context }) => context.session)).toEqual([made[0]!.context.session, made[0]!.context.session]);
    expect(made.map(({ context }) => context.request !== undefined)).toEqual([true, false]);
    expect(made[1]!.server.getClientCapabilities()).toEqual({ roots: { listChanged: true } });
    expect(made[1]!.server.getClientVersion()).toEqual({ name: 'raw', version: '1.0.0' });
  });

  it('rebuild: keeps the log level', async () => {
    await start();
    await expectLogLevelKept(app);
    expect(made).toHaveLength(2);
  });

  it('rebuild: never uses the id of a server request twice, nor its progress token', async () => {
    await start();
    await expectFreshIds(app, events);
  });

  it('rebuild: keeps the subscriptions that the client has not ended: its server hears of them', async () => {
    const subscribed: string[][] = [];
    await start(
      scripted(tools, (server) => {
        const uris: string[] = [];
        subscribed.push(uris);
        server.setRequestHandler('resources/subscribe', ({ params }) => {
          if (params.uri === 'docs:///forbidden') throw new Error('forbidden');
          uris.push(params.uri);
          return {};
        });
      }),
    );
    const client = await app.client().initialize();
    await subscribe(client, 'docs:///forbidden');
    for (let i = 0; i < 2; i++) {
      await app.release(client.sessionId!);
      await (await client.call('quick')).text();
    }
    expect(subscribed).toEqual([
      ['docs:///one', 'docs:///two', 'docs:///three'],
      ['docs:///one', 'docs:///three'],
      ['docs:///one', 'docs:///three'],
    ]);
    expect((await app.service.get(client.sessionId!))?.subscriptions).toEqual(['docs:///one', 'docs:///three']);
  });

  it('rebuild: is rebuilt once, however many requests come at a time', async () => {
    const go = gate();
    await start(async (context) => {
      made.push({ server: scriptedServer(tools, context), context });
      if (made.length > 1) await go.promise;
      return made.at(-1)!.server;
    });
    const client = await app.client().initialize();
    await app.release(client.sessionId!);
    const posts = Array.from({ length: 10 }, () => client.call('which'));
    const gets = [client.listen(), client.listen()];
    const asked = app.service.request(client.sessionId!, { method: 'roots/list' }).catch((error) => error.code);
    await expect.poll(() => made.length).toBe(2);
    go.open();
    for (const post of posts) expect((await (await post).json()).result.content[0].text).toBe('server 2');
    await Promise.all(gets);
    expect(await asked).toBe('CLIENT_LACKS_CAPABILITY');
    expect(made).toHaveLength(2);
    expect(events.filter(({ type }) => type === 'rebuilt')).toHaveLength(1);
    await app.settled({ sessions: 1, live: 1, readers: 2, inFlight: 0 });
  });

  it.each(['factory', 'handler'] as const)(
    'S2, rebuild: a failing %s is one failed request, not the end of the session',
    async (where) => {
      let away = false;
      await start((context) => {
        if (away && where === 'factory') throw new Error('no database today');
        const server = scriptedServer(tools, context);
        if (away)
          server.setRequestHandler('initialize', () => {
            throw new Error('no database today');
          });
        return server;
      });
      const client = await app.client().initialize();
      await say(app, client, 'unread');
      await app.release(client.sessionId!);
      away = true;
      const { message } = await expectGenericFailure(await client.call('quick', {}, { id: 'q' }), 'q');
      expect(message).not.toMatch(/database/);
      // What is in the log needs no server.
      const listening = await client.listen();
      expect((await listening.count(1)).messages[0].params.data).toBe('unread');
      listening.response.destroy();
      away = false;
      expect(await text(client, 'quick')).toBe('quick');
      await app.settled({ sessions: 1, live: 1, inFlight: 0, readers: 0, logs: 1 });
      expect(events.filter(({ type }) => type === 'closed')).toEqual([]);
    },
  );

  it('S12, rebuild: ends also while it is being rebuilt', async () => {
    const [begun, go] = [gate(), gate()];
    await start(async (context) => {
      if (context.request === undefined) {
        begun.open();
        await go.promise;
      }
      return scriptedServer(tools, context);
    });
    const client = await app.client().initialize();
    await app.release(client.sessionId!);
    const [post, get] = [client.call('quick', {}, { id: 'p' }), client.get()];
    await begun.promise;
    expect((await client.delete()).status).toBe(204);
    go.open();
    expect(await (await post).json()).toMatchObject({ id: 'p', error: { code: -32000 } });
    await (await get).text();
    await app.settled({ sessions: 0, live: 0, streams: 0, readers: 0, logs: 0, timers: 0 });
  });
});
