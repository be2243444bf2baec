import { inParallel } from '../harness/in-parallel.js';
import { callAdd, callProgress } from '../harness/mcp-client.js';
import { median } from '../harness/statistics.js';
import { lifecycles } from '../works/calls.js';
import { endSessions, openSessions } from '../works/sessions.js';
import { openStreams } from '../works/streams.js';
import { CountedRedis } from './counted-redis.js';
import { type Pair, spentOn, withPair } from './measure.js';
import { byKind, type Coefficients, type Cost, KINDS, type Operation, summed } from './model.js';

/** Runs a mixed load on two nodes, and compares what it took with what the model says of it. */

/** The mixed load. */
const SHORT = 400;
const SESSIONS = 400;
const CALLS = 8_000;
const STREAMED = 800;
const EVENTS = 3;
const NOTIFIED = 5;
const ROUNDS = 3;

/** The same in operations of the model. */
const COUNTS: Partial<Record<Operation, number>> = {
  session: SHORT + SESSIONS,
  call: CALLS,
  arrival: SESSIONS,
  'streamed call': STREAMED,
  event: STREAMED * EVENTS,
  stream: SESSIONS,
  'distant notification': SESSIONS * NOTIFIED,
};

/** What was predicted or measured, by what it is. */
export type Amounts = Readonly<Record<string, number>>;

export interface Checked {
  readonly predicted: Amounts;
  readonly measured: Readonly<Record<string, Amounts>>;
  /** How many of the commands each master of the cluster got. */
  readonly masters: readonly number[];
}

export async function checked({ costs }: Coefficients): Promise<Checked> {
  const measured: Record<string, Amounts> = {};
  let masters: number[] = [];
  for (const count of [1, 3]) {
    const redis = await CountedRedis.start(count);
    try {
      const all = await withPair(redis, { adapter: 'fastify' }, measuredOn);
      measured[count === 1 ? 'one Redis' : `a cluster of ${count}`] = all.amounts;
      masters = all.masters;
    } finally {
      await redis.stop();
    }
  }
  return { predicted: amountsOf(summed(costs, COUNTS)), measured, masters };
}

async function measuredOn(pair: Pair): Promise<{ amounts: Amounts; masters: number[] }> {
  const load = mixed(pair);
  await load();
  const { commands, masters } = await pair.redis.commandsOf(load);
  const rounds: Omit<Cost, 'commands'>[] = [];
  for (let round = 0; round < ROUNDS; round++) rounds.push(await spentOn(pair, load));
  const middle = (of: (cost: Omit<Cost, 'commands'>) => number): number => median(rounds.map(of));
  const cost = {
    node: middle(({ node }) => node),
    redis: middle(({ redis }) => redis),
    bytes: middle(({ bytes }) => bytes),
  };
  return { amounts: amountsOf({ ...cost, commands }), masters };
}

function mixed({ here, there }: Pair): () => Promise<void> {
  const both = [here.port, there.port];
  let id = 0;
  return async () => {
    await lifecycles(here)(SHORT);
    const sessions = await openSessions(here.port, SESSIONS);
    const sessionOf = (index: number) => sessions[Math.floor(index / both.length) % SESSIONS]!;
    await inParallel(both, CALLS, (connection, index) => callAdd(connection, sessionOf(index), index));
    await inParallel(both, STREAMED, async (connection, index) => {
      await callProgress(connection, sessionOf(index), ++id, EVENTS);
    });
    const streams = await openStreams(there, sessions);
    for (let n = 0; n < NOTIFIED; n++) {
      const heard = streams.map((stream) => stream.receive(1, () => true));
      await Promise.all([here.notify(++id), ...heard]);
    }
    for (const stream of streams) stream.close();
    await endSessions(here, sessions);
  };
}

function amountsOf({ node, redis, bytes, commands }: Cost): Amounts {
  const counts = byKind((kind) => Math.round(commands[kind]));
  const kinds = KINDS.filter((kind) => counts[kind] > 0).map((kind) => [`commands, ${kind}`, counts[kind]]);
  return {
    ...Object.fromEntries(kinds),
    'CPU of the nodes, ms': Math.round(node / 1_000),
    'CPU of Redis, ms': Math.round(redis / 1_000),
    'traffic, KB': Math.round(bytes / 1_000),
  };
}
