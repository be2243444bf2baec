import { spawnSync } from 'node:child_process';
import type { EventStream } from '../harness/event-stream.js';
import { inParallel } from '../harness/in-parallel.js';
import { callAdd, type Session } from '../harness/mcp-client.js';
import type { ServerProcess } from '../harness/server-process.js';
import type { Subject } from '../harness/subjects.js';
import {
  able,
  type Loaded,
  type Plan,
  startServer,
  timed,
  type Turns,
  type Work,
  type WorkResult,
} from '../harness/work.js';
import { lifecycles } from './calls.js';
import { openSessionsOf } from './sessions.js';
import { notifications, openStreams } from './streams.js';

/**
 * The same work while there are ever more sessions: calls spread over all of them, newcomers beside them, a notification to
 * all of them. The servers with few and with many sessions run side by side, each warmed up alike: what differs is the number
 * of sessions.
 */

const SIZES = [10, 1_000, 10_000];
const QUICK_SIZES = [10, 1_000];
/** With fewer sessions, what is theirs is lost in what is not. */
const WEIGHTY = 1_000;
/** Files that a process needs for itself. */
const OWN_FILES = 200;

const CALLS = 'tools/call';
const NEWCOMERS = 'initialize, initialized, DELETE';
const DELIVERIES = 'one notification to each of all open streams';
const MEMORY = 'memory per session that has been called';
const STREAM_MEMORY = 'memory per open GET stream of many';

interface Grown {
  readonly size: number;
  readonly server: ServerProcess;
  readonly sessions: readonly Session[];
  /** Bytes, before there was a session. */
  readonly empty: number;
}

/** By title, number of sessions and subject. */
type Found = Map<string, Record<number, Record<string, readonly number[]>>>;
type Keep = (title: string, size: number, values: readonly number[]) => void;

export const growth: Work = { name: 'growth', run };

async function run(plan: Plan): Promise<WorkResult[]> {
  const found: Found = new Map([CALLS, NEWCOMERS, DELIVERIES, MEMORY, STREAM_MEMORY].map((title) => [title, {}]));
  for (const subject of able('growth', plan)) await measure(subject, plan, found);
  return [...found].flatMap(([title, sizes]) =>
    Object.entries(sizes).map(([size, rounds]): WorkResult => ({
      ...{ work: 'growth', title, size: Number(size), rounds },
      unit: title === MEMORY || title === STREAM_MEMORY ? 'bytes' : 'µs',
    })),
  );
}

async function measure(subject: Subject, plan: Plan, found: Found): Promise<void> {
  const grown: Grown[] = [];
  const keep: Keep = (title, size, values) => {
    (found.get(title)![size] ??= {})[subject.name] = values;
  };
  // There are three servers of each, and ratios between numbers of sessions need less than those between subjects.
  const turns = { ...plan, rounds: Math.min(5, plan.rounds), windowMs: plan.windowMs / 2 };
  const warmth = plan.quick ? 1 / 3 : 1;
  const keepAll = (title: string, costs: Readonly<Record<string, readonly number[]>>): void => {
    for (const [size, values] of Object.entries(costs)) keep(title, Number(size), values);
  };
  try {
    for (const size of plan.quick ? QUICK_SIZES : SIZES) grown.push(await grow(subject, size, plan));
    // What differs is told by the fewest and the most; those between are there for memory and streams.
    const ends = [grown[0]!, grown.at(-1)!];
    const calls = ends.map((one) => calling(one, 4_000 * warmth));
    keepAll(CALLS, await timed(calls, turns));
    for (const one of grown) if (!ends.includes(one)) await calling(one, 0).load(one.size);
    const newcomers = ends.map((one) => coming(one, 1_200 * warmth));
    keepAll(NEWCOMERS, await timed(newcomers, turns));
    for (const { size, server, empty } of grown) {
      if (size >= WEIGHTY) keep(MEMORY, size, [((await memoryOf(server)) - empty) / size]);
    }
    keepAll(DELIVERIES, await withStreams(grown, subject, turns, keep));
  } finally {
    await Promise.all(grown.map(({ server }) => server.stop()));
  }
}

async function grow(subject: Subject, size: number, plan: Plan): Promise<Grown> {
  const server = await startServer(subject, plan);
  // What the first sessions load stays, and is not theirs.
  await lifecycles(server)(100);
  const empty = await memoryOf(server);
  return { size, server, empty, sessions: await openSessionsOf(server, subject, size) };
}

function calling({ size, server, sessions }: Grown, warmUp: number): Loaded {
  // Each round goes on where the last one ended, so that all sessions have their turn.
  let turn = 0;
  const load = (count: number): Promise<void> =>
    inParallel(server.port, count, (connection, index) =>
      callAdd(connection, sessions[turn++ % sessions.length]!, index),
    );
  // The first call of a session may cost more.
  return { key: String(size), server, load, warmUp: Math.max(warmUp, size) };
}

function coming({ size, server }: Grown, warmUp: number): Loaded {
  return { key: String(size), server, load: lifecycles(server), warmUp };
}

/** Opens the stream of each session. @returns what a delivery costs, by number of streams */
async function withStreams(
  grown: readonly Grown[],
  { cannot }: Subject,
  turns: Turns,
  keep: Keep,
): Promise<Readonly<Record<string, readonly number[]>>> {
  const opened: EventStream[] = [];
  const loaded: Loaded[] = [];
  try {
    for (const { size, server, sessions } of grown) {
      // To tell the server to notify costs as much as some deliveries.
      if (size < WEIGHTY || size + OWN_FILES > FILE_LIMIT) continue;
      const before = await memoryOf(server);
      const streams = await openStreams(server, sessions);
      opened.push(...streams);
      keep(STREAM_MEMORY, size, [((await memoryOf(server)) - before) / size]);
      loaded.push({ key: String(size), server, load: notifications(server, streams), step: size, warmUp: 20_000 });
    }
    return cannot.notify === undefined ? await timed(loaded, turns) : {};
  } finally {
    for (const stream of opened) stream.close();
  }
}

async function memoryOf(server: ServerProcess): Promise<number> {
  const { heap, external } = await server.memory();
  return heap + external;
}

/** Files that a process may have open for streams of one size; the load has those of the sizes before, too. */
const FILE_LIMIT = fileLimit();

function fileLimit(): number {
  // Node.js takes all that it may have.
  const limit = spawnSync('sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' }).stdout.trim();
  return limit === 'unlimited' ? Infinity : Number(limit) - WEIGHTY;
}
