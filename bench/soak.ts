import { fileURLToPath } from 'node:url';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { SharedRedis } from './harness/redis.js';
import { ServerProcess } from './harness/server-process.js';
import { inWords } from './harness/steps.js';
import { enough, grownIn, type QuietPoint } from './soak/verdict.js';
import { Visitor } from './soak/visitor.js';
import { VISITS } from './soak/visits.js';

/**
 * `npm run x -- soak`: see bench/README.md. Visitors come and go; now and then all leave, and what is left then must not grow.
 *
 * A server is in one of two states: `busy`, or `quiet`, when no visit is under way and everything that may end has ended.
 */

const SERVER = fileURLToPath(new URL('soak/server.js', import.meta.url));
const VISITORS = 12;
/** How long what was left behind may take to end: sessions that were forgotten, within the server's idle time. */
const SETTLE_MS = 60_000;
/** Visits before the baseline, if there is time for them. */
const WARM_UP_VISITS = 4_000;
const WARM_UP_MS = 120_000;
/** How long a visit may take: an answer that never comes must not go unnoticed. */
const VISIT_MS = 120_000;

/** How many visits may starve, of all: a few when others use the machine, none otherwise. */
const STARVED_SHARE = 0.02;

const { values: options } = parseArgs({
  options: {
    minutes: { type: 'string', default: '30' },
    adapter: { type: 'string', default: 'both' },
    backend: { type: 'string', default: 'memory' },
    leak: { type: 'string', default: '0' },
    seed: { type: 'string', default: '1' },
  },
});
const minutes = Number(options.minutes);
if (!(minutes > 0)) throw new Error(`--minutes must be a number above 0; got "${options.minutes}".`);
const random = seeded(Number(options.seed));
const durationMs = minutes * 60_000;
/** How long visitors come before they have to leave again. */
const busyMs = Math.min(30_000, durationMs / 20);
/** When the server ends a session of which it hears nothing: soon, but not while a visitor has to wait for a core. */
const idleMs = Math.max(5_000, Math.min(10_000, durationMs / 180));

/** One server, and where its sessions are. */
interface Soaked {
  readonly title: string;
  readonly server: ServerProcess;
  /** Names of what is left in Redis, if the sessions are there. */
  readonly keys: () => Promise<readonly string[]>;
}

const titleOf = (adapter: string, redis: SharedRedis | undefined): string => (redis ? `${adapter}, Redis` : adapter);

async function start(adapter: string, redis: SharedRedis | undefined): Promise<Soaked> {
  const prefix = `soak-${adapter}-${process.pid}`;
  const shared = redis && { REDIS_URL: redis.url, REDIS_PREFIX: prefix };
  const server = await ServerProcess.start(SERVER, {
    ADAPTER: adapter,
    LEAK_BYTES: options.leak,
    IDLE_MS: String(idleMs),
    ...shared,
  });
  return {
    title: titleOf(adapter, redis),
    server,
    keys: () => redis?.keysOf(prefix) ?? Promise.resolve([]),
  };
}

/** @returns what has grown, in words */
async function soak(soaked: Soaked): Promise<string[]> {
  const { title, server } = soaked;
  const points: QuietPoint[] = [];
  const count: Count = { done: 0, starved: 0 };
  try {
    // The first visits load what stays, and have V8 compile what is used: the baseline comes after them.
    await busy(server, count, WARM_UP_MS, WARM_UP_VISITS);
    const began = performance.now();
    const rest = async (): Promise<void> => {
      points.push(await quiet(soaked, began, count.done));
      console.log(rowOf(title, points.at(-1)!));
    };
    do {
      await rest();
      await busy(server, count, busyMs);
    } while (performance.now() - began < durationMs);
    await rest();
    if (count.starved > 0) console.log(`${title}: ${count.starved} of ${count.done} visits starved on a busy machine.`);
    if (!enough(points)) console.log(`${title}: too short to say whether memory grows.`);
    const spoilt = count.starved > count.done * STARVED_SHARE ? ['too many visits starved'] : [];
    return [...grownIn(points), ...spoilt].map((grown) => `${title}: ${grown}`);
  } finally {
    await server.stop();
  }
}

function told(error: unknown): string {
  console.error(error);
  return error instanceof Error ? error.message : String(error);
}

/** Visits so far. */
interface Count {
  done: number;
  /** Failed, but so late that it was for want of a core: the server ends sessions of which it hears nothing. */
  starved: number;
}

async function busy(server: ServerProcess, count: Count, ms: number, enough = Infinity): Promise<void> {
  const end = performance.now() + ms;
  const before = count.done;
  let failed = false;
  const more = (): boolean => !failed && performance.now() < end && count.done - before < enough;
  const failure = async (name: string, took: number, cause: unknown): Promise<void> => {
    if (took > idleMs / 2 && took < VISIT_MS) {
      count.starved++;
      return;
    }
    failed = true;
    const gauges = await server.gauges().then(JSON.stringify, String);
    throw new Error(`${name} went wrong after ${Math.round(took)} ms. The server holds ${gauges}.`, { cause });
  };
  const again = async (name: string, once: () => Promise<unknown>): Promise<void> => {
    const began = performance.now();
    await once().catch((error: unknown) => failure(name, performance.now() - began, error));
  };
  const visits = async (): Promise<void> => {
    const kinds = Object.entries(VISITS);
    while (more()) {
      const [name, visit] = kinds[Math.floor(random() * kinds.length)]!;
      const visitor = new Visitor(server.port, random);
      await again(`A visit (${name})`, () => Promise.race([visit(visitor), tooLong()]).finally(() => visitor.leave()));
      count.done++;
    }
  };
  const crier = async (): Promise<void> => {
    while (more()) {
      await again('A notification', () => server.notify(0));
      await delay(50);
    }
  };
  await Promise.all([crier(), ...Array.from({ length: VISITORS }, visits)]);
}

async function tooLong(): Promise<never> {
  await delay(VISIT_MS, undefined, { ref: false });
  throw new Error(`The visit did not end within ${VISIT_MS} ms.`);
}

/** @throws when something that should end does not */
async function quiet({ server, keys }: Soaked, began: number, visits: number): Promise<QuietPoint> {
  const deadline = performance.now() + SETTLE_MS;
  for (;;) {
    const gauges = await server.gauges();
    const { handles: _, listeners: __, ...mustEnd } = gauges;
    const names = await keys();
    const left = Object.entries({ ...mustEnd, keys: names.length }).filter(([, value]) => value > 0);
    if (left.length === 0) {
      const { heap, external } = await server.memory();
      const seconds = Math.round((performance.now() - began) / 1000);
      return { seconds, visits, memory: heap + external, gauges: await server.gauges() };
    }
    if (performance.now() > deadline)
      throw new Error(`Not released within ${SETTLE_MS} ms: ${JSON.stringify(left)} ${names.slice(0, 20).join(' ')}`);
    await delay(100);
  }
}

function rowOf(title: string, { seconds, visits, memory, gauges }: QuietPoint): string {
  const { handles, listeners, ...rest } = gauges;
  const left = Object.values(rest).reduce((sum, value) => sum + value, 0);
  const cells = [title, seconds, toGo(seconds), visits, (memory / 1024).toFixed(0), handles, listeners, left];
  return `| ${cells.join(' | ')} |`;
}

/** The last visits may begin when the time is nearly over. */
const toGo = (seconds: number): string => inWords(durationMs / 1000 - seconds);

/** @throws when the option is none of these */
function chosen(option: 'adapter' | 'backend', all: readonly string[]): readonly string[] {
  const wanted = options[option];
  if (wanted === 'both') return all;
  if (!all.includes(wanted)) throw new Error(`--${option} must be ${all.join(', ')} or both; got "${wanted}".`);
  return [wanted];
}

const adapters = chosen('adapter', ['express', 'fastify']);
const backends = chosen('backend', ['memory', 'redis']);
const redis = backends.includes('redis') ? await SharedRedis.obtain('The soak test with --backend redis') : undefined;
if (backends.includes('redis') && !redis && backends.length === 1)
  throw new Error('No backend can be tested: Redis is not available.');
const stores = [...(backends.includes('memory') ? [undefined] : []), ...(redis ? [redis] : [])];
const named = stores.flatMap((store) => adapters.map((adapter) => titleOf(adapter, store)));
console.log(
  `The soak test: ${VISITORS} concurrent visitors per server, on ${named.join(' and ')}, for ${inWords(durationMs / 1000)} ` +
    `after a warm-up of up to ${inWords(WARM_UP_MS / 1000)}: about ${inWords((durationMs + WARM_UP_MS) / 1000)}. A row is ` +
    `printed whenever all visits have ended (about every ${inWords(busyMs / 1000)}, plus ${inWords(idleMs / 1000)} until ` +
    `forgotten sessions expire); no value may grow from row to row.\n`,
);
console.log('| server | seconds | remaining | visits | memory, KiB | handles | listeners | left over |');
console.log('| --- | --: | --: | --: | --: | --: | --: | --: |');
try {
  const soaked = await Promise.all(stores.flatMap((store) => adapters.map((adapter) => start(adapter, store))));
  // One that fails does not end the others.
  const failed = (await Promise.all(soaked.map((one) => soak(one).catch((error: unknown) => [told(error)])))).flat();
  if (failed.length > 0) throw new Error(`The soak test failed: ${failed.join('; ')}.`);
  console.log('\nPassed: no resource grew.');
} finally {
  await redis?.stop();
}

/** Numbers in [0, 1) that are the same for the same seed (mulberry32). */
function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
