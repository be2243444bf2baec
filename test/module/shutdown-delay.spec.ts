import { Agent, request as httpRequest, type IncomingMessage, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { Controller, type ExecutionContext, Get, Inject } from '@nestjs/common';
import { getMcpToken, McpHealthIndicator, McpSessionService, McpStreamableModule } from 'nestjs-mcp-streamable';
import {
  InMemoryEventStore,
  InMemorySessionStore,
  type McpEventStore,
  type McpSessionStore,
} from 'nestjs-mcp-streamable/stores';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ADAPTERS, gate, type TestTool, type TestAppOptions, TestApp, serverInfo } from '../support/app.js';
import { shared } from '../support/doubles.js';
import { type RawResponse, send } from '../support/http.js';
import { ModernClient } from '../support/modern-client.js';
import type { RawClient } from '../support/raw-client.js';
import { rawSocket, requestText } from '../support/raw-socket.js';
import { expectRefusal } from '../support/refusal.js';
import { eventually } from '../support/test-apps.js';

/** Default with a shared session store. */
const DELAY_MS = 3_000;
const KEPT = { connection: 'keep-alive' };
const REFUSED = { status: 503, code: -32000, says: ['shutting down'] };

@Controller()
class AppController {
  constructor(@Inject(McpHealthIndicator) private readonly health: McpHealthIndicator) {}

  @Get('ready')
  ready() {
    return this.health.check('mcp');
  }
}

function ping(client: RawClient, agent: Agent): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(client.url, { method: 'POST', headers: client.usualHeaders, agent });
    const body = { jsonrpc: '2.0', id: client.nextId(), method: 'ping' };
    request.on('response', resolve).on('error', reject).end(JSON.stringify(body));
  });
}

describe.each(ADAPTERS)('a signal that stops an app, on %s', (adapter) => {
  let clock: ManualClock;
  let app: TestApp;
  let hold: ReturnType<typeof gate<void>>;
  let closed: Promise<void> | undefined;

  const tools: Record<string, TestTool> = {
    waits: async () => {
      await hold.promise;
      return 'done';
    },
    quick: () => 'quick',
    large: () => 'x'.repeat(20 * 1024 * 1024),
  };
  /** As an app handles the signal that handles it itself. Nest's hooks do the same, and then end the process. */
  const handle = (): void => {
    process.once('SIGTERM', () => (closed = app.shutDown()));
  };
  const start = async (options: Partial<TestAppOptions> = {}, listens = handle): Promise<void> => {
    listens();
    app = await TestApp.start({ adapter, port: true, clock, tools, sseAfterMs: 3_600_000, ...options });
  };
  const withSharedStore = (): Partial<TestAppOptions> => ({
    sessionStore: shared<McpSessionStore>(new InMemorySessionStore(clock)),
    eventStore: shared<McpEventStore>(new InMemoryEventStore({}, clock)),
    requestStateKeys: ['x'.repeat(32)],
  });
  const stop = (): void => void process.emit('SIGTERM', 'SIGTERM');
  const textOf = async (response: RawResponse) => (await response.json()).result.content[0].text as string;

  beforeEach(() => {
    [clock, hold, closed] = [new ManualClock(), gate(), undefined];
  });
  afterEach(async () => {
    hold.open();
    closed ??= app.shutDown();
    await clock.advance(DELAY_MS);
    await closed;
    expect(process.listeners('SIGTERM')).toEqual([]);
    process.removeAllListeners('SIGTERM');
  });

  it('E13: calls of both eras are taken for the delay, while "accepting" is false; then they get 503', async () => {
    await start({ ...withSharedStore(), module: { controllers: [AppController] } });
    const ready = async () => {
      const response = await send(new URL('/ready', app.url).href, { method: 'GET', headers: KEPT });
      return { connection: response.header('connection'), ...(await response.json()).mcp };
    };
    const client = await app.client(KEPT).initialize();
    const modern = new ModernClient(app.url, KEPT);
    const running = client.call('waits');
    await app.settled({ inFlight: 1 });
    expect(await ready()).toMatchObject({ connection: 'keep-alive', status: 'up' });
    stop();
    await eventually(() => expect(app.service.accepting).toBe(false));

    expect(await ready()).toMatchObject({ connection: 'close', status: 'down', draining: true });
    await clock.advance(DELAY_MS - 1);
    const newcomer = await app.client(KEPT).initialize();
    for (const caller of [client, modern, newcomer]) {
      const response = await caller.call('quick');
      expect(response.header('connection')).toBe('close');
      expect(await textOf(response)).toBe('quick');
    }
    expect((await newcomer.delete()).status).toBe(204);
    expect((await newcomer.call('quick')).status).toBe(404);

    await clock.advance(1);
    for (const caller of [client, modern]) {
      const response = await caller.call('quick', {}, { id: 'late' });
      expect(response.header('connection')).toBe('close');
      expect(response.header('retry-after')).toMatch(/^[1-9]\d*$/);
      await expectRefusal(response, { ...REFUSED, id: 'late' });
    }
    hold.open();
    expect(await textOf(await running)).toBe('done');
    await closed;
  });

  it('E13: a stream opens during the delay, says that its connection ends, and ends with the node', async () => {
    await start(withSharedStore());
    const client = await app.client(KEPT).initialize();
    stop();
    await eventually(() => expect(app.service.accepting).toBe(false));
    const stream = await client.listen();
    expect(stream.response.header('connection')).toBe('close');
    await clock.advance(DELAY_MS);
    expect(await stream.end()).toBe('end');
    await closed;
  });

  it('E13: a connection that is idle stays during the delay, and is closed when calls are refused', async () => {
    await start(withSharedStore());
    const client = await app.client().initialize();
    const agent = new Agent({ keepAlive: true });
    const first = await ping(client, agent);
    const socket: Socket = first.socket;
    await first.toArray();
    const running = client.call('waits');
    await app.settled({ inFlight: 1 });
    stop();
    await clock.advance(DELAY_MS - 1);
    expect(socket.closed).toBe(false);
    await clock.advance(1);
    await eventually(() => expect(socket.closed).toBe(true));
    hold.open();
    await running;
    await closed;
    agent.destroy();
  });

  it('E13: a response that a slow client still reads is not cut when calls are refused', async () => {
    await start(withSharedStore());
    const client = await app.client().initialize();
    const socket = (await rawSocket(client)).pause();
    let bytes = 0;
    socket.write(requestText(client, 'POST', { body: client.toolCall('large') }));
    const running = client.call('waits');
    await app.settled({ inFlight: 1 });
    stop();
    await clock.advance(DELAY_MS);
    await clock.advance(1_000);
    socket.on('data', (chunk) => (bytes += chunk.length)).resume();
    await eventually(() => expect(bytes).toBeGreaterThan(20 * 1024 * 1024));
    hold.open();
    await running;
    await closed;
    socket.destroy();
  });

  it('E13: a client that polls over one connection does not keep the app from closing', async () => {
    const arrived = gate();
    const go = gate();
    const guard = {
      canActivate: async (context: ExecutionContext) => {
        if (!('x-slow' in context.switchToHttp().getRequest<IncomingMessage>().headers)) return true;
        arrived.open();
        await go.promise;
        return true;
      },
    };
    await start({ guards: [guard] }, () => {});
    const client = app.client({ 'x-slow': 'yes' });
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const polled = async (): Promise<unknown> => {
      for (;;) {
        const response = await ping(client, agent).catch((error: unknown) => error);
        if (response instanceof Error) return response;
        await (response as IncomingMessage).toArray();
      }
    };
    const polling = polled();
    await arrived.promise;
    closed = app.shutDown();
    await eventually(() => expect((app.app.getHttpServer() as Server).listening).toBe(false));
    go.open();
    expect(await polling).toMatchObject({ code: 'ECONNREFUSED' });
    await closed;
    agent.destroy();
  });

  it.each([
    ['without a shared store', {}, 'SIGTERM'],
    ['with "shutdownDelayMs: 0"', { shutdownDelayMs: 0 }, 'SIGTERM'],
    ['by app.close(), without a signal', { shutdownDelayMs: DELAY_MS }, undefined],
  ] as const)('E13: new calls are refused at once %s', async (_, options, signal) => {
    await start({ ...options, drainMs: 60_000 });
    const client = await app.client().initialize();
    const running = client.call('waits');
    await app.settled({ inFlight: 1 });
    if (signal) stop();
    else closed = app.shutDown();
    await eventually(() => expect(app.service.accepting).toBe(false));
    await expectRefusal(await client.call('quick', {}, { id: 'late' }), { ...REFUSED, id: 'late' });
    hold.open();
    await running;
    await closed;
    process.removeAllListeners('SIGTERM');
  });

  it('E13: the log says for how long calls are still taken', async () => {
    process.once('SIGTERM', () => (closed = nest.app.close()));
    const endpoint = McpStreamableModule.forRoot({ serverInfo, shutdownDelayMs: 1 });
    const nest = await TestApp.of(adapter, { imports: [endpoint] });
    stop();
    await closed;
    expect(nest.log.lines).toContainEqual({
      level: 'log',
      text: expect.stringMatching(/SIGTERM.*1 ms.*shutdownDelay/),
    });
    nest.log.release();
  });

  it('E13: of several endpoints the longest delay counts, once', async () => {
    const endpoint = (name: string, shutdownDelayMs: number) => ({
      module: McpStreamableModule.forRoot({ serverInfo, name, path: name, shutdownDelayMs }),
    });
    process.once('SIGTERM', () => (closed = nest.app.close()));
    const nest = await TestApp.of(
      adapter,
      { imports: [endpoint('one', 0).module, endpoint('two', DELAY_MS).module, endpoint('three', DELAY_MS).module] },
      undefined,
      clock,
    );
    const names = ['one', 'two', 'three'];
    const services = names.map((name) => nest.app.get<McpSessionService>(getMcpToken(McpSessionService, name)));
    stop();
    await eventually(() => expect(services.map(({ accepting }) => accepting)).toEqual([false, false, false]));
    await clock.advance(DELAY_MS - 1);
    for (const name of names) await nest.clientAt(name).initialize();
    await clock.advance(1);
    await closed;
    nest.log.release();
  });

  describe('what else the process does with the signal', () => {
    it('E13: an app whose process does not listen for it leaves the signal to end the process', async () => {
      await start(withSharedStore(), () => {});
      expect([process.listeners('SIGTERM'), process.listeners('SIGINT')]).toEqual([[], []]);
    });

    it('E13: when the others have stopped listening, the signal ends the process', async () => {
      const other = (): void => {};
      await start(withSharedStore(), () => void process.on('SIGTERM', other));
      process.off('SIGTERM', other);
      const kill = vi.spyOn(process, 'kill').mockReturnValue(true);
      stop();
      expect(kill.mock.calls).toEqual([[process.pid, 'SIGTERM']]);
      kill.mockRestore();
      closed = app.shutDown();
      await eventually(() => expect(app.service.accepting).toBe(false));
      await clock.advance(DELAY_MS);
    });

    it('E13: SIGINT is such a signal, too', async () => {
      process.once('SIGINT', () => (closed = app.shutDown()));
      await start(withSharedStore(), () => {});
      process.emit('SIGINT', 'SIGINT');
      await eventually(() => expect(app.service.accepting).toBe(false));
      await clock.advance(DELAY_MS - 1);
      await (await app.client().initialize()).delete();
      await clock.advance(1);
      await closed;
      expect(process.listeners('SIGINT')).toEqual([]);
    });
  });
});
