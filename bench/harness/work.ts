import { PINNED } from './cores.js';
import type { SharedRedis } from './redis.js';
import { mean } from './statistics.js';
import { type Subject, SUBJECTS, type WorkName } from './subjects.js';
import { ServerProcess } from './server-process.js';

/** What the bench was asked for. */
export interface Plan {
  readonly quick: boolean;
  readonly rounds: number;
  /** Milliseconds of CPU time that each server is given before the first round, at least. */
  readonly warmMs: number;
  /** Milliseconds of CPU time that each server is given in a round, about. */
  readonly roundMs: number;
  /** Milliseconds of CPU time in which it is not interrupted by others, about. */
  readonly turnMs: number;
  /** Only these works, by name; all of them if there are none. */
  readonly only: readonly string[];
  /** Only these subjects, by name; all of them if there are none. */
  readonly subjects: readonly string[];
  /** A folder for profiles of the servers. */
  readonly profile?: string | undefined;
}

export type Unit = 'µs' | 'bytes' | 'calls/s';

/** What one work cost each subject. */
export interface WorkResult {
  readonly work: WorkName;
  readonly title: string;
  readonly unit: Unit;
  /** How many sessions or streams there were, where that is the question. */
  readonly size?: number;
  /** Per unit of work, one value for each round; rounds with the same index were run one after the other. */
  readonly rounds: Readonly<Record<string, readonly number[]>>;
  /** Units of work that each had done before its first round. */
  readonly warm?: Readonly<Record<string, number>>;
}

/** One row of the bench, or several. */
export interface Work {
  readonly name: WorkName;
  /** How often it is begun anew, in fresh processes and with its share of the rounds; once if not said. */
  readonly times?: number;
  run(plan: Plan): Promise<WorkResult[]>;
}

/** Work for a server that is ready: `count` units of it. */
export type Load = (count: number) => Promise<void>;

export type Environment = Readonly<Record<string, string>>;

/** Who is to do a work, and can. */
export function able(work: WorkName, { subjects }: Plan): Subject[] {
  const wanted = SUBJECTS.filter(({ name }) => subjects.length === 0 || subjects.includes(name));
  return wanted.filter(({ cannot }) => cannot[work] === undefined);
}

export function startServer(subject: Subject, plan: Plan, env: Environment = {}): Promise<ServerProcess> {
  const { profile } = plan;
  const nodeArgs = profile ? ['--cpu-prof', `--cpu-prof-dir=${profile}/${subject.name}`] : [];
  return ServerProcess.start(subject.file, { ADAPTER: subject.adapter, ...env }, { nodeArgs });
}

/** What a unit of work took: microseconds. */
export interface Spent {
  /** CPU time of all servers together. */
  readonly server: number;
  readonly redis: number;
  readonly wall: number;
}

export interface Loaded {
  /** Tells it apart from the others in the rounds. */
  readonly key: string;
  readonly servers: readonly Pick<ServerProcess, 'cpu'>[];
  readonly redis?: Pick<SharedRedis, 'cpu'> | undefined;
  readonly load: Load;
  /** Units that cannot be divided. */
  readonly step?: number;
  /** Units of work before the first round, until V8 has compiled what is used. */
  readonly warmUp: number;
}

export type Turns = Pick<Plan, 'rounds' | 'roundMs' | 'turnMs' | 'warmMs'>;

/** Turns to warm up in, at least. */
const WARM_TURNS = 4;
/** Where one turn lasts longer than a round was to be, there are fewer of them, but so many at least. */
const FEWEST_ROUNDS = 3;

/**
 * What a unit takes, round by round. In a round everybody has many short turns, which are averaged: a machine is
 * slow for some milliseconds or for seconds, and so it is slow for all of them alike.
 *
 * Warms up first, by turns too, and looks what a unit costs: so that a turn lasts as long for the cheap as for the dear (as long
 * as the largest step, if that is more than was planned), and everything as long as was planned, however slow the machine is.
 */
export async function timed(
  loaded: readonly Loaded[],
  { rounds, roundMs, turnMs, warmMs }: Turns,
): Promise<{ spent: Record<string, Spent[]>; warm: Record<string, number> }> {
  const warm = await warmed(loaded, warmMs);
  const turn = Math.max(turnMs * 1000, ...warm.map(({ one, cost }) => cost * (one.step ?? 1)));
  const passes = Math.max(1, Math.round((roundMs * 1000) / turn));
  const most = Math.max(FEWEST_ROUNDS, Math.round((rounds * roundMs * 1000) / (passes * turn)));
  const runners = warm.map(({ one, cost }): Runner => ({ one, count: stepped(turn / cost, one.step), turns: [] }));
  await interleaved(runners, Math.min(rounds, most) * passes, async ({ one, count, turns }) => {
    turns.push(await spentBy(one, count));
  });
  return {
    spent: Object.fromEntries(runners.map(({ one, turns }) => [one.key, chunks(turns, passes).map(together)])),
    warm: Object.fromEntries(warm.map(({ one, units }) => [one.key, units])),
  };
}

/** CPU time of the server per unit. */
export async function cpuTimes(
  loaded: readonly Loaded[],
  turns: Turns,
): Promise<{ rounds: Record<string, number[]>; warm: Record<string, number> }> {
  const { spent, warm } = await timed(loaded, turns);
  const rounds = Object.entries(spent).map(([key, each]) => [key, each.map(({ server }) => server)]);
  return { rounds: Object.fromEntries(rounds) as Record<string, number[]>, warm };
}

interface Runner {
  readonly one: Loaded;
  /** Units in one turn. */
  readonly count: number;
  readonly turns: Spent[];
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
async function warmed(
  loaded: readonly Loaded[],
  warmMs: number,
): Promise<readonly { one: Loaded; cost: number; units: number }[]> {
  const all = loaded.map((one) => ({ one, cost: 0, units: 0, spent: 0, wanted: warmMs * 1000 * one.servers.length }));
  for (let turn = 0; all.some(({ spent, wanted }) => turn < WARM_TURNS || spent < wanted); turn++) {
    for (const warm of all) {
      if (turn >= WARM_TURNS && warm.spent >= warm.wanted) continue;
      const count = stepped(warm.one.warmUp / WARM_TURNS, warm.one.step);
      warm.cost = (await spentBy(warm.one, count)).server;
      warm.spent += warm.cost * count;
      warm.units += count;
    }
  }
  return all;
}

/** Everybody's turn, so many times; each pass begins with another one. */
export async function interleaved<T>(
  all: readonly T[],
  passes: number,
  turn: (one: T) => Promise<void>,
): Promise<void> {
  for (let pass = 0; pass < passes; pass++) {
    for (let at = 0; at < all.length; at++) await turn(all[(pass + at) % all.length]!);
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

export interface TimedWork {
  readonly name: WorkName;
  readonly title: string;
  readonly env?: Environment;
  /** Units that cannot be divided. */
  readonly step?: number;
  /** Units of work before the first round; half of it when the bench shall be quick. */
  readonly warmUp: number;
  /** How often it is begun anew, in fresh processes; once if not said. */
  readonly times?: number;
  /** How many times longer than others it takes to be warm; as long if not said. */
  readonly warmth?: number;
  prepare(server: ServerProcess, subject: Subject): Promise<{ load: Load; close?: () => void }>;
}

/** A work whose price is CPU time: all subjects side by side. */
export function timedWork({ name, title, env, step = 1, warmUp, times = 1, warmth = 1, prepare }: TimedWork): Work {
  const run = async (plan: Plan): Promise<WorkResult[]> => {
    const subjects = able(name, plan);
    const servers = await Promise.all(subjects.map((subject) => startServer(subject, plan, env)));
    const loaded: (Loaded & { close?: () => void })[] = [];
    const size = { step, warmUp: plan.quick ? warmUp / 2 : warmUp };
    try {
      for (const [at, subject] of subjects.entries()) {
        const server = servers[at]!;
        loaded.push({ key: subject.name, servers: [server], ...size, ...(await prepare(server, subject)) });
      }
      return [
        { work: name, title, unit: 'µs', ...(await cpuTimes(loaded, { ...plan, warmMs: plan.warmMs * warmth })) },
      ];
    } finally {
      for (const { close } of loaded) close?.();
      await Promise.all(servers.map((server) => server.stop()));
    }
  };
  return { name, times, run };
}

/** What V8 keeps of its own differs from process to process. */
const MEMORY_ROUNDS = 3;

export interface MemoryWork {
  readonly name: WorkName;
  readonly title: string;
  readonly env?: Environment;
  /** Of what is measured: a third of it when the bench shall be quick. */
  readonly count: number;
  /** Opens what the measured things need, and some of them, and closes those again. */
  prepare(server: ServerProcess, subject: Subject, count: number): Promise<Holding>;
}

export interface Holding {
  open(): Promise<void>;
  close?(): void;
}

/** A work whose price is memory (heap and buffers after a collection): each time in a fresh process. */
export function memoryWork({ name, title, env, count, prepare }: MemoryWork): Work {
  const measure = async (subject: Subject, plan: Plan): Promise<number> => {
    const server = await startServer(subject, plan, env);
    try {
      const size = plan.quick ? Math.round(count / 3) : count;
      const holding = await prepare(server, subject, size);
      const before = await server.memory();
      await holding.open();
      const after = await server.memory();
      holding.close?.();
      return (after.heap + after.external - before.heap - before.external) / size;
    } finally {
      await server.stop();
    }
  };
  const run = async (plan: Plan): Promise<WorkResult[]> => {
    const rounds: Record<string, number[]> = {};
    const subjects = able(name, plan);
    await interleaved(subjects, plan.quick ? 1 : MEMORY_ROUNDS, async (subject) => {
      (rounds[subject.name] ??= []).push(await measure(subject, plan));
    });
    return [{ work: name, title, unit: 'bytes', rounds }];
  };
  return { name, run };
}
