import type { CanActivate } from '@nestjs/common';
import type { ServerContext } from '@modelcontextprotocol/server';
import type { McpServerRequestError } from 'nestjs-mcp-streamable';
import { McpServer, type McpServerFunction, Server } from 'nestjs-mcp-streamable/server';
import { beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestApp, type TestAppOptions } from '../support/app.js';
import { eventually, recordedEvents, testApps } from '../support/test-apps.js';
import { gists } from '../support/messages.js';
import { ModernClient } from '../support/modern-client.js';
import { expectGenericFailure, expectRefusal } from '../support/refusal.js';
import { as } from '../support/users.js';
import { ownServer, type MadeServer, type Served } from './sessions-off.tools.js';
import { ForsakenPost } from '../support/raw-socket.js';

const NOTHING = { inFlight: 0, openResponses: 0, timers: 0, sessions: 0, streams: 0 };
const info = { name: 'own', version: '1.0.0' };
const said = (text: unknown) => ({ content: [{ type: 'text' as const, text: String(text) }] });

describe.each(ONE_ADAPTER)("S17: an application's own server without sessions, on %s", (adapter) => {
  const begin = testApps(adapter, { shared: true, sessions: 'off' });
  let made: MadeServer[];
  let served: Served;
  beforeEach(() => {
    made = [];
    served = ownServer(made);
  });
  const start = (options: Partial<TestAppOptions> = {}): Promise<TestApp> => begin({ ...served.options, ...options });
  /** One server with the tool that the test gives. */
  const withTool =
    (tool: (ctx: ServerContext, server: McpServer) => unknown): McpServerFunction =>
    () => {
      const server = new McpServer(info, { capabilities: { logging: {} } });
      server.registerTool('tool', {}, async (ctx) => said(await tool(ctx, server)));
      return server;
    };

  it('an application’s own server without sessions serves one request with its caller, and is closed after it', async () => {
    const app = await start();
    const [anna, nobody] = [app.client(as('anna')), app.client()];
    await (await anna.post(anna.initializeMessage())).text();
    await anna.notify('notifications/initialized');
    expect(gists([await (await anna.call('who')).json(), await (await nobody.call('who')).json()])).toEqual([
      '[null,"anna"]',
      '[null,null]',
    ]);
    expect(made.map(({ context: { era, session, principal } }) => [era, session, principal])).toEqual([
      ['legacy', undefined, 'anna'],
      ['legacy', undefined, 'anna'],
      ['legacy', undefined, undefined],
    ]);
    expect(made.map(({ context }) => (context.request as { method: string }).method)).toEqual(['POST', 'POST', 'POST']);
    expect(made.every(({ closed }) => closed)).toBe(true);
    await app.settled(NOTHING);
  });

  it('an application’s own server without sessions is made for each request of a batch', async () => {
    const app = await start();
    const client = app.client();
    const names = ['a', 'b', 'c'];
    const posted = client.post(names.map((name) => client.toolCall('waits', { name }, { id: name })));
    await Promise.all(names.map((name) => served.stage.entered(name)));
    expect(made.map(({ closed }) => closed)).toEqual([false, false, false]);
    for (const name of names.toReversed()) served.stage.release(name, `said ${name}`);
    expect(gists(await (await posted).json())).toEqual(['said c', 'said b', 'said a']);
    expect(made.map(({ closed }) => closed)).toEqual([true, true, true]);
  });

  it('an application’s own server without sessions is not made for methods that need a session', async () => {
    const app = await start();
    const client = app.client();
    const response = await client.post({
      jsonrpc: '2.0',
      id: 1,
      method: 'logging/setLevel',
      params: { level: 'info' },
    });
    expect((await response.json()).error.code).toBe(-32601);
    expect(made).toEqual([]);
  });

  it('an application’s own server without sessions declares its capabilities except those of sessions', async () => {
    const app = await start();
    const client = app.client();
    const { result } = await (await client.post(client.initializeMessage())).json();
    expect(result).toEqual({
      protocolVersion: '2025-11-25',
      serverInfo: info,
      capabilities: { tools: {}, resources: {}, completions: {}, experimental: { a: { b: 1 } } },
    });
  });

  it('an application’s own server without sessions may be a low-level one, and may be made asynchronously by the factory', async () => {
    const server: McpServerFunction = ({ principal }) => {
      const own = new Server(info, { capabilities: { tools: {} } });
      own.setRequestHandler('tools/call', ({ params }) => said(`${principal} ${String(params.arguments?.['n'])}`));
      return Promise.resolve(own);
    };
    const app = await start({ server });
    const calls = [1, 2, 3].map(async (n) => (await app.client(as(`user${n}`)).call('any', { n })).json());
    expect(gists(await Promise.all(calls))).toEqual(['user1 1', 'user2 2', 'user3 3']);
  });

  it('an application’s own server without sessions gives its handlers the values that SDK middleware has set on the request, in both eras', async () => {
    const authorize: CanActivate = {
      canActivate: (context) => {
        context.switchToHttp().getRequest().auth = { token: 'secret', clientId: 'app', scopes: ['read'] };
        return true;
      },
    };
    const server: McpServerFunction = () => {
      const own = new McpServer(info, { supportedProtocolVersions: ['2025-11-25', '2026-07-28'] });
      own.registerTool('tool', {}, ({ http }) => said(http?.authInfo?.scopes));
      return own;
    };
    const app = await start({ server, guards: [authorize] });
    const answers = [await (await app.client().call('tool')).json()];
    answers.push(await new ModernClient(app.url).ask('tools/call', { name: 'tool', arguments: {} }));
    expect(gists(answers)).toEqual(['read', 'read']);
  });

  it('an application’s own server without sessions is missing when its factory fails: the operator gets the error, the client a generic one', async () => {
    const app = await start({ server: () => Promise.reject(new Error('no database')) });
    const client = app.client();
    await expectGenericFailure(await client.call('who', {}, { id: 8 }), 8);
    await expectGenericFailure(await client.post(client.initializeMessage()), 1);
    expect(app.log.texts('error').join()).toContain('no database');
    await app.settled(NOTHING);
  });

  it('an application’s own server without sessions is refused for a second request while the first one uses it', async () => {
    const one = await served.options.server!({} as never);
    const app = await start({ server: () => one });
    const client = app.client();
    const posted = client.post(client.toolCall('waits', { name: 'a' }));
    await served.stage.entered('a');
    await expectGenericFailure(await client.call('echo', {}, { id: 7 }), 7);
    served.stage.release('a', 'unharmed');
    expect(gists([await (await posted).json()])).toEqual(['unharmed']);
    expect(app.log.texts('error').join()).toContain('once per request');
  });

  it('an application’s own server without sessions fails at once with a typed error when it asks the client', async () => {
    const failures: unknown[] = [];
    const server = withTool(async ({ mcpReq }, own) => {
      const asked = [
        mcpReq.send({ method: 'roots/list' }),
        own.server.ping(),
        own.server.request({ method: 'sampling/createMessage', params: { messages: [], maxTokens: 1 } }),
      ];
      for (const one of await Promise.allSettled(asked))
        failures.push((one as { reason?: McpServerRequestError }).reason);
      return 'not asked';
    });
    const app = await start({ server });
    expect(gists([await (await app.client().call('tool')).json()])).toEqual(['not asked']);
    const failed = { name: 'McpServerRequestError', code: 'NO_STREAM' };
    expect(failures).toMatchObject([failed, failed, failed]);
    await app.settled(NOTHING);
  });

  it('an application’s own server without sessions has its messages after the answer dropped', async () => {
    const go = gate();
    const over = gate<string[]>();
    const server = withTool(({ mcpReq }, own) => {
      void go.promise.then(async () => {
        const progress = { method: 'notifications/progress', params: { progressToken: 1, progress: 1 } } as const;
        const late = [mcpReq.notify(progress), own.server.sendToolListChanged(), mcpReq.send({ method: 'ping' })];
        over.open((await Promise.allSettled(late)).map(({ status }) => status));
      });
      return 'early';
    });
    const app = await start({ server });
    const events = recordedEvents(app);
    expect(gists([await (await app.client().call('tool')).json()])).toEqual(['early']);
    go.open();
    expect(await over.promise).toEqual(['fulfilled', 'fulfilled', 'rejected']);
    expect(events.map(({ type }) => type)).toEqual(['late-message']);
    await app.settled(NOTHING);
  });

  it('an application’s own server without sessions answers with an error when its handler closes it', async () => {
    const server = withTool(async (_, own) => {
      await own.close();
      return 'never heard';
    });
    const app = await start({ server });
    const { error } = await (await app.client().call('tool')).json();
    expect(error.message).toContain('closed');
    await app.settled(NOTHING);
  });

  it('an application’s own server without sessions serves nothing to a client that leaves while it is being made', async () => {
    const making = gate();
    const go = gate();
    const { server } = served.options;
    const app = await start({
      server: async (context) => {
        making.open();
        await go.promise;
        return server!(context);
      },
    });
    const client = app.client();
    const posted = new ForsakenPost(client, client.toolCall('waits', { name: 'a' }));
    await making.promise;
    await posted.hangUp();
    await app.settled({ inFlight: 0 });
    go.open();
    await eventually(() => expect(made.map(({ closed }) => closed)).toEqual([true]));
    expect(served.stage.left).toEqual([]);
    await app.settled(NOTHING);
  });

  it('S15: an application’s own server without sessions serves no request when the app stops while it is being made', async () => {
    const making = gate();
    const go = gate();
    const { server } = served.options;
    const app = await start({
      server: async (context) => {
        making.open();
        await go.promise;
        return server!(context);
      },
    });
    const posted = app.client().call('echo', {}, { id: 1 });
    await making.promise;
    const closing = app.shutDown();
    await eventually(() => expect(app.service.accepting).toBe(false));
    go.open();
    await expectRefusal(await posted, { status: 503, code: -32000, id: 1 });
    await closing;
    await eventually(() => expect(made.map(({ closed }) => closed)).toEqual([true]));
    await app.settled(NOTHING);
  });
});
