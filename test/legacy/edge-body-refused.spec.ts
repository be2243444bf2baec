import { once } from 'node:events';
import { connect, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2';
import type { INestApplication } from '@nestjs/common';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpServer } from 'nestjs-mcp-streamable/server';
import { McpClock } from 'nestjs-mcp-streamable/stores';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ADAPTERS, TestApp } from '../support/app.js';
import { RawClient } from '../support/raw-client.js';
import { rawSocket, requestText, connectionsGone } from '../support/raw-socket.js';
import { eventually } from '../support/test-apps.js';

const MAX_BODY = 64 * 1024;
/** Each client fails for itself when bodies are not read on: of 200 all did, or all that want the connection to be closed. */
const TRIES = 40;
const AT_ONCE = 20;

/** More than kernels keep on the way: it is not written whole unless the server reads it. */
const BODY = Buffer.alloc(4.5 * 1024 ** 2, ' ');
const CHUNKED = Buffer.concat([Buffer.from(`${BODY.length.toString(16)}\r\n`), BODY, Buffer.from('\r\n0\r\n\r\n')]);

describe.each(ADAPTERS)('E6: a body over the limit, of a client that does not wait, on %s', (adapter) => {
  let app: TestApp;
  beforeEach(async () => {
    // A busy machine may need more than the two seconds that a body is discarded for.
    app = await TestApp.start({ adapter, port: true, maxBodyBytes: MAX_BODY, clock: new ManualClock() });
  });
  afterEach(() => app.close());

  /** What a client reads that begins to read when it has written all it has, as blocking clients do: a failed write ends them. */
  async function answerTo(headers: Record<string, string>, body: Buffer): Promise<string> {
    const socket = await rawSocket(app);
    socket.write(requestText(app.client(), 'POST', { headers }));
    const failure = await new Promise((resolve) => socket.write(body, resolve));
    expect(failure).toBeFalsy();
    let answer = '';
    for await (const data of socket) {
      answer += String(data);
      if (answer.endsWith('}}')) return answer;
    }
    return answer;
  }

  it.each([
    ['of a declared length', { 'content-length': String(BODY.length) }, BODY],
    ['in chunks', { 'transfer-encoding': 'chunked' }, CHUNKED],
  ])(`%s: each of ${TRIES} clients reads the 413`, async (_, headers, body) => {
    for (let tries = 0; tries < TRIES; tries += AT_ONCE) {
      const answers = await Promise.all(
        // Half of them want the connection to be closed afterwards.
        Array.from({ length: AT_ONCE }, (_, i) =>
          answerTo({ ...headers, connection: i % 2 === 0 ? 'keep-alive' : 'close' }, body),
        ),
      );
      for (const answer of answers) {
        expect(answer).toMatch(/^HTTP\/1\.1 413 [^]*"code":-32000[^]*"maxBodyBytes\\"/);
        expect(answer).not.toMatch(/^connection: close/im);
      }
    }
    await connectionsGone(app);
  });

  it('the connection serves the next request after refused bodies', async () => {
    const socket = await rawSocket(app);
    const client = app.client();
    const long = Buffer.alloc(2 * MAX_BODY, ' ');
    const refused: [status: number, headers: Record<string, string>, body: Buffer | string][] = [
      [413, { 'content-length': String(long.length) }, long],
      [
        413,
        { 'transfer-encoding': 'chunked' },
        Buffer.concat([Buffer.from('20000\r\n'), long, Buffer.from('\r\n0\r\n\r\n')]),
      ],
      [415, { 'content-length': '2', 'content-type': 'text/plain' }, '{}'],
      [406, { 'content-length': '2', accept: 'text/html' }, '{}'],
      [403, { 'content-length': '2', host: 'evil.example' }, '{}'],
      [400, { 'content-length': '2' }, '{}'],
    ];
    const answer = async (): Promise<string> => String(((await once(socket, 'data')) as [Buffer])[0]);
    for (const [status, headers, body] of refused) {
      socket.write(requestText(client, 'POST', { headers }));
      socket.write(body);
      expect(await answer()).toContain(`HTTP/1.1 ${status} `);
    }
    socket.write(requestText(client, 'POST', { body: client.initializeMessage() }));
    expect(await answer()).toContain('HTTP/1.1 200 ');
    socket.destroy();
  });

  it.runIf(adapter === 'fastify')('a request that a test injects is refused as any other', async () => {
    const { usualHeaders } = app.client();
    const headers = { ...usualHeaders, host: 'localhost' };
    const options = { method: 'POST', url: '/mcp', remoteAddress: '127.0.0.1', headers, payload: BODY } as const;
    expect((await (app.app as NestFastifyApplication).inject(options)).statusCode).toBe(413);
    await app.settled({ timers: 0 });
  });
});

describe('E6: a body that is refused over HTTP/2', () => {
  const USUAL = {
    ':method': 'POST',
    ':path': '/mcp',
    accept: 'application/json, text/event-stream',
    'content-type': 'application/json',
  };
  let app: INestApplication;
  let clock: ManualClock;
  let session: ClientHttp2Session;
  let idle: number;

  beforeEach(async () => {
    clock = new ManualClock();
    const endpoint = McpStreamableModule.forRoot({
      serverInfo: { name: 'h2', version: '1.0.0' },
      server: () => new McpServer({ name: 'h2', version: '1.0.0' }),
      maxBodyBytes: MAX_BODY,
    });
    const testing = await Test.createTestingModule({ imports: [endpoint] })
      .overrideProvider(McpClock)
      .useValue(clock)
      .compile();
    app = testing.createNestApplication(new FastifyAdapter({ http2: true } as never));
    await app.listen(0, '127.0.0.1');
    session = connect((await app.getUrl()).replace('[::1]', '127.0.0.1'));
    idle = clock.pending;
  });
  afterEach(async () => {
    // The connection has outlived whatever was refused on it.
    const post = session.request(USUAL);
    post.end(JSON.stringify(new RawClient('').initializeMessage()));
    expect(await answerTo(post)).toMatchObject({ status: 200 });
    await eventually(() => expect(clock.pending).toBe(idle));
    session.close();
    await app.close();
  });

  async function answerTo(post: ClientHttp2Stream): Promise<{ status: number | undefined; body: string }> {
    post.on('error', () => {});
    const [head] = (await once(post, 'response')) as [Record<string, number>];
    let body = '';
    for await (const data of post.setEncoding('utf8')) body += data as string;
    return { status: head[':status'], body };
  }
  /** Writes on for as long as there is room. */
  function flood(post: ClientHttp2Stream): void {
    const write = (): void => {
      while (!post.destroyed && !post.closed && post.write(Buffer.alloc(64 * 1024, ' ')));
    };
    post.on('drain', write);
    write();
  }

  it.each([
    ['by its length', { 'content-length': String(BODY.length) }, 413],
    ['while it is counted', {}, 413],
    ['for its media type', { 'content-type': 'text/plain' }, 415],
    ['for a Host that is not allowed', { ':authority': 'evil.example' }, 403],
  ])('%s is answered, and discarded when it goes on', async (_, headers, status) => {
    const post = session.request({ ...USUAL, ...headers });
    const answer = answerTo(post);
    post.end(BODY);
    expect(await answer).toMatchObject({ status, body: expect.stringContaining('"code":-32000') });
    await eventually(() => expect(clock.pending).toBe(idle));
  });

  it.each([
    ['while it is counted', {}, 413],
    ['for its media type', { 'content-type': 'text/plain' }, 415],
  ])('%s is answered, and its stream ended when it has no end', async (_, headers, status) => {
    const post = session.request({ ...USUAL, ...headers });
    const answer = answerTo(post);
    flood(post);
    expect(await answer).toMatchObject({ status });
    await eventually(() => expect(clock.pending).toBe(idle + 1));
    await clock.advance(2_000);
    if (!post.closed) await once(post, 'close');
    await eventually(() => expect(clock.pending).toBe(idle));
  });

  it('a body that is refused over HTTP/2 is answered when it is too slow, and its HTTP/2 stream ends', async () => {
    const post = session.request(USUAL);
    post.write('{');
    await eventually(() => expect(clock.pending).toBe(idle + 1));
    const answer = answerTo(post);
    await clock.advance(30_000);
    expect(await answer).toMatchObject({ status: 408 });
    await clock.advance(2_000);
    if (!post.closed) await once(post, 'close');
  });
});
