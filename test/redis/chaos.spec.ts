import { Redis } from 'ioredis';
import { afterEach, expect, it, onTestFailed, vi } from 'vitest';
import { seededRandom } from '../../src/testing/seeded-random.js';
import { describeRedis } from '../support/redis.js';
import { Caller, type Outcome } from './chaos/caller.js';
import { ChaosCluster } from './chaos/cluster.js';

/** The full run: `CHAOS_CLIENTS=50`; the same one again: `CHAOS_SEED`. */
const CLIENTS = Number(process.env['CHAOS_CLIENTS'] ?? 12);
const SEED = Number(process.env['CHAOS_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const CALLS_OF_EACH = 12;
const AT_A_TIME = 2;
/** One client in so many speaks 2026-07-28. */
const MODERN_EVERY = 4;
/** Milliseconds in which a call must have ended, whatever happens to it, on a machine that does other things beside. */
const BOUND_MS = 30_000;
const PATIENCE_MS = 30_000;

/** What a call may end with, beside its answer; `SESSION_LOST` and a call that was forgotten are not among it. */
const EXPLICIT = [
  'ProtocolError -32000',
  'ClientTransportError NO_ANSWER',
  'StreamLostError STREAM_LOST',
  'HttpStatusError CLIENT_HTTP_NOT_IMPLEMENTED',
];

const ACTS = ['kill', 'pause redis', 'kill', 'restart redis', 'kill two', 'pause redis', 'kill'] as const;
type Act = (typeof ACTS)[number];

/** Calls that have ended, and who waits for some more of them. */
class Counter {
  done = 0;
  #waiting: { readonly until: number; go(): void }[] = [];

  constructor(readonly total: number) {}

  add(): void {
    this.done++;
    for (const { until, go } of this.#waiting) if (this.done >= until) go();
    this.#waiting = this.#waiting.filter(({ until }) => this.done < until);
  }

  /** Settles when so many more have ended, or all. */
  more(count: number): Promise<void> {
    const until = Math.min(this.done + count, this.total);
    if (this.done >= until) return Promise.resolve();
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
        while (next < CALLS_OF_EACH) {
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

    async function perform(act: Act, counter: Counter): Promise<void> {
      const { redis } = cluster;
      switch (act) {
        case 'kill':
          return killed(1, counter);
        case 'kill two':
          return killed(2, counter);
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

    /** Each act after some more calls; then every session is told that it is over. */
    async function wreak(counter: Counter): Promise<void> {
      const pace = Math.floor(counter.total / (2 * ACTS.length));
      for (const [at, act] of ACTS.entries()) {
        await counter.more(pace + number(pace));
        await perform(act, counter);
        await vi.waitFor(() => cluster.nodes[number(3)]!.order({ announce: at }), PATIENCE_MS);
      }
    }

    function expectHonest({ work, caller, seen, kind, text, ms }: Outcome): void {
      const about = `${work.key}: ${kind}: ${text}`;
      expect(['answer', ...EXPLICIT], about).toContain(kind);
      expect(ms, about).toBeLessThan(BOUND_MS);
      const numbers = Array.from({ length: work.steps }, (_, at) => at + 1);
      expect(seen, about).toEqual(kind === 'answer' ? numbers : numbers.slice(0, seen.length));
      expect(cluster.runs.get(work.key) ?? 0, about).toBeLessThanOrEqual(1);
      if (kind === 'answer') expect(text).toBe(`${work.key} for ${caller.name}`);
    }

    async function keysOf(redis: Redis): Promise<string[]> {
      return (await redis.keys('*')).toSorted();
    }

    async function expectNothingLeft(): Promise<void> {
      const redis = new Redis(cluster.redis.url);
      try {
        const closing = callers.filter((_, at) => at % 2 === 0);
        await Promise.all(closing.map(({ client }) => client.close()));
        const sessions = callers.filter((caller) => !caller.modern && !closing.includes(caller)).length;
        expect(await cluster.nodes[0]!.order('end all sessions')).toBe(sessions);
        await vi.waitFor(async () => expect(await keysOf(redis)).toEqual(['mcp:{:bus}:nodes']), PATIENCE_MS);
        expect(await redis.zcard('mcp:{:bus}:nodes')).toBe(3);
        await Promise.all(cluster.nodes.map((node) => node.end('SIGTERM')));
        expect(await keysOf(redis)).toEqual([]);
      } finally {
        redis.disconnect();
      }
    }

    it(
      'every call ends honestly, no session is lost, and nothing is left',
      async () => {
        onTestFailed(() => void process.stderr.write(`\nCHAOS_SEED=${SEED} CHAOS_CLIENTS=${CLIENTS}\n${cluster.log}`));
        await connect();
        const counter = new Counter(CLIENTS * CALLS_OF_EACH);
        const began = performance.now();
        await Promise.all([wreak(counter), ...callers.map((caller) => callAll(caller, counter))]);
        process.stdout.write(`${figures(callers, performance.now() - began)}\n`);
        for (const outcome of callers.flatMap(({ outcomes }) => outcomes)) expectHonest(outcome);
        for (const caller of callers) {
          expect(Math.max(...caller.answers.values())).toBe(1);
          // It still works, under the id that it has always had.
          const { kind, text } = await caller.call({ key: `${caller.name}/last`, steps: 1, askAt: 0, everyMs: 5 });
          expect(kind, text).toBe('answer');
          expect(caller.keptSession, caller.name).toBe(true);
        }
        const acts = ACTS.map((_, at) => at);
        const legacy = callers.filter(({ modern }) => !modern);
        await vi.waitFor(() => {
          for (const { announced, name } of legacy) expect(announced, name).toEqual(acts);
        }, PATIENCE_MS);
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
  const reconnects = callers.reduce((sum, caller) => sum + caller.reconnects, 0);
  const longest = Math.max(...outcomes.map((outcome) => outcome.ms));
  const counts = [...kinds].map(([kind, count]) => `${count} ${kind}`).join(', ');
  return (
    `chaos (seed ${SEED}): ${CLIENTS} clients, ${outcomes.length} calls: ${counts}; ${ACTS.join(', ')}; ` +
    `${reconnects} reconnects; the longest call ${Math.round(longest)} ms; ${(ms / 1_000).toFixed(1)} s`
  );
}
