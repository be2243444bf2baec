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
import { ManualClock } from '../testing/manual-clock.js';
import { McpError } from '../wire/errors.js';
import { ABANDONED_BODY } from './abandon-body.js';
import { parsedBodyOf, readBody, type BodyReaderOptions } from './body-reader.js';

const MAX_BYTES = 1_000_000;
const TIMEOUT_MS = 30_000;

let clock: ManualClock;
let server: Server;
let port: number;
/** How the latest request was read; settles before its answer is written. */
let outcome: Promise<string | McpError>;
/** What an app's parser does first. */
let before: (request: IncomingMessage) => Promise<Partial<BodyReaderOptions>> | Partial<BodyReaderOptions>;
let requests: IncomingMessage[];

beforeEach(async () => {
  clock = new ManualClock();
  before = () => ({});
  requests = [];
  server = createServer(async (request, response) => {
    requests.push(request);
    const overrides = await before(request);
    outcome = readBody(request, { maxBytes: MAX_BYTES, timeoutMs: TIMEOUT_MS, clock, ...overrides }).catch(
      (error: McpError) => error,
    );
    server.emit('reading');
    const result = await outcome;
    if (result instanceof McpError) response.writeHead(result.status, result.headers).end(result.code);
    else response.end(result);
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
  it('is returned as text', async () => {
    expect(await post('{"a":"ü€😀"}')).toMatchObject({ status: 200, body: '{"a":"ü€😀"}' });
  });

  it('that came with its head is taken at once, heard to end, and its connection serves the next', async () => {
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

  it('may be exactly as large as the limit', async () => {
    const body = 'x'.repeat(MAX_BYTES);

    expect((await post(body)).body).toBe(body);
    expect((await post(body, { 'Transfer-Encoding': 'chunked' })).body).toBe(body);
  });

  it('may be empty or absent', async () => {
    expect(await post('')).toMatchObject({ status: 200, body: '' });
    expect(await post(undefined)).toMatchObject({ status: 200, body: '' });
    expect(await post(undefined, { 'Transfer-Encoding': 'chunked' })).toMatchObject({ status: 200, body: '' });
  });

  it('is decoded whole when characters are cut at the border of chunks', async () => {
    const { socket } = await rawPost('Transfer-Encoding: chunked');
    for (const byte of Buffer.from('"ü€😀"')) socket.write(chunk(Buffer.from([byte])));
    socket.write('0\r\n\r\n');

    expect(await outcome).toBe('"ü€😀"');
    socket.destroy();
  });

  it('keeps a byte order mark for who reads the text', async () => {
    await post('\ufeff{}');
    expect(await outcome).toBe('\ufeff{}');
  });

  it('survives any way of being cut into chunks', async () => {
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
  ])('is refused when it has %s', async (_name, bytes) => {
    expect(await post(Buffer.from(bytes))).toMatchObject({ status: 400, body: 'PARSE_ERROR' });
  });

  it.each(['gzip', 'br', 'identity, gzip'])('is refused with Content-Encoding %s', async (encoding) => {
    expect(await post('{}', { 'Content-Encoding': encoding })).toMatchObject({
      status: 415,
      body: 'UNSUPPORTED_MEDIA_TYPE',
    });
  });

  it('may have Content-Encoding identity', async () => {
    expect((await post('{}', { 'Content-Encoding': 'Identity' })).body).toBe('{}');
  });
});

describe('a body over the limit', () => {
  it('is refused by its Content-Length, before anything is read', async () => {
    const { socket, received } = await rawPost(`Content-Length: ${MAX_BYTES + 1}`);

    expect(await outcome).toMatchObject({ code: 'PAYLOAD_TOO_LARGE', headers: { Connection: 'close' } });
    expect(requests[0]!.readableDidRead).toBe(false);
    await once(socket, 'end');
    expect(received()).toMatch(/^HTTP\/1.1 413 [^]*\r\nConnection: close\r\n[^]*PAYLOAD_TOO_LARGE/);
    socket.destroy();
  });

  it('is refused while counting when it comes in chunks', async () => {
    const answer = await post('x'.repeat(MAX_BYTES + 1), { 'Transfer-Encoding': 'chunked' });

    expect(answer).toMatchObject({ status: 413, body: 'PAYLOAD_TOO_LARGE', headers: { connection: 'close' } });
  });

  it('is refused in the chunk that passes the limit, however tiny chunks are', async () => {
    before = () => ({ maxBytes: 10 });
    const { socket } = await rawPost('Transfer-Encoding: chunked');
    for (let index = 0; index < 11; index++) socket.write(chunk('x'));

    expect(await outcome).toMatchObject({ code: 'PAYLOAD_TOO_LARGE' });
    socket.destroy();
  });

  it.each(['Transfer-Encoding: chunked', `Content-Length: ${1024 ** 3}`])(
    'is thrown away up to a bound when the client insists on sending it: %s',
    async (header) => {
      const { socket, received } = await rawPost(header);
      const mebibyte = Buffer.alloc(1024 * 1024, 'x');
      let sent = 0;
      while (sent < 64 && socket.writable) {
        sent++;
        const taken = socket.write(header.startsWith('T') ? chunk(mebibyte) : mebibyte);
        if (!taken) await new Promise((next) => socket.once('drain', next).once('close', next));
      }

      expect(received()).toContain('HTTP/1.1 413');
      expect(sent).toBeLessThan(64);
      await until(() => socket.destroyed);
    },
  );

  it('is thrown away for a bounded time', async () => {
    const { socket, received } = await rawPost('Transfer-Encoding: chunked');
    socket.write(chunk('x'.repeat(MAX_BYTES)));
    socket.write(chunk('x'));
    await once(socket, 'end');
    expect(received()).toContain('413');
    expect(requests[0]!.socket.destroyed).toBe(false);

    await clock.advance(ABANDONED_BODY.timeoutMs);
    expect(requests[0]!.socket.destroyed).toBe(true);
  });

  it('leaves the connection to the client until it has sent its last byte', async () => {
    const { socket } = await rawPost(`Content-Length: ${2 * MAX_BYTES}`);
    await once(socket, 'end');
    const closed = once(requests[0]!.socket, 'close');
    socket.write(Buffer.alloc(2 * MAX_BYTES));
    await closed;

    expect(requests[0]!.complete).toBe(true);
  });
});

describe('a body that does not come', () => {
  it('is given up after the timeout', async () => {
    const { socket, received } = await rawPost('Content-Length: 10');
    socket.write('123');
    await clock.advance(TIMEOUT_MS);

    expect(await outcome).toMatchObject({ code: 'REQUEST_TIMEOUT', status: 408 });
    await once(socket, 'end');
    expect(received()).toContain('Connection: close');
    await clock.advance(ABANDONED_BODY.timeoutMs);
    await until(() => requests[0]!.socket.destroyed);
  });

  it('ends with the client, and leaves nothing', async () => {
    const { socket } = await rawPost('Content-Length: 10');
    socket.write('123');
    await until(() => requests[0]!.readableDidRead);
    socket.destroy();

    expect(await outcome).toMatchObject({ code: 'BAD_REQUEST' });
    expect(clock.pending).toBe(0);
    for (const event of ['data', 'end', 'close', 'error']) {
      expect(requests[0]!.listeners(event).filter(({ name }) => name.startsWith('on'))).toEqual([]);
    }
  });

  it('fails at once when the client has gone before', async () => {
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
  ])('is made of what it left: %s', async (_name, parsed, expected) => {
    before = async (request) => ({ parsed: await take(request).then(() => parsed) });

    expect((await post('whatever')).body).toBe(expected);
  });

  it('has the same limit', async () => {
    before = async (request) => ({ parsed: await take(request).then(() => 'x'.repeat(MAX_BYTES + 1)) });
    expect(await post('whatever')).toMatchObject({ status: 413 });
    before = async (request) => ({ parsed: await take(request).then(() => Buffer.alloc(MAX_BYTES + 1)) });
    expect(await post('whatever')).toMatchObject({ status: 413 });
  });

  it('is an error of the app when it left nothing', async () => {
    before = async (request) => ({ parsed: await take(request).then(() => undefined) });

    expect(await post('whatever')).toMatchObject({ status: 500, body: 'INTERNAL_ERROR' });
  });

  it('is read from the stream when it only claims to have: older parsers set {}', async () => {
    before = () => ({ parsed: {} });

    expect((await post('{"a":1}')).body).toBe('{"a":1}');
  });

  it('is found on either adapter', () => {
    expect(parsedBodyOf({ body: { a: 1 } })).toEqual({ a: 1 });
    expect(parsedBodyOf({ body: undefined, raw: { body: 'text' } })).toBe('text');
    expect(parsedBodyOf({ raw: {} })).toBeUndefined();
  });
});
