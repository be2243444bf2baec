import { connect, constants } from 'node:http2';
import { once } from 'node:events';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { describe, expect, it } from 'vitest';
import { ADAPTERS, gate, type TestApp, type TestAppOptions, type TestTool } from '../support/app.js';
import { testApps } from '../support/test-apps.js';
import type { RawResponse, SseStream } from '../support/http.js';
import { LATEST, RawClient } from '../support/raw-client.js';

const ORIGIN = 'http://localhost:5173';
const HOSTILE_TEXT = 'one\ntwo\r\nthree\rdata: x\n\nid: 0_99\u2028\u2029 é 🏳️‍🌈';

describe.each(ADAPTERS)('server-sent events on %s', (adapter) => {
  let app: TestApp;
  const clock = new ManualClock();
  let release: ReturnType<typeof gate<void>>;

  const say =
    (...texts: string[]): TestTool =>
    async (_, ctx) => {
      for (const data of texts) {
        await ctx.log('info', data);
      }
      return texts.at(-1);
    };
  const tools: Record<string, TestTool> = {
    says: say('one', 'two'),
    hostile: say(HOSTILE_TEXT),
    waits: async () => {
      await release.promise;
      return 'waited';
    },
  };
  const begin = testApps(adapter, {
    shared: true,
    guards: [],
    port: true,
    clock,
    tools,
    sseAfterMs: 500,
    idleTimeoutMs: Infinity,
  });
  async function start(options: Partial<TestAppOptions> = {}): Promise<void> {
    release = gate();
    app = await begin(options);
  }

  /** Each way to an open stream. */
  const WAYS: [string, (client: RawClient) => Promise<RawResponse>][] = [
    ['a GET', (client) => client.get()],
    ['a resumed GET', (client) => client.get('0_0')],
    ['a POST', (client) => client.call('waits')],
  ];

  it.each(WAYS)('P10: the head of %s keeps proxies from buffering and changing it', async (_, open) => {
    await start({ responseMode: 'sse' });
    const response = await open(await app.client().initialize());
    expect(response.status).toBe(200);
    expect(response.header('content-type')).toMatch(/^text\/event-stream\b/);
    expect(response.header('cache-control')).toBe('no-cache, no-transform');
    expect(response.header('x-accel-buffering')).toBe('no');
    expect(response.header('content-length')).toBeUndefined();
    expect(response.header('mcp-session-id')).toBeUndefined();
    response.destroy();
    release.open();
    await app.settled({ openResponses: 0, readers: 0, inFlight: 0 });
  });

  it.each(WAYS)('P10: the head of %s comes at once, with a first event', async (_, open) => {
    await start({ responseMode: 'sse' });
    const response = await open(await app.client().initialize());
    const stream = await response.sse().opened();
    expect([stream.primes.length, stream.events, stream.comments]).toEqual([1, [], []]);
    stream.destroy();
    release.open();
    await app.settled({ openResponses: 0, inFlight: 0 });
  });

  it.each(WAYS)("P10: the head of %s keeps the app's headers, those of CORS included", async (_, open) => {
    await start({
      responseMode: 'sse',
      configure: (nest) => {
        nest.enableCors({ origin: [ORIGIN], credentials: true, exposedHeaders: ['Mcp-Session-Id'] });
        nest.use((_request: unknown, response: { setHeader(n: string, v: string): void }, next: () => void) => {
          response.setHeader('X-Of-The-App', 'yes');
          next();
        });
      },
    });
    const client = await app.client({ origin: ORIGIN }).initialize();
    const response = await open(client);
    expect(response.headers).toMatchObject({
      'access-control-allow-origin': ORIGIN,
      'access-control-allow-credentials': 'true',
      'access-control-expose-headers': 'Mcp-Session-Id',
      'x-of-the-app': 'yes',
      'x-accel-buffering': 'no',
    });
    expect(response.header('vary')).toMatch(/origin/i);
    response.destroy();
    release.open();
    await app.settled({ openResponses: 0, inFlight: 0 });
  });

  it('P10: the app answers the preflight of a browser, without a session', async () => {
    await start({ configure: (nest) => nest.enableCors({ origin: ORIGIN, exposedHeaders: ['Mcp-Session-Id'] }) });
    const client = app.client({ origin: ORIGIN });
    const response = await client.post(undefined, { 'access-control-request-method': 'POST' }, { method: 'OPTIONS' });
    expect(response.status).toBe(204);
    expect(response.header('access-control-allow-origin')).toBe(ORIGIN);
    expect(response.header('access-control-allow-methods')).toMatch(/POST/);
  });

  /** What is left of a body when the well-formed frames are taken out. */
  const leftOf = (stream: SseStream): string =>
    stream.body
      .replaceAll(/^event: message\nid: [A-Za-z0-9]+_[1-9]\d*\ndata: [^\n\r]+\n\n/gm, '')
      .replaceAll(/^id: [A-Za-z0-9]+_\d+\nretry: 3000\ndata:\n\n/gm, '')
      .replaceAll(/^:[^\n]*\n\n/gm, '');

  it.each([LATEST, '2025-06-18', '2025-03-26'])(
    'P11: at %s each message is one frame of event, id and one line of data',
    async (revision) => {
      await start();
      const client = await app.client().initialize(revision);
      const stream = (await client.call('hostile', {}, { id: 'h' })).sse();
      expect(await stream.end()).toBe('end');
      expect(leftOf(stream)).toBe('');
      expect(stream.events.map(({ event, id }) => [event, id?.replace(/^\w{22}_/, '')])).toEqual([
        ['message', '1'],
        ['message', '2'],
      ]);
      const [log, answer] = stream.messages;
      expect(log.params.data).toBe(HOSTILE_TEXT);
      expect(answer).toMatchObject({ id: 'h', result: { content: [{ text: HOSTILE_TEXT }] } });
      expect(stream.primes).toHaveLength(revision === LATEST ? 1 : 0);
    },
  );

  it('P11: a POST that ends without an event has no id', async () => {
    await start();
    const client = await app.client().initialize();
    const pending = client.call('waits', {}, { id: 'w' });
    await app.settled({ inFlight: 1 });
    await client.notify('notifications/cancelled', { requestId: 'w' });
    const stream = (await pending).sse();
    expect(await stream.end()).toBe('end');
    expect(stream.response.header('content-type')).toMatch('text/event-stream');
    expect(stream.body).not.toMatch(/^id:/m);
    expect(stream.events).toEqual([]);
    release.open();
    await app.settled({ inFlight: 0, streams: 0, loggedStreams: 0 });
  });

  it('P11: comments and priming events use up no event id', async () => {
    await start({ keepAliveMs: 1_000 });
    const client = await app.client().initialize();
    const stream = await client.listen();
    const note = (n: number): Promise<number> =>
      app.service.notify(client.sessionId!, { method: 'notifications/message', params: { level: 'info', data: n } });
    await note(1);
    await stream.count(1);
    await clock.advance(1_000);
    await stream.until(({ comments }) => comments.length === 1);
    await note(2);
    await stream.count(2);
    expect(stream.events.map(({ id }) => id)).toEqual(['0_1', '0_2']);
    expect(stream.primes).toEqual(['0_0']);
    expect(leftOf(stream)).toBe('');
    stream.destroy();
    await app.settled({ openResponses: 0 });
  });

  it.each(WAYS)('P12: %s that is silent gets a comment every keepAliveMs', async (_, open) => {
    await start({ keepAliveMs: 4_000, responseMode: 'sse' });
    const client = await app.client().initialize();
    const stream = await (await open(client)).sse().opened();
    for (const comments of [1, 2, 3]) {
      await clock.advance(3_999);
      expect(stream.comments).toHaveLength(comments - 1);
      await clock.advance(1);
      await stream.until((sse) => sse.comments.length === comments);
    }
    expect(stream.events).toEqual([]);
    release.open();
    stream.destroy();
    await app.settled({ openResponses: 0, inFlight: 0 });
  });

  it('P12: all silent streams of all sessions get a comment every 15 seconds by default', async () => {
    await start();
    const streams: SseStream[] = [];
    for (let session = 0; session < 3; session++) streams.push(await (await app.client().initialize()).listen());
    await clock.advance(15_000);
    for (const stream of streams) await stream.until(({ comments }) => comments.length === 1);
    for (const stream of streams) stream.destroy();
    await app.settled({ openResponses: 0, readers: 0 });
  });

  it('P12: clients of older revisions get comments too, besides the one that opens a stream', async () => {
    await start();
    const client = await app.client().initialize('2025-03-26');
    const stream = await client.listen();
    expect([stream.comments.length, stream.primes]).toEqual([1, []]);
    await clock.advance(15_000);
    await stream.until(({ comments }) => comments.length === 2);
    stream.destroy();
    await app.settled({ openResponses: 0 });
  });

  it('P12: a POST gets comments as soon as it is a stream, and its answer after them', async () => {
    await start();
    const client = await app.client().initialize();
    const pending = client.call('waits');
    await app.settled({ inFlight: 1 });
    await clock.advance(500);
    const stream = await (await pending).sse().opened();
    await clock.advance(30_000);
    await stream.until(({ comments }) => comments.length === 2);
    release.open();
    expect(await stream.end()).toBe('end');
    expect(stream.messages.map(({ result }) => result.content[0].text)).toEqual(['waited']);
    await app.settled({ openResponses: 0, inFlight: 0, streams: 0 });
  });

  it('P12: no timer for comments runs while no stream is open', async () => {
    await start();
    const client = await app.client().initialize();
    const stream = await client.listen();
    await app.settled({ openResponses: 1, timers: 1 });
    stream.destroy();
    await app.settled({ openResponses: 0, timers: 0 });
  });
});

describe('server-sent events over HTTP/2', () => {
  it('P10: the head has no Connection header, and is the same otherwise', async () => {
    const endpoint = McpStreamableModule.forRoot({
      serverInfo: { name: 'h2', version: '1.0.0' },
    });
    const testing = await Test.createTestingModule({ imports: [endpoint] }).compile();
    const app = testing.createNestApplication(new FastifyAdapter({ http2: true } as never));
    await app.listen(0, '127.0.0.1');
    const session = connect((await app.getUrl()).replace('[::1]', '127.0.0.1'));
    try {
      const usual = { ':path': '/mcp', accept: 'application/json, text/event-stream' };
      const post = session.request({ ...usual, ':method': 'POST', 'content-type': 'application/json' });
      post.end(JSON.stringify(new RawClient('').initializeMessage()));
      const [initialized] = await once(post, 'response');
      expect(initialized[':status']).toBe(200);
      post.resume();

      const get = session.request({ ...usual, ':method': 'GET', 'mcp-session-id': initialized['mcp-session-id'] });
      const [head] = await once(get, 'response');
      expect(head).toMatchObject({
        ':status': 200,
        'content-type': 'text/event-stream',
        'cache-control': 'no-cache, no-transform',
        'x-accel-buffering': 'no',
      });
      expect(Object.keys(head)).not.toContain('connection');
      const [first] = await once(get, 'data');
      expect(String(first)).toBe('id: 0_0\nretry: 3000\ndata:\n\n');
      get.close(constants.NGHTTP2_CANCEL);
    } finally {
      session.close();
      await app.close();
    }
  });
});
