import { inParallel } from '../harness/in-parallel.js';
import { callAdd, type Session } from '../harness/mcp-client.js';
import type { ServerProcess } from '../harness/server-process.js';
import type { Subject } from '../harness/subjects.js';
import { able, type Loaded, startServer, timed, type Plan, type Work, type WorkResult } from '../harness/work.js';
import { lifecycles } from './calls.js';
import { openSessions } from './sessions.js';

/** The same work while there are ever more sessions: calls spread over all of them, and newcomers beside them. */

const SIZES = [10, 100, 1_000, 10_000];

interface Growing {
  readonly subject: Subject;
  readonly server: ServerProcess;
  readonly sessions: Session[];
  /** Bytes, before the first session. */
  readonly empty: number;
}

export const growth: Work = { name: 'growth', run };

async function run(plan: Plan): Promise<WorkResult[]> {
  const growing: Growing[] = [];
  const results: WorkResult[] = [];
  try {
    for (const subject of able('growth')) {
      const server = await startServer(subject, plan);
      await lifecycles(server)(plan.quick ? 50 : 300);
      growing.push({ subject, server, sessions: [], empty: await memoryOf(server) });
    }
    for (const size of plan.quick ? SIZES.filter((size) => size <= 1_000) : SIZES) {
      for (const { subject, server, sessions } of growing) {
        sessions.push(...(await openSessions(server, subject, size - sessions.length)));
      }
      results.push(...(await measure(growing, size, plan)));
    }
    return results;
  } finally {
    await Promise.all(growing.map(({ server }) => server.stop()));
  }
}

async function measure(growing: readonly Growing[], size: number, plan: Plan): Promise<WorkResult[]> {
  const scale = plan.quick ? 10 : 1;
  const calls = await timed(growing.map(calling), { rounds: plan.rounds, count: 2_000 / scale, warmUp: 1_000 / scale });
  const newcomers = await timed(growing.map(coming), { rounds: plan.rounds, count: 300 / scale, warmUp: 100 / scale });
  const common = { work: 'growth', sessions: size } as const;
  const results: WorkResult[] = [
    { ...common, title: 'tools/call', unit: 'µs', rounds: calls },
    { ...common, title: 'initialize, initialized, DELETE', unit: 'µs', rounds: newcomers },
  ];
  // With few sessions, what is theirs is lost in what is not.
  if (size >= 1_000) {
    const memory: Record<string, number[]> = {};
    for (const { subject, server, empty } of growing) {
      memory[subject.name] = [((await memoryOf(server)) - empty) / size];
    }
    results.push({ ...common, title: 'memory per session that has been called', unit: 'bytes', rounds: memory });
  }
  return results;
}

function calling({ subject, server, sessions }: Growing): Loaded {
  // Each round goes on where the last one ended, so that all sessions have their turn.
  let turn = 0;
  const load = (count: number): Promise<void> =>
    inParallel(server.port, count, (connection, index) =>
      callAdd(connection, sessions[turn++ % sessions.length]!, index),
    );
  return { subject, server, load };
}

function coming({ subject, server }: Growing): Loaded {
  return { subject, server, load: lifecycles(server) };
}

async function memoryOf(server: ServerProcess): Promise<number> {
  const { heap, external } = await server.memory();
  return heap + external;
}
