import { type Subject, SUBJECTS, type WorkName } from './subjects.js';
import { ServerProcess } from './server-process.js';

/** What the bench was asked for. */
export interface Plan {
  readonly quick: boolean;
  readonly rounds: number;
  /** Only these subjects, by name; all of them if there are none. */
  readonly subjects: readonly string[];
  /** A folder for profiles of the servers. */
  readonly profile?: string | undefined;
}

/** What one work cost each subject. */
export interface WorkResult {
  readonly work: WorkName;
  readonly title: string;
  readonly unit: 'µs' | 'bytes';
  /** How many sessions there were, where that is the question. */
  readonly sessions?: number;
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
  return ServerProcess.start(subject.file, { ADAPTER: subject.adapter, ...env }, nodeArgs);
}

export interface Loaded {
  /** Tells it apart from the others in the rounds. */
  readonly key: string;
  readonly server: ServerProcess;
  readonly load: Load;
}

/** CPU time per unit, in `rounds` rounds; each round begins with another server. Warms up first. */
export async function timed(
  loaded: readonly Loaded[],
  { rounds, count, warmUp }: { rounds: number; count: number; warmUp: number },
): Promise<Record<string, number[]>> {
  const found: Record<string, number[]> = Object.fromEntries(loaded.map(({ key }) => [key, []]));
  for (const { load } of loaded) await load(warmUp);
  for (let round = 0; round < rounds; round++) {
    for (let turn = 0; turn < loaded.length; turn++) {
      const { key, server, load } = loaded[(round + turn) % loaded.length]!;
      const before = await server.cpu();
      await load(count);
      found[key]!.push(((await server.cpu()) - before) / count);
    }
  }
  return found;
}

export interface TimedWork {
  readonly name: WorkName;
  readonly title: string;
  readonly env?: Environment;
  /** Units of work in a round; a fifth of it when the bench shall be quick. */
  readonly count: number;
  /** Units of work before the first round, until V8 has compiled what is used; half of it when the bench shall be quick. */
  readonly warmUp: number;
  prepare(server: ServerProcess, subject: Subject): Promise<{ load: Load; close?: () => void }>;
}

/** A work whose price is CPU time: all subjects side by side. */
export function timedWork({ name, title, env, count, warmUp, prepare }: TimedWork): Work {
  const run = async (plan: Plan): Promise<WorkResult[]> => {
    const loaded: (Loaded & { close?: () => void })[] = [];
    try {
      for (const subject of able(name, plan)) {
        const server = await startServer(subject, plan, env);
        loaded.push({ key: subject.name, server, ...(await prepare(server, subject)) });
      }
      const size = plan.quick ? { count: count / 5, warmUp: warmUp / 2 } : { count, warmUp };
      const rounds = await timed(loaded, { rounds: plan.rounds, ...size });
      return [{ work: name, title, unit: 'µs', rounds }];
    } finally {
      for (const { close } of loaded) close?.();
      await Promise.all(loaded.map(({ server }) => server.stop()));
    }
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
    // Memory differs little from run to run.
    for (let round = 0; round < (plan.quick ? 1 : 2); round++) {
      for (const subject of able(name, plan)) (rounds[subject.name] ??= []).push(await measure(subject, plan));
    }
    return [{ work: name, title, unit: 'bytes', rounds }];
  };
  return { name, run };
}
