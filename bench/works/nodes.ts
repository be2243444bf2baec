import { CORE } from '../harness/cores.js';
import { EventStream } from '../harness/event-stream.js';
import { CONCURRENCY, inParallel, requestsFor } from '../harness/in-parallel.js';
import { callAdd, callProgress, progressRequest, type Session } from '../harness/mcp-client.js';
import { SharedRedis } from '../harness/redis.js';
import { ServerProcess } from '../harness/server-process.js';
import { median } from '../harness/statistics.js';
import { NODES, OURS } from '../harness/subjects.js';
import {
  awake,
  interleaved,
  type Load,
  type Loaded,
  type Plan,
  type Spent,
  timed,
  type Unit,
  type Work,
  type WorkResult,
} from '../harness/work.js';
import { openSessions } from './sessions.js';

/**
 * What it costs to share sessions: one node in memory, one node and two nodes on Redis. With two, each request of a session
 * goes to the other node than the one before, as behind a balancer that knows nothing of sessions; and the reader of a call is
 * on another node than its handler.
 */

const SESSIONS = 10;
const REPORTS = 200;
/** Of the events of a timed call, the first are logged while its reader changes nodes. */
const ON_THE_MOVE = 20;
const TIMED_REPORTS = 60;

interface Deployment {
  readonly key: (typeof NODES)[number]['name'];
  readonly nodes: readonly ServerProcess[];
  readonly redis: SharedRedis | undefined;
  readonly sessions: readonly Session[];
}

/** Rounds by what was measured, and by deployment; and how warm the deployments were. */
type Found = Map<string, { rounds: Record<string, number[]>; warm?: Record<string, number> }>;

const UNITS: Readonly<Record<string, Unit>> = {
  'tools/call in a session, calls per second': 'calls/s',
  'tools/call in a session, CPU of the nodes': 'µs',
  'tools/call in a session, CPU of Redis': 'µs',
  'one progress event, CPU of the nodes': 'µs',
  'one progress event, CPU of Redis': 'µs',
  'one progress event, from handler to client': 'µs',
};
const [PER_SECOND, CALL, CALL_REDIS, EVENT, EVENT_REDIS, ON_THE_WAY] = Object.keys(UNITS) as [
  string,
  string,
  string,
  string,
  string,
  string,
];

export const nodes: Work = {
  name: 'nodes',
  // How many events are one command differs from process to process.
  times: 4,
  run: async (plan) => {
    if (plan.subjects.length > 0 && !plan.subjects.includes('ours-fastify')) return [];
    const redis = await SharedRedis.obtain('What nodes that share their sessions cost');
    if (!redis) return [];
    const found: Found = new Map();
    try {
      await withDeployments(redis, {}, (all) => costs(all, plan, found));
      await withDeployments(redis, { STAMPS: '1' }, (all) => latencies(all, plan, found));
    } finally {
      await redis.stop();
    }
    return [...found].map(([title, all]): WorkResult => ({ work: 'nodes', title, unit: UNITS[title]!, ...all }));
  },
};

async function withDeployments(
  redis: SharedRedis,
  env: Readonly<Record<string, string>>,
  use: (all: readonly Deployment[]) => Promise<void>,
): Promise<void> {
  const started: ServerProcess[] = [];
  try {
    const deployments: Deployment[] = [];
    for (const { name, count, shared } of NODES) {
      const place = shared && { REDIS_URL: redis.url, REDIS_PREFIX: `bench-${process.pid}-${name}` };
      const servers: ServerProcess[] = [];
      for (let node = 0; node < count; node++) {
        const core = node === 0 ? CORE.server : CORE.secondServer;
        servers.push(await ServerProcess.start(OURS, { ADAPTER: 'fastify', ...env, ...place }, { core }));
        started.push(servers.at(-1)!);
      }
      const sessions = await openSessions(servers[0]!.port, SESSIONS);
      deployments.push({ key: name, nodes: servers, redis: shared ? redis : undefined, sessions });
    }
    await use(deployments);
  } finally {
    await Promise.all(started.map((server) => server.stop()));
  }
}

async function costs(deployments: readonly Deployment[], plan: Plan, found: Found): Promise<void> {
  const loaded = (loadOf: (deployment: Deployment) => Load, warmUp: number, step: number): Loaded[] =>
    deployments.map((one) => ({ key: one.key, servers: one.nodes, redis: one.redis, load: loadOf(one), warmUp, step }));
  // There are only three of them.
  const turns = { ...plan, rounds: 3 * plan.rounds };
  const calls = await timed(loaded(calling, 6_000, 2), turns);
  const events = await timed(loaded(reporting, 4 * CONCURRENCY * REPORTS, CONCURRENCY * REPORTS), turns);
  for (const { key, redis } of deployments) {
    const told = (title: string, { spent }: typeof calls, value: (spent: Spent) => number): void =>
      keep(found, title, key, spent[key]!.map(value));
    told(PER_SECOND, calls, ({ wall }) => 1e6 / wall);
    told(CALL, calls, ({ server }) => server);
    told(EVENT, events, ({ server }) => server);
    if (!redis) continue;
    told(CALL_REDIS, calls, (spent) => spent.redis);
    told(EVENT_REDIS, events, (spent) => spent.redis);
  }
  found.get(CALL)!.warm = calls.warm;
  found.get(EVENT)!.warm = events.warm;
}

function calling({ nodes, sessions }: Deployment): Load {
  return (count) =>
    inParallel(portsOf(nodes), count, (connection, index) =>
      callAdd(connection, sessions[Math.floor(index / nodes.length) % SESSIONS]!, index),
    );
}

function reporting({ nodes, sessions }: Deployment): Load {
  let id = 0;
  return (count) =>
    inParallel(portsOf(nodes), requestsFor(count, REPORTS), async (connection, index) => {
      await callProgress(connection, sessions[Math.floor(index / nodes.length) % SESSIONS]!, ++id, REPORTS);
    });
}

async function latencies(deployments: readonly Deployment[], { rounds }: Plan, found: Found): Promise<void> {
  let id = 0;
  const turn = async ({ key, nodes, sessions }: Deployment): Promise<void> => {
    const times = await awake(timesOf(portsOf(nodes), sessions[0]!, ++id, TIMED_REPORTS));
    keep(found, ON_THE_WAY, key, [median(times)]);
  };
  // The first calls are for V8, and for the nodes to meet the session.
  for (const deployment of deployments) {
    for (let i = 0; i < 3; i++) await timesOf(portsOf(deployment.nodes), deployment.sessions[0]!, ++id, REPORTS);
  }
  await interleaved(deployments, 2 * rounds, turn);
}

/** Calls at the first node, reads at the last. @returns microseconds from the handler to here, event by event */
async function timesOf(ports: readonly number[], session: Session, id: number, n: number): Promise<number[]> {
  const call = await EventStream.open(ports[0]!, session.post, progressRequest(id, n));
  await call.receive(1, () => true);
  call.close();
  const stream = await EventStream.get(ports.at(-1)!, `${session.headers}Last-Event-ID: ${call.lastEventId}\r\n`);
  const times: number[] = [];
  let expected = call.received;
  await stream.receive(n + 1 - call.received, (message) => {
    const heard = process.hrtime.bigint();
    const { params } = message as { params?: { progress: number; message: string } };
    if (params) times.push(Number(heard - BigInt(params.message)) / 1000);
    // The answer comes last.
    return params ? params.progress === ++expected : expected === n;
  });
  stream.close();
  return times.slice(ON_THE_MOVE);
}

function keep(found: Found, title: string, key: string, values: readonly number[]): void {
  const all = found.get(title) ?? { rounds: {} };
  (all.rounds[key] ??= []).push(...values);
  found.set(title, all);
}

function portsOf(nodes: readonly ServerProcess[]): number[] {
  return nodes.map(({ port }) => port);
}
