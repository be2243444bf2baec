import { once } from 'node:events';
import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type Server,
} from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ManualClock } from '../../../testing/manual-clock.js';
import { McpError } from '../../protocol/errors.js';
import {
  DISCARDED_BODY,
  discardBody,
  parsedBodyOf,
  readBody,
  type BodyReaderOptions,
  type InterruptBody,
} from './body-reader.js';

const MAX_BYTES = 1_000_000;
const TIMEOUT_MS = 30_000;

let clock: ManualClock;
let server: Server;
let port: number;
/** Settles like the reading of the latest request, before its answer is written. */
let outcome: Promise<string | McpError>;
/** Runs first, as a parser of an app does. */
let before: (request: IncomingMessage) => Promise<Partial<BodyReaderOptions>> | Partial<BodyReaderOptions>;
let requests: IncomingMessage[];
/** Whether the server stops. */
let last: boolean;

beforeEach(async () => {
  clock = new ManualClock();
  before = () => ({});
  requests = [];
  last = false;
  server = createServer(async (request, response) => {
    requests.push(request);
    const overrides = await before(request);
    const read = async (): Promise<string> =>
      readBody(request, { maxBytes: MAX_BYTES, timeoutMs: TIMEOUT_MS, clock, ...overrides });
    outcome = read().catch((error: McpError) => error);
    server.emit('reading');
    const result = await outcome;
    if (!(result instanceof McpError)) return void response.end(result);
    discardBody(request, response, clock, last);
    response.writeHead(result.status, { 'Content-Length': result.code.length }).end(result.code);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  port = (server.address() as AddressInfo).port;
});

afterEach(async () => {
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
  await until(() => clock.pending === 0);
});

interface Answer {
  status: number | undefined;
  headers: IncomingMessage['headers'];
  body: string;
}

async function post(body: string | Buffer | undefined, headers: OutgoingHttpHeaders = {}): Promise<Answer> {
  const request = httpRequest({ port, host: '127.0.0.1', method: 'POST', agent: false, headers });
  request.on('error', () => undefined);
  request.end(body);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  return { status: response.statusCode, headers: response.headers, body: await text(response) };
}

/** A connection on which the test writes bytes of its own. */
async function rawPost(...headers: string[]): Promise<{ socket: Socket; received: () => string }> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  let received = '';
  socket.on('data', (chunk) => (received += String(chunk))).on('error', () => undefined);
  const reading = once(server, 'reading');
  socket.write(`POST / HTTP/1.1\r\nHost: localhost\r\n${headers.map((header) => `${header}\r\n`).join('')}\r\n`);
  await reading;
  return { socket, received: () => received };
}

const chunk = (bytes: string | Buffer) =>
  Buffer.concat([Buffer.from(`${Buffer.byteLength(bytes).toString(16)}\r\n`), Buffer.from(bytes), Buffer.from('\r\n')]);
const until = async (done: () => boolean) => {
  while (!done()) await new Promise(setImmediate);
};

describe('a body within the limit', () => {
  it('a body within the limit is returned as text', async () => {
    expect(await post('{"a":"ü€😀"}')).toMatchObject({ status: 200, body: '{"a":"ü€😀"}' });
  });

  it('a body within the limit that came with its head is taken at once, and its connection serves the next request', async () => {
    const timers = vi.spyOn(clock, 'setTimeout');
    const socket = connect({ port, host: '127.0.0.1' });
    let received = '';
    socket.on('data', (chunk) => (received += String(chunk)));
    socket.write('POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}'.repeat(2));
    await until(() => received.split('HTTP/1.1 200').length === 3);
    await until(() => requests.every(({ readableEnded }) => readableEnded));

    expect(timers).not.toHaveBeenCalled();
    socket.destroy();
  });

  it('a body within the limit may be exactly as large as the limit', async () => {
    const body = 'x'.repeat(MAX_BYTES);

    expect((await post(body)).body).toBe(body);
    expect((await post(body, { 'Transfer-Encoding': 'chunked' })).body).toBe(body);
  });

  it('a body within the limit may be empty or absent', async () => {
    expect(await post('')).toMatchObject({ status: 200, body: '' });
    expect(await post(undefined)).toMatchObject({ status: 200, body: '' });
    expect(await post(undefined, { 'Transfer-Encoding': 'chunked' })).toMatchObject({ status: 200, body: '' });
  });

  it('a body within the limit is decoded correctly when chunks cut characters', async () => {
    const { socket } = await rawPost('Transfer-Encoding: chunked');
    for (const byte of Buffer.from('"ü€😀"')) socket.write(chunk(Buffer.from([byte])));
    socket.write('0\r\n\r\n');

    expect(await outcome).toBe('"ü€😀"');
    socket.destroy();
  });

  it('a body within the limit keeps a byte order mark for the reader of the text', async () => {
    await post('\ufeff{}');
    expect(await outcome).toBe('\ufeff{}');
  });

  it('a body within the limit is the same however it is cut into chunks', async () => {
    const body = Array.from({ length: 30_000 }, (_, index) => `${index},`).join('');
    const { socket } = await rawPost('Transfer-Encoding: chunked');
    for (let at = 0, size = 1; at < body.length; at += size, size = (size * 7 + 3) % 5_000 || 1) {
      socket.write(chunk(body.slice(at, at + size)));
    }
    socket.write('0\r\n\r\n');

    expect(await outcome).toBe(body);
    socket.destroy();
  });

  it.each([
    ['a lone continuation byte', [0x22, 0x80, 0x22]],
    ['an unfinished character', [0x22, 0xf0, 0x9f, 0x98]],
    ['an overlong form', [0xc0, 0xaf]],
    ['a surrogate', [0xed, 0xa0, 0x80]],
  ])('a body within the limit is refused when it has %s', async (_name, bytes) => {
    expect(await post(Buffer.from(bytes))).toMatchObject({ status: 400, body: 'PARSE_ERROR' });
  });

  it.each(['gzip', 'br', 'identity, gzip'])(
    'a body within the limit is refused with Content-Encoding %s',
    async (encoding) => {
      expect(await post('{}', { 'Content-Encoding': encoding })).toMatchObject({
        status: 415,
        body: 'UNSUPPORTED_MEDIA_TYPE',
      });
    },
  );

  it('a body within the limit may have Content-Encoding identity', async () => {
    expect((await post('{}', { 'Content-Encoding': 'Identity' })).body).toBe('{}');
  });
});

describe('a body over the limit', () => {
  it('a body over the limit is refused by its Content-Length, before anything is read', async () => {
    const { socket, received } = await rawPost(`Content-Length: ${MAX_BYTES + 1}`);

    expect(await outcome).toMatchObject({ code: 'PAYLOAD_TOO_LARGE' });
    expect(requests[0]!.readableDidRead).toBe(false);
    await until(() => received().endsWith('PAYLOAD_TOO_LARGE'));
    expect(received()).toMatch(/^HTTP\/1.1 413 [^]*\r\nConnection: keep-alive\r\n/);
    socket.destroy();
  });

  it('a body over the limit is refused by the bytes read so far when it comes in chunks', async () => {
    const answer = await post('x'.repeat(MAX_BYTES + 1), { 'Transfer-Encoding': 'chunked' });

    expect(answer).toMatchObject({ status: 413, body: 'PAYLOAD_TOO_LARGE' });
  });

  it('a body over the limit is refused in the chunk that passes the limit, however small chunks are', async () => {
    before = () => ({ maxBytes: 10 });
    const { socket } = await rawPost('Transfer-Encoding: chunked');
    for (let index = 0; index < 11; index++) socket.write(chunk('x'));

    expect(await outcome).toMatchObject({ code: 'PAYLOAD_TOO_LARGE' });
    socket.destroy();
  });

  it.each(['Transfer-Encoding: chunked', `Content-Length: ${1024 ** 3}`])(
    'a body over the limit is discarded up to a bound when the client insists on sending it: %s',
    async (header) => {
      const { socket, received } = await rawPost(header);
      const mebibyte = Buffer.alloc(1024 * 1024, 'x');
      const full = (): boolean => received().includes('413') && requests[0]!.readableFlowing === false;
      let taken = 0;
      while (taken < 64 && !full()) {
        taken++;
        const drained = socket.write(header.startsWith('T') ? chunk(mebibyte) : mebibyte);
        if (!drained) await until(() => socket.writableLength === 0 || full());
      }

      expect(received()).toContain('HTTP/1.1 413');
      expect(taken * mebibyte.length).toBeGreaterThan(DISCARDED_BODY.maxBytes);
      expect(taken).toBeLessThan(64);
      await clock.advance(DISCARDED_BODY.timeoutMs);
      await until(() => socket.destroyed);
    },
  );

  it('a body over the limit is discarded for a bounded time', async () => {
    const { socket, received } = await rawPost('Transfer-Encoding: chunked');
    socket.write(chunk('x'.repeat(MAX_BYTES)));
    socket.write(chunk('x'));
    await until(() => received().includes('413'));
    await clock.advance(DISCARDED_BODY.timeoutMs - 1);
    expect(requests[0]!.socket.destroyed).toBe(false);

    await clock.advance(1);
    expect(requests[0]!.socket.destroyed).toBe(true);
    await until(() => socket.readableEnded);
    socket.destroy();
  });

  it('a body over the limit is discarded no longer than its client is connected', async () => {
    const { socket, received } = await rawPost(`Content-Length: ${2 * MAX_BYTES}`);
    await until(() => received().includes('413'));
    expect(clock.pending).toBe(1);
    socket.destroy();

    await until(() => clock.pending === 0);
  });

  it('a body over the limit leaves a connection that serves the next request, once the client has sent its last byte', async () => {
    const listeners: number[] = [];
    before = (request) => {
      listeners.push(request.socket.listenerCount('close'));
      return {};
    };
    const { socket, received } = await rawPost(`Content-Length: ${2 * MAX_BYTES}`);
    await until(() => received().includes('413'));
    socket.write(Buffer.alloc(2 * MAX_BYTES));
    await until(() => clock.pending === 0);
    socket.write('POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}');
    await until(() => received().includes('HTTP/1.1 200'));

    expect(requests.map(({ complete }) => complete)).toEqual([true, true]);
    expect(listeners[1]).toBe(listeners[0]);
    socket.destroy();
  });

  it.each([`Content-Length: ${2 * MAX_BYTES}`, 'Transfer-Encoding: chunked'])(
    'a body over the limit is answered before the end of a connection that its client wants to be closed: %s',
    async (header) => {
      const { socket, received } = await rawPost(header, 'Connection: close');
      const body = Buffer.alloc(2 * MAX_BYTES);
      socket.write(header.startsWith('T') ? Buffer.concat([chunk(body), Buffer.from('0\r\n\r\n')]) : body);
      await once(socket, 'end');

      expect(received()).toMatch(/^HTTP\/1.1 413 [^]*PAYLOAD_TOO_LARGE$/);
      await until(() => requests[0]!.complete);
      socket.end();
      await until(() => requests[0]!.socket.destroyed);
    },
  );
});

describe('a body that does not come', () => {
  it('a body that does not come is refused after the timeout', async () => {
    const { socket, received } = await rawPost('Content-Length: 10');
    socket.write('123');
    await clock.advance(TIMEOUT_MS);

    expect(await outcome).toMatchObject({ code: 'REQUEST_TIMEOUT', status: 408 });
    await until(() => received().endsWith('REQUEST_TIMEOUT'));
    expect(requests[0]!.socket.destroyed).toBe(false);
    await clock.advance(DISCARDED_BODY.timeoutMs);
    await until(() => socket.readableEnded);
    socket.destroy();
  });

  it('a body that does not come is discarded after the timeout when it comes after all', async () => {
    const { socket, received } = await rawPost('Content-Length: 10');
    socket.write('123');
    await clock.advance(TIMEOUT_MS);
    await until(() => received().endsWith('REQUEST_TIMEOUT'));
    socket.write('4567890POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}');

    await until(() => received().endsWith('\r\n\r\n{}'));
    expect(requests[0]!.readableEnded).toBe(true);
    socket.destroy();
  });

  it('a body that does not come fails when its connection is interrupted', async () => {
    const underWay = new Set<InterruptBody>();
    before = () => ({ underWay });
    const { socket, received } = await rawPost('Transfer-Encoding: chunked');
    await until(() => underWay.size === 1);
    for (const interrupt of underWay) interrupt(new McpError('UNAVAILABLE', 'stopping'));

    expect(await outcome).toMatchObject({ code: 'UNAVAILABLE' });
    expect(underWay.size).toBe(0);
    await until(() => received().endsWith('UNAVAILABLE'));
    expect(socket.readableEnded).toBe(false);
    socket.destroy();
  });

  it('a body that does not come fails with its connection when the server stops', async () => {
    last = true;
    const underWay = new Set<InterruptBody>();
    before = () => ({ underWay });
    const { socket, received } = await rawPost('Content-Length: 10');
    await until(() => underWay.size === 1);
    for (const interrupt of underWay) interrupt(new McpError('UNAVAILABLE', 'stopping'));
    await once(socket, 'end');

    expect(received()).toMatch(/UNAVAILABLE$/);
    socket.end();
    await until(() => requests[0]!.socket.destroyed);
  });

  it('a body that does not come fails when the client leaves, and leaves no listener', async () => {
    const { socket } = await rawPost('Content-Length: 10');
    socket.write('123');
    await until(() => requests[0]!.readableDidRead);
    socket.destroy();

    expect(await outcome).toMatchObject({ code: 'BAD_REQUEST' });
    expect(clock.pending).toBe(0);
  });

  it('a body that does not come fails at once when the client has gone before', async () => {
    before = (request) => {
      request.destroy();
      return {};
    };
    const { socket } = await rawPost('Content-Length: 10');

    expect(await outcome).toMatchObject({ code: 'BAD_REQUEST' });
    socket.destroy();
  });
});

describe('a body that a parser of the app has taken', () => {
  const take = async (request: IncomingMessage) => void (await text(request));

  it.each<[string, unknown, string]>([
    ['an object', { a: [1, 'ü'] }, '{"a":[1,"ü"]}'],
    ['a string', '{"a": 1}', '{"a": 1}'],
    ['a Buffer', Buffer.from('{"ü": 1}'), '{"ü": 1}'],
    ['null', null, 'null'],
  ])(
    'a body that a parser of the app has taken is made of the value that the parser left: %s',
    async (_name, parsed, expected) => {
      before = async (request) => ({ platform: await take(request).then(() => ({ body: parsed })) });

      expect((await post('whatever')).body).toBe(expected);
    },
  );

  it('a body that a parser of the app has taken has the same limit', async () => {
    before = async (request) => ({ platform: await take(request).then(() => ({ body: 'x'.repeat(MAX_BYTES + 1) })) });
    expect(await post('whatever')).toMatchObject({ status: 413 });
    before = async (request) => ({ platform: await take(request).then(() => ({ body: Buffer.alloc(MAX_BYTES + 1) })) });
    expect(await post('whatever')).toMatchObject({ status: 413 });
  });

  it('a body that a parser of the app has taken is an error of the app when the parser left no value', async () => {
    before = async (request) => ({ platform: await take(request).then(() => ({})) });

    expect(await post('whatever')).toMatchObject({ status: 500, body: 'INTERNAL_ERROR' });
  });

  it('a body that a parser of the app has taken is read from the stream when the parser has only set {}, as older ones do', async () => {
    before = () => ({ platform: { body: {} } });

    expect((await post('{"a":1}')).body).toBe('{"a":1}');
  });

  it('a body that a parser of the app has taken is found on both adapters', () => {
    expect(parsedBodyOf({ body: { a: 1 } })).toEqual({ a: 1 });
    expect(parsedBodyOf({ body: undefined, raw: { body: 'text' } })).toBe('text');
    expect(parsedBodyOf({ raw: {} })).toBeUndefined();
  });
});
