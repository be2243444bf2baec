import { PINNED } from './cores.js';
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
  readonly windowMs: number;
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
}

/** One row of the bench, or several. */
export interface Work {
  readonly name: WorkName;
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

export interface Loaded {
  /** Tells it apart from the others in the rounds. */
  readonly key: string;
  readonly server: Pick<ServerProcess, 'cpu'>;
  readonly load: Load;
  /** Units that cannot be divided. */
  readonly step?: number;
  /** Units of work before the first round, until V8 has compiled what is used. */
  readonly warmUp: number;
}

export type Turns = Pick<Plan, 'rounds' | 'warmMs' | 'windowMs'>;

/** So many times in a round each server has its turn: a machine is slow for half a second, and not for all of them alike. */
const PASSES = 4;

/**
 * CPU time per unit, in rounds of some passes that each begin with another server.
 *
 * Warms up first, and looks what a unit costs: so that a round lasts as long for the cheap as for the dear, and everything as
 * long as was planned, however slow the machine is.
 */
export async function timed(
  loaded: readonly Loaded[],
  { rounds, warmMs, windowMs }: Turns,
): Promise<Record<string, number[]>> {
  const runners: Runner[] = [];
  for (const one of loaded) {
    const cost = await costWhenWarm(one, warmMs);
    const count = stepped((windowMs * 1000) / cost / PASSES, one.step);
    // A large step may be a whole round.
    const passes = Math.min(PASSES, Math.max(1, Math.round((windowMs * 1000) / cost / count)));
    runners.push({ one, count, passes, costs: [] });
  }
  await interleaved(runners, rounds * PASSES, async (runner, turn) => {
    if (turn % PASSES >= runner.passes) return;
    runner.costs.push(await costOf(runner.one, runner.count));
  });
  return Object.fromEntries(runners.map(({ one, passes, costs }) => [one.key, meansOf(costs, passes)]));
}

/** @returns what a unit costs once V8 has compiled what is used, which takes time rather than units */
async function costWhenWarm(one: Loaded, warmMs: number): Promise<number> {
  const began = await one.server.cpu();
  await one.load(stepped(one.warmUp, one.step));
  const some = stepped(one.warmUp / 4, one.step);
  let cost = await costOf(one, some);
  while ((await one.server.cpu()) - began < warmMs * 1000) cost = await costOf(one, some);
  return cost;
}

interface Runner {
  readonly one: Loaded;
  /** Units in one pass. */
  readonly count: number;
  /** Passes in a round. */
  readonly passes: number;
  readonly costs: number[];
}

/** The mean of each so many. */
function meansOf(values: readonly number[], many: number): number[] {
  return Array.from({ length: values.length / many }, (_, at) => mean(values.slice(at * many, (at + 1) * many)));
}

/** Everybody's turn in each round; each round begins with another one. */
export async function interleaved<T>(
  all: readonly T[],
  rounds: number,
  turn: (one: T, round: number) => Promise<void>,
): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    for (let at = 0; at < all.length; at++) await turn(all[(round + at) % all.length]!, round);
  }
}

/** The nearest number of units that is a whole number of steps, at least one. */
export function stepped(units: number, step = 1): number {
  return Math.max(1, Math.round(units / step)) * step;
}

/** Microseconds of CPU time per unit. */
async function costOf({ server, load }: Loaded, count: number): Promise<number> {
  const before = await server.cpu();
  await awake(load(count));
  return ((await server.cpu()) - before) / count;
}

/**
 * Keeps the load from falling asleep between two answers. Who wakes a process on another core pays for it, 10 to 45 µs on the
 * virtual machine where this was looked at: so the more of each answer, the slower a server is.
 */
async function awake(work: Promise<void>): Promise<void> {
  let busy = PINNED;
  const look = (): void => void (busy && setImmediate(look));
  look();
  await work.finally(() => (busy = false));
}

export interface TimedWork {
  readonly name: WorkName;
  readonly title: string;
  readonly env?: Environment;
  /** Units that cannot be divided. */
  readonly step?: number;
  /** Units of work before the first round; half of it when the bench shall be quick. */
  readonly warmUp: number;
  /** How often all servers are started anew: two processes of one program differ by up to a fifth, for as long as they run. */
  readonly processes?: number;
  prepare(server: ServerProcess, subject: Subject): Promise<{ load: Load; close?: () => void }>;
}

/** A work whose price is CPU time: all subjects side by side. */
export function timedWork({ name, title, env, step = 1, warmUp, processes = 1, prepare }: TimedWork): Work {
  const inFreshProcesses = async (plan: Plan, rounds: number): Promise<Record<string, number[]>> => {
    const loaded: (Loaded & { server: ServerProcess; close?: () => void })[] = [];
    const size = { step, warmUp: plan.quick ? warmUp / 2 : warmUp };
    try {
      for (const subject of able(name, plan)) {
        const server = await startServer(subject, plan, env);
        loaded.push({ key: subject.name, server, ...size, ...(await prepare(server, subject)) });
      }
      return await timed(loaded, { ...plan, rounds });
    } finally {
      for (const { close } of loaded) close?.();
      await Promise.all(loaded.map(({ server }) => server.stop()));
    }
  };
  const run = async (plan: Plan): Promise<WorkResult[]> => {
    const times = plan.quick ? 1 : processes;
    const rounds: Record<string, number[]> = {};
    for (let time = 0; time < times; time++) {
      const found = await inFreshProcesses(plan, Math.ceil(plan.rounds / times));
      for (const [key, costs] of Object.entries(found)) (rounds[key] ??= []).push(...costs);
    }
    return [{ work: name, title, unit: 'µs', rounds }];
  };
  return { name, run };
}

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
    // Once: memory differs little from process to process.
    for (const subject of able(name, plan)) rounds[subject.name] = [await measure(subject, plan)];
    return [{ work: name, title, unit: 'bytes', rounds }];
  };
  return { name, run };
}
