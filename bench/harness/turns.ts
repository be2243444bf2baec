import { PINNED } from './cores.js';
import type { SharedRedis } from './redis.js';
import type { ServerProcess } from './server-process.js';
import { mean } from './statistics.js';

/**
 * What a unit of work takes, measured by turns. A machine is slow for some milliseconds, or for minutes, and not all servers
 * feel it alike: so nobody works for long at a time, and everybody until the end.
 */

/** Work for a server that is ready: `count` units of it. */
export type Load = (count: number) => Promise<void>;

/** What a unit of work took: microseconds. */
export interface Spent {
  /** CPU time of all servers together. */
  readonly server: number;
  readonly redis: number;
  readonly wall: number;
}

export interface Loaded {
  /** Tells it apart from the others that do the same. */
  readonly key: string;
  readonly servers: readonly Pick<ServerProcess, 'cpu'>[];
  readonly redis?: Pick<SharedRedis, 'cpu'> | undefined;
  readonly load: Load;
  /** Units that cannot be divided. */
  readonly step?: number;
}

export interface Turns {
  readonly rounds: number;
  /** Milliseconds of CPU time that each server is given before the first round, at least. */
  readonly warmMs: number;
  /** Milliseconds of CPU time that each server is given in a round, about. */
  readonly roundMs: number;
  /** Milliseconds of CPU time in which it is not interrupted by others, about. */
  readonly turnMs: number;
}

/** What a unit took, round by round, by the key of who did it. */
export type Times = Record<string, Spent[]>;

/** How long a turn to warm up lasts in the end, in milliseconds of CPU time. */
const WARM_TURN_MS = 100;
/** How much longer than the one before it may be: the first units say little of what others will cost. */
const WARM_GROWTH = 8;
/** Where one turn lasts longer than a round was to be, there are fewer of them, but so many at least. */
const FEWEST_ROUNDS = 3;

/**
 * What a unit takes, contest by contest: those of one contest do the same. Each round is the average of many short turns.
 *
 * Warms up first, by turns too, and looks what a unit costs: so that a turn lasts as long for the cheap as for the dear (as long
 * as the largest step of the contest, if that is more than was planned), and everything as long as was planned, however slow the
 * machine is.
 */
export async function timed(contests: readonly (readonly Loaded[])[], turns: Turns): Promise<Times[]> {
  const costs = await warmed(contests.flat(), turns.warmMs);
  const all = contests.map((loaded) => runnersOf(loaded, costs, turns));
  await interleaved(all.flat(), async ({ one, count, spent }) => void spent.push(await spentBy(one, count)));
  return all.map((runners) =>
    Object.fromEntries(runners.map(({ one, passes, spent }) => [one.key, chunks(spent, passes).map(together)])),
  );
}

interface Runner {
  readonly one: Loaded;
  /** Units in one turn. */
  readonly count: number;
  /** How many turns make a round. */
  readonly passes: number;
  readonly turns: number;
  /** Turn by turn. */
  readonly spent: Spent[];
}

/** @param costs microseconds for a unit */
function runnersOf(
  loaded: readonly Loaded[],
  costs: ReadonlyMap<Loaded, number>,
  { rounds, roundMs, turnMs }: Turns,
): Runner[] {
  const turn = Math.max(turnMs * 1000, ...loaded.map((one) => costs.get(one)! * (one.step ?? 1)));
  const passes = Math.max(1, Math.round((roundMs * 1000) / turn));
  const most = Math.max(FEWEST_ROUNDS, Math.round((rounds * roundMs * 1000) / (passes * turn)));
  const turns = Math.min(rounds, most) * passes;
  return loaded.map((one) => ({ one, count: stepped(turn / costs.get(one)!, one.step), passes, turns, spent: [] }));
}

/** CPU time of the servers per unit, round by round. */
export function cpuTimes(times: Times): Record<string, number[]> {
  return Object.fromEntries(Object.entries(times).map(([key, spent]) => [key, spent.map(({ server }) => server)]));
}

/** Values in the order they came, so many in each chunk. */
function chunks<T>(values: readonly T[], size: number): T[][] {
  return Array.from({ length: values.length / size }, (_, chunk) => values.slice(chunk * size, (chunk + 1) * size));
}

/** What a unit took on average. */
function together(turns: readonly Spent[]): Spent {
  const average = (one: (spent: Spent) => number): number => mean(turns.map(one));
  return {
    server: average(({ server }) => server),
    redis: average(({ redis }) => redis),
    wall: average(({ wall }) => wall),
  };
}

/** @returns what a unit costs each, once V8 has compiled what is used, which takes time rather than units */
async function warmed(loaded: readonly Loaded[], warmMs: number): Promise<ReadonlyMap<Loaded, number>> {
  const all = loaded.map((one) => ({ one, count: stepped(1, one.step), cost: 0, left: warmMs * 1000 }));
  for (let cold = all; cold.length > 0; cold = cold.filter(({ left }) => left > 0)) {
    for (const warm of cold) {
      const { one, count } = warm;
      warm.cost = (await spentBy(one, count)).server;
      warm.left -= (warm.cost * count) / one.servers.length;
      warm.count = stepped(Math.min((WARM_TURN_MS * 1000) / warm.cost, WARM_GROWTH * count), one.step);
    }
  }
  return new Map(all.map(({ one, cost }) => [one, cost]));
}

/** Everybody's turns, spread evenly from the beginning to the end; each pass begins with another one. */
export async function interleaved<T extends { readonly turns: number }>(
  all: readonly T[],
  turn: (one: T) => Promise<void>,
): Promise<void> {
  const passes = Math.max(0, ...all.map(({ turns }) => turns));
  const had = ({ turns }: T, pass: number): number => Math.floor((pass * turns) / passes);
  for (let pass = 0; pass < passes; pass++) {
    for (let at = 0; at < all.length; at++) {
      const one = all[(pass + at) % all.length]!;
      if (had(one, pass + 1) > had(one, pass)) await turn(one);
    }
  }
}

/** The nearest number of units that is a whole number of steps, at least one. */
export function stepped(units: number, step = 1): number {
  return Math.max(1, Math.round(units / step)) * step;
}

/** What a unit took, on average of so many. */
async function spentBy({ servers, redis, load }: Loaded, count: number): Promise<Spent> {
  const now = async (): Promise<Spent> => {
    const cpu = await Promise.all(servers.map((server) => server.cpu()));
    const server = cpu.reduce((sum, one) => sum + one, 0);
    return { server, redis: (await redis?.cpu()) ?? 0, wall: performance.now() * 1000 };
  };
  const before = await now();
  await awake(load(count));
  const after = await now();
  return {
    server: (after.server - before.server) / count,
    redis: (after.redis - before.redis) / count,
    wall: (after.wall - before.wall) / count,
  };
}

/**
 * Keeps the load from falling asleep between two answers. Who wakes a process on another core pays for it, 10 to 45 µs on the
 * virtual machine where this was looked at: so the more of each answer, the slower a server is.
 */
export async function awake<T>(work: Promise<T>): Promise<T> {
  let busy = PINNED;
  const look = (): void => void (busy && setImmediate(look));
  look();
  return work.finally(() => (busy = false));
}
