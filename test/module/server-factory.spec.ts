import { createRequire } from 'node:module';
import { McpServer, Server } from '@modelcontextprotocol/server';
import { McpStreamableModule, type McpStreamableOptions } from 'nestjs-mcp-streamable';
import { McpServer as OwnMcpServer, Server as OwnServer, type McpServerContext } from 'nestjs-mcp-streamable/server';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, TestApp, serverInfo, whoami } from '../support/app.js';
import { expectGenericFailure } from '../support/refusal.js';
import { serverSaying } from '../support/scripted-server.js';
import { sharedApp } from '../support/test-apps.js';

/** The same package, loaded a second time: as a CommonJS app gets it. */
const foreign = createRequire(import.meta.url)('@modelcontextprotocol/server') as {
  McpServer: typeof McpServer;
  Server: typeof Server;
};

type Factory = NonNullable<McpStreamableOptions['server']>;

/** Servers that are connected to something already. */
async function connected(): Promise<McpServer> {
  const server = new McpServer(serverInfo);
  const transport = { start: () => Promise.resolve(), send: () => Promise.resolve(), close: () => Promise.resolve() };
  await server.connect(transport);
  return server;
}

describe.each(ONE_ADAPTER)('the option server on %s', (adapter) => {
  let app: TestApp;
  let factory: Factory;
  const launch = sharedApp(() => {
    const endpoint = McpStreamableModule.forRoot({ serverInfo, server: (context) => factory(context) });
    return TestApp.of(adapter, { imports: [endpoint] });
  });

  async function start(server: Factory): Promise<void> {
    factory = server;
    app = await launch();
  }
  const initialize = () => {
    const client = app.client();
    return client.post(client.initializeMessage());
  };

  const lowLevel = (ServerClass: typeof Server) => () => {
    const server = new ServerClass(serverInfo, { capabilities: { tools: {} } });
    server.setRequestHandler('tools/call', () => ({ content: [{ type: 'text' as const, text: 'me' }] }));
    return server;
  };

  it.each<[string, Factory]>([
    ['an McpServer', () => serverSaying(() => 'me')],
    ['a Server', lowLevel(Server)],
    ["this package's Server", lowLevel(OwnServer)],
    ['a promise', () => Promise.resolve(serverSaying(() => 'me'))],
    ['an instance of a subclass', lowLevel(class extends Server {})],
  ])('the option server may return %s', async (_, server) => {
    await start(server);
    expect(await whoami(await app.client().initialize())).toBe('me');
    expect(OwnMcpServer).toBe(McpServer);
  });

  it('the option server is called once per session, with whom it is for and the request that began it', async () => {
    const contexts: McpServerContext[] = [];
    await start((context) => {
      contexts.push(context);
      return serverSaying(() => context.session!.id);
    });
    const one = await app.clientAt('mcp', { 'x-tenant': 'acme' }).initialize('2025-06-18', { roots: {} });
    const two = await app.client().initialize();
    for (const client of [one, two, one]) expect(await whoami(client)).toBe(client.sessionId);
    expect(contexts.map(({ session }) => session)).toEqual([
      {
        id: one.sessionId,
        principal: undefined,
        protocolVersion: '2025-06-18',
        clientInfo: { name: 'raw', version: '1.0.0' },
        clientCapabilities: { roots: {} },
      },
      expect.objectContaining({ id: two.sessionId, protocolVersion: '2025-11-25' }),
    ]);
    const { headers } = contexts[0]!.request as { headers: Record<string, string> };
    expect(headers['x-tenant']).toBe('acme');
  });

  const ofForeign = (ServerClass: 'McpServer' | 'Server') => () => new foreign[ServerClass](serverInfo) as never;

  it.each<[string, Factory, RegExp]>([
    ['a server that is already connected', connected, /"server".*already connected.*new server/s],
    ['the McpServer of another copy of the SDK', ofForeign('McpServer'), /"server".*another copy.*nestjs-mcp-stream/s],
    ['the Server of another copy of the SDK', ofForeign('Server'), /"server".*another copy.*single copy/s],
    ['nothing', (() => undefined) as never, /"server" must return a new McpServer.*nothing/s],
    ['null', (() => null) as never, /"server" must return a new McpServer.*null/s],
    ['a class instead of an instance', (() => McpServer) as never, /"server" must return a new McpServer/s],
    ['something else', (() => ({ name: 'x' })) as never, /"server" must return a new McpServer.*\{"name":"x"\}/s],
    [
      'an error',
      () => {
        throw new Error('the database at db.internal is down');
      },
      /^the database at db\.internal is down$/,
    ],
    [
      'a rejection',
      () => Promise.reject(new Error('the database at db.internal is down')),
      /^the database at db\.internal is down$/,
    ],
    [
      'something thrown that is no error',
      () => {
        // oxlint-disable-next-line typescript/only-throw-error, eslint/no-throw-literal -- as applications do
        throw 'just so';
      },
      /^just so$/,
    ],
  ])(
    'the option server that returns %s fails for the client in general, for the log in particular',
    async (_, server, says) => {
      await start(server);
      const { message } = await expectGenericFailure(await initialize(), 1);
      expect(message).not.toMatch(/db\.internal|McpServer|"server"/);
      expect(app.log.texts('error')).toEqual([expect.stringMatching(says)]);
      expect(await app.service.counts()).toMatchObject({ sessions: 0, live: 0, streams: 0, logs: 0 });
    },
  );

  it('the option server that returns one server for all serves one session, and fails for the next', async () => {
    const only = serverSaying(() => 'me');
    await start(() => only);
    const client = await app.client().initialize();
    await expectGenericFailure(await initialize(), 1);
    expect(app.log.texts('error')).toEqual([expect.stringContaining('already connected')]);
    expect(await whoami(client)).toBe('me');
    await client.delete();
    // It is free again.
    await app.client().initialize();
  });

  it('the option server that returns one server for two sessions at once fails for one of them', async () => {
    const { promise, open } = gate();
    const only = serverSaying(() => 'me');
    await start(async () => {
      await promise;
      return only;
    });
    const pending = [initialize(), initialize()];
    open();
    const responses = await Promise.all(pending);
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200, 500]));
    expect(await app.service.counts()).toMatchObject({ sessions: 1, live: 1, logs: 1 });
  });

  it('the option server whose server refuses to be connected leaves nothing behind', async () => {
    await start(() => {
      const server = new Server(serverInfo, { capabilities: {} });
      server.connect = () => Promise.reject(new Error('not connected today'));
      return server;
    });
    await expectGenericFailure(await initialize(), 1);
    expect(app.log.texts('error')).toEqual(['not connected today']);
    expect(await app.service.counts()).toMatchObject({ sessions: 0, live: 0, streams: 0, logs: 0 });
  });

  it('the option server that works again after a failure serves again', async () => {
    let works = false;
    await start(() => {
      if (!works) throw new Error('not yet');
      return serverSaying(() => 'me');
    });
    await expectGenericFailure(await initialize(), 1);
    works = true;
    expect(await whoami(await app.client().initialize())).toBe('me');
  });
});
