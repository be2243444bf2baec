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

/** How many sessions there are. */
interface Sizes {
  readonly many: number;
  /** Beside them, while sessions are called. */
  readonly few: number;
  /** While they are notified: of fewer, what is theirs would be lost in what is not. */
  readonly fewNotified: number;
}

const FULL: Sizes = { many: 10_000, few: 10, fewNotified: 1_000 };
const QUICK: Sizes = { many: 1_000, few: 10, fewNotified: 500 };

/** Files that a process needs for itself. */
const OWN_FILES = 200;

const CALLS = 'tools/call';
const NEWCOMERS = 'initialize, initialized, DELETE';
const DELIVERIES = 'one notification to each of all open streams';
const MEMORY = 'memory per session that has been called';
const STREAM_MEMORY = 'memory per open GET stream of many';

const isMemory = (title: string): boolean => title === MEMORY || title === STREAM_MEMORY;

interface Growing {
  readonly server: ServerProcess;
  /** Those that are there now. */
  readonly sessions: Session[];
  /** Its memory before most of them came. */
  before: { readonly bytes: number; readonly sessions: number };
}

/** By title, number of sessions and subject: the rounds, and how warm the servers were. */
type Found = Map<string, Record<number, Pick<WorkResult, 'rounds' | 'warm'>>>;
type Keep = (title: string, size: number, values: readonly number[], warm?: number) => void;

export const growth: Work = { name: 'growth', run };

async function run(plan: Plan): Promise<WorkResult[]> {
  const found: Found = new Map([CALLS, NEWCOMERS, DELIVERIES, MEMORY, STREAM_MEMORY].map((title) => [title, {}]));
  for (const subject of growing(plan)) await measure(subject, plan, found);
  return [...found].flatMap(([title, sizes]) =>
    Object.entries(sizes).map(([size, all]): WorkResult => ({
      work: 'growth',
      title,
      size: Number(size),
      ...all,
      unit: isMemory(title) ? 'bytes' : 'µs',
    })),
  );
}

/** Peers take more than a minute each: they are not in the run of everything. */
function growing(plan: Plan): Subject[] {
  const everything = plan.only.length === 0 && plan.subjects.length === 0;
  return able('growth', plan).filter(({ file }) => file === OURS || !everything);
}

async function measure(subject: Subject, plan: Plan, found: Found): Promise<void> {
  const keep: Keep = (title, size, values, units) => {
    const { rounds, warm } = found.get(title)![size] ?? { rounds: {} };
    const { name } = subject;
    found.get(title)![size] = {
      rounds: { ...rounds, [name]: [...(rounds[name] ?? []), ...values] },
      ...(units !== undefined && { warm: { ...warm, [name]: Math.min(units, warm?.[name] ?? units) } }),
    };
  };
  // Who has had more before takes less for as many again.
  const keepTimes: Keep = (title, ...all) => (isMemory(title) ? undefined : keep(title, ...all));
  const servers: Growing[] = [];
  try {
    const one = await start(subject, plan, servers);
    const other = await start(subject, plan, servers);
    await sideBySide(one, other, subject, plan, keep);
    await sideBySide(other, one, subject, plan, keepTimes);
  } finally {
    await Promise.all(servers.map(({ server }) => server.stop()));
  }
}

async function sideBySide(small: Growing, large: Growing, subject: Subject, plan: Plan, keep: Keep): Promise<void> {
  const { many, few, fewNotified } = plan.quick ? QUICK : FULL;
  // There are only two of them, and half of it is done in each role.
  const turns = { ...plan, rounds: 2 * Math.ceil(plan.rounds / 2) };
  const both = [small, large];
  await resize(small, subject, few);
  await resize(large, subject, many);
  await time(CALLS, both.map(calling), turns, keep);
  await time(NEWCOMERS, both.map(coming), turns, keep);
  // By now code has been compiled, which is in the memory and not theirs; among ten thousand that is nothing.
  small.before = { bytes: await memoryOf(small.server), sessions: few };
  await resize(small, subject, fewNotified);
  for (const one of both) keep(MEMORY, sizeOf(one), [await memoryPerSession(one)]);
  await withStreams(both, keep, async (streaming) => {
    if (subject.cannot.notify === undefined) await time(DELIVERIES, streaming, turns, keep);
  });
}

async function start(subject: Subject, plan: Plan, started: Growing[]): Promise<Growing> {
  const server = await startServer(subject, plan);
  // What the first sessions load stays, and is not theirs.
  await lifecycles(server)(100);
  const one: Growing = { server, before: { bytes: await memoryOf(server), sessions: 0 }, sessions: [] };
  started.push(one);
  return one;
}

/** Until it has so many sessions, all of which have been called. */
async function resize({ server, sessions }: Growing, subject: Subject, size: number): Promise<void> {
  await endSessions(server, sessions.splice(size));
  const more = await openSessionsOf(server, subject, size - sessions.length);
  await callsTo(server, more)(more.length);
  sessions.push(...more);
}

async function time(title: string, loaded: readonly Loaded[], turns: Turns, keep: Keep): Promise<void> {
  const { rounds, warm } = await cpuTimes(loaded, turns);
  for (const [size, costs] of Object.entries(rounds)) keep(title, Number(size), costs, warm[size]);
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
  keep: Keep,
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
      keep(STREAM_MEMORY, size, [((await memoryOf(one.server)) - before) / size]);
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
  return limit === 'unlimited' ? Infinity : Number(limit) - FULL.fewNotified;
}
