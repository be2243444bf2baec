import { CORE } from '../harness/cores.js';
import { EventStream } from '../harness/event-stream.js';
import { CONCURRENCY, inParallel, requestsFor } from '../harness/in-parallel.js';
import { callAdd, callProgress, progressRequest, type Session } from '../harness/mcp-client.js';
import { SharedRedis } from '../harness/redis.js';
import { ServerProcess } from '../harness/server-process.js';
import { median } from '../harness/statistics.js';
import { NODES, OURS } from '../harness/subjects.js';
import { awake, interleaved, type Load, type Loaded, type Spent, type Times } from '../harness/turns.js';
import type { Contest, LoneWork, Plan, TimedWork, Unit, WorkResult } from '../harness/work.js';
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

/** What calls and events cost. */
export const nodes: TimedWork = {
  name: 'nodes',
  begin: async (plan) => {
    const redis = await redisFor(plan);
    if (!redis) return { contests: [], end: async () => {} };
    const { deployments, stop } = await deployed(redis, {});
    const end = async (): Promise<void> => {
      await stop();
      await redis.stop();
    };
    return { contests: [calls(deployments), events(deployments)], end };
  },
};

/** How long an event is on its way. */
export const onTheWay: LoneWork = {
  name: 'nodes',
  run: async (plan) => {
    const redis = await redisFor(plan);
    if (!redis) return [];
    const { deployments, stop } = await deployed(redis, { STAMPS: '1' });
    try {
      const rounds = await latencies(deployments, plan);
      return [result('one progress event, from handler to client', 'µs', rounds)];
    } finally {
      await stop();
      await redis.stop();
    }
  },
};

async function redisFor({ subjects }: Plan): Promise<SharedRedis | undefined> {
  if (subjects.length > 0 && !subjects.includes('ours-fastify')) return undefined;
  return SharedRedis.obtain('What nodes that share their sessions cost');
}

async function deployed(
  redis: SharedRedis,
  env: Readonly<Record<string, string>>,
): Promise<{ deployments: readonly Deployment[]; stop: () => Promise<void> }> {
  const deployments: Deployment[] = [];
  for (const { name, count, shared } of NODES) {
    const place = shared && { REDIS_URL: redis.url, REDIS_PREFIX: `bench-${process.pid}-${name}` };
    const nodes: ServerProcess[] = [];
    for (let node = 0; node < count; node++) {
      const core = node === 0 ? CORE.server : CORE.secondServer;
      nodes.push(await ServerProcess.start(OURS, { ADAPTER: 'fastify', ...env, ...place }, { core }));
    }
    const sessions = await openSessions(nodes[0]!.port, SESSIONS);
    deployments.push({ key: name, nodes, redis: shared ? redis : undefined, sessions });
  }
  const stop = async (): Promise<void> => {
    await Promise.all(deployments.flatMap(({ nodes }) => nodes.map((node) => node.stop())));
  };
  return { deployments, stop };
}

function calls(deployments: readonly Deployment[]): Contest {
  const loaded = deployments.map((one): Loaded => ({ ...of(one), load: calling(one), step: 2 }));
  const perSecond = ({ wall }: Spent): number => 1e6 / wall;
  const results = (times: Times): WorkResult[] => [
    result('tools/call in a session, calls per second', 'calls/s', values(times, perSecond)),
    ...cpuResults('tools/call in a session', times),
  ];
  return { loaded, results };
}

function events(deployments: readonly Deployment[]): Contest {
  const step = CONCURRENCY * REPORTS;
  const loaded = deployments.map((one): Loaded => ({ ...of(one), load: reporting(one), step }));
  return { loaded, results: (times) => cpuResults('one progress event', times) };
}

function cpuResults(title: string, times: Times): WorkResult[] {
  const shared = Object.fromEntries(
    Object.entries(times).filter(([key]) => NODES.some((node) => node.name === key && node.shared)),
  );
  return [
    result(
      `${title}, CPU of the nodes`,
      'µs',
      values(times, ({ server }) => server),
    ),
    result(
      `${title}, CPU of Redis`,
      'µs',
      values(shared, ({ redis }) => redis),
    ),
  ];
}

function result(title: string, unit: Unit, rounds: WorkResult['rounds']): WorkResult {
  return { work: 'nodes', title, unit, rounds };
}

function values(times: Times, value: (spent: Spent) => number): Record<string, number[]> {
  return Object.fromEntries(Object.entries(times).map(([key, spent]) => [key, spent.map(value)]));
}

function of({ key, nodes, redis }: Deployment): Pick<Loaded, 'key' | 'servers' | 'redis'> {
  return { key, servers: nodes, redis };
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

async function latencies(deployments: readonly Deployment[], { rounds }: Plan): Promise<Record<string, number[]>> {
  let id = 0;
  // The first calls are for V8, and for the nodes to meet the session.
  for (const { nodes, sessions } of deployments) {
    for (let i = 0; i < 3; i++) await timesOf(portsOf(nodes), sessions[0]!, ++id, REPORTS);
  }
  const found: Record<string, number[]> = {};
  const all = deployments.map((one) => ({ ...one, turns: rounds }));
  await interleaved(all, async ({ key, nodes, sessions }) => {
    const times = await awake(timesOf(portsOf(nodes), sessions[0]!, ++id, TIMED_REPORTS));
    (found[key] ??= []).push(median(times));
  });
  return found;
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

function portsOf(nodes: readonly ServerProcess[]): number[] {
  return nodes.map(({ port }) => port);
}
