import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Inject, Injectable, UseGuards } from '@nestjs/common';
import { McpSessionService, Resource, ResourceTemplate, Tool } from 'nestjs-mcp-streamable';
import { LEGACY_REVISIONS, MODERN_REVISIONS, Server } from 'nestjs-mcp-streamable/server';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { Roles, RolesGuard } from '../handlers/roles.js';
import { ONE_ADAPTER, TestApp, type TestAppOptions } from '../support/app.js';
import { eventually, registryOf, testApps } from '../support/test-apps.js';
import type { SseStream } from '../support/http.js';
import { ModernClient } from '../support/modern-client.js';
import { Deployment } from '../support/nodes.js';
import { rawSocket, requestText } from '../support/raw-socket.js';
import { as, trustingGuard } from '../support/users.js';
import { loneFetch } from '../support/ways.js';

const ID = 'io.modelcontextprotocol/subscriptionId';
const TERMS = 'orders://terms';
const SALARIES = 'orders://salaries';
const LINES = 'orders://7/lines';
/** Its guard never says yes or no. */
const UNDECIDED = 'orders://undecided';
const ACKNOWLEDGED = 'notifications/subscriptions/acknowledged';
const TOOLS = { method: 'notifications/tools/list_changed' };
const PROMPTS = { method: 'notifications/prompts/list_changed' };

@Injectable()
class Orders {
  constructor(@Inject(McpSessionService) private readonly sessions: McpSessionService) {}

  @Resource({ uri: TERMS, name: 'terms' })
  terms(): string {
    return 'the terms';
  }
  @Resource({ uri: SALARIES, name: 'salaries' })
  @UseGuards(RolesGuard)
  @Roles(['admin'])
  salaries(): string {
    return 'the salaries';
  }
  @ResourceTemplate({ uriTemplate: 'orders://{id}/lines', name: 'lines' })
  lines(): string {
    return 'the lines';
  }
  @Resource({ uri: UNDECIDED, name: 'undecided' })
  @UseGuards({ canActivate: () => new Promise<boolean>(() => {}) })
  undecided(): string {
    return '';
  }
  @Tool({ name: 'change' })
  async change(): Promise<string> {
    return `told ${await this.sessions.resourceUpdated(TERMS)}`;
  }
}

/** What a subscriber read, short: `ack`, `tools`, a URI, `end`. */
const gists = ({ messages }: SseStream): string[] =>
  messages.map(({ method, params, result }) => {
    if (result) return 'end';
    return method === ACKNOWLEDGED ? 'ack' : (params?.uri ?? method.split('/')[1]);
  });
const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe.each(ONE_ADAPTER)('subscriptions/listen on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers: [Orders, RolesGuard] });
  const opened: SseStream[] = [];
  const official: Client[] = [];
  afterEach(async () => {
    for (const stream of opened.splice(0)) stream.destroy();
    for (const client of official.splice(0)) await client.close();
  });

  const client = (app: TestApp, headers?: Record<string, string>) => new ModernClient(app.url, headers);
  const listen = async (app: TestApp, filter: object, headers?: Record<string, string>, id?: string | number) => {
    const stream = await client(app, headers).listen(filter, id === undefined ? {} : { id });
    opened.push(stream);
    return stream;
  };
  /** Everybody who asked for prompts hears this: what was not there before it was not sent. */
  const afterAll = async (app: TestApp, ...streams: SseStream[]): Promise<string[][]> => {
    await app.service.notify(() => true, PROMPTS);
    for (const stream of streams) await stream.until((read) => gists(read).at(-1) === 'prompts');
    return streams.map((stream) => gists(stream).slice(0, -1));
  };
  const refused = async (app: TestApp, filter: unknown, headers?: Record<string, string>) => {
    const response = await client(app, headers).request('subscriptions/listen', { notifications: filter }, { id: 'x' });
    const { id, error } = await response.json();
    return { status: response.status, retryAfter: response.header('retry-after'), id, ...error };
  };

  it('M7: a client gets the acknowledgement first, then the notifications that it asked for, each with the subscription id', async () => {
    const app = await start();
    const stream = await listen(
      app,
      { toolsListChanged: true, promptsListChanged: true, resourceSubscriptions: [TERMS, LINES, TERMS], other: {} },
      {},
      'listen:7',
    );
    expect(stream.response.header('content-type')).toBe('text/event-stream');
    expect(stream.messages[0]).toEqual({
      jsonrpc: '2.0',
      method: ACKNOWLEDGED,
      params: {
        notifications: { toolsListChanged: true, promptsListChanged: true, resourceSubscriptions: [TERMS, LINES] },
        _meta: { [ID]: 'listen:7' },
      },
    });
    await app.settled({ subscriptions: 1, openResponses: 1, sessions: 0 });
    for (const uri of [TERMS, SALARIES, LINES, 'orders://8/lines']) await app.service.resourceUpdated(uri);
    registryOf(app).registerTool({ name: 'late', handler: () => 'late' });
    registryOf(app).registerResource({ uri: 'orders://late', name: 'late', handler: () => 'late' });
    // Each process tells of its own registry.
    const late = app.nodes.map(() => 'tools');
    await stream.count(3 + late.length);
    expect(await afterAll(app, stream)).toEqual([['ack', TERMS, LINES, ...late]]);
    for (const { params } of stream.messages) expect(params._meta).toEqual({ [ID]: 'listen:7' });
    expect(stream.events.map(({ id }) => id).filter(Boolean)).toEqual([]);
    expect(stream.primes).toEqual([]);
  });

  it('M7: a caller is never notified of a resource that its guards hide, and cannot tell that it exists', async () => {
    const app = await start();
    const uris = [SALARIES, 'nowhere://at/all', TERMS];
    const filter = { promptsListChanged: true, resourceSubscriptions: uris };
    const admin = await listen(app, filter, as('anna', 'admin'));
    const [clerk, nobody] = [await listen(app, filter, as('bert', 'clerk')), await listen(app, filter)];
    const honored = [admin, clerk, nobody].map(({ messages }) => messages[0].params.notifications);
    expect(honored[0]).toEqual({ promptsListChanged: true, resourceSubscriptions: [SALARIES, TERMS] });
    for (const narrowed of honored.slice(1)) {
      expect(narrowed).toEqual({ promptsListChanged: true, resourceSubscriptions: [TERMS] });
    }
    for (const uri of uris) await app.service.resourceUpdated(uri);
    expect(await afterAll(app, admin, clerk, nobody)).toEqual([
      ['ack', SALARIES, TERMS],
      ['ack', TERMS],
      ['ack', TERMS],
    ]);
  });

  it('M7: a subscription of which nothing is honored is acknowledged, and ends with a result at once', async () => {
    const app = await start();
    for (const filter of [{}, { toolsListChanged: false }, { resourceSubscriptions: [SALARIES] }]) {
      const stream = await listen(app, filter, as('bert', 'clerk'), 3);
      expect(await stream.end()).toBe('end');
      expect(gists(stream)).toEqual(['ack', 'end']);
      expect(stream.messages[0].params.notifications).toEqual({});
      expect(stream.messages[1]).toMatchObject({ id: 3, result: { resultType: 'complete', _meta: { [ID]: 3 } } });
    }
    await app.settled({ subscriptions: 0, openResponses: 0 });
  });

  it.each([
    undefined,
    null,
    [],
    'all',
    { toolsListChanged: 1 },
    { resourceSubscriptions: TERMS },
    { resourceSubscriptions: [7] },
    { resourceSubscriptions: Array.from({ length: 1_001 }, (_, n) => `a://${n}`) },
    { resourceSubscriptions: ['a://'.padEnd(2_049, 'x')] },
  ])('M7: a malformed filter is refused (case %#)', async (filter) => {
    const app = await start();
    expect(await refused(app, filter)).toMatchObject({ status: 400, id: 'x', code: -32602 });
    await app.settled({ subscriptions: 0, openResponses: 0 });
  });

  it('M7: a subscription above the total limit gets 503, one above the limit of the caller 429, and open ones go on', async () => {
    const app = await start({ maxSubscriptions: 4, maxSubscriptionsPerPrincipal: 2 });
    const filter = { promptsListChanged: true };
    const streams = [await listen(app, filter), await listen(app, filter)];
    expect(await refused(app, filter)).toMatchObject({ status: 429, id: 'x', code: -32000, retryAfter: '5' });
    streams.push(await listen(app, filter, as('anna', 'one')), await listen(app, filter, as('anna', 'two')));
    expect(await refused(app, filter, as('bert'))).toMatchObject({ status: 503, id: 'x', retryAfter: '5' });
    streams[2]!.destroy();
    await app.settled({ subscriptions: 3 });
    expect(await refused(app, filter)).toMatchObject({ status: 429 });
    streams[2] = await listen(app, filter, as('anna'));
    expect(await afterAll(app, ...streams)).toEqual(streams.map(() => ['ack']));
  });

  it('M7: a subscription counts against both limits while guards decide about it', async () => {
    const app = await start({ maxSubscriptions: 2, maxSubscriptionsPerPrincipal: 1 });
    const filter = { resourceSubscriptions: [UNDECIDED] };
    const held = [refused(app, filter, as('anna'))];
    await app.settled({ subscriptions: 1 });
    expect(await refused(app, filter, as('anna'))).toMatchObject({ status: 429 });
    held.push(refused(app, filter, as('bert')));
    await app.settled({ subscriptions: 2 });
    expect(await refused(app, filter, as('carl'))).toMatchObject({ status: 503, retryAfter: '5' });
    await app.shutDown();
    expect(await Promise.all(held)).toMatchObject([{ status: 503 }, { status: 503 }]);
  });

  it('M7: clients of both eras are notified by one call, on the service or in a handler', async () => {
    const app = await start();
    const subscriber = await listen(app, {
      promptsListChanged: true,
      toolsListChanged: true,
      resourceSubscriptions: [TERMS],
    });
    const legacy = await app.client().initialize();
    const subscribe = { jsonrpc: '2.0', id: 'subscribe', method: 'resources/subscribe', params: { uri: TERMS } };
    await (await legacy.post(subscribe)).text();
    const session = await legacy.listen();
    opened.push(session);
    // By the service, by a modern handler, by the registry; the number is that of sessions.
    expect(await app.service.resourceUpdated(TERMS)).toBe(1);
    const { result } = await client(app).ask('tools/call', { name: 'change', arguments: {} });
    expect(result.content[0].text).toBe('told 1');
    registryOf(app).registerTool({ name: 'late', handler: () => 'late' });
    const late = app.nodes.map(() => 'tools');
    await subscriber.count(3 + late.length);
    expect(await app.service.notify(() => true, { method: 'notifications/message', params: { data: 1 } })).toBe(1);
    expect(await app.service.notify(() => true, { ...TOOLS, params: { any: 'thing' } })).toBe(1);
    // A predicate chooses among sessions, and subscribers have none to be chosen by.
    expect(await app.service.notify((each) => each.id === '', TOOLS)).toBe(0);
    // This is about one session.
    expect(await app.service.notify(legacy.sessionId!, TOOLS)).toBe(1);
    expect(await afterAll(app, subscriber)).toEqual([['ack', TERMS, TERMS, ...late, 'tools', 'tools']]);
    await session.until((read) => gists(read).at(-1) === 'prompts');
    expect(gists(session).filter((gist) => gist !== 'message')).toEqual([
      TERMS,
      TERMS,
      ...late,
      'tools',
      'tools',
      'prompts',
    ]);
  });

  it('M7: a slow reader is notified of each change once, as soon as it reads again', async () => {
    const app = await start({ maxBufferedBytes: 1 });
    const uris = [1, 2, 3].map((n) => `orders://${n}/lines`.padStart(2_000, 'x'));
    for (const uri of uris) registryOf(app).registerResource({ uri, name: uri.slice(-20), handler: () => 'long' });
    const response = await client(app).request('subscriptions/listen', {
      notifications: { toolsListChanged: true, promptsListChanged: true, resourceSubscriptions: uris },
    });
    await app.settled({ subscriptions: 1 });
    const change = async (): Promise<void> => {
      for (const uri of uris) await app.service.resourceUpdated(uri);
    };
    let rounds = 0;
    for (; app.pausedResponses === 0; rounds++) {
      expect(rounds).toBeLessThan(10_000);
      await change();
      if (rounds % 20 === 0) await nextTurn();
    }
    for (let round = 0; round < 500; round++) await change();
    await app.service.notify(() => true, TOOLS);
    const stream = response.sse();
    opened.push(stream);
    await stream.until((read) => gists(read).includes('tools'));
    // What came after the pause: lists first, then each resource once, however often it changed.
    const [told] = await afterAll(app, stream);
    const first = told!.indexOf('tools');
    expect(first).toBeLessThanOrEqual(1 + rounds * uris.length);
    expect(told!.slice(first).toSorted()).toEqual(['tools', ...uris].toSorted());
    expect(told!.filter((gist) => gist === 'tools')).toHaveLength(1);
  });

  it('M7: a client that leaves ends its subscription, and nothing of it is left', async () => {
    const app = await start();
    const streams = await Promise.all(Array.from({ length: 20 }, () => listen(app, { toolsListChanged: true })));
    await app.settled({ subscriptions: 20, openResponses: 20 });
    for (const stream of streams) stream.destroy();
    await app.settled({ subscriptions: 0, openResponses: 0, timers: 0 });
    expect(await app.service.notify(() => true, TOOLS)).toBe(0);
  });

  it('M7: a client that leaves while guards decide leaves no subscription', async () => {
    const app = await start();
    const [modern, raw] = [client(app), app.client()];
    const body = modern.message('subscriptions/listen', { notifications: { resourceSubscriptions: [UNDECIDED] } });
    const socket = await rawSocket(raw);
    socket.write(requestText(raw, 'POST', { body, headers: modern.headersOf(body) }));
    await app.settled({ subscriptions: 1, openResponses: 0 });
    socket.destroy();
    await app.settled({ subscriptions: 0 });
  });

  it('M7: a shutdown waits for no guard', async () => {
    const app = await start();
    const answer = refused(app, { resourceSubscriptions: [UNDECIDED] });
    await app.settled({ subscriptions: 1 });
    await app.shutDown();
    expect(await answer).toMatchObject({ status: 503, id: 'x', retryAfter: '1' });
  });

  it('M7: a shutdown ends a subscription with its result', async () => {
    // The clock stands still: a shutdown that waited for a time would never end.
    const app = await start({ clock: new ManualClock() });
    const stream = await listen(app, { toolsListChanged: true }, {}, 9);
    await app.shutDown();
    expect(await stream.end()).toBe('end');
    expect(gists(stream)).toEqual(['ack', 'end']);
    expect(stream.messages[1]).toEqual({
      jsonrpc: '2.0',
      id: 9,
      result: {
        resultType: 'complete',
        _meta: { [ID]: 9, 'io.modelcontextprotocol/serverInfo': { name: 'test', version: '1.0.0' } },
      },
    });
    expect(await app.service.counts()).toMatchObject({ subscriptions: 0 });
  });

  describe('of the official client', () => {
    const connect = async (app: TestApp, headers: Record<string, string> = {}): Promise<Client> => {
      const made = new Client(
        { name: 'official', version: '1.0.0' },
        { versionNegotiation: { mode: { pin: MODERN_REVISIONS[0] } } },
      );
      official.push(made);
      const options = { requestInit: { headers }, fetch: loneFetch };
      await made.connect(new StreamableHTTPClientTransport(new URL(app.url), options));
      return made;
    };

    it('M7: the subscription calls the handlers of the client, and ends by its close()', async () => {
      const app = await start();
      const made = await connect(app, as('bert', 'clerk'));
      const told: string[] = [];
      made.setNotificationHandler('notifications/resources/updated', ({ params }) => void told.push(params.uri));
      made.setNotificationHandler('notifications/tools/list_changed', () => void told.push('tools'));
      const subscription = await made.listen({ toolsListChanged: true, resourceSubscriptions: [SALARIES, TERMS] });
      expect(subscription.honoredFilter).toEqual({ toolsListChanged: true, resourceSubscriptions: [TERMS] });
      for (const uri of [SALARIES, TERMS]) await app.service.resourceUpdated(uri);
      await app.service.notify(() => true, TOOLS);
      await eventually(() => expect(told).toEqual([TERMS, 'tools']));
      await subscription.close();
      expect(await subscription.closed).toBe('local');
      await app.settled({ subscriptions: 0, openResponses: 0 });
    });

    it('M7: the client learns of a graceful end, and why its subscription was refused', async () => {
      const app = await start({ maxSubscriptionsPerPrincipal: 1 });
      const made = await connect(app);
      const subscription = await made.listen({ toolsListChanged: true });
      await expect(made.listen({ toolsListChanged: true })).rejects.toThrow(/maxSubscriptionsPerPrincipal/);
      await app.shutDown();
      expect(await subscription.closed).toBe('graceful');
    });
  });

  describe('of several nodes', () => {
    const nodes: TestApp[] = [];
    afterEach(async () => {
      for (const stream of opened.splice(0)) stream.destroy();
      for (const node of nodes) await node.settled({ subscriptions: 0 });
      for (const node of nodes.splice(0)) await node.app.close();
    });

    it('M7: a change on one node is notified once on every node', async () => {
      const deployment = new Deployment();
      const options: TestAppOptions = {
        adapter,
        server: undefined,
        guards: [trustingGuard],
        module: { providers: [Orders, RolesGuard] },
        requestStateKeys: ['a secret that all nodes of the deployment have'],
      };
      for (let n = 0; n < 2; n++) nodes.push(await deployment.node(options));
      const [a, b] = nodes as [TestApp, TestApp];
      const filter = { promptsListChanged: true, toolsListChanged: true, resourceSubscriptions: [TERMS] };
      const [atA, atB] = [await listen(a, filter), await listen(b, filter)];
      expect([await a.service.counts(), await b.service.counts()]).toMatchObject([
        { subscriptions: 1 },
        { subscriptions: 1 },
      ]);
      await a.service.resourceUpdated(TERMS);
      await b.service.notify(() => true, TOOLS);
      expect(await afterAll(a, atA, atB)).toEqual([
        ['ack', TERMS, 'tools'],
        ['ack', TERMS, 'tools'],
      ]);
    });
  });
});

describe.each(ONE_ADAPTER)("subscriptions/listen of an application's own server on %s", (adapter) => {
  let app: TestApp;
  const streams: SseStream[] = [];
  afterEach(async () => {
    for (const stream of streams.splice(0)) stream.destroy();
    await app.close();
  });
  const start = async (capabilities: object, revisions: readonly string[]): Promise<void> => {
    const supportedProtocolVersions = [...revisions];
    const server = () => new Server({ name: 'own', version: '1.0.0' }, { capabilities, supportedProtocolVersions });
    app = await TestApp.start({ adapter, server });
  };

  it('M7: lists are honored by the capabilities of the server, and URIs as the client asked', async () => {
    await start({ prompts: { listChanged: true }, tools: {}, resources: { subscribe: true } }, [
      ...LEGACY_REVISIONS,
      ...MODERN_REVISIONS,
    ]);
    const filter = { toolsListChanged: true, promptsListChanged: true, resourceSubscriptions: ['any://thing'] };
    const stream = await new ModernClient(app.url).listen(filter);
    streams.push(stream);
    expect(stream.messages[0].params.notifications).toEqual({
      promptsListChanged: true,
      resourceSubscriptions: ['any://thing'],
    });
    await app.service.resourceUpdated('any://thing');
    for (const change of [TOOLS, PROMPTS]) await app.service.notify(() => true, change);
    await stream.count(3);
    expect(gists(stream)).toEqual(['ack', 'any://thing', 'prompts']);
  });

  it('M3: a server that does not serve the revision refuses with those that it serves', async () => {
    await start({ tools: { listChanged: true } }, LEGACY_REVISIONS);
    const response = await new ModernClient(app.url).request(
      'subscriptions/listen',
      { notifications: { toolsListChanged: true } },
      { id: 4 },
    );
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      id: 4,
      error: { code: -32022, data: { supported: LEGACY_REVISIONS } },
    });
    await app.settled({ subscriptions: 0 });
  });
});
