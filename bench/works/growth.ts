import { inParallel } from '../harness/in-parallel.js';
import { callAdd, type Session } from '../harness/mcp-client.js';
import type { ServerProcess } from '../harness/server-process.js';
import type { Subject } from '../harness/subjects.js';
import { able, type Loaded, type Plan, startServer, timed, type Work, type WorkResult } from '../harness/work.js';
import { lifecycles } from './calls.js';
import { openSessions } from './sessions.js';

/**
 * The same work while there are ever more sessions: calls spread over all of them, and newcomers beside them. The servers
 * with few and with many sessions run side by side, each warmed up alike: what differs is the number of sessions.
 */

const SIZES = [10, 1_000, 10_000];
const QUICK_SIZES = [10, 1_000];

const CALLS = 'tools/call';
const NEWCOMERS = 'initialize, initialized, DELETE';
const MEMORY = 'memory per session that has been called';

interface Grown {
  readonly size: number;
  readonly server: ServerProcess;
  readonly sessions: readonly Session[];
  /** Bytes, before there was a session. */
  readonly empty: number;
}

/** By title, number of sessions and subject. */
type Found = Map<string, Record<number, Record<string, readonly number[]>>>;

export const growth: Work = { name: 'growth', run };

async function run(plan: Plan): Promise<WorkResult[]> {
  const found: Found = new Map([CALLS, NEWCOMERS, MEMORY].map((title) => [title, {}]));
  for (const subject of able('growth', plan)) await measure(subject, plan, found);
  return [...found].flatMap(([title, sizes]) =>
    Object.entries(sizes).map(([size, rounds]): WorkResult => ({
      ...{ work: 'growth', title, sessions: Number(size), rounds },
      unit: title === MEMORY ? 'bytes' : 'µs',
    })),
  );
}

async function measure(subject: Subject, plan: Plan, found: Found): Promise<void> {
  const grown: Grown[] = [];
  const keep = (title: string, size: number, values: readonly number[]): void => {
    (found.get(title)![size] ??= {})[subject.name] = values;
  };
  try {
    for (const size of plan.quick ? QUICK_SIZES : SIZES) grown.push(await grow(subject, size, plan));
    const scale = plan.quick ? 5 : 1;
    const size = (units: number) => ({ rounds: plan.rounds, count: units / scale, warmUp: (units * 2) / scale });
    const calls = await timed(grown.map(calling), size(2_000));
    const newcomers = await timed(grown.map(coming), size(300));
    for (const { size, server, empty } of grown) {
      keep(CALLS, size, calls[size]!);
      keep(NEWCOMERS, size, newcomers[size]!);
      // With few sessions, what is theirs is lost in what is not.
      if (size >= 1_000) keep(MEMORY, size, [((await memoryOf(server)) - empty) / size]);
    }
  } finally {
    await Promise.all(grown.map(({ server }) => server.stop()));
  }
}

async function grow(subject: Subject, size: number, plan: Plan): Promise<Grown> {
  const server = await startServer(subject, plan);
  // What the first sessions load stays, and is not theirs.
  await lifecycles(server)(100);
  const empty = await memoryOf(server);
  return { size, server, empty, sessions: await openSessions(server, subject, size) };
}

function calling({ size, server, sessions }: Grown): Loaded {
  // Each round goes on where the last one ended, so that all sessions have their turn.
  let turn = 0;
  const load = (count: number): Promise<void> =>
    inParallel(server.port, count, (connection, index) =>
      callAdd(connection, sessions[turn++ % sessions.length]!, index),
    );
  return { key: String(size), server, load };
}

function coming({ size, server }: Grown): Loaded {
  return { key: String(size), server, load: lifecycles(server) };
}

async function memoryOf(server: ServerProcess): Promise<number> {
  const { heap, external } = await server.memory();
  return heap + external;
}
