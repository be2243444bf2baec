import { existsSync } from 'node:fs';
import { get, type IncomingMessage } from 'node:http';
import { fileURLToPath } from 'node:url';
import { setTimeout as delay } from 'node:timers/promises';
import { chromium } from 'playwright-core';
import { HttpConnection } from './harness/http-connection.js';
import { callAdd, openSession, type Session } from './harness/mcp-client.js';
import { ServerProcess } from './harness/server-process.js';

/**
 * `npm run x -- bench:live`: what the live page costs a server with 1,000 sessions and 200 calls a second, by CPU time of the process,
 * and how long Chromium draws. Each share is that of one core.
 */

const SERVER = fileURLToPath(new URL('server.js', import.meta.url));
const CHROMIUM = process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium';
const SESSIONS = 1_000;
const CALLS_PER_SECOND = 200;
const MEASURED_MS = Number(process.env['MEASURED_MS'] ?? 8_000);
/** The middle one counts. */
const ROUNDS = 3;
/** So that code is compiled, and the first updates are over. */
const WARM_UP_MS = 5_000;

/** A server under a steady load. */
class Loaded {
  readonly #over = new AbortController();
  #load: Promise<void> | undefined;

  private constructor(
    readonly server: ServerProcess,
    private readonly connection: HttpConnection,
    private readonly sessions: readonly Session[],
  ) {}

  static async start(env: Record<string, string>): Promise<Loaded> {
    const server = await ServerProcess.start(SERVER, { ADAPTER: 'fastify', ...env });
    const connection = await HttpConnection.open(server.port);
    const sessions: Session[] = [];
    for (let count = 0; count < SESSIONS; count++) sessions.push(await openSession(connection));
    const loaded = new Loaded(server, connection, sessions);
    loaded.#load = loaded.#call();
    await delay(WARM_UP_MS);
    return loaded;
  }

  /** CPU time, in percent of one core. */
  async share(): Promise<number> {
    const [before, begin] = [await this.server.cpu(), performance.now()];
    await delay(MEASURED_MS);
    return ((await this.server.cpu()) - before) / (performance.now() - begin) / 10;
  }

  /** CPU time of a call, in microseconds, when one follows another. */
  async ofOneCall(): Promise<number> {
    const connection = await HttpConnection.open(this.server.port);
    const costs: number[] = [];
    for (let round = 0; round < 12; round++) {
      const before = await this.server.cpu();
      for (let call = 0; call < 2_000; call++)
        await callAdd(connection, this.sessions[call % SESSIONS]!, 1_000_000 + call);
      costs.push(((await this.server.cpu()) - before) / 2_000);
    }
    connection.close();
    return costs.toSorted((one, other) => one - other)[costs.length >> 2]!;
  }

  async stop(): Promise<void> {
    this.#over.abort();
    await this.#load;
    this.connection.close();
    await this.server.stop();
  }

  async #call(): Promise<void> {
    const begin = performance.now();
    for (let index = 0; !this.#over.signal.aborted; index++) {
      const ahead = begin + (index * 1_000) / CALLS_PER_SECOND - performance.now();
      if (ahead > 0) await delay(ahead);
      await callAdd(this.connection, this.sessions[(index * 7) % SESSIONS]!, index);
    }
  }
}

/** Pages that read, without drawing. */
class Readers {
  bytes = 0;
  private constructor(private readonly responses: readonly IncomingMessage[]) {
    for (const response of responses) response.on('data', (piece: Buffer) => (this.bytes += piece.length));
  }

  static async open(port: number, count: number): Promise<Readers> {
    const open = () =>
      new Promise<IncomingMessage>((resolve, reject) => {
        get(`http://127.0.0.1:${port}/mcp-live/events`, { agent: false }, resolve).on('error', reject);
      });
    return new Readers(await Promise.all(Array.from({ length: count }, open)));
  }

  close(): void {
    for (const response of this.responses) response.destroy();
  }
}

/** How long Chromium takes to draw an update, in milliseconds; the middle one, and the longest. */
async function drawing(port: number): Promise<string> {
  if (!existsSync(CHROMIUM)) return `no Chromium at ${CHROMIUM}`;
  const browser = await chromium.launch({ executablePath: CHROMIUM, chromiumSandbox: false });
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  await page.goto(`http://127.0.0.1:${port}/mcp-live`);
  await page.waitForSelector('#sessions tbody tr');
  const times: number[] = [];
  for (const end = performance.now() + MEASURED_MS; performance.now() < end; await delay(500)) {
    times.push(Number(await page.locator('body').getAttribute('data-draw-ms')));
  }
  await browser.close();
  const sorted = times.toSorted((one, other) => one - other);
  return `${sorted[sorted.length >> 1]!.toFixed(1)} ms, at most ${sorted.at(-1)!.toFixed(1)} ms`;
}

const say = (text: string): boolean => process.stdout.write(`${text}\n`);
say(`${SESSIONS} sessions, ${CALLS_PER_SECOND} calls a second, ${MEASURED_MS / 1_000} s each; shares of one core`);

const without = await Loaded.start({});
say(`without the module        ${(await without.share()).toFixed(1)} %`);
const bare = await without.ofOneCall();
await without.stop();

const loaded = await Loaded.start({ PLUGINS: 'live' });
const measured = new Map<number, { share: number; rate: number }[]>([0, 1, 5].map((count) => [count, []]));
// By turns: a machine differs from one minute to the next.
for (let round = 0; round < ROUNDS; round++) {
  for (const [count, results] of measured) {
    const readers = await Readers.open(loaded.server.port, count);
    // The snapshot is not part of the rate.
    await delay(1_500);
    readers.bytes = 0;
    const begin = performance.now();
    const share = await loaded.share();
    results.push({ share, rate: readers.bytes / Math.max(1, count) / (performance.now() - begin) });
    readers.close();
    await delay(1_000);
  }
}
for (const [count, results] of measured) {
  const { share, rate } = results.toSorted((one, other) => one.share - other.share)[ROUNDS >> 1]!;
  say(`with it, readers: ${count}       ${share.toFixed(1)} %, ${rate.toFixed(1)} kB/s for each`);
}
say(`added to a call            ${((await loaded.ofOneCall()) - bare).toFixed(1)} µs, to ${bare.toFixed(0)} µs`);
say(`an update in Chromium      ${await drawing(loaded.server.port)}`);
await loaded.stop();
