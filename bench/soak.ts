import { fileURLToPath } from 'node:url';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { seededRandom } from 'nestjs-mcp-streamable/testing';
import { ServerProcess } from './harness/server-process.js';
import { grownIn, type QuietPoint } from './soak/verdict.js';
import { VISITS } from './soak/visits.js';

/**
 * `npm run soak`: see bench/README.md. Visitors come and go; now and then all leave, and what is left then must not grow.
 *
 * A server is in one of two states: `busy`, or `quiet`, when no visit is under way and everything that may end has ended.
 */

const SERVER = fileURLToPath(new URL('soak/server.js', import.meta.url));
const VISITORS = 12;
/** How long what was left behind may take to end: sessions that were forgotten, within the server's idle time. */
const SETTLE_MS = 30_000;
/** Visits before the baseline, if there is time for them. */
const WARM_UP_VISITS = 4_000;
const WARM_UP_MS = 120_000;
/** How long a visit may take: an answer that never comes must not go unnoticed. */
const VISIT_MS = 60_000;

const { values: options } = parseArgs({
  options: {
    minutes: { type: 'string', default: '30' },
    adapter: { type: 'string', default: 'both' },
    seed: { type: 'string', default: '1' },
  },
});
const minutes = Number(options.minutes);
if (!(minutes > 0)) throw new Error(`--minutes wants a number above 0, not "${options.minutes}".`);
const random = seededRandom(Number(options.seed));
const durationMs = minutes * 60_000;
/** How long visitors come before they have to leave again. */
const busyMs = Math.min(30_000, durationMs / 20);

async function soak(adapter: string): Promise<string[]> {
  const server = await ServerProcess.start(SERVER, { ADAPTER: adapter });
  const points: QuietPoint[] = [];
  try {
    // The first visits load what stays, and have V8 compile what is used: the baseline comes after them.
    let visits = await busy(server, WARM_UP_MS, WARM_UP_VISITS);
    const began = performance.now();
    do {
      points.push(await quiet(server, began, visits));
      console.log(rowOf(adapter, points.at(-1)!));
      visits += await busy(server, busyMs);
    } while (performance.now() - began < durationMs);
    points.push(await quiet(server, began, visits));
    console.log(rowOf(adapter, points.at(-1)!));
    return grownIn(points).map((grown) => `${adapter}: ${grown}`);
  } finally {
    await server.stop();
  }
}

/** @returns how many visits there were */
async function busy(server: ServerProcess, ms: number, enough = Infinity): Promise<number> {
  const end = performance.now() + ms;
  const kinds = Object.entries(VISITS);
  let visits = 0;
  const more = (): boolean => performance.now() < end && visits < enough;
  const visitor = async (): Promise<void> => {
    while (more()) {
      const [name, visit] = kinds[Math.floor(random() * kinds.length)]!;
      await Promise.race([visit({ port: server.port, random }), tooLong()]).catch((error: unknown) => {
        throw new Error(`A visit (${name}) went wrong.`, { cause: error });
      });
      visits++;
    }
  };
  const crier = async (): Promise<void> => {
    while (more()) {
      await server.notify(0);
      await delay(50);
    }
  };
  await Promise.all([crier(), ...Array.from({ length: VISITORS }, visitor)]);
  return visits;
}

async function tooLong(): Promise<never> {
  await delay(VISIT_MS, undefined, { ref: false });
  throw new Error(`It was not over after ${VISIT_MS} ms.`);
}

/** @throws when something that should end does not */
async function quiet(server: ServerProcess, began: number, visits: number): Promise<QuietPoint> {
  const deadline = performance.now() + SETTLE_MS;
  for (;;) {
    const gauges = await server.gauges();
    const { handles: _, listeners: __, ...mustEnd } = gauges;
    const left = Object.entries(mustEnd).filter(([, value]) => value > 0);
    if (left.length === 0) {
      const { heap, external } = await server.memory();
      const seconds = Math.round((performance.now() - began) / 1000);
      return { seconds, visits, memory: heap + external, gauges: await server.gauges() };
    }
    if (performance.now() > deadline) throw new Error(`Still there after ${SETTLE_MS} ms: ${JSON.stringify(left)}`);
    await delay(100);
  }
}

function rowOf(adapter: string, { seconds, visits, memory, gauges }: QuietPoint): string {
  const { handles, listeners, ...rest } = gauges;
  const left = Object.values(rest).reduce((sum, value) => sum + value, 0);
  const cells = [adapter, seconds, visits, (memory / 1024).toFixed(0), handles, listeners, left];
  return `| ${cells.join(' | ')} |`;
}

const adapters = options.adapter === 'both' ? ['express', 'fastify'] : [options.adapter];
console.log('| server | seconds | visits | memory, KiB | handles | listeners | left over |');
console.log('| --- | --: | --: | --: | --: | --: | --: |');
const grown = (await Promise.all(adapters.map(soak))).flat();
if (grown.length > 0) throw new Error(`The soak test found growth: ${grown.join('; ')}.`);
console.log('\nNothing grew.');
