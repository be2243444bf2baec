import { once } from 'node:events';
import { createServer, get, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { concat, EMPTY, NEVER, Observable, of, Subject, throwError } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { StreamFlow } from '../calls/reply.js';
import { ManualClock } from '../../testing/manual-clock.js';
import type { McpEvent } from '../protocol/events.js';
import { McpResponder } from './responder.js';

const KEEP_ALIVE_MS = 15_000;
const MAX_BUFFERED_BYTES = 256 * 1024;

let clock: ManualClock;
let responder: McpResponder;
let server: Server;
let port: number;
let source: (flow: StreamFlow) => Observable<McpEvent>;
let responses: ServerResponse[];
let taken: boolean[];
let prepare: (response: ServerResponse) => void;

beforeEach(async () => {
  clock = new ManualClock();
  responder = new McpResponder({ keepAliveMs: KEEP_ALIVE_MS, maxBufferedBytes: MAX_BUFFERED_BYTES, clock });
  responses = [];
  taken = [];
  source = () => NEVER;
  prepare = () => undefined;
  server = createServer((_request, response) => {
    responses.push(response);
    prepare(response);
    taken.push(respond(response));
    server.emit('sent');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  port = (server.address() as AddressInfo).port;
});

/** Streams as the controller does. @returns whether there was a response to stream to */
function respond(response: ServerResponse): boolean {
  const stream = responder.stream(response);
  stream?.start(source(stream));
  return stream !== undefined;
}

/** Whatever happened, nothing is left. */
afterEach(async () => {
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
  await until(() => responder.open === 0);
  expect(clock.pending).toBe(0);
  for (const response of responses) {
    expect(response.listeners('drain').filter(({ name }) => name === 'onDrain')).toEqual([]);
    expect(response.listeners('close').filter(({ name }) => name === 'onClose')).toEqual([]);
  }
});

const turn = () => new Promise((next) => setImmediate(next));
async function until(done: () => boolean) {
  while (!done()) await turn();
}

/** A client that reads everything. */
async function reader() {
  const request = get({ port, host: '127.0.0.1', agent: false });
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  const chunks: string[] = [];
  let end: 'ended' | 'cut' | undefined;
  response.setEncoding('utf8');
  response.on('data', (chunk: string) => chunks.push(chunk));
  response.on('end', () => (end ??= 'ended')).on('error', () => (end ??= 'cut'));
  return { request, response, chunks, text: () => chunks.join(''), end: () => end };
}

/** Messages as a client reads them. */
const textOf = (...data: string[]) => data.map((one) => `event: message\ndata: ${one}\n\n`).join('');

/** A client that reads nothing until the test lets it. */
async function staller(): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined);
  socket.pause();
  const sent = once(server, 'sent');
  socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await sent;
  return socket;
}

describe('the head of a stream', () => {
  it('the head of a stream leaves in one packet with the first events', async () => {
    source = () => concat(of({ id: '0_0', data: '' }, {}), NEVER);
    const socket = connect(port, '127.0.0.1');
    socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
    const [first] = (await once(socket, 'data')) as [Buffer];

    expect(String(first)).toMatch(/^HTTP\/1.1 200 OK\r\n[^]*\r\n\r\n[0-9a-f]+\r\nid: 0_0\ndata:\n\n:\n\n\r\n$/);
    socket.destroy();
  });

  it('the head of a stream is not written when opening throws, which the caller sees', async () => {
    source = () => {
      throw new Error('no');
    };
    const onError = vi.fn();
    server.removeAllListeners('request');
    server.on('request', (_request, response) => {
      try {
        respond(response);
      } catch (error) {
        onError(error);
        response.writeHead(500).end();
      }
    });
    const { response } = await reader();

    expect(response.statusCode).toBe(500);
    expect(onError).toHaveBeenCalledOnce();
    expect(responder.open).toBe(0);
  });
});

describe('the events of a stream', () => {
  it('the events of a stream of one turn are one write', async () => {
    const events = new Subject<McpEvent>();
    source = () => events;
    const { text } = await reader();
    const write = vi.spyOn(responses[0]!, 'write');
    for (const data of ['a', 'b']) events.next({ data });
    await Promise.resolve();
    events.next({ data: 'ü' });
    expect(write).not.toHaveBeenCalled();
    await until(() => text() !== '');

    expect(write).toHaveBeenCalledTimes(1);
    expect(text()).toBe(textOf('a', 'b', 'ü'));
  });

  it('the events of a stream may be none: the response is then a head and its end', async () => {
    source = () => EMPTY;
    const { response, text, end } = await reader();
    await until(() => end() !== undefined);

    expect([response.statusCode, text(), end()]).toEqual([200, '', 'ended']);
  });
});

describe('a source that fails', () => {
  it('a source that fails cuts the connection, so that the client resumes', async () => {
    const events = new Subject<McpEvent>();
    source = () => events;
    const { end } = await reader();
    events.error(new Error('the log is away'));
    await until(() => end() !== undefined);

    expect(end()).toBe('cut');
    expect(responder.open).toBe(0);
  });

  it('a source that fails cuts the connection also when it fails at once', async () => {
    source = () => throwError(() => new Error('the log is away'));
    const request = get({ port, host: '127.0.0.1', agent: false });
    const [error] = (await once(request, 'error')) as [NodeJS.ErrnoException];

    expect(error.code).toBe('ECONNRESET');
    expect(responder.open).toBe(0);
  });
});

describe('a client that goes away', () => {
  it('a client that goes away before the answer leaves its source unopened', async () => {
    const open = vi.fn(() => NEVER);
    source = open;
    prepare = (response) => response.destroy();
    const request = get({ port, host: '127.0.0.1', agent: false });
    request.on('error', () => undefined);
    await until(() => taken.length === 1);

    expect(taken).toEqual([false]);
    expect(open).not.toHaveBeenCalled();
  });

  // With Node 20 and 22, a response that waits behind another does not close with its connection.
  it('a client that goes away while its second request waits behind the first on one connection is noticed at the next keep-alive', async () => {
    const released = vi.fn();
    source = () => new Observable(() => released);
    const socket = connect(port, '127.0.0.1');
    socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(2));
    await until(() => responder.open === 2);
    socket.destroy();
    await until(() => responses[0]!.destroyed);
    await clock.advance(KEEP_ALIVE_MS);

    expect(responder.open).toBe(0);
    expect(released).toHaveBeenCalledTimes(2);
  });

  it('a client that goes away is not written to while its source goes on', async () => {
    let emit!: (event: McpEvent) => void;
    source = () => new Observable((subscriber) => void (emit = (event) => subscriber.next(event)));
    const { request } = await reader();
    request.destroy();
    await until(() => responder.open === 0);
    const write = vi.spyOn(responses[0]!, 'write');
    emit({ data: '1' });
    await turn();

    expect(write).not.toHaveBeenCalled();
  });
});

describe('a response that the app has answered itself', () => {
  it('a response that the app has answered itself stays as it is, and the source is not opened', async () => {
    prepare = (response) => response.writeHead(408).end();
    const { response } = await reader();

    expect(response.statusCode).toBe(408);
    expect(taken).toEqual([false]);
  });
});

describe('the keep-alive', () => {
  it('the keep-alive has one timer for all streams', async () => {
    for (let streams = 1; streams <= 3; streams++) await reader();
    expect(responder.open).toBe(3);
    expect(clock.pending).toBe(1);
  });

  it('the keep-alive of 0 writes no comments', async () => {
    responder = new McpResponder({ keepAliveMs: 0, maxBufferedBytes: MAX_BUFFERED_BYTES, clock });
    const { text } = await reader();
    await clock.advance(10 * KEEP_ALIVE_MS);

    expect(text()).toBe('');
    expect(responder.open).toBe(1);
  });
});

describe('a client that does not read', () => {
  const LARGE = { data: 'x'.repeat(64 * 1024) };
  let flow: StreamFlow;
  let events: Subject<McpEvent>;

  beforeEach(() => {
    events = new Subject();
    source = (given) => {
      flow = given;
      return events;
    };
  });

  /** Emits until the source is asked to pause. @returns how many bytes wait by then */
  async function fill(): Promise<number> {
    while (!flow.paused) {
      events.next(LARGE);
      await turn();
    }
    return responses.at(-1)!.writableLength;
  }

  it('a client that does not read pauses its own source above the limit, and no other', async () => {
    const socket = await staller();
    const waiting = await fill();
    const { text } = await reader();
    events.next({ data: '1' });
    await until(() => text() === textOf('1'));

    expect(waiting).toBeGreaterThan(MAX_BUFFERED_BYTES);
    expect(waiting).toBeLessThan(MAX_BUFFERED_BYTES + 3 * LARGE.data.length);
    expect(responder.paused).toBe(1);
    socket.destroy();
  });

  it('a client that does not read resumes its source when it has read', async () => {
    const socket = await staller();
    const resumed = vi.fn();
    flow.resumed$.subscribe(resumed);
    await fill();
    expect(resumed).not.toHaveBeenCalled();
    socket.resume();
    await until(() => resumed.mock.calls.length > 0);

    expect(flow.paused).toBe(false);
    expect(responses[0]!.writableLength).toBe(0);
    socket.destroy();
  });

  it('a client that does not read may be sent one event of any size', async () => {
    const socket = await staller();
    events.next({ data: 'x'.repeat(20 * 1024 * 1024) });
    await turn();
    expect(responses[0]!.writableLength).toBeGreaterThan(MAX_BUFFERED_BYTES);
    events.next({ data: '1' });
    await turn();
    expect(flow.paused).toBe(false);
    await fill();

    expect(flow.paused).toBe(true);
    socket.destroy();
  });

  it('a client that does not read gets no comments, and is cut when nothing drained for two periods', async () => {
    const socket = await staller();
    await fill();
    const waiting = responses[0]!.writableLength;
    await clock.advance(2 * KEEP_ALIVE_MS - 1);
    expect(responses[0]!.writableLength).toBe(waiting);
    expect(responder.open).toBe(1);
    const completed = vi.fn();
    flow.resumed$.subscribe({ complete: completed });
    await clock.advance(1);

    expect(responder.open).toBe(0);
    expect(responses[0]!.destroyed).toBe(true);
    expect(completed).toHaveBeenCalledOnce();
    expect(events.observed).toBe(false);
    socket.destroy();
  });

  it('a client that does not read is not cut while it reads slowly', async () => {
    const socket = await staller();
    events.next({ data: 'x'.repeat(64 * 1024 * 1024) });
    await turn();
    while (!flow.paused) {
      events.next(LARGE);
      await turn();
    }
    for (let period = 0; period < 6; period++) {
      const before = responses[0]!.writableLength;
      socket.resume();
      await until(() => responses[0]!.writableLength < before);
      socket.pause();
      await clock.advance(KEEP_ALIVE_MS);
      if (!flow.paused) break;
      expect(responder.open).toBe(1);
    }

    expect(responder.open).toBe(1);
    socket.destroy();
  });

  it('a client that does not read is cut as well when its stream has ended but not left', async () => {
    const socket = await staller();
    await fill();
    events.complete();
    await clock.advance(3 * KEEP_ALIVE_MS);

    expect(responder.open).toBe(0);
    socket.destroy();
  });

  it('a client that does not read gets large replays in pieces, and pauses them in the middle of a turn', async () => {
    const sizes: boolean[] = [];
    source = (given) =>
      new Observable((subscriber) => {
        for (let index = 0; index < 1_000; index++) {
          sizes.push(given.paused);
          if (given.paused) break;
          subscriber.next(LARGE);
        }
      });
    const socket = await staller();

    expect(sizes.at(-1)).toBe(true);
    expect(sizes.length).toBeLessThan(20);
    socket.destroy();
  });
});

describe('drain()', () => {
  it('drain() resolves at once without streams', async () => {
    await expect(responder.drain(1_000)).resolves.toBeUndefined();
  });

  it('drain() waits for the streams to close', async () => {
    const events = new Subject<McpEvent>();
    source = () => events;
    const readers = [await reader(), await reader()];
    const drained = vi.fn();
    const draining = responder.drain(1_000).then(drained);
    await turn();
    expect(drained).not.toHaveBeenCalled();
    events.next({ data: 'bye' });
    events.complete();
    await draining;

    expect(responder.open).toBe(0);
    await until(() => readers.every(({ end }) => end() === 'ended'));
    for (const { text } of readers) expect(text()).toBe(textOf('bye'));
  });

  it('drain() destroys what is left after the grace period', async () => {
    const { end } = await reader();
    const draining = responder.drain(1_000);
    await clock.advance(999);
    expect(responder.open).toBe(1);
    await clock.advance(1);
    await draining;

    await until(() => end() === 'cut');
    expect(clock.pending).toBe(0);
  });
});
