import { setTimeout as delay } from 'node:timers/promises';
import { inParallel } from '../harness/in-parallel.js';
import { callAdd, callProgress, type Session } from '../harness/mcp-client.js';
import { ServerProcess } from '../harness/server-process.js';
import { median } from '../harness/statistics.js';
import { OURS, type Subject } from '../harness/subjects.js';
import { awake } from '../harness/work.js';
import { lifecycles } from '../works/calls.js';
import { endSessions, openSessions } from '../works/sessions.js';
import { openStreams } from '../works/streams.js';
import type { CountedRedis } from './counted-redis.js';
import { byKind, type Coefficients, type Cost, type Operation } from './model.js';

/** Measures what each operation costs the nodes and Redis: two nodes, one Redis, each request at the node that it names. */

/** So that activity is noted every six seconds; the sweeps are as far apart. */
const IDLE_MS = 60_000;
const NOTED_EVERY_MS = IDLE_MS / 10;
/** Sessions, streams or requests in a round. */
const COUNT = 400;
const FEW = 1;
const MORE = 6;
/** Two sweeps of a node with the defaults. */
const IDLE_SECONDS = 30;

export type Adapter = Subject['adapter'];

/** Two nodes that share their sessions. */
export interface Pair {
  readonly here: ServerProcess;
  readonly there: ServerProcess;
  readonly redis: CountedRedis;
}

/**
 * While two nodes share a Redis, which is empty for them.
 *
 * @param idleMs how long a session may be idle
 */
export async function withPair<T>(
  redis: CountedRedis,
  { adapter, idleMs }: { adapter: Adapter; idleMs?: number },
  use: (pair: Pair) => Promise<T>,
): Promise<T> {
  const place = {
    ADAPTER: adapter,
    STAMPS: '1',
    ONE_BY_ONE: '1',
    ...(idleMs !== undefined && { IDLE_MS: String(idleMs) }),
    ...redis.env,
    REDIS_PREFIX: `capacity-${adapter}-${Date.now()}`,
  };
  const nodes: ServerProcess[] = [];
  try {
    for (let n = 0; n < 2; n++) nodes.push(await ServerProcess.start(OURS, place));
    return await use({ here: nodes[0]!, there: nodes[1]!, redis });
  } finally {
    await Promise.all(nodes.map((node) => node.stop()));
  }
}

/** What work has taken, all of it together. */
export async function spentOn(
  { here, there, redis }: Pair,
  work: () => Promise<void>,
): Promise<Omit<Cost, 'commands'>> {
  const now = async () => {
    const [one, other, { cpu, bytes }] = await Promise.all([here.cpu(), there.cpu(), redis.totals()]);
    return { node: one + other, redis: cpu, bytes };
  };
  const before = await now();
  await awake(work());
  const after = await now();
  return { node: after.node - before.node, redis: after.redis - before.redis, bytes: after.bytes - before.bytes };
}

/** Work that is done anew in each round, so many times. */
interface Trial {
  readonly count: number;
  readonly prepare?: () => Promise<void>;
  readonly work: () => Promise<void>;
}

/** The median of some rounds, after others that only warm up; then a round whose commands are counted. */
async function costOf(pair: Pair, { count, prepare, work }: Trial, rounds: number): Promise<Cost> {
  const costs: Omit<Cost, 'commands'>[] = [];
  for (let round = 0; round < rounds + 2; round++) {
    await prepare?.();
    const spent = await spentOn(pair, work);
    if (round >= 2) costs.push(spent);
  }
  await prepare?.();
  const { commands } = await pair.redis.commandsOf(work);
  const each = (of: (cost: Omit<Cost, 'commands'>) => number): number => median(costs.map(of)) / count;
  return {
    node: each(({ node }) => node),
    redis: each(({ redis }) => redis),
    bytes: each(({ bytes }) => bytes),
    commands: byKind((kind) => commands[kind] / count),
  };
}

export async function measured(
  redis: CountedRedis,
  rounds: number,
  say: (line: string) => void,
): Promise<Coefficients> {
  const costs = await withPair(redis, { adapter: 'fastify', idleMs: IDLE_MS }, (pair) => costsOf(pair, rounds, say));
  const express = await withPair(redis, { adapter: 'express' }, async (pair) => {
    const calls = await costOf(pair, await callsOf(pair.here), rounds);
    return calls.node / costs.call!.node;
  });
  say(`express: ${express.toFixed(2)} times`);
  return withPair(redis, { adapter: 'fastify' }, async (pair) => {
    costs['node minute'] = await minuteOf(pair);
    say(`node minute: ${told(costs['node minute'])}`);
    return { costs: costs as Coefficients['costs'], express, ...(await memoryOf(pair)) };
  });
}

async function callsOf(node: ServerProcess): Promise<Trial> {
  const sessions = await openSessions(node.port, 10);
  let calls = 0;
  const work = () =>
    inParallel(node.port, 10 * COUNT, (connection) => callAdd(connection, sessions[calls % 10]!, calls++));
  return { count: 10 * COUNT, work };
}

async function costsOf(
  pair: Pair,
  rounds: number,
  say: (line: string) => void,
): Promise<Partial<Record<Operation, Cost>>> {
  const { here, there } = pair;
  const found: Partial<Record<Operation, Cost>> = {};
  const measure = async (name: Operation, trial: Trial, without?: Cost, times = 1): Promise<void> => {
    const cost = await costOf(pair, trial, rounds);
    found[name] = scaled(without ? less(cost, without) : cost, 1 / times);
    say(`${name}: ${told(found[name])}`);
  };

  await measure('session', { count: COUNT, work: () => lifecycles(here)(COUNT) });
  await measure('call', await callsOf(here));

  const sessions = await openSessions(here.port, COUNT);
  const callAll = (node: ServerProcess) => () =>
    inParallel(node.port, COUNT, (connection, index) => callAdd(connection, sessions[index]!, index));
  await measure(
    'activity',
    { count: COUNT, prepare: () => delay(NOTED_EVERY_MS + 100), work: callAll(here) },
    found.call,
  );
  let others: Session[] = [];
  const renew = async (): Promise<void> => {
    await endSessions(here, others.splice(0));
    others = await openSessions(here.port, COUNT);
    await inParallel(here.port, COUNT, (connection, index) => callAdd(connection, others[index]!, index));
  };
  const arrive = () => inParallel(there.port, COUNT, (connection, index) => callAdd(connection, others[index]!, index));
  await measure('arrival', { count: COUNT, prepare: renew, work: arrive }, found.call);
  await endSessions(here, others);

  let id = 0;
  const reporting = (n: number): Trial => ({
    count: COUNT,
    work: () =>
      inParallel(here.port, COUNT, async (connection, index) => {
        await callProgress(connection, sessions[index]!, ++id, n);
      }),
  });
  const few = await costOf(pair, reporting(FEW), rounds);
  await measure('event', reporting(MORE), few, MORE - FEW);
  found['streamed call'] = less(few, scaled(found.event!, FEW));
  say(`streamed call: ${told(found['streamed call'])}`);

  await measure('stream', { count: COUNT, work: () => openAndClose(here, sessions) });
  await notifications(pair, here, sessions, (trial) => measure('notification', trial));
  await notifications(pair, there, sessions, (trial) => measure('distant notification', trial));
  await endSessions(here, sessions);

  return found;
}

/** Of two nodes with the defaults, and a session each. */
async function minuteOf(pair: Pair): Promise<Cost> {
  const minutes = (2 * IDLE_SECONDS) / 60;
  const idle = await spentOn(pair, () => delay(IDLE_SECONDS * 1_000));
  const { commands } = await pair.redis.commandsOf(() => delay(IDLE_SECONDS * 1_000), true);
  return scaled({ ...idle, commands }, 1 / minutes);
}

/** To all of some sessions, whose streams are at a node. The first node sends. */
async function notifications(
  { here }: Pair,
  at: ServerProcess,
  sessions: readonly Session[],
  measure: (trial: Trial) => Promise<void>,
): Promise<void> {
  const streams = await openStreams(at, sessions);
  let sequence = 0;
  const work = async (): Promise<void> => {
    const heard = streams.map((stream) => stream.receive(1, () => true));
    await Promise.all([here.notify(++sequence), ...heard]);
  };
  await measure({ count: streams.length, work });
  for (const stream of streams) stream.close();
  await delay(500);
}

async function openAndClose(node: ServerProcess, sessions: readonly Session[]): Promise<void> {
  for (const stream of await openStreams(node, sessions)) stream.close();
  // Closing them is what follows.
  await delay(200);
}

async function memoryOf({ here, redis }: Pair): Promise<Pick<Coefficients, 'memory' | 'stored'>> {
  const held = async (): Promise<number> => {
    const { heap, external } = await here.memory();
    return heap + external;
  };
  const count = 5 * COUNT;
  await endSessions(here, await openSessions(here.port, COUNT));
  const [empty, free] = [await held(), (await redis.totals()).memory];
  const sessions = await openSessions(here.port, count);
  const [idle, stored] = [await held(), (await redis.totals()).memory];
  const streams = await openStreams(here, sessions);
  const open = await held();
  for (const stream of streams) stream.close();
  const before = (await redis.totals()).memory;
  const events = 20;
  await inParallel(here.port, COUNT, async (connection, index) => {
    await callProgress(connection, sessions[index]!, 1, events);
  });
  const after = (await redis.totals()).memory;
  return {
    memory: { session: (idle - empty) / count, stream: (open - idle) / count },
    // The answer is an event, too.
    stored: { session: (stored - free) / count, event: (after - before) / COUNT / (events + 1) },
  };
}

function less(cost: Cost, other: Cost): Cost {
  return combined(cost, other, (a, b) => Math.max(0, a - b));
}

function scaled(cost: Cost, by: number): Cost {
  return combined(cost, cost, (value) => value * by);
}

function combined(one: Cost, other: Cost, how: (a: number, b: number) => number): Cost {
  return {
    node: how(one.node, other.node),
    redis: how(one.redis, other.redis),
    bytes: how(one.bytes, other.bytes),
    commands: byKind((kind) => how(one.commands[kind], other.commands[kind])),
  };
}

export function told({ node, redis, bytes, commands }: Cost): string {
  const counts = Object.entries(commands).filter(([, count]) => count >= 0.01);
  const kinds = counts.map(([kind, count]) => `${count.toFixed(2)} ${kind}`).join(', ') || 'no commands';
  return `${node.toFixed(0)} µs of a node, ${redis.toFixed(0)} µs and ${bytes.toFixed(0)} bytes of Redis; ${kinds}`;
}
