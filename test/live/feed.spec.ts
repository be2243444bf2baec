import { Logger } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpLiveModule, type McpLiveOptions } from 'nestjs-mcp-streamable/live';
import {
  InMemoryEventStore,
  InMemoryMessageBus,
  InMemorySessionStore,
  InMemoryStateStore,
} from 'nestjs-mcp-streamable/stores';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { NEVER } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LiveFeed } from '../../src/live/live-feed.js';
import { QUICK } from '../support/adapters.js';
import { type TestAppOptions, TestApp, serverInfo } from '../support/app.js';
import { send } from '../support/http.js';
import { ModernClient } from '../support/modern-client.js';
import type { RawClient } from '../support/raw-client.js';
import { held, ShopTools } from './shop.js';
import { LiveReader } from './live-reader.js';

// What tools throw is logged.
Logger.overrideLogger(false);

const RTL = '\u202eעברית\u2066';

describe('the stream of the live page', () => {
  let clock: ManualClock;
  let app: TestApp;
  let page: string;
  const readers: LiveReader[] = [];
  beforeEach(() => (clock = new ManualClock()));
  afterEach(async () => {
    for (const reader of readers.splice(0)) reader.close();
    held.release();
    await app.close();
  });

  async function start(options: Partial<TestAppOptions> = {}, live: McpLiveOptions = { unguarded: 'loopback' }) {
    const { module = {}, ...rest } = options;
    const imports = [...(module.imports ?? []), McpLiveModule.forRoot(live)];
    app = await TestApp.start({
      adapter: 'fastify',
      clock,
      module: { ...module, imports, providers: module.providers ?? [ShopTools] },
      server: undefined,
      ...rest,
    });
    page = app.url.replace(/mcp$/, 'mcp-live');
  }
  async function read(): Promise<LiveReader> {
    const reader = await LiveReader.open(page);
    readers.push(reader);
    return reader;
  }
  async function initialize(clientInfo: object, capabilities = {}): Promise<RawClient> {
    const client = app.client();
    const message = client.initializeMessage(undefined, capabilities) as { params: { clientInfo: object } };
    message.params.clientInfo = clientInfo;
    const response = await client.post(message);
    client.sessionId = response.header('mcp-session-id');
    client.protocolVersion = '2025-11-25';
    await response.text();
    return client;
  }
  /** One update of the pages. */
  const tick = () => clock.advance(500);

  it('the stream of the live page begins with a snapshot, and then has the changes alone', async () => {
    await start();
    const client = await initialize({ name: 'claude-code', version: '2.1.4' });
    const reader = await read();
    expect(reader.row('sessions')).toMatchObject({
      id: client.sessionId!.slice(0, 6),
      client: 'claude-code',
      version: '2.1.4',
      principal: null,
      here: true,
      revision: '2025-11-25',
      since: clock.now(),
      seen: clock.now(),
      calls: 0,
      readers: 0,
      log: 0,
    });
    await clock.advance(5_000);
    await reader.until(({ first }) => first.facts['sessionStore'] === 'up');
    expect(reader.first.facts).toMatchObject({
      server: 'test 1.0.0',
      path: '/mcp',
      live: 1,
      sessions: 1,
      calls: 0,
      shared: false,
      draining: false,
      eventStore: 'up',
      messageBus: 'up',
      nodes: [reader.first.facts['node']],
    });

    const standalone = await client.listen();
    await app.service.notify(client.sessionId!, {
      method: 'notifications/message',
      params: { level: 'info', data: 'x' },
    });
    await tick();
    await reader.until(() => reader.row('sessions')['readers'] === 1 && reader.row('sessions')['log'] > 0);
    await client.delete();
    await tick();
    await reader.until(({ first }) => first.sessions.size === 0);
    expect(reader.events.map(({ what, outcome }) => `${what}: ${outcome}`)).toEqual([
      'initialize: ok',
      'session created: claude-code',
      'session ended: deleted',
    ]);
    standalone.destroy();
  });

  it('the stream of the live page sends at most two updates a second, and none when nothing happens', async () => {
    await start();
    const reader = await read();
    await clock.advance(60_000);
    // What stores and bus have answered.
    const { length } = reader.stream.events;
    const client = await initialize({ name: 'busy', version: '1' });
    for (let call = 0; call < 20; call++) await (await client.call('find_order')).text();
    await clock.advance(499);
    expect(reader.stream.events.length).toBeLessThanOrEqual(length + 1);
    await clock.advance(1);
    await reader.until(({ events }) => events.length >= 20);
    expect(reader.stream.events.length).toBeLessThanOrEqual(length + 2);
    await clock.advance(70_000);
    const { length: settled } = reader.apply().stream.events;
    await clock.advance(70_000);
    expect(reader.apply().stream.events).toHaveLength(settled);
  });

  it('the stream of the live page shows a call while it runs, in both eras, and a listen', async () => {
    await start();
    held.begin();
    const client = await initialize({ name: 'agent', version: '3' });
    const legacy = client.call('reindex');
    const modern = new ModernClient(app.url).request('tools/call', { name: 'reindex', arguments: {} });
    await expect.poll(() => app.service.nodeCounts().inFlight).toBe(2);
    const reader = await read();
    expect(
      [...reader.first.calls.values()].map(({ name, method, session, revision }) => ({
        name,
        method,
        session,
        revision,
      })),
    ).toEqual(
      expect.arrayContaining([
        { name: 'reindex', method: 'tools/call', session: client.sessionId!.slice(0, 6), revision: '2025-11-25' },
        { name: 'reindex', method: 'tools/call', session: null, revision: '2026-07-28' },
      ]),
    );
    expect(reader.first.facts).toMatchObject({ calls: 2 });
    expect(reader.row('sessions')).toMatchObject({ calls: 1 });
    held.release();
    await Promise.all([legacy, modern].map(async (answer) => (await answer).text()));
    const listening = await new ModernClient(app.url).request('subscriptions/listen', {
      notifications: { toolsListChanged: true },
    });
    await listening.sse().opened();
    await tick();
    await reader.until(({ first }) => first.calls.size === 1);
    expect(reader.row('calls')).toMatchObject({ method: 'subscriptions/listen', cancellable: false });
    listening.destroy();
    await expect.poll(() => app.service.nodeCounts().subscriptions).toBe(0);
    await tick();
    await reader.until(({ first }) => first.calls.size === 0);
  });

  it('the stream of the live page counts tools since the start, with percentiles and errors, and no name that a client invents', async () => {
    await start();
    const client = await initialize({ name: 'agent', version: '3' });
    for (const name of ['find_order', 'find_order', 'refund', 'invented 4711']) await (await client.call(name)).text();
    await (await client.post({ jsonrpc: '2.0', id: 'a', method: 'no/such/method' })).text();
    await clock.advance(2_000);
    const { tools } = (await read()).first;
    const counted = [...tools.values()].map(({ name, kind, calls, errors }) => [name, kind, calls, errors]);
    expect(counted).toEqual(
      expect.arrayContaining([
        ['find_order', 'tool', 2, 0],
        ['refund', 'tool', 1, 1],
        ['unknown tools', 'method', 1, 1],
        ['unknown methods', 'method', 1, 1],
        ['initialize', 'method', 1, 0],
      ]),
    );
    const { p50, p95, spark } = [...tools.values()].find(({ name }) => name === 'find_order')!;
    expect(p50).toBeGreaterThan(0);
    expect(p95).toBeGreaterThanOrEqual(p50);
    expect(spark.at(-1)).toBe(2);
  });

  it('the stream of the live page never tells arguments, results, texts of errors, URIs or session ids', async () => {
    await start();
    const client = await initialize({ name: 'agent', version: '3' });
    await (await client.call('find_order', { id: 'secret argument' })).text();
    await (await client.call('refund', {})).text();
    const reading = { jsonrpc: '2.0', id: 'r', method: 'resources/read', params: { uri: 'shop://catalog?secret' } };
    await (await client.post(reading)).text();
    const { stream } = await read();
    expect(stream.body).toContain('refund');
    expect(stream.body).not.toContain('secret');
    expect(stream.body).not.toContain(client.sessionId);
  });

  it('the stream of the live page shortens texts that clients choose, and escapes characters that would reverse the text around them', async () => {
    await start();
    await initialize({ name: `<script>${'x'.repeat(3_000)}`, version: `${RTL}\u0000\n` });
    const reader = await read();
    const { client, version } = reader.row('sessions');
    expect(client).toBe(`<script>${'x'.repeat(72)}…`);
    expect(version).toBe('\ufffdעברית\ufffd\ufffd\ufffd');
    expect(reader.stream.body.length).toBeLessThan(5_000);
  });

  it('the stream of the live page has an event for each refused request', async () => {
    await start({ maxSessions: 1 });
    await initialize({ name: 'first', version: '1' });
    await initialize({ name: 'second', version: '1' });
    const { events } = await read();
    expect(events.at(-1)).toMatchObject({
      tone: 'bad',
      what: 'request refused: initialize',
      outcome: '503 · UNAVAILABLE · maxSessions',
      reason: expect.stringContaining('This server has reached its limit of 1 sessions ("maxSessions")'),
    });
  });

  it('the stream of the live page that is opened between two updates has each event once', async () => {
    await start();
    const client = await initialize({ name: 'agent', version: '1' });
    const first = await read();
    await (await client.call('find_order')).text();
    const second = await read();
    await tick();
    for (const reader of [first, second]) {
      await reader.until(({ events }) => events.length >= 3);
      expect(reader.events.map(({ n }) => n)).toEqual([1, 2, 3]);
    }
  });

  it('the stream of the live page goes on when another page is closed', async () => {
    await start();
    const [first, second] = [await read(), await read()];
    first.close();
    await expect.poll(() => responderOf(app).open).toBe(1);
    await initialize({ name: 'agent', version: '1' });
    await tick();
    await second.until(() => second.first.sessions.size === 1);
  });

  it('the stream of the live page ends with the shutdown of the sessions', async () => {
    await start();
    await initialize({ name: 'agent', version: '1' });
    const reader = await read();
    await app.shutDown();
    expect(await reader.stream.end()).toBe('end');
    const { events, first } = reader.apply();
    expect(events.at(-1)).toMatchObject({ what: 'session ended', outcome: 'shutdown' });
    expect(first.sessions.size).toBe(0);
  });

  it.skipIf(QUICK)('the stream of the live page keeps the latest 200 events', async () => {
    await start();
    const client = await initialize({ name: 'busy', version: '1' });
    for (let call = 0; call < 205; call++) await (await client.call('find_order')).text();
    const { events } = await read();
    expect(events.map(({ n }) => n)).toEqual(Array.from({ length: 200 }, (_, index) => index + 8));
  });

  it('the stream of the live page has the state of each endpoint of an app', async () => {
    const admin = McpStreamableModule.forRoot({ serverInfo, name: 'admin', path: 'admin' });
    await start({ module: { imports: [admin], providers: [] }, name: 'orders' });
    const reader = await read();
    expect(new Set(reader.endpoints.map(({ facts }) => facts['name']))).toEqual(new Set(['admin', 'orders']));
  });

  it('the stream of the live page has a limit of readers: one more is answered 503 until another has left', async () => {
    await start({}, { unguarded: 'loopback', maxReaders: 2 });
    const [first] = [await read(), await read()];
    const refused = await send(`${page}/events`, { method: 'GET' });
    expect(refused.status).toBe(503);
    expect(refused.header('retry-after')).toBe('5');
    expect(await refused.json()).toEqual({
      error: 'TOO_MANY_READERS',
      message: expect.stringContaining('"maxReaders"'),
    });
    first.close();
    await expect.poll(() => responderOf(app).open).toBe(1);
    await read();
  });

  it('the stream of the live page sends nothing to a reader that does not read, however long, and then a snapshot', async () => {
    await start();
    const client = await initialize({ name: 'busy', version: '1' });
    const flow = { paused: false, resumed$: NEVER };
    const updates: { data?: string }[] = [];
    const reading = app.app
      .get(LiveFeed, { strict: false })
      .updates$(flow)
      .subscribe((update) => updates.push(update));
    await (await client.call('find_order')).text();
    await tick();
    expect(updates.map(typeOf)).toEqual(['snapshot', 'delta']);
    flow.paused = true;
    for (let round = 0; round < 20; round++) {
      await (await client.call('find_order')).text();
      await clock.advance(10_000);
    }
    expect(updates).toHaveLength(2);
    flow.paused = false;
    await tick();
    await (await client.call('find_order')).text();
    await tick();
    expect(updates.map(typeOf)).toEqual(['snapshot', 'delta', 'snapshot', 'delta']);
    reading.unsubscribe();
  });

  it('the stream of the live page goes on when methods of a store and a bus throw', async () => {
    const raise = (): never => {
      throw new Error('a mistake');
    };
    const eventStore = Object.assign(new InMemoryEventStore({}, clock), { sizeOf: raise });
    const messageBus = Object.assign(new InMemoryMessageBus(), { nodes: raise });
    await start({ eventStore, messageBus });
    await initialize({ name: 'agent', version: '3' });
    const reader = await read();
    await tick();
    await reader.until(({ first }) => first.facts['messageBus'] === 'up');
    expect(reader.row('sessions')).toMatchObject({ client: 'agent', log: -1 });
    expect(reader.first.facts).toMatchObject({ nodes: [reader.first.facts['node']], logged: -1 });
  });

  it('the stream of the live page ends after ten minutes, so that the page comes back and guards decide again', async () => {
    await start();
    const reader = await read();
    await clock.advance(10 * 60_000 - 1);
    expect(reader.stream.ended).toBeUndefined();
    await clock.advance(500);
    expect(await reader.stream.end()).toBe('end');
  });

  it('the stream of the live page shows a backend that takes no writes, and what it remarks', async () => {
    let full = false;
    const backend = {
      sessionStore: new InMemorySessionStore(clock),
      stateStore: new InMemoryStateStore(clock),
      eventStore: new InMemoryEventStore({}, clock),
      messageBus: new InMemoryMessageBus(),
      check: () => (full ? Promise.reject(new Error('full')) : Promise.resolve(['It evicts.'])),
    };
    await start({ backend });
    const reader = await read();
    await clock.advance(5_000);
    await reader.until(({ first }) => first.facts['backend'] === 'up');
    expect(reader.first.facts).toMatchObject({ warnings: ['It evicts.'] });
    full = true;
    await clock.advance(5_000);
    await tick();
    await reader.until(({ first }) => first.facts['backend'] === 'down');
  });

  it('the stream of the live page has no timer while no page reads', async () => {
    await start();
    const { pending } = clock;
    const reader = await read();
    expect(clock.pending).toBeGreaterThan(pending);
    reader.close();
    await expect.poll(() => responderOf(app).open).toBe(0);
    expect(clock.pending).toBe(pending);
  });

  it('the stream of the live page shows that the app shuts down, and ends', async () => {
    await start({ drainMs: 10_000 });
    held.begin();
    const client = await initialize({ name: 'agent', version: '3' });
    const call = client.call('reindex');
    await expect.poll(() => app.service.nodeCounts().inFlight).toBe(1);
    const reader = await read();
    const closing = app.app.close();
    await expect.poll(() => app.service.accepting).toBe(false);
    await tick();
    await reader.until(({ first }) => first.facts['draining']);
    held.release();
    await (await call).text();
    expect(await reader.stream.end()).toBe('end');
    await closing;
  });
});

const typeOf = ({ data }: { data?: string }): string => JSON.parse(data!).type as string;
const responderOf = ({ app }: TestApp) => app.get(LiveFeed, { strict: false }).responder;
