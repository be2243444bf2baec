import { Agent, request as httpRequest, type IncomingMessage, type Server } from 'node:http';
import { currentMcpCall } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ADAPTERS, TestApp, type TestTool } from '../support/app.js';
import type { RawResponse, SseStream } from '../support/http.js';
import { RawClient } from '../support/raw-client.js';
import { rawSocket, requestText, connectionsGone } from '../support/raw-socket.js';

const OPEN = 100;
const ENDED = {
  error: { code: -32000, message: expect.stringMatching(/shutting down.*Start a new session, and repeat/) },
};
const NOTHING = {
  sessions: 0,
  live: 0,
  inFlight: 0,
  streams: 0,
  readers: 0,
  logs: 0,
  events: 0,
  openResponses: 0,
  timers: 0,
};

describe.each(ADAPTERS)('shutdown of a busy server on %s', (adapter) => {
  let app: TestApp;
  let clock: ManualClock;
  let aborted: Set<unknown>;

  const note = (data: unknown) => ({ method: 'notifications/message', params: { level: 'info', data } });
  const begin = () => {
    const { requestId, signal } = currentMcpCall()!;
    return new Promise((resolve) => signal.addEventListener('abort', resolve)).then(() => aborted.add(requestId));
  };
  const tools: Record<string, TestTool> = {
    undecided: async () => String(await begin()),
    streaming: async (_, ctx) => {
      await ctx.log('info', 'begun');
      return String(await begin());
    },
    /** Never ends, whatever is asked of it. */
    stubborn: (_, ctx) => {
      void begin();
      return ctx.log('info', 'begun').then(() => new Promise(() => {}));
    },
  };

  beforeEach(async () => {
    aborted = new Set();
    clock = new ManualClock();
    app = await TestApp.start({
      adapter,
      port: true,
      tools,
      clock,
      // No time passes, and idle connections are kept for ever: a shutdown that waited for either would never end.
      configure: (nest) => void ((nest.getHttpServer() as Server).keepAliveTimeout = 0),
      sseAfterMs: 600_000,
      maxSessionsPerPrincipal: 2 * OPEN,
    });
  });
  afterEach(() => app.close());

  /** 100 sessions, each with an open stream and a running call: half of the calls are streams, half are undecided. */
  const keepBusy = async (streamingTool = 'streaming') => {
    const clients = await Promise.all(Array.from({ length: OPEN }, () => app.client().initialize()));
    const standalone = await Promise.all(clients.map((client) => client.listen()));
    const undecided: Promise<RawResponse>[] = [];
    const streaming: SseStream[] = [];
    for (const [i, client] of clients.entries()) {
      const id = `call ${i}`;
      if (i % 2 === 0) undecided.push(client.call('undecided', {}, { id }));
      else streaming.push(await (await client.call(streamingTool, {}, { id })).sse().count(1));
    }
    await app.settled({ live: OPEN, inFlight: OPEN, readers: 1.5 * OPEN, openResponses: 1.5 * OPEN });
    return { standalone, undecided, streaming };
  };
  /** Every call is answered, every stream ended, every handler told. */
  const expectAllOver = async ({ standalone, undecided, streaming }: Awaited<ReturnType<typeof keepBusy>>) => {
    for (const [i, response] of undecided.entries()) {
      expect(await (await response).json()).toMatchObject({ id: `call ${2 * i}`, ...ENDED });
    }
    for (const [i, stream] of streaming.entries()) {
      expect(await stream.end()).toBe('end');
      expect(stream.messages.slice(1)).toEqual([{ jsonrpc: '2.0', id: `call ${2 * i + 1}`, ...ENDED }]);
    }
    for (const stream of standalone) expect(await stream.end()).toBe('end');
    expect(aborted.size).toBe(OPEN);
  };
  it('S15: shutdown of a busy server answers all running calls, ends all open streams, and waits for no time', async () => {
    const busy = await keepBusy();
    await app.app.close();
    await expectAllOver(busy);
    await app.settled(NOTHING);
  });

  it('S15: shutdown of a busy server waits for no handler', async () => {
    const busy = await keepBusy('stubborn');
    await app.app.close();
    await expectAllOver(busy);
    await app.settled(NOTHING);
  });

  it('S15: shutdown of a busy server waits for no client that does not read', async () => {
    const busy = await keepBusy();
    const sockets = [];
    for (let i = 0; i < 5; i++) {
      const client = await app.client().initialize();
      const socket = await rawSocket(client);
      sockets.push(socket.pause());
      socket.write(requestText(client, 'GET'));
      await app.settled({ readers: 1.5 * OPEN + i + 1 });
      // More than the kernel takes: something is left to be sent when the end comes.
      for (let sent = 0; sent < 20; sent++) {
        await app.service.notify(client.sessionId!, note('x'.repeat(1024 * 1024)));
        await new Promise(setImmediate);
      }
    }
    const closing = { isOver: false };
    void app.app.close().then(() => (closing.isOver = true));
    await expectAllOver(busy);
    // It looks twice whether they read on.
    for (let looks = 0; !closing.isOver; looks++) {
      expect(looks).toBeLessThan(1_000);
      await clock.advance(100);
    }
    await app.settled(NOTHING);
    for (const socket of sockets) socket.destroy();
  });

  it('S15: shutdown of a busy server refuses who comes meanwhile, and leaves nothing of them', async () => {
    const busy = await keepBusy();
    const late = Array.from({ length: 50 }, () => {
      const client = new RawClient(app.url);
      return client.post(client.initializeMessage()).then(
        async (response) => ({ status: response.status, body: await response.json() }),
        () => 'not connected' as const,
      );
    });
    await app.app.close();
    for (const outcome of await Promise.all(late)) {
      if (outcome === 'not connected') continue;
      // Those who were faster than the end had a session for a moment.
      expect([200, 503]).toContain(outcome.status);
      if (outcome.status === 503) expect(outcome.body).toMatchObject({ error: { code: -32000 } });
    }
    await expectAllOver(busy);
    await app.settled(NOTHING);
  });

  it('S15: shutdown of a busy server waits for no connection that its client keeps alive', async () => {
    const agent = new Agent({ keepAlive: true });
    const clients = await Promise.all(Array.from({ length: OPEN }, () => app.client().initialize()));
    const post = (client: RawClient, body: unknown): Promise<IncomingMessage> =>
      new Promise((resolve, reject) => {
        const request = httpRequest(client.url, { method: 'POST', headers: client.usualHeaders, agent });
        request.on('response', resolve).on('error', reject).end(JSON.stringify(body));
      });
    const bodyOf = async (message: IncomingMessage): Promise<unknown> =>
      JSON.parse(Buffer.concat((await message.toArray()) as Buffer[]).toString());
    // Connections of all: half of them idle at the end, half with a call.
    const pings = clients.map((client) => post(client, { jsonrpc: '2.0', id: 'ping', method: 'ping' }).then(bodyOf));
    expect(await Promise.all(pings)).toHaveLength(OPEN);
    const calls = clients
      .slice(0, OPEN / 2)
      .map((client, i) => post(client, client.toolCall('undecided', {}, { id: i })));
    await app.settled({ inFlight: OPEN / 2 });
    await connectionsGone(app, OPEN);
    await app.app.close();
    for (const [id, call] of calls.entries()) expect(await bodyOf(await call)).toMatchObject({ id, ...ENDED });
    await app.settled(NOTHING);
    agent.destroy();
  });
});
