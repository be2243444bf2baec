import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { checked } from './capacity/check.js';
import { CountedRedis } from './capacity/counted-redis.js';
import { measured } from './capacity/measure.js';
import { type Coefficients, KINDS, type Load, type Plan, planOf } from './capacity/model.js';
import { percent, table } from './harness/report.js';

/**
 * `npm run x -- capacity`: what a load needs, by the coefficients that were measured last (capacity/coefficients.json). `--measure`
 * measures them anew on this machine, and `--check` compares them with what a mixed load takes on two nodes.
 */

const FILE = fileURLToPath(new URL('../../bench/capacity/coefficients.json', import.meta.url));
const ROUNDS = 5;

const { values: options } = parseArgs({
  options: {
    sessions: { type: 'string', default: '1000000' },
    minutes: { type: 'string', default: '60' },
    calls: { type: 'string', default: '100000' },
    handler: { type: 'string', default: '100' },
    streamed: { type: 'string', default: '0.1' },
    events: { type: 'string', default: '5' },
    streams: { type: 'string', default: '0.5' },
    notifications: { type: 'string', default: '5000' },
    slots: { type: 'string', default: '64' },
    adapter: { type: 'string', default: 'fastify' },
    'round-robin': { type: 'boolean', default: false },
    measure: { type: 'boolean', default: false },
    check: { type: 'boolean', default: false },
  },
});

/** @throws when it is no number of at least 0 */
function number(
  name: 'sessions' | 'minutes' | 'calls' | 'handler' | 'streamed' | 'events' | 'streams' | 'notifications' | 'slots',
): number {
  const value = Number(options[name]);
  if (value >= 0) return value;
  throw new Error(`--${name} must be a number of at least 0; got "${options[name]}".`);
}

const load: Load = {
  sessions: number('sessions'),
  sessionMinutes: number('minutes'),
  callsPerSecond: number('calls'),
  handlerMicros: number('handler'),
  streamed: number('streamed'),
  events: number('events'),
  streams: number('streams'),
  notificationsPerSecond: number('notifications'),
  sticky: !options['round-robin'],
  adapter: options.adapter === 'express' ? 'express' : 'fastify',
  slots: number('slots'),
};

if (options.measure) {
  const redis = await CountedRedis.start(1);
  try {
    writeFileSync(FILE, `${JSON.stringify(rounded(await measured(redis, ROUNDS, console.log)), undefined, 2)}\n`);
  } finally {
    await redis.stop();
  }
}
const coefficients = JSON.parse(readFileSync(FILE, 'utf8')) as Coefficients;
if (options.check) {
  const { predicted, measured, masters } = await checked(coefficients);
  const places = Object.keys(measured);
  const rows = Object.entries(predicted).map(([name, value]) => [
    name,
    told(value),
    ...places.flatMap((place) => {
      const found = measured[place]![name] ?? 0;
      return [told(found), percent(value / found - 1)];
    }),
  ]);
  console.log(table(['a mixed load', 'predicted', ...places.flatMap((place) => [place, 'off by'])], rows));
  const sum = masters.reduce((all, one) => all + one, 0);
  console.log(
    `\nOf the commands the masters of the cluster got ${masters.map((one) => percent(one / sum)).join(', ')}.`,
  );
}
if (!options.check && !options.measure) print(planOf(load, coefficients));

function print(plan: Plan): void {
  const total = plan.commandsPerSecond;
  const kinds = KINDS.filter((kind) => plan.commands[kind] > 0);
  const gib = (bytes: number): string => `${(bytes / 1024 ** 3).toFixed(1)} GiB`;
  const { kind, share } = plan.hottest;
  const rows = [
    ['nodes of one core, 60 % used', told(plan.nodes)],
    ['cores that they use', plan.nodeCores.toFixed(1)],
    ['memory of each', gib(plan.nodeMemory)],
    ['masters of Redis, 60 % of a core used', told(plan.masters)],
    ['cores that they use', plan.redisCores.toFixed(1)],
    ['memory of all of them', gib(plan.redisMemory)],
    ['commands a second', told(total)],
    ...kinds.map((each) => [`of them, ${each}`, percent(plan.commands[each] / total)]),
    ['traffic of Redis, MB a second', told(plan.traffic / 1e6)],
    ['the busiest key', `${kind}: ${(100 * share).toFixed(2)} % of the commands`],
    ...Object.entries(plan.bears).map(([part, times]) => [`${part} is full at`, `${times.toFixed(1)} times this load`]),
  ];
  console.log(table(['what it needs', ''], rows));
}

function told(value: number): string {
  return Math.round(value).toLocaleString('en');
}

/** To what a measurement can say. */
function rounded(value: unknown): unknown {
  if (typeof value === 'number') return Number(value.toPrecision(3));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, rounded(each)]));
}
