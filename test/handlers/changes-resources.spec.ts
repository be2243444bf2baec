import { Inject, Injectable } from '@nestjs/common';
import {
  InjectMcp,
  McpHandlers,
  McpSessionService,
  McpStreamableModule,
  Resource,
  ResourceTemplate,
  Tool,
} from 'nestjs-mcp-streamable';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, TestApp, serverInfo } from '../support/app.js';
import { eventually, officialClients, testApps } from '../support/test-apps.js';
import type { RawClient } from '../support/raw-client.js';

const TERMS = 'orders://terms';
const PRICES = 'orders://prices';
const ORDER = 'orders://7/lines';

let entered = gate();
let hold = gate();

@Injectable()
class Orders {
  constructor(@Inject(McpSessionService) private readonly sessions: McpSessionService) {}

  @Resource({ uri: TERMS, name: 'terms' })
  terms(): string {
    return 'the terms';
  }
  @Resource({ uri: PRICES, name: 'prices' })
  prices(): string {
    return 'the prices';
  }
  @ResourceTemplate({ uriTemplate: 'orders://{id}/lines', name: 'lines' })
  lines(): string {
    return 'the lines';
  }

  @Tool({ name: 'change' })
  async change(): Promise<string> {
    entered.open();
    await hold.promise;
    return `told ${await this.sessions.resourceUpdated(TERMS)}`;
  }
}

@Injectable()
@McpHandlers({ endpoint: 'admin' })
class AdminOrders {
  constructor(
    @Inject(McpSessionService) readonly main: McpSessionService,
    @InjectMcp(McpSessionService, 'admin') readonly admin: McpSessionService,
  ) {}

  @Resource({ uri: TERMS, name: 'terms' })
  terms(): string {
    return 'the terms';
  }
}

const ask = async (client: RawClient, method: string, params: object): Promise<unknown> => {
  const response = await client.post({ jsonrpc: '2.0', id: client.nextId(), method, params });
  const { result, error } = await response.json();
  return result ?? error;
};
const subscribe = async (client: RawClient, uri: string): Promise<void> => {
  expect(await ask(client, 'resources/subscribe', { uri })).toEqual({});
};
const unsubscribe = async (client: RawClient, uri: string): Promise<void> => {
  expect(await ask(client, 'resources/unsubscribe', { uri })).toEqual({});
};

/** A session that listens, and what it was told of resources. */
interface Listener {
  client: RawClient;
  stream: Awaited<ReturnType<RawClient['listen']>>;
}
const toldOf = ({ stream }: Listener): string[] =>
  stream.messages.filter(({ method }) => method === 'notifications/resources/updated').map(({ params }) => params.uri);

describe.each(ONE_ADAPTER)('resources/updated on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, sseAfterMs: 60_000, providers: [Orders] });
  const connect = officialClients();
  beforeEach(() => {
    [entered, hold] = [gate(), gate()];
  });

  const listening = async (app: TestApp, ...uris: string[]): Promise<Listener> => {
    const client = await app.client().initialize();
    for (const uri of uris) await subscribe(client, uri);
    return { client, stream: await client.listen() };
  };
  /** Everybody hears this: what was not there before it was not sent. */
  const afterAll = async (app: TestApp, listeners: Listener[]): Promise<string[][]> => {
    await app.service.notify(() => true, { method: 'notifications/message', params: { level: 'info', data: 'end' } });
    for (const { stream } of listeners) await stream.until(({ messages }) => messages.at(-1)?.params.data === 'end');
    for (const { stream } of listeners) stream.destroy();
    return listeners.map(toldOf);
  };

  it('resources/updated reaches each subscriber of the resource once, and no other session', async () => {
    const app = await start();
    const listeners = [
      await listening(app, TERMS),
      await listening(app, PRICES, TERMS),
      await listening(app, ORDER),
      await listening(app),
    ];
    // Twice is once.
    await subscribe(listeners[0]!.client, TERMS);
    expect(await app.service.resourceUpdated(TERMS)).toBe(2);
    expect(await app.service.resourceUpdated(ORDER)).toBe(1);
    expect(await app.service.resourceUpdated('orders://8/lines')).toBe(0);
    expect(await afterAll(app, listeners)).toEqual([[TERMS], [TERMS], [ORDER], []]);
  });

  it('resources/updated does not reach a session that has unsubscribed, and reaches one that has subscribed again', async () => {
    const app = await start();
    const listeners = [await listening(app, TERMS, PRICES), await listening(app, TERMS)];
    const [{ client }] = listeners as [Listener, Listener];
    await unsubscribe(client, TERMS);
    // Of what was never there, too.
    await unsubscribe(client, 'nowhere://at/all');
    expect(await app.service.resourceUpdated(TERMS)).toBe(1);
    expect(await app.service.resourceUpdated(PRICES)).toBe(1);
    await subscribe(client, TERMS);
    expect(await app.service.resourceUpdated(TERMS)).toBe(2);
    expect(await afterAll(app, listeners)).toEqual([
      [PRICES, TERMS],
      [TERMS, TERMS],
    ]);
  });

  it('resources/updated cannot be subscribed to for an unknown resource', async () => {
    const app = await start();
    const listener = await listening(app);
    const refused = await ask(listener.client, 'resources/subscribe', { uri: 'nowhere://at/all' });
    expect(refused).toMatchObject({ code: -32602, data: { uri: 'nowhere://at/all' } });
    expect(await app.service.resourceUpdated('nowhere://at/all')).toBe(0);
    expect(await afterAll(app, [listener])).toEqual([[]]);
  });

  it('resources/updated is kept for a session that does not listen, also one without a live copy', async () => {
    const app = await start();
    const [deaf, recorded] = [await app.client().initialize(), await app.client().initialize()];
    for (const client of [deaf, recorded]) await subscribe(client, TERMS);
    await app.release(recorded.sessionId!);
    await app.settled({ sessions: 2, live: 1 });
    expect(await app.service.resourceUpdated(TERMS)).toBe(2);
    expect(await app.service.resourceUpdated(PRICES)).toBe(0);
    await app.settled({ events: 2, live: 1 });
    const listeners = await Promise.all(
      [deaf, recorded].map(async (client) => ({ client, stream: await (await client.listen()).count(1) })),
    );
    expect(await afterAll(app, listeners)).toEqual([[TERMS], [TERMS]]);
  });

  it('resources/updated reaches a rebuilt session by its earlier subscriptions', async () => {
    const app = await start();
    const client = await app.client().initialize();
    for (const uri of [TERMS, PRICES, ORDER]) await subscribe(client, uri);
    await unsubscribe(client, PRICES);
    await app.release(client.sessionId!);
    const listener = { client, stream: await client.listen() };
    await app.settled({ live: 1, readers: 1 });
    for (const uri of [TERMS, PRICES, ORDER]) await app.service.resourceUpdated(uri);
    await unsubscribe(client, TERMS);
    await app.service.resourceUpdated(TERMS);
    expect(await afterAll(app, [listener])).toEqual([[TERMS, ORDER]]);
  });

  it('resources/updated does not reach earlier or later subscribers', async () => {
    const app = await start();
    const [gone, stays] = [await listening(app, TERMS), await listening(app, TERMS)];
    await (await gone.client.delete()).text();
    expect(await gone.stream.end()).toBe('end');
    expect(await app.service.resourceUpdated(TERMS)).toBe(1);
    const later = await listening(app);
    expect(await afterAll(app, [stays, later])).toEqual([[TERMS], []]);
    expect(toldOf(gone)).toEqual([]);
  });

  it('resources/updated is sent by a handler to all, its own session included', async () => {
    const app = await start();
    const [mine, other] = [await listening(app, TERMS), await listening(app, TERMS)];
    hold.open();
    const stream = (await mine.client.call('change')).sse();
    await stream.end();
    expect(stream.messages.at(-1).result.content[0].text).toBe('told 2');
    const [ofMine, ofOther] = await afterAll(app, [mine, other]);
    expect([...toldOf({ client: mine.client, stream }), ...ofMine!]).toEqual([TERMS]);
    expect(ofOther).toEqual([TERMS]);
  });

  it('resources/updated of a cancelled handler reaches all sessions, its own included', async () => {
    const app = await start();
    const [mine, other] = [await listening(app, TERMS), await listening(app, TERMS)];
    const posted = mine.client.call('change', {}, { id: 'call' });
    await entered.promise;
    await mine.client.notify('notifications/cancelled', { requestId: 'call' });
    await (await posted).text();
    hold.open();
    await other.stream.count(1);
    expect(await afterAll(app, [mine, other])).toEqual([[TERMS], [TERMS]]);
  });

  it('resources/updated reaches the handlers of official clients', async () => {
    const app = await start();
    const [one, two] = [await connect(app), await connect(app)];
    const told: string[] = [];
    for (const [name, client] of Object.entries({ one, two })) {
      client.setNotificationHandler('notifications/resources/updated', ({ params }) => {
        told.push(`${name}: ${params.uri}`);
      });
    }
    await one.subscribeResource({ uri: TERMS });
    await two.subscribeResource({ uri: ORDER });
    await app.settled({ readers: 2 });
    for (const uri of [TERMS, ORDER, PRICES]) await app.service.resourceUpdated(uri);
    await eventually(() => expect(told).toHaveLength(2));
    await one.unsubscribeResource({ uri: TERMS });
    expect(await app.service.resourceUpdated(TERMS)).toBe(0);
    expect(told.toSorted()).toEqual([`one: ${TERMS}`, `two: ${ORDER}`]);
  });
});

describe.each(ONE_ADAPTER)('resources/updated of several endpoints on %s', (adapter) => {
  let app: TestApp;
  const services = () => app.app.get(AdminOrders);
  afterEach(() => app.close());

  it('resources/updated of several endpoints reaches the sessions of its own endpoint', async () => {
    const imports = [
      McpStreamableModule.forRoot({ serverInfo }),
      McpStreamableModule.forRoot({ serverInfo, name: 'admin', path: 'admin' }),
    ];
    app = await TestApp.of(adapter, { imports, providers: [Orders, AdminOrders] });
    const [one, two] = [await app.client().initialize(), await app.clientAt('admin').initialize()];
    for (const client of [one, two]) await subscribe(client, TERMS);
    const [atOne, atTwo] = [await one.listen(), await two.listen()];
    expect(await services().admin.resourceUpdated(TERMS)).toBe(1);
    await atTwo.count(1);
    expect(await services().main.notify(() => true, { method: 'notifications/prompts/list_changed' })).toBe(1);
    await atOne.count(1);
    expect(atOne.messages.map(({ method }) => method)).toEqual(['notifications/prompts/list_changed']);
    expect(toldOf({ client: two, stream: atTwo })).toEqual([TERMS]);
    atOne.destroy();
    atTwo.destroy();
  });
});
