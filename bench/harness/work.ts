import { type Subject, SUBJECTS, type WorkName } from './subjects.js';
import { ServerProcess } from './server-process.js';
import { cpuTimes, type Load, type Loaded, timed, type Times, type Turns } from './turns.js';

/** What the bench was asked for. */
export interface Plan extends Turns {
  readonly quick: boolean;
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
}

/** One row of the bench, or several: measured on its own, or, where the price is time, beside all others of that kind. */
export type Work = LoneWork | TimedWork;

export interface LoneWork {
  readonly name: WorkName;
  run(plan: Plan): Promise<WorkResult[]>;
}

export interface TimedWork {
  readonly name: WorkName;
  /** Starts the servers, and fills them. */
  begin(plan: Plan): Promise<Begun>;
}

export interface Begun {
  readonly contests: readonly Contest[];
  end(): Promise<void>;
}

/** Those who do the same, each for itself. */
export interface Contest {
  readonly loaded: readonly Loaded[];
  /** What its times tell. */
  results(times: Times): WorkResult[];
}

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

/** Has works that are measured in time done side by side, so that each of them lasts as long as all of them together. */
export async function sideBySide(works: readonly TimedWork[], plan: Plan): Promise<WorkResult[]> {
  const begun: Begun[] = [];
  try {
    for (const work of works) begun.push(await work.begin(plan));
    const contests = begun.flatMap((one) => one.contests);
    const times = await timed(
      contests.map(({ loaded }) => loaded),
      plan,
    );
    return contests.flatMap((contest, at) => contest.results(times[at]!));
  } finally {
    await Promise.all(begun.map((one) => one.end()));
  }
}

export interface CpuWork {
  readonly name: WorkName;
  readonly title: string;
  readonly env?: Environment;
  /** Units that cannot be divided. */
  readonly step?: number;
  prepare(server: ServerProcess, subject: Subject): Promise<{ load: Load; close?: () => void }>;
}

/** A work whose price is CPU time: all subjects side by side. */
export function cpuWork({ name, title, env, step = 1, prepare }: CpuWork): TimedWork {
  const begin = async (plan: Plan): Promise<Begun> => {
    const subjects = able(name, plan);
    const servers = await Promise.all(subjects.map((subject) => startServer(subject, plan, env)));
    const loaded: (Loaded & { close?: () => void })[] = [];
    for (const [at, subject] of subjects.entries()) {
      const server = servers[at]!;
      loaded.push({ key: subject.name, servers: [server], step, ...(await prepare(server, subject)) });
    }
    const results = (times: Times): WorkResult[] => [{ work: name, title, unit: 'µs', rounds: cpuTimes(times) }];
    const end = async (): Promise<void> => {
      for (const { close } of loaded) close?.();
      await Promise.all(servers.map((server) => server.stop()));
    };
    return { contests: [{ loaded, results }], end };
  };
  return { name, begin };
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
export function memoryWork({ name, title, env, count, prepare }: MemoryWork): LoneWork {
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
    for (const subject of able(name, plan)) rounds[subject.name] = [await measure(subject, plan)];
    return [{ work: name, title, unit: 'bytes', rounds }];
  };
  return { name, run };
}
