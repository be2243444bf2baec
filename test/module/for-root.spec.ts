import { Controller, Get, Inject, Injectable, Module, type INestApplication } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { McpSessionService, McpStreamableModule, type McpStreamableExtras } from 'nestjs-mcp-streamable';
import {
  InMemoryEventStore,
  InMemoryMessageBus,
  InMemorySessionStore,
  InMemoryStateStore,
} from 'nestjs-mcp-streamable/stores';
import { afterEach, describe, expect, it } from 'vitest';
import { ADAPTERS, gate, TestApp, serverInfo, whoami } from '../support/app.js';
import { send } from '../support/http.js';
import { serverSaying } from '../support/scripted-server.js';

@Injectable()
class Watcher {
  constructor(@Inject(McpSessionService) readonly sessions: McpSessionService) {}
}

@Controller('beside')
class BesideController {
  @Get()
  beside(): string {
    return 'beside';
  }
}

/** A feature module that imports nothing, and wants the service. */
@Module({ providers: [Watcher] })
class FeatureModule {}

describe.each(ADAPTERS)('forRoot on %s', (adapter) => {
  let app: TestApp;
  afterEach(() => app.close());

  const endpoint = (extras: McpStreamableExtras = {}) =>
    McpStreamableModule.forRoot({ serverInfo, server: () => serverSaying(() => 'me'), ...extras });

  async function start(extras: McpStreamableExtras = {}, configure?: (app: INestApplication) => void): Promise<void> {
    const module = { imports: [endpoint(extras)], controllers: [BesideController], providers: [Watcher] };
    app = await TestApp.of(adapter, module, configure);
  }

  it('forRoot serves at /mcp when nothing else is said', async () => {
    await start();
    expect(await whoami(await app.client().initialize())).toBe('me');
  });

  it('forRoot needs no more than serverInfo: the server introduces itself', async () => {
    const instructions = 'Ask nicely.';
    app = await TestApp.of(adapter, { imports: [McpStreamableModule.forRoot({ serverInfo, instructions })] });
    const client = app.client();
    const { result } = await (await client.post(client.initializeMessage())).json();
    expect(result).toMatchObject({ serverInfo, instructions, protocolVersion: '2025-11-25' });
  });

  it('forRoot makes a backend for each app that starts, if it was given a function', async () => {
    const made: InMemorySessionStore[] = [];
    const backend = () => {
      const sessionStore = new InMemorySessionStore();
      made.push(sessionStore);
      const stateStore = new InMemoryStateStore();
      return { sessionStore, stateStore, eventStore: new InMemoryEventStore(), messageBus: new InMemoryMessageBus() };
    };
    const module = { imports: [McpStreamableModule.forRoot({ serverInfo, backend })] };
    const first = await TestApp.of(adapter, module);
    await first.client().initialize();
    expect(await made[0]!.count()).toBe(1);
    await first.close();
    app = await TestApp.of(adapter, module);
    await app.client().initialize();
    expect([made.length, await made[0]!.count(), await made[1]!.count()]).toEqual([2, 0, 1]);
  });

  it.each([
    ['a path of several parts', 'tools/mcp'],
    ['a path that begins with a slash', '/deep/er/mcp'],
    ['a path that ends with a slash', 'mcp/'],
  ])('forRoot serves at %s', async (_, path) => {
    await start({ path });
    const served = path.replace(/^\//, '').replace(/\/$/, '');
    expect(await whoami(await app.clientAt(served).initialize())).toBe('me');
    const elsewhere = app.clientAt('elsewhere');
    expect((await elsewhere.post(elsewhere.initializeMessage())).status).toBe(404);
  });

  it('forRoot serves at the root of the app', async () => {
    await start({ path: '/' });
    expect(await whoami(await app.clientAt('').initialize())).toBe('me');
    expect(await (await send(`${app.base}/beside`, { method: 'GET' })).text()).toBe('beside');
  });

  it('forRoot is below the global prefix', async () => {
    await start({}, (nest) => nest.setGlobalPrefix('api'));
    expect(await whoami(await app.clientAt('api/mcp').initialize())).toBe('me');
    expect((await app.clientAt('mcp').get()).status).toBe(404);
  });

  it('forRoot leaves the routes of the app alone', async () => {
    await start();
    const response = await send(`${app.base}/beside`, { method: 'GET', headers: { host: 'any.example' } });
    expect([response.status, await response.text()]).toEqual([200, 'beside']);
  });

  it('forRoot gives McpSessionService to every provider of the module that imports it', async () => {
    await start();
    const client = await app.client().initialize();
    const { sessions } = app.app.get(Watcher);
    expect(sessions).toBe(app.service);
    expect((await sessions.list()).map(({ id }) => id)).toEqual([client.sessionId]);
    const stream = await client.listen();
    expect(await sessions.notify(client.sessionId!, { method: 'notifications/tools/list_changed' })).toBe(1);
    await stream.count(1);
    expect(await sessions.terminate(client.sessionId!)).toBe(true);
    expect(await stream.end()).toBe('end');
  });

  it('forRoot gives it to other modules only when isGlobal', async () => {
    app = await TestApp.of(adapter, { imports: [FeatureModule, endpoint({ isGlobal: true })] });
    expect(app.app.get(Watcher, { strict: false }).sessions).toBe(app.service);
    await expect(TestApp.of(adapter, { imports: [FeatureModule, endpoint()] })).rejects.toThrow(/McpSessionService/);
  });

  it('forRoot may be imported by several modules, and is one endpoint', async () => {
    const shared = endpoint();
    @Module({ imports: [shared], providers: [Watcher], exports: [Watcher] })
    class OneModule {}
    @Module({ imports: [shared] })
    class AnotherModule {}
    app = await TestApp.of(adapter, { imports: [OneModule, AnotherModule] });
    expect(await whoami(await app.client().initialize())).toBe('me');
    expect(await app.app.get(Watcher, { strict: false }).sessions.list()).toHaveLength(1);
  });

  it("forRoot stays out of the app's REST description", async () => {
    await start();
    const controllers = [...app.app.get(ModulesContainer).values()].flatMap((module) => [
      ...module.controllers.values(),
    ]);
    const excluded = controllers
      .filter(({ metatype }) => Reflect.getMetadata('swagger/apiExcludeController', metatype as object))
      .map(({ metatype, name }) => [name, Reflect.getMetadata('swagger/apiExcludeController', metatype as object)]);
    expect(excluded).toEqual([['McpEndpointController', [true]]]);
  });

  it.runIf(adapter === 'fastify')('forRoot serves requests that were injected without a connection', async () => {
    await start();
    const client = app.client();
    const { 'content-type': type, accept } = client.usualHeaders;
    const injected = await (app.app as NestFastifyApplication).inject({
      method: 'POST',
      url: '/mcp',
      headers: { 'content-type': type, accept },
      payload: JSON.stringify(client.initializeMessage()),
    });
    expect(injected.statusCode).toBe(200);
    expect(injected.headers['mcp-session-id']).toBeDefined();
  });

  it('forRoot releases everything when the app closes: streams end, calls are answered, timers go', async () => {
    const { promise, open } = gate();
    const server = () => {
      const made = serverSaying(() => 'me');
      made.registerTool('waits', {}, async () => {
        await promise;
        return { content: [] };
      });
      return made;
    };
    app = await TestApp.of(adapter, {
      imports: [McpStreamableModule.forRoot({ serverInfo, server, responseMode: 'sse' })],
    });
    const client = await app.client().initialize();
    const listening = await client.listen();
    const calling = await (await client.call('waits')).sse().opened();
    const closing = app.stop();
    expect(await calling.end()).toBe('end');
    expect(calling.messages).toEqual([
      {
        jsonrpc: '2.0',
        id: expect.any(Number),
        error: { code: -32000, message: expect.stringContaining('shutting down') },
      },
    ]);
    expect(await listening.end()).toBe('end');
    await closing;
    await app.settled({ sessions: 0, live: 0, inFlight: 0, streams: 0, readers: 0, logs: 0, events: 0, timers: 0 });
    open();
    await expect(client.get()).rejects.toThrow(/ECONNREFUSED/);
    app = await TestApp.of(adapter, { imports: [endpoint()] });
  });
});
