import { request as httpRequest, type ClientRequest, type IncomingMessage } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { ADAPTERS, TestApp, type TestAppOptions } from '../support/app.js';
import { MEBIBYTE, memoryAtRest, memoryInUse } from '../support/memory.js';
import type { RawClient } from '../support/raw-client.js';
import { rawSocket, readToEnd, requestText, connectionsGone } from '../support/raw-socket.js';

const CHUNK = Buffer.alloc(64 * 1024, 0x20);
const MAX_BODY = 4 * MEBIBYTE;
/** What a refused client may send on, and what kernel and Node hold of it besides. */
const LINGERING = 16 * MEBIBYTE + 16 * MEBIBYTE;

/** A POST that is written for as long as the server takes it. */
class Flood {
  sent = 0;
  /** The most memory that was seen in use on the way. */
  peak = 0;
  readonly answer: Promise<{ status: number; body: string }>;
  readonly #request: ClientRequest;

  /** @param total bytes; declared in the head, or chunked and possibly endless */
  constructor(client: RawClient, { total, declared }: { total: number; declared: boolean }) {
    const length: Record<string, string> = declared ? { 'content-length': String(total) } : {};
    const headers = { ...client.usualHeaders, ...length };
    this.#request = httpRequest(client.url, { method: 'POST', headers, agent: false });
    this.answer = new Promise((resolve, reject) => {
      this.#request.on('response', (message: IncomingMessage) => {
        let body = '';
        message.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
        message.on('end', () => resolve({ status: message.statusCode!, body }));
      });
      this.#request.on('error', reject);
    });
    this.answer.catch(() => {});
    this.#request.on('error', () => {}).on('drain', () => this.#write(total));
    this.#write(total);
  }

  /** Settles when the connection is gone. */
  async over(): Promise<void> {
    if (!this.#request.closed) await new Promise((resolve) => this.#request.once('close', resolve));
  }

  #write(total: number): void {
    this.peak = Math.max(this.peak, memoryInUse());
    while (this.sent < total && !this.#request.destroyed) {
      this.sent += CHUNK.length;
      if (!this.#request.write(CHUNK)) return;
    }
    if (!this.#request.destroyed) this.#request.end();
  }
}

describe.each(ADAPTERS)('hostile: bodies on %s', (adapter) => {
  let app: TestApp;
  let client: RawClient;
  const start = async (options: Partial<TestAppOptions> = {}): Promise<void> => {
    app = await TestApp.start({ adapter, port: true, tools: { echo: ({ said }) => String(said) }, ...options });
    client = await app.client().initialize();
  };
  const say = (said: string) => client.toolCall('echo', { said });
  afterEach(async () => {
    await connectionsGone(app);
    await app.settled({ inFlight: 0, streams: 0, openResponses: 0 });
    expect((await client.call('echo', { said: 'still here' })).status).toBe(200);
    await app.close();
  });

  it.each([true, false])('E6: bodies of 64 MiB are refused, memory bounded (declared: %s)', async (declared) => {
    await start();
    const atRest = await memoryAtRest();
    const floods = Array.from({ length: 8 }, () => new Flood(client, { total: 64 * MEBIBYTE, declared }));
    for (const flood of floods) {
      const { status, body } = await flood.answer;
      expect(status).toBe(413);
      expect(JSON.parse(body)).toMatchObject({ jsonrpc: '2.0', id: null, error: { code: -32000 } });
    }
    // Others are served meanwhile, or would wait for 512 MiB.
    expect((await client.call('echo', { said: 'meanwhile' })).status).toBe(200);
    await Promise.all(floods.map((flood) => flood.over()));
    for (const { sent } of floods) expect(sent).toBeLessThan(MAX_BODY + LINGERING);
    const peak = Math.max(...floods.map((flood) => flood.peak));
    // Of 512 MiB, eight times what may be collected, twice for growing, and garbage.
    expect(peak - atRest).toBeLessThan(8 * 2 * MAX_BODY + 32 * MEBIBYTE);
    expect((await memoryAtRest()) - atRest).toBeLessThan(16 * MEBIBYTE);
  });

  it('E6: a chunked body that never ends is refused and cut', async () => {
    await start();
    const flood = new Flood(client, { total: Infinity, declared: false });
    expect((await flood.answer).status).toBe(413);
    await flood.over();
    expect(flood.sent).toBeLessThan(MAX_BODY + LINGERING);
  });

  it('E6: a refused client that sends on is cut after a while, on the clock', async () => {
    const clock = new ManualClock();
    await start({ clock });
    const socket = await rawSocket(client);
    const pending = clock.pending - 1; // but for the sweep, which `settled` does not count
    socket.write(requestText(client, 'POST', { headers: { 'content-length': String(64 * MEBIBYTE) } }));
    await expect.poll(() => socket.bytesRead).toBeGreaterThan(0);
    await app.settled({ timers: pending + 1 });
    await clock.advance(2_000);
    expect(await readToEnd(socket)).toMatch(/^HTTP\/1\.1 413 /);
    socket.destroy();
    await app.settled({ timers: pending });
  });

  it('E6: bodies that drip are refused when their time is over, many at once', async () => {
    const clock = new ManualClock();
    await start({ clock, bodyTimeoutMs: 30_000 });
    const pending = clock.pending - 1; // but for the sweep, which `settled` does not count
    const body = JSON.stringify(say('too slow'));
    const sockets = await Promise.all(Array.from({ length: 100 }, () => rawSocket(client)));
    for (const [i, socket] of sockets.entries()) {
      const chunked = i % 2 === 0;
      const headers: Record<string, string> = chunked
        ? { 'transfer-encoding': 'chunked' }
        : { 'content-length': String(body.length) };
      socket.write(requestText(client, 'POST', { headers }));
      socket.write(chunked ? `1\r\n${body[0]}\r\n` : body[0]!);
    }
    await app.settled({ timers: pending + 100 });
    for (let second = 1; second < 30; second++) {
      await clock.advance(1_000);
      for (const [i, socket] of sockets.entries())
        socket.write(i % 2 === 0 ? `1\r\n${body[second]}\r\n` : body[second]!);
    }
    expect((await client.call('echo', { said: 'in time' })).status).toBe(200);
    expect(sockets.map(({ bytesRead }) => bytesRead)).toEqual(sockets.map(() => 0));
    await clock.advance(1_000);
    const answers = Promise.all(sockets.map((socket) => readToEnd(socket)));
    await expect.poll(() => sockets.every(({ bytesRead }) => bytesRead > 0)).toBe(true);
    // They go on dripping; that has an end, too.
    await clock.advance(2_000);
    for (const answer of await answers) expect(answer).toMatch(/^HTTP\/1\.1 408 [^]*"code":-32000/);
    for (const socket of sockets) socket.destroy();
    await app.settled({ timers: pending });
  });

  it('E6: bodies that stop in the middle leave nothing', async () => {
    const clock = new ManualClock();
    await start({ clock });
    const pending = clock.pending - 1; // but for the sweep, which `settled` does not count
    const sockets = await Promise.all(Array.from({ length: 100 }, () => rawSocket(client)));
    const message = requestText(client, 'POST', { body: say('never heard') });
    for (const [i, socket] of sockets.entries()) socket.write(message.slice(0, message.length - 1 - (i % 60)));
    await app.settled({ timers: pending + 100 });
    for (const socket of sockets) socket.destroy();
    await connectionsGone(app);
    await app.settled({ timers: pending, inFlight: 0 });
  });

  it('E11: characters that are cut at the borders of chunks arrive whole', async () => {
    await start();
    const said = 'aé汉🙂👩‍👩‍👧‍👦 \u{10FFFF}\u2028ö\0';
    const bytes = Buffer.from(JSON.stringify(say(said)));
    for (let size = 1; size <= 5; size++) {
      const request = httpRequest(client.url, { method: 'POST', headers: client.usualHeaders, agent: false });
      request.setNoDelay(true);
      const answer = new Promise<IncomingMessage>((resolve, reject) =>
        request.on('response', resolve).on('error', reject),
      );
      for (let start = 0; start < bytes.length; start += size) {
        const piece = bytes.subarray(start, start + size);
        await new Promise<void>((resolve) => request.write(piece, () => resolve()));
      }
      request.end();
      const chunks: Buffer[] = [];
      for await (const chunk of await answer) chunks.push(chunk as Buffer);
      const { result } = JSON.parse(Buffer.concat(chunks).toString());
      expect(result.content[0].text).toBe(said);
    }
  });

  it('E11: a character that is cut off for good is refused, as is one that never was', async () => {
    await start();
    const whole = Buffer.from(JSON.stringify(say('🙂')));
    const end = whole.indexOf('🙂') + 2;
    const broken = [
      whole.subarray(0, end),
      Buffer.concat([whole.subarray(0, end), whole.subarray(end + 2)]),
      Buffer.concat([whole.subarray(0, end - 2), Buffer.from([0xff, 0xc0, 0x80]), whole.subarray(end + 2)]),
    ];
    for (const body of broken) {
      const response = await client.post(body);
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ id: null, error: { code: -32700 } });
    }
  });
});
