import { fileURLToPath } from 'node:url';
import { setTimeout as delay } from 'node:timers/promises';
import { HttpConnection } from './harness/http-connection.js';
import { modernRequest } from './harness/mcp-client.js';
import { ServerProcess } from './harness/server-process.js';

/**
 * `npm run x -- bench:overload`: a heavy caller sends three times as many calls as a server can serve, whether or not they are
 * answered; a light caller sends 20 a second. Printed, for handlers of two kinds: how long the light caller waits, which
 * share of its capacity the server still answers, and how soon it is back when the heavy caller stops.
 */

const SERVER = fileURLToPath(new URL('overload/server.js', import.meta.url));
const CAPACITY_MS = 3_000;
const OVERLOAD_MS = Number(process.env['OVERLOAD_MS'] ?? 8_000);
const FACTOR = 3;
const LIGHT_EVERY_MS = 50;
/** Of one caller: more would wait in the backlog of the kernel, which no server can reorder. */
const MOST_CONNECTIONS = 400;

const WORKS = [
  { name: 'burn: 10 ms of the processor', tool: 'burn', ms: 10, parallel: 4, limits: {} },
  { name: 'burn: 20 ms of the processor', tool: 'burn', ms: 20, parallel: 4, limits: {} },
  {
    name: 'pool: 50 ms, ten at a time',
    tool: 'pool',
    ms: 50,
    parallel: 20,
    // 200 calls a second, of which one caller may have a third of a second waiting.
    limits: { maxRunningCallsPerPrincipal: 60 },
  },
];

/** A caller, and the connections that it keeps. */
class Caller {
  readonly #free: HttpConnection[] = [];
  #open = 0;

  constructor(
    private readonly port: number,
    private readonly user: string,
    private readonly tool: string,
    private readonly ms: number,
  ) {}

  /** @returns the status, and the milliseconds until the answer; `undefined` without a connection */
  async call(): Promise<{ status: number; ms: number } | undefined> {
    const began = performance.now();
    let connection = this.#free.pop();
    while (connection && !connection.fresh) {
      this.#open--;
      connection.close();
      connection = this.#free.pop();
    }
    if (!connection) {
      if (this.#open >= MOST_CONNECTIONS) return undefined;
      this.#open++;
      connection = await HttpConnection.open(this.port);
    }
    const { head, body } = modernRequest(
      1,
      'tools/call',
      `"name":"${this.tool}","arguments":{"ms":${this.ms}}`,
      '/mcp',
    );
    const { status } = await connection.exchange(`${head}Mcp-Name: ${this.tool}\r\nX-User: ${this.user}\r\n`, body);
    this.#free.push(connection);
    return { status, ms: performance.now() - began };
  }

  close(): void {
    for (const connection of this.#free) connection.close();
  }
}

/** Calls at a steady rate, however long they take. */
async function steadily(everyMs: number, forMs: number, send: () => unknown): Promise<void> {
  const began = performance.now();
  for (let sent = 0; performance.now() - began < forMs;) {
    const due = Math.floor((performance.now() - began) / everyMs);
    for (; sent <= due; sent++) send();
    await delay(2);
  }
}

async function measured({ name, tool, ms, parallel, limits }: (typeof WORKS)[number]): Promise<void> {
  const server = await ServerProcess.start(SERVER, { LIMITS: JSON.stringify(limits) });
  const heavy = new Caller(server.port, 'heavy', tool, ms);
  const light = new Caller(server.port, 'light', tool, ms);
  let served = 0;
  const began = performance.now();
  const one = async (): Promise<void> => {
    while (performance.now() - began < CAPACITY_MS) {
      await heavy.call();
      served++;
    }
  };
  await Promise.all(Array.from({ length: parallel }, one));
  const capacity = (served / (performance.now() - began)) * 1_000;

  const statuses = new Map<string, number>();
  const waits: number[] = [];
  const running: Promise<void>[] = [];
  let good = 0;
  let over = false;
  const note = (who: string, answer: { status: number; ms: number } | undefined): void => {
    const key = `${who} ${answer?.status ?? 'not sent'}`;
    statuses.set(key, (statuses.get(key) ?? 0) + 1);
    if (answer?.status === 200 && !over) good++;
    if (who === 'light' && answer) waits.push(answer.status === 200 ? answer.ms : Infinity);
  };
  const send = (who: string, caller: Caller) => () =>
    void running.push(
      caller.call().then(
        (answer) => note(who, answer),
        () => note(who, undefined),
      ),
    );
  const start = performance.now();
  await Promise.all([
    steadily(1_000 / (FACTOR * capacity), OVERLOAD_MS, send('heavy', heavy)),
    steadily(LIGHT_EVERY_MS, OVERLOAD_MS, send('light', light)),
  ]);
  const goodput = (good / (performance.now() - start)) * 1_000;
  over = true;
  const stopped = performance.now();
  // The heavy caller itself is served again, and at once.
  for (let back = false; !back;) {
    const answer = await heavy.call();
    back = answer?.status === 200 && answer.ms < 5 * ms;
    if (!back) await delay(20);
  }
  const recoveredMs = performance.now() - stopped;
  await Promise.all(running);
  waits.sort((a, b) => a - b);
  const p99 = waits[Math.ceil(waits.length * 0.99) - 1]!;
  console.log(
    `${name}: capacity ${capacity.toFixed(0)} calls/s; light caller p50 ${waits[waits.length >> 1]!.toFixed(0)} ms, ` +
      `p99 ${p99.toFixed(0)} ms (below 500); goodput ${((goodput / capacity) * 100).toFixed(0)} % of capacity (above 90); ` +
      `recovery ${recoveredMs.toFixed(0)} ms (below 2000)\n  ${[...statuses].map(([key, n]) => `${key}: ${n}`).join(', ')}`,
  );
  heavy.close();
  light.close();
  await server.stop();
}

for (const work of WORKS) await measured(work);
