import { spawnSync } from 'node:child_process';
import type { EventStream } from '../harness/event-stream.js';
import { inParallel } from '../harness/in-parallel.js';
import { callAdd, type Session } from '../harness/mcp-client.js';
import type { ServerProcess } from '../harness/server-process.js';
import { OURS, type Subject } from '../harness/subjects.js';
import {
  able,
  cpuTimes,
  type Load,
  type Loaded,
  type Plan,
  startServer,
  type Turns,
  type Work,
  type WorkResult,
} from '../harness/work.js';
import { lifecycles } from './calls.js';
import { endSessions, openSessionsOf } from './sessions.js';
import { notifications, openStreams } from './streams.js';

/**
 * The same work while there are ever more sessions: calls spread over all of them, newcomers beside them, a notification to
 * all of them. The servers with few and with many sessions run side by side, for a machine changes from one minute to the next.
 * Halfway they change roles, so that what differs between two processes of one program is in both.
 */

/** Sessions of the two servers. */
type Sizes = readonly [number, number];

/** While they are called. */
const CALLED: Sizes = [10, 10_000];
/** While they are notified: of fewer, what is theirs would be lost in what is not. */
const NOTIFIED: Sizes = [10_000, 1_000];
const [CALLED_QUICK, NOTIFIED_QUICK]: readonly [Sizes, Sizes] = [
  [10, 1_000],
  [1_000, 500],
];

/** Files that a process needs for itself. */
const OWN_FILES = 200;

const CALLS = 'tools/call';
const NEWCOMERS = 'initialize, initialized, DELETE';
const DELIVERIES = 'one notification to each of all open streams';
const MEMORY = 'memory per session that has been called';
const STREAM_MEMORY = 'memory per open GET stream of many';

interface Growing {
  readonly server: ServerProcess;
  /** Those that are there now. */
  readonly sessions: Session[];
  /** Its memory before most of them came. */
  before: { readonly bytes: number; readonly sessions: number };
}

/** By title, number of sessions and subject. */
type Found = Map<string, Record<number, Record<string, readonly number[]>>>;
type Keep = (title: string, size: number, values: readonly number[]) => void;

export const growth: Work = { name: 'growth', run };

async function run(plan: Plan): Promise<WorkResult[]> {
  const found: Found = new Map([CALLS, NEWCOMERS, DELIVERIES, MEMORY, STREAM_MEMORY].map((title) => [title, {}]));
  for (const subject of growing(plan)) await measure(subject, plan, found);
  return [...found].flatMap(([title, sizes]) =>
    Object.entries(sizes).map(([size, rounds]): WorkResult => ({
      ...{ work: 'growth', title, size: Number(size), rounds },
      unit: title === MEMORY || title === STREAM_MEMORY ? 'bytes' : 'µs',
    })),
  );
}

/** Peers take more than a minute each: they are not in the run of everything. */
function growing(plan: Plan): Subject[] {
  const everything = plan.only.length === 0 && plan.subjects.length === 0;
  return able('growth', plan).filter(({ file }) => file === OURS || !everything);
}

async function measure(subject: Subject, plan: Plan, found: Found): Promise<void> {
  const keep: Keep = (title, size, values) => {
    const rounds = (found.get(title)![size] ??= {});
    rounds[subject.name] = [...(rounds[subject.name] ?? []), ...values];
  };
  // In each role.
  const turns = { ...plan, rounds: Math.ceil(plan.rounds / 2) };
  const servers: Growing[] = [];
  try {
    while (servers.length < CALLED.length) servers.push(await start(subject, plan));
    for (const sizes of bothWays(plan.quick ? CALLED_QUICK : CALLED)) {
      await resize(servers, subject, sizes);
      await time(CALLS, servers.map(calling), turns, keep);
      await time(NEWCOMERS, servers.map(coming), turns, keep);
    }
    // By now code has been compiled, which is in the memory and not theirs; among ten thousand that is nothing.
    servers[1]!.before = { bytes: await memoryOf(servers[1]!.server), sessions: sizeOf(servers[1]!) };
    for (const [role, sizes] of bothWays(plan.quick ? NOTIFIED_QUICK : NOTIFIED).entries()) {
      await resize(servers, subject, sizes);
      // Who has had more before takes less for as many again.
      const keepMemory: Keep = role === 0 ? keep : () => {};
      for (const one of servers) keepMemory(MEMORY, sizeOf(one), [await memoryPerSession(one)]);
      await withStreams(servers, keepMemory, async (streaming) => {
        if (subject.cannot.notify === undefined) await time(DELIVERIES, streaming, turns, keep);
      });
    }
  } finally {
    await Promise.all(servers.map(({ server }) => server.stop()));
  }
}

const bothWays = ([one, other]: Sizes): Sizes[] => [
  [one, other],
  [other, one],
];

async function start(subject: Subject, plan: Plan): Promise<Growing> {
  const server = await startServer(subject, plan);
  // What the first sessions load stays, and is not theirs.
  await lifecycles(server)(100);
  return { server, before: { bytes: await memoryOf(server), sessions: 0 }, sessions: [] };
}

/** Until each has so many sessions, all of which have been called. */
async function resize(servers: readonly Growing[], subject: Subject, sizes: Sizes): Promise<void> {
  for (const [at, one] of servers.entries()) {
    await endSessions(one.server, one.sessions.splice(sizes[at]!));
    const more = await openSessionsOf(one.server, subject, sizes[at]! - sizeOf(one));
    await callsTo(one.server, more)(more.length);
    one.sessions.push(...more);
  }
}

async function time(title: string, loaded: readonly Loaded[], turns: Turns, keep: Keep): Promise<void> {
  for (const [size, costs] of Object.entries(await cpuTimes(loaded, turns))) keep(title, Number(size), costs);
}

function calling(one: Growing): Loaded {
  return { ...loaded(one), load: callsTo(one.server, one.sessions), warmUp: 4_000 };
}

function coming(one: Growing): Loaded {
  return { ...loaded(one), load: lifecycles(one.server), warmUp: 1_200 };
}

const sizeOf = ({ sessions }: Growing): number => sessions.length;
const loaded = (one: Growing): Pick<Loaded, 'key' | 'servers'> => ({ key: String(sizeOf(one)), servers: [one.server] });

function callsTo({ port }: ServerProcess, sessions: readonly Session[]): Load {
  // Each round goes on where the last one ended, so that all sessions have their turn.
  let turn = 0;
  return (count) =>
    inParallel(port, count, (connection, index) => callAdd(connection, sessions[turn++ % sessions.length]!, index));
}

/** While the stream of each session is open, where the system allows so many. */
async function withStreams(
  servers: readonly Growing[],
  keepMemory: Keep,
  use: (streaming: readonly Loaded[]) => Promise<void>,
): Promise<void> {
  const opened: EventStream[] = [];
  const streaming: Loaded[] = [];
  try {
    for (const one of servers) {
      const size = sizeOf(one);
      if (size + OWN_FILES > FILE_LIMIT) continue;
      const before = await memoryOf(one.server);
      const streams = await openStreams(one.server, one.sessions);
      opened.push(...streams);
      keepMemory(STREAM_MEMORY, size, [((await memoryOf(one.server)) - before) / size]);
      streaming.push({ ...loaded(one), load: notifications(one.server, streams), step: size, warmUp: 10_000 });
    }
    await use(streaming);
  } finally {
    for (const stream of opened) stream.close();
  }
}

async function memoryPerSession({ server, sessions, before }: Growing): Promise<number> {
  return ((await memoryOf(server)) - before.bytes) / (sessions.length - before.sessions);
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
  return limit === 'unlimited' ? Infinity : Number(limit) - NOTIFIED[1];
}
