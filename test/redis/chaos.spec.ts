import { Redis } from 'ioredis';
import { afterEach, expect, it, onTestFailed } from 'vitest';
import { MCP_DROPPED_SESSION_MS } from 'nestjs-mcp-streamable/stores';
import { LONG, seededRandom } from '../support/share.js';
import { ALIVE, countAsDead } from '../support/redis-room.js';
import { describeRedis } from '../support/redis.js';
import { Caller, type Outcome } from './chaos/caller.js';
import { ChaosCluster, DEAD_AFTER_MS } from './chaos/cluster.js';
import { at as onNode } from '../support/nodes.js';
import { RawClient } from '../support/raw-client.js';
import { eventually } from '../support/eventually.js';

/** One client in so many speaks 2026-07-28. */
const MODERN_EVERY = 4;

/**
 * Nodes that are processes of their own, and the official client; there are many more worlds in kill.spec.ts. More clients:
 * `CHAOS_CLIENTS=50` (`npm run x -- test:chaos`); the same run again: `CHAOS_SEED`.
 */
const CLIENTS = Number(process.env['CHAOS_CLIENTS'] ?? (LONG ? 12 : MODERN_EVERY));
const SEED = Number(process.env['CHAOS_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const FULL = CLIENTS >= 50;
/** Calls that each client has open at once, as long as there is chaos. */
const AT_A_TIME = 2;

/**
 * What a call may end with, beside its answer. Not among it: a session that is lost, a call that is forgotten (`REQUEST_TIMEOUT`
 * of the client), and a question whose answer never came to the handler (`isError`: this client answers all).
 */
const EXPLICIT = [
  'ProtocolError -32000',
  'McpClientTransportError NO_ANSWER',
  'McpStreamLostError STREAM_LOST',
  'McpHttpStatusError 502',
  'McpHttpStatusError 503',
];

type Act = 'kill' | 'kill two' | 'pause' | 'pause redis' | 'restart redis';
const ROUND: readonly Act[] = ['kill', 'pause redis', 'kill two', 'pause', 'restart redis'];
const ACTS: readonly Act[] = FULL
  ? [...ROUND, ...ROUND.toReversed()]
  : CLIENTS > MODERN_EVERY
    ? ROUND
    : ['kill', 'restart redis'];

/** Calls that have ended, and who waits for some more of them. */
class Counter {
  #done = 0;
  #waiting: { readonly until: number; go(): void }[] = [];

  add(): void {
    this.#done++;
    for (const { until, go } of this.#waiting) if (this.#done >= until) go();
    this.#waiting = this.#waiting.filter(({ until }) => this.#done < until);
  }

  /** Settles when so many more have ended. */
  more(count: number): Promise<void> {
    const until = this.#done + count;
    return new Promise((go) => this.#waiting.push({ until, go }));
  }
}

describeRedis(
  'chaos: three nodes are killed, Redis is paused and restarted',
  () => {
    const random = seededRandom(SEED);
    const number = (below: number): number => Math.floor(random() * below);
    let cluster: ChaosCluster;
    let callers: Caller[] = [];
    const chaos = { isOver: false };

    afterEach(async () => {
      await Promise.all(callers.map(({ client }) => client.close()));
      await cluster.stop();
    });

    async function connect(): Promise<void> {
      cluster = await ChaosCluster.start(3);
      callers = Array.from(
        { length: CLIENTS },
        (_, at) => new Caller(cluster.url, `client-${at}`, at % MODERN_EVERY === MODERN_EVERY - 1, random),
      );
      await Promise.all(callers.map((caller) => caller.connect()));
    }

    async function callAll(caller: Caller, counter: Counter): Promise<void> {
      let next = 0;
      const work = async (): Promise<void> => {
        while (!chaos.isOver) {
          const steps = 3 + number(10);
          const askAt = caller.modern ? 0 : number(steps);
          await caller.call({ key: `${caller.name}/${next++}`, steps, askAt, everyMs: 5 + number(60) });
          counter.add();
        }
      };
      await Promise.all(Array.from({ length: AT_A_TIME }, work));
    }

    async function killed(count: number, counter: Counter): Promise<void> {
      const first = number(3);
      const victims = [0, 1].slice(0, count).map((at) => cluster.nodes[(first + at) % 3]!);
      await Promise.all(victims.map((node) => node.end('SIGKILL')));
      await counter.more(1 + number(CLIENTS));
      await Promise.all(victims.map((node) => node.start()));
    }

    /** For long enough to be taken for dead. */
    async function paused(): Promise<void> {
      const node = cluster.nodes[number(3)]!;
      node.pause();
      // Real time: Redis, whose clock decides which node is dead, is a process of its own.
      await new Promise((resolve) => setTimeout(resolve, DEAD_AFTER_MS + number(DEAD_AFTER_MS)));
      node.resume();
    }

    async function perform(act: Act, counter: Counter): Promise<void> {
      const { redis } = cluster;
      switch (act) {
        case 'kill':
          return killed(1, counter);
        case 'kill two':
          return killed(2, counter);
        case 'pause':
          return paused();
        case 'pause redis':
          redis.pause();
          await cluster.redisMissed();
          return redis.resume();
        case 'restart redis':
          await redis.kill();
          await cluster.redisMissed();
          return redis.start();
      }
    }

    /** As soon as Redis is back for that node: what is announced is announced once. */
    async function announce(at: number): Promise<void> {
      const node = cluster.nodes[number(3)]!;
      await cluster.redisFound(node);
      expect(await node.order({ announce: at })).toBe(callers.filter(({ modern }) => !modern).length);
    }

    /** Each act after some more calls; then every session is told that it is over. */
    async function wreak(counter: Counter): Promise<void> {
      try {
        for (const [at, act] of ACTS.entries()) {
          await counter.more(CLIENTS + number(2 * CLIENTS));
          await perform(act, counter);
          await announce(at);
        }
        await counter.more(CLIENTS);
      } finally {
        chaos.isOver = true;
      }
    }

    /** What is wrong with how a call went. */
    function faults({ work, caller, seen, kind, text, trace }: Outcome): string[] {
      const numbers = Array.from({ length: kind === 'answer' ? work.steps : seen.length }, (_, at) => at + 1);
      const runs = cluster.runs.get(work.key) ?? 0;
      const wrong = [
        kind !== 'answer' && !EXPLICIT.includes(kind) && 'ended with what nobody can act on',
        kind === 'answer' && text !== `${work.key} for ${caller.name}` && "has another call's answer",
        seen.join() !== numbers.join() && `progress ${seen.join()} of ${work.steps}`,
        runs > 1 && `ran ${runs} times`,
      ];
      const about = `${work.key}${caller.modern ? ' (modern)' : ''}: ${kind}: ${text} ${trace.join('; ')}`;
      return wrong.filter((fault) => fault !== false).map((fault) => `${fault}: ${about}`);
    }

    /** It still works, under the id that it has always had. */
    async function expectAlive(caller: Caller): Promise<void> {
      const { kind, text } = await caller.call({ key: `${caller.name}/last`, steps: 1, askAt: 0, everyMs: 5 });
      const { name, keptSession, answers } = caller;
      const mostAnswers = Math.max(...answers.values());
      const alive = { name, kind: 'answer', text: `${name}/last for ${name}`, keptSession: true, mostAnswers: 1 };
      expect({ name, kind, text, keptSession, mostAnswers }).toEqual(alive);
    }

    /**
     * But for those that Redis deletes by itself soon: a log that was dropped is there for half a minute, so that readers on all
     * nodes find its end (S16). The long run waits for them.
     */
    async function keysOf(redis: Redis): Promise<string[]> {
      // What says that a node has ended, which its claims ask for, expires ten minutes later.
      const keys = (await redis.keys('*')).filter((key) => !key.includes('%3Anodes}:')).toSorted();
      if (FULL) return keys;
      const left = await Promise.all(keys.map((key) => redis.pttl(key)));
      return keys.filter((_, at) => left[at] === -1 || left[at]! > MCP_DROPPED_SESSION_MS);
    }

    async function expectNothingLeft(): Promise<void> {
      const redis = new Redis(cluster.redis.url);
      try {
        const closing = callers.filter((_, at) => at % 2 === 0);
        await Promise.all(closing.map(({ client }) => client.close()));
        const sessions = callers.filter((caller) => !caller.modern && !closing.includes(caller)).length;
        expect(await cluster.nodes[0]!.order('end all sessions')).toBe(sessions);
        // A note of a call may be written again after Redis was away, behind its removal. It is outdated, which the log shows, and
        // goes when its node leaves.
        const kept = async (): Promise<string[]> => (await keysOf(redis)).filter((key) => !/:node:.*:calls$/.test(key));
        await eventually(async () => expect(await kept()).toEqual(['mcp:{:bus}:formats', `mcp:${ALIVE}`]));
        // A node that was killed is in the list until the others take it for dead.
        await eventually(async () => expect(await redis.zcard(`mcp:${ALIVE}`)).toBe(3));
        await Promise.all(cluster.nodes.map((node) => node.end('SIGTERM')));
        expect(await keysOf(redis)).toEqual([]);
      } finally {
        redis.disconnect();
      }
    }

    it('nodes: a GET that resumes a stream of a node that was killed has its first event at once', async () => {
      // The test says which node is dead: an event that came only then would come too late.
      cluster = await ChaosCluster.start(2, { deadAfterMs: 600_000 });
      const [a, b] = cluster.nodes.map(({ port }) => ({ url: `http://127.0.0.1:${port}/mcp` }));
      const client = await new RawClient(a!.url).initialize();
      const work = { key: 'work', steps: 1_000, askAt: 1_001, everyMs: 10 };
      const call = await (await client.call('work', work, { progressToken: 'work' })).sse().count(5);
      await cluster.nodes[0]!.end('SIGKILL');
      const resumed = await (await onNode(b!, client).get(call.primes[0])).sse().count(1);
      const redis = new Redis(cluster.redis.url);
      await countAsDead(redis, 'mcp', cluster.nodes[0]!.id);
      redis.disconnect();
      await resumed.end();
      expect(resumed.events.map(({ id }) => Number(id!.split('_')[1]))).toEqual(resumed.events.map((_, n) => n + 1));
      expect(resumed.messages.at(-1)).toMatchObject({ error: { code: -32000 } });
    });

    it(
      'every call ends honestly, no session is lost, and nothing is left',
      async () => {
        onTestFailed(() => void process.stderr.write(`\nCHAOS_SEED=${SEED} CHAOS_CLIENTS=${CLIENTS}\n${cluster.log}`));
        await connect();
        const counter = new Counter();
        const began = performance.now();
        await Promise.all([wreak(counter), ...callers.map((caller) => callAll(caller, counter))]);
        process.stdout.write(`${figures(callers, performance.now() - began)}\n`);
        expect(callers.flatMap(({ outcomes }) => outcomes).flatMap(faults)).toEqual([]);
        await Promise.all(callers.map(expectAlive));
        const acts = ACTS.map((_, at) => at);
        const legacy = callers.filter(({ modern }) => !modern);
        await eventually(() => {
          for (const { name, announced } of legacy) expect({ name, announced }).toEqual({ name, announced: acts });
        });
        await expectNothingLeft();
      },
      10 * 60_000,
    );
  },
  'server',
);

/** What happened, in one line. */
function figures(callers: readonly Caller[], ms: number): string {
  const outcomes = callers.flatMap((caller) => caller.outcomes);
  const kinds = new Map<string, number>();
  for (const { kind, caller } of outcomes) {
    const of = kind === 'answer' ? kind : `${kind}${caller.modern ? ' (modern)' : ''}`;
    kinds.set(of, (kinds.get(of) ?? 0) + 1);
  }
  const reconnects = callers.reduce((sum, caller) => sum + caller.reconnects.length, 0);
  const longest = outcomes.reduce((one, other) => (other.ms > one.ms ? other : one));
  const counts = [...kinds].map(([kind, count]) => `${count} ${kind}`).join(', ');
  return (
    `chaos (seed ${SEED}): ${CLIENTS} clients, ${outcomes.length} calls: ${counts}; ${ACTS.join(', ')}; ` +
    `${reconnects} reconnects; the longest call ${Math.round(longest.ms)} ms (${longest.work.key}: ${longest.trace.join('; ')}); ${(ms / 1_000).toFixed(1)} s`
  );
}
