import 'reflect-metadata';
import type { INestApplication } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { McpStreamableModule, type McpStreamableOptions } from 'nestjs-mcp-streamable';
import { McpClock } from 'nestjs-mcp-streamable/stores';
import { expectNothingLeft } from 'nestjs-mcp-streamable/testing';
import serverless, { type Handler } from 'serverless-http';
import { afterEach, describe, expect, it } from 'vitest';
import { handler as lambda } from '../../examples/snippets/serverless.js';
import { decorated } from '../legacy/sessions-off.tools.js';
import { ADAPTERS, type Adapter } from '../support/app.js';
import { gists } from '../support/messages.js';
import { LATEST } from '../support/raw-client.js';
import { RecordedLog } from '../support/recorded-log.js';
import { TrackedClock } from '../support/tracked-clock.js';
import { MODERN, modernMeta } from '../support/modern-client.js';

const HOST = 'abc123.execute-api.eu-central-1.amazonaws.com';

interface Answer {
  statusCode: number;
  headers: Record<string, string>;
  body: string;
  isBase64Encoded: boolean;
}

interface Sent {
  method?: string;
  body?: unknown;
  headers?: Record<string, string>;
  /** As API Gateway hands on what it takes for binary. */
  base64?: boolean;
}

/** An event of API Gateway (HTTP API, payload format 2.0). */
function eventOf({ method = 'POST', body, headers = {}, base64 = false }: Sent): object {
  const text = body === undefined ? undefined : JSON.stringify(body);
  return {
    version: '2.0',
    routeKey: '$default',
    rawPath: '/mcp',
    rawQueryString: '',
    headers: {
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      host: HOST,
      'x-forwarded-for': '203.0.113.7',
      'x-forwarded-port': '443',
      'x-forwarded-proto': 'https',
      ...(text !== undefined && { 'content-length': String(Buffer.byteLength(text)) }),
      ...headers,
    },
    requestContext: {
      accountId: '123456789012',
      apiId: 'abc123',
      domainName: HOST,
      domainPrefix: 'abc123',
      stage: '$default',
      requestId: 'a-request',
      routeKey: '$default',
      time: '22/Nov/2026:20:00:00 +0000',
      timeEpoch: 1795377600000,
      http: { method, path: '/mcp', protocol: 'HTTP/1.1', sourceIp: '203.0.113.7', userAgent: 'a client' },
    },
    ...(text !== undefined && { body: base64 ? Buffer.from(text).toString('base64') : text }),
    isBase64Encoded: base64,
  };
}

const initialize = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: LATEST, capabilities: {}, clientInfo: { name: 'a client', version: '1.0.0' } },
};
const request = (id: number, method: string, params: object = {}) => ({ jsonrpc: '2.0', id, method, params });
const call = (name: string, params: object = {}) => request(3, 'tools/call', { name, ...params });
/** What is answered with 200 and as JSON. */
const resultOf = ({ statusCode, headers, body }: Answer) => {
  expect(`${statusCode} ${headers['content-type']} ${body}`).toMatch(/^200 application\/json/);
  return JSON.parse(body);
};

describe.each(ADAPTERS)('behind serverless-http, on %s', (adapter: Adapter) => {
  let app: INestApplication;
  let log: RecordedLog;
  let clock: TrackedClock;

  /** @param what of the app the adapter of the platform is given */
  const serve = async (
    what: 'http server' | 'instance',
    options: Partial<McpStreamableOptions> = {},
  ): Promise<(sent: Sent) => Promise<Answer>> => {
    log = new RecordedLog();
    clock = new TrackedClock();
    const { providers } = decorated().options.module!;
    const endpoint = McpStreamableModule.forRoot({
      serverInfo: { name: 'test', version: '1.0.0' },
      sessions: 'off',
      responseMode: 'json',
      ...options,
    });
    const testing = await Test.createTestingModule({ imports: [endpoint], providers: providers! })
      .overrideProvider(McpClock)
      .useValue(clock)
      .setLogger(log)
      .compile();
    if (adapter === 'express') app = testing.createNestApplication(new ExpressAdapter());
    else app = testing.createNestApplication<NestFastifyApplication>(new FastifyAdapter());
    await app.init();
    if (adapter === 'fastify') await (app as NestFastifyApplication).getHttpAdapter().getInstance().ready();
    const given: unknown = what === 'instance' ? app.getHttpAdapter().getInstance() : app.getHttpServer();
    const handle: Handler = serverless(given as Parameters<typeof serverless>[0]);
    return async (sent) => (await handle(eventOf(sent), {})) as Answer;
  };
  afterEach(async () => {
    await expectNothingLeft(app);
    await app.close();
    log.release();
    expect(clock.pending).toBe(0);
  });

  describe.each(['http server', 'instance'] as const)('that is given the %s of the app', (what) => {
    it('S17: a client initializes, lists and calls, each by an event of its own', async () => {
      const send = await serve(what);
      const initialized = await send({ body: initialize });
      expect(initialized.headers).not.toHaveProperty('mcp-session-id');
      expect(resultOf(initialized)).toMatchObject({ id: 1, result: { protocolVersion: LATEST } });
      const taken = await send({ body: { jsonrpc: '2.0', method: 'notifications/initialized' } });
      expect([taken.statusCode, taken.body]).toEqual([202, '']);
      const headers = { 'mcp-protocol-version': LATEST };
      const { result } = resultOf(await send({ body: request(2, 'tools/list'), headers }));
      expect(result.tools.map(({ name }: { name: string }) => name)).toContain('echo');
      const called = await send({ body: call('echo', { arguments: { name: 'Zoë' } }), headers });
      expect(called.isBase64Encoded).toBe(false);
      expect(gists([resultOf(called)])).toEqual(['Zoë']);
    });

    it('E6: a body that comes as base64 is the same body', async () => {
      const send = await serve(what);
      const body = call('echo', { arguments: { name: 'Zoë' } });
      expect(gists([resultOf(await send({ body, base64: true }))])).toEqual(['Zoë']);
    });

    it('M1: a client of revision 2026-07-28 is served', async () => {
      const send = await serve(what);
      const headers = { 'mcp-protocol-version': MODERN, 'mcp-method': 'tools/call', 'mcp-name': 'echo' };
      const body = call('echo', { arguments: { name: 'hi' }, _meta: modernMeta() });
      expect(gists([resultOf(await send({ body, headers }))])).toEqual(['hi']);
    });

    it('a JSON answer has no progress', async () => {
      const send = await serve(what);
      expect(gists([resultOf(await send({ body: call('steps', { _meta: { progressToken: 1 } }) }))])).toEqual([
        'stepped',
      ]);
    });

    it('many events at once each get their own answer', async () => {
      const send = await serve(what);
      const names = Array.from({ length: 20 }, (_, n) => `call ${n}`);
      const answers = await Promise.all(names.map((name) => send({ body: call('echo', { arguments: { name } }) })));
      expect(gists(answers.map(resultOf))).toEqual(names);
    });

    it.each<[string, Sent, number, string | RegExp]>([
      ['E2: GET', { method: 'GET' }, 405, 'POST'],
      ['E2: DELETE', { method: 'DELETE', headers: { 'mcp-session-id': 'some' } }, 405, 'POST'],
      ['E4: another media type', { body: {}, headers: { 'content-type': 'text/plain' } }, 415, 'application/json'],
      ['E5: an Accept that does not admit both', { body: {}, headers: { accept: 'text/html' } }, 406, 'text/html'],
      ['E6: a body that is too large', { body: 'x'.repeat(2_000) }, 413, '1000'],
      ['E7: no body', {}, 400, 'empty'],
      ['E8: what is not JSON-RPC', { body: { a: 1 } }, 400, '"jsonrpc" must be'],
    ])('%s is refused', async (_, sent, status, says) => {
      const send = await serve(what, { maxBodyBytes: 1_000 });
      const { statusCode, body, headers } = await send(sent);
      expect(`${statusCode} ${body}`).toMatch(new RegExp(`^${status} \\{`));
      expect(JSON.parse(body).error.message).toMatch(says);
      if (status === 405) expect(headers['allow']).toBe('POST');
    });

    it('E1: Host and Origin are checked against the lists, without exceptions for loopback', async () => {
      const send = await serve(what, { allowedHosts: [HOST], allowedOrigins: ['https://app.example.com'] });
      const body = request(2, 'ping');
      resultOf(await send({ body }));
      resultOf(await send({ body, headers: { origin: 'https://app.example.com' } }));
      resultOf(await send({ body, headers: { origin: `https://${HOST}` } }));
      expect((await send({ body, headers: { host: 'evil.example' } })).statusCode).toBe(403);
      expect((await send({ body, headers: { host: 'localhost' } })).statusCode).toBe(403);
      expect((await send({ body, headers: { origin: 'https://evil.example' } })).statusCode).toBe(403);
      expect(log.texts('warn').join()).not.toContain('"allowedHosts" is empty');
    });
  });

  // Given the instance of Fastify, serverless-http takes the text of a stream for chunks, and loses it.
  it.each(adapter === 'express' ? (['http server', 'instance'] as const) : (['http server'] as const))(
    'P3: a stream arrives as a whole (%s)',
    async (what) => {
      const send = await serve(what, { responseMode: 'auto' });
      const { statusCode, headers, body } = await send({ body: call('steps', { _meta: { progressToken: 1 } }) });
      expect([statusCode, headers['content-type']]).toEqual([200, 'text/event-stream']);
      const messages = [...body.matchAll(/^data: (.+)$/gm)].map(([, data]) => JSON.parse(data!));
      expect(gists(messages)).toEqual(['progress 1', 'progress 2', 'stepped']);
    },
  );
});

describe('the code of the documentation', () => {
  it('the code of the documentation serves events', async () => {
    const headers = { host: 'mcp.example.com' };
    const send = async (body: object) => resultOf((await lambda(eventOf({ body, headers }), {})) as Answer);
    expect(await send(initialize)).toMatchObject({ result: { serverInfo: { name: 'orders' } } });
    expect(gists([await send(call('find_order', { arguments: { id: 'A-1042' } }))])).toEqual([
      'Order A-1042 is on its way.',
    ]);
  });
});
