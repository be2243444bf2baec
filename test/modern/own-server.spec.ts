import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import type { ServerContext } from '@modelcontextprotocol/server';
import { createRequire } from 'node:module';
import {
  LEGACY_REVISIONS,
  McpServer,
  MODERN_REVISIONS,
  Server,
  type McpServerContext,
  type McpServerFunction,
} from 'nestjs-mcp-streamable/server';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ONE_ADAPTER, gate, type TestApp, type TestAppOptions, NOTHING } from '../support/app.js';
import { gists, log } from '../support/messages.js';
import { eventually, testApps } from '../support/test-apps.js';
import { ModernClient, MODERN } from '../support/modern-client.js';
import { RecordedLog } from '../support/recorded-log.js';
import { expectGenericFailure, expectRefusal } from '../support/refusal.js';
import { as, trustingGuard } from '../support/users.js';
import { forsakenCall } from '../support/raw-socket.js';
import { loneFetch } from '../support/ways.js';

const info = { name: 'own', version: '1.0.0' };
const supportedProtocolVersions = [...LEGACY_REVISIONS, ...MODERN_REVISIONS];
const LATE = { level: 'info', data: 'late' } as const;
/** The same package, loaded a second time: as a CommonJS app gets it. */
const foreign = createRequire(import.meta.url)('@modelcontextprotocol/server') as { McpServer: typeof McpServer };

describe.each(ONE_ADAPTER)("an application's own server for modern requests, on %s", (adapter) => {
  const begin = testApps(adapter, { shared: true, guards: [trustingGuard] });
  let contexts: McpServerContext[];
  let closed: number;
  let log$: RecordedLog;
  let hold: ReturnType<typeof gate<void>>;
  let entered: ReturnType<typeof gate<AbortSignal>>;
  let outcome: ReturnType<typeof gate<string[]>>;
  const official: Client[] = [];
  beforeEach(() => {
    [contexts, closed, hold, entered, outcome] = [[], 0, gate(), gate(), gate()];
    log$ = new RecordedLog();
  });
  afterEach(async () => {
    for (const client of official.splice(0)) await client.close();
    log$.release();
  });
  const start = async (server: McpServerFunction, options: Partial<TestAppOptions> = {}): Promise<TestApp> => {
    const counted: McpServerFunction = async (context) => {
      contexts.push(context);
      const made = await server(context);
      const low = made instanceof McpServer ? made.server : made;
      const { onclose } = low;
      low.onclose = () => {
        closed++;
        onclose?.();
      };
      return made;
    };
    const app = await begin({ server: counted, ...options });
    log$.attach(app.app);
    return app;
  };

  const mcpServer: McpServerFunction = ({ principal }) => {
    const server = new McpServer(info, { capabilities: { logging: {} }, supportedProtocolVersions });
    server.registerTool('who', { inputSchema: z.object({ n: z.number().optional() }) }, ({ n }) => ({
      content: [{ type: 'text', text: `${principal} ${n}` }],
    }));
    server.registerTool('talks', {}, async (ctx) => {
      await ctx.mcpReq.notify(log('a word'));
      entered.open(ctx.mcpReq.signal);
      await hold.promise;
      return { content: [{ type: 'text', text: 'said' }] };
    });
    const late = async (ctx: ServerContext): Promise<void> => {
      await hold.promise;
      const said = [ctx.mcpReq.notify(log('late')), ctx.mcpReq.log('info', 'late'), server.sendLoggingMessage(LATE)];
      outcome.open((await Promise.allSettled(said)).map(({ status }) => status));
    };
    server.registerTool('late', {}, (ctx) => {
      void late(ctx);
      return { content: [{ type: 'text', text: 'early' }] };
    });
    server.registerTool('heedless', {}, async (ctx) => {
      entered.open(ctx.mcpReq.signal);
      await late(ctx);
      return { content: [] };
    });
    return server;
  };
  const lowLevel: McpServerFunction = ({ principal }) => {
    const server = new Server(info, { capabilities: { tools: {} }, supportedProtocolVersions });
    server.setRequestHandler('tools/call', ({ params }) => ({
      content: [{ type: 'text' as const, text: `${principal} ${String(params.arguments?.['n'])}` }],
    }));
    return server;
  };
  const autoClient = async (app: TestApp) => {
    const client = new Client(info, { versionNegotiation: { mode: 'auto' } });
    official.push(client);
    const transport = new StreamableHTTPClientTransport(new URL(app.url), { fetch: loneFetch });
    await client.connect(transport);
    return { client, transport };
  };

  it.each([
    ['McpServer', mcpServer],
    ['Server', lowLevel],
  ])('server: an %s serves one request with its caller, and is closed after it', async (_, server) => {
    const app = await start(server);
    const answers = await Promise.all(
      Array.from({ length: 20 }, async (__, n) => {
        const user = ['anna', 'bert'][n % 2]!;
        const client = new ModernClient(app.url, as(user));
        const { id, result } = await client.ask('tools/call', { name: 'who', arguments: { n } }, { id: 1 });
        return [id, result.content[0].text];
      }),
    );
    expect(answers).toEqual(Array.from({ length: 20 }, (__, n) => [1, `${['anna', 'bert'][n % 2]} ${n}`]));
    expect(contexts).toHaveLength(20);
    for (const context of contexts) {
      expect(context).toMatchObject({ era: 'modern', session: undefined });
      expect(app.nodes.map(({ service }) => service)).toContain(context.sessions);
      expect((context.request as { headers: object }).headers).toMatchObject({ 'mcp-method': 'tools/call' });
    }
    await eventually(() => expect(closed).toBe(20));
    await app.settled(NOTHING);
  });

  it('server: server/discover returns the name and the capabilities of the server', async () => {
    const app = await start(mcpServer);
    const { result } = await new ModernClient(app.url).ask('server/discover');
    expect(result.capabilities).toMatchObject({ tools: {}, logging: {} });
    expect(result._meta['io.modelcontextprotocol/serverInfo']).toMatchObject(info);
    await eventually(() => expect(closed).toBe(1));
  });

  it('server: the server of a request is closed however the request ends', async () => {
    const app = await start(mcpServer);
    const client = new ModernClient(app.url);
    await (await client.request('no/such')).text();
    await (await client.call('none')).text();
    await eventually(() => expect(closed).toBe(2));
    const posted = forsakenCall(client, 'talks');
    const signal = await entered.promise;
    await posted.hangUp();
    await eventually(() => expect([closed, signal.aborted]).toEqual([3, true]));
    entered = gate();
    const stream = await (await client.call('talks', {}, { logLevel: 'info' })).sse().count(1);
    await entered.promise;
    stream.destroy();
    await eventually(() => expect(closed).toBe(4));
    await app.settled(NOTHING);
  });

  it('server: the messages of a server for its request are on the stream of that request', async () => {
    const app = await start(mcpServer);
    hold.open();
    const stream = (await new ModernClient(app.url).call('talks', {}, { logLevel: 'info' })).sse();
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['a word', 'said']);
  });

  it('P8: messages of its handlers after the answer, or without a client, are dropped without an error', async () => {
    const app = await start(mcpServer);
    const client = new ModernClient(app.url);
    const response = await client.call('late', {}, { logLevel: 'info' });
    expect(gists([await response.json()])).toEqual(['early']);
    await eventually(() => expect(closed).toBe(1));
    hold.open();
    // A rejection that nobody awaits would end the process.
    expect(await outcome.promise).toEqual(['fulfilled', 'fulfilled', 'fulfilled']);

    [hold, outcome] = [gate(), gate()];
    const posted = forsakenCall(client, 'heedless', { logLevel: 'info' });
    await entered.promise;
    await posted.hangUp();
    await eventually(() => expect(closed).toBe(2));
    hold.open();
    expect(await outcome.promise).toEqual(['fulfilled', 'fulfilled', 'fulfilled']);
    await app.settled(NOTHING);
  });

  it('server: a session of the same endpoint has a server of its own until the session ends', async () => {
    const app = await start(mcpServer);
    const legacy = await app.client(as('anna')).initialize();
    await new ModernClient(app.url, as('bert')).ask('tools/call', { name: 'who', arguments: {} });
    for (const n of [1, 2]) expect(gists([await (await legacy.call('who', { n })).json()])).toEqual([`anna ${n}`]);
    expect(contexts.map(({ era, principal }) => [era, principal])).toEqual([
      ['legacy', 'anna'],
      ['modern', 'bert'],
    ]);
    expect(closed).toBe(1);
  });

  it('M3: a server that was not made for the revision refuses with those that it serves, and one warning is logged', async () => {
    const app = await start(() => new McpServer(info));
    const client = new ModernClient(app.url);
    for (let n = 1; n <= 3; n++) {
      const response = await client.request('server/discover', {}, { id: n });
      const { data } = await expectRefusal(response, { status: 400, code: -32022, id: n, says: [MODERN] });
      expect(data).toEqual({ supported: LEGACY_REVISIONS, requested: MODERN });
    }
    expect(closed).toBe(3);
    const warnings = log$.texts('warn').filter((text) => text.includes('supportedProtocolVersions'));
    // In each process.
    expect(warnings).toHaveLength(app.nodes.length);
    await app.settled(NOTHING);
  });

  it('M3: the official client that negotiates its era falls back to a session with a server that lacks the revision', async () => {
    const app = await start(() => {
      const server = new McpServer(info);
      server.registerTool('who', {}, () => ({ content: [{ type: 'text', text: 'an old one' }] }));
      return server;
    });
    const { client, transport } = await autoClient(app);
    expect(client.getNegotiatedProtocolVersion()).toBe('2025-11-25');
    expect(transport.sessionId).toBeDefined();
    expect(gists([{ result: await client.callTool({ name: 'who' }) }])).toEqual(['an old one']);
    await app.service.terminateAll();
  });

  it('M1: the official client that negotiates its era needs no session with a server that has the revision', async () => {
    const app = await start(mcpServer);
    const { client, transport } = await autoClient(app);
    expect([client.getNegotiatedProtocolVersion(), transport.sessionId]).toEqual([MODERN, undefined]);
    const result = await client.callTool({ name: 'who', arguments: { n: 1 } });
    expect(gists([{ result }])).toEqual(['undefined 1']);
  });

  it.each<[string, McpServerFunction, string]>([
    ['throws', () => Promise.reject(new Error('no database')), 'no database'],
    ['returns something else', () => ({}) as never, 'must return a new McpServer'],
    ['returns one of another copy of the SDK', () => new foreign.McpServer(info), 'another copy'],
  ])(
    'server: the error of a factory that %s is reported to the operator, not to the client',
    async (_, server, says) => {
      const app = await begin({ server });
      log$.attach(app.app);
      const response = await new ModernClient(app.url).request('tools/list', {}, { id: 8 });
      await expectGenericFailure(response, 8);
      expect(log$.texts('error').join()).toContain(says);
      await app.settled(NOTHING);
    },
  );

  it('server: one and the same server for two requests is refused while the first one uses it', async () => {
    const one = (await mcpServer({} as never)) as McpServer;
    const app = await begin({ server: () => one });
    log$.attach(app.app);
    const client = new ModernClient(app.url);
    const stream = await (await client.call('talks', {}, { logLevel: 'info' })).sse().count(1);
    await expectGenericFailure(await client.request('tools/list', {}, { id: 2 }), 2);
    expect(log$.texts('error').join()).toContain('already connected');
    hold.open();
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['a word', 'said']);
  });

  it('S15: a server that is being created when the app stops serves no request', async () => {
    const making = gate();
    const made = gate();
    const app = await start(async (context) => {
      making.open();
      await made.promise;
      return mcpServer(context);
    });
    const posted = new ModernClient(app.url).call('talks', {}, { id: 1 });
    await making.promise;
    const closing = app.shutDown();
    await eventually(() => expect(app.service.accepting).toBe(false));
    made.open();
    await expectRefusal(await posted, { status: 503, code: -32000, id: 1 });
    await closing;
    await eventually(() => expect(closed).toBe(1));
    await app.settled(NOTHING);
  });

  it('P4: the server of a client that leaves while it is being made is closed', async () => {
    const making = gate();
    const made = gate();
    const app = await start(async (context) => {
      making.open();
      await made.promise;
      return mcpServer(context);
    });
    const posted = forsakenCall(new ModernClient(app.url), 'talks');
    await making.promise;
    await posted.hangUp();
    made.open();
    await eventually(() => expect(closed).toBe(1));
    await app.settled(NOTHING);
  });
});
