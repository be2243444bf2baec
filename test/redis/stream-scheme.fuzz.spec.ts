import { randomBytes } from 'node:crypto';
import assert from 'node:assert/strict';
import { Logger } from '@nestjs/common';
import { Redis } from 'ioredis';
import { Subscription } from 'rxjs';
import { afterAll, beforeAll, it, vi } from 'vitest';
import {
  systemClock,
  McpEventStoreError,
  type McpAppendedMessage,
  type McpEventStore,
  type McpReaderRef,
  type McpReadResult,
} from 'nestjs-mcp-streamable/stores';
import { McpStream } from '../../src/core/log/mcp-stream.js';
import { NO_DATA } from '../../src/core/log/stream-reader.js';
import { gate } from '../support/app.js';
import { describeRedis, RedisServer } from '../support/redis.js';
import { LOST, testBackend } from '../support/redis-room.js';
import { LONG, share, seededRandom } from '../support/share.js';
import { eventually } from '../support/eventually.js';

/**
 * # The scheme of the streams, on a real Redis, while everything fails
 *
 * Each seed is a world: a stream on two or three nodes, each with connections and an event log of its own, and a client that reads it, leaves
 * and comes back to any of them. Nodes pause with calls under way, and are taken over. Meanwhile, for all worlds together, connections are
 * cut, scripts forgotten, and Redis itself stops for a moment. Then all comes to rest, and:
 *
 * - the log holds what was acknowledged, once each, in the order in which each writer wrote it, and nothing after its end;
 * - the client got the whole log: no event lost, repeated, or out of order, though a claim of a response that it gave up may arrive late and take the
 *   stream: then its response ends at a tick, and it comes back;
 * - nothing stays in Redis.
 *
 * The seed decides what is tried, not when the network does what: a failure may not come again at once.
 * After a change of the scheme run more worlds, and other seeds:
 * `FUZZ_SEED=<seed> FUZZ_RUNS=<worlds> npx vitest run test/redis/stream-scheme.fuzz.spec.ts`
 */
const SEED = Number(process.env['FUZZ_SEED'] ?? 1);
const RUNS = share(60, process.env['FUZZ_RUNS']);
const AT_A_TIME = 12;

const RETRY = { firstDelayMs: 5, maxDelayMs: 60, giveUpAfterMs: 30_000 };
const LIFE = { heartbeatMs: 100, deadAfterMs: 1_500 };
const TICK_MS = 150;
/** How long Redis keeps what is left of a log that was dropped. */
const DROPPED_MS = 30_000;
/** More ticks than it takes any node to find out who the newest reader is. */
const STALLED_TICKS = 50;

/** Real time: Redis, whose clock decides about nodes and retries, is a process that is paused and restarted. */
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

type Said = McpAppendedMessage | { type: 'replaced'; session: string; stream: string; reader: string; upTo?: number };

/** A node that can be paused: what it asks of the log waits, and what it has been told, too. */
class Node {
  readonly backend: ReturnType<typeof testBackend>;
  readonly stream: McpStream;
  readonly #tick: NodeJS.Timeout;
  ticks = 0;
  #paused: ReturnType<typeof gate<void>> | undefined;

  constructor(url: string, prefix: string, session: string, streamId: string, runs: boolean) {
    this.backend = testBackend(url, { prefix, commandTimeoutMs: 400, ...LIFE });
    const { messageBus } = this.backend;
    const say = ({ node }: McpReaderRef, message: Said) => messageBus.send(node, message);
    const ignore = (): void => {};
    const observer = {
      attached: ignore,
      detached: ignore,
      replacedHere: ignore,
      evicted: ignore,
      idle: ignore,
      failed: ignore,
      fault: ignore,
    };
    const environment = {
      store: this.#pausable(this.backend.eventStore),
      clock: systemClock,
      nodeId: messageBus.nodeId,
      retry: RETRY,
      maxQueuedBytes: 1024,
      comeBackMs: 10_000 * 1024,
      nodes: {
        appended: (session: string, stream: string, reader: McpReaderRef) =>
          say(reader, { type: 'appended', session, stream }),
        replaced: (session: string, stream: string, to: McpReaderRef, upTo?: number) =>
          say(to, { type: 'replaced', session, stream, reader: to.reader, ...(upTo !== undefined && { upTo }) }),
      },
    };
    this.stream = new McpStream(streamId, session, environment, observer, runs ? [1] : undefined);
    messageBus.messages$.subscribe((message) => this.#heard(message as Said));
    messageBus.reconnected$.subscribe(() => this.stream.refresh());
    this.#tick = setInterval(() => {
      this.ticks++;
      this.stream.refresh();
    }, TICK_MS);
  }

  pause(): void {
    this.#paused ??= gate();
  }

  resume(): void {
    this.#paused?.open();
    this.#paused = undefined;
  }

  async close(): Promise<void> {
    clearInterval(this.#tick);
    this.stream.end();
    await this.backend.close();
  }

  #heard(said: Said): void {
    if (said.type === 'appended') this.stream.look();
    else if (said.type === 'replaced') this.stream.replaced(said.reader, said.upTo);
  }

  #pausable(store: McpEventStore): McpEventStore {
    return new Proxy(store, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name);
        if (typeof member !== 'function') return member;
        return async (...args: unknown[]): Promise<unknown> => {
          await this.#paused?.promise;
          try {
            return (await Reflect.apply(member, target, args)) as unknown;
          } finally {
            await this.#paused?.promise;
          }
        };
      },
    });
  }
}

interface Written {
  readonly by: Node;
  readonly data: string;
  outcome: 'pending' | 'logged' | 'rejected';
  error?: unknown;
}

class World {
  readonly #random: () => number;
  readonly #session = randomBytes(11).toString('hex');
  readonly #isPost: boolean;
  readonly #streamId: string;
  readonly #nodes: Node[] = [];
  readonly #written: Written[] = [];
  /** What the client got, over all its connections. */
  readonly #got: string[] = [];
  /** Responses that the client has given up, and the server does not know it. */
  readonly #zombies: Subscription[] = [];
  #connection: Subscription | undefined;
  /** A response that was open got nothing more until the client came back. */
  stalled = false;
  #ended = false;
  #wrong: string | undefined;

  constructor(
    readonly seed: number,
    private readonly url: string,
    private readonly prefix: string,
  ) {
    this.#random = seededRandom(seed);
    this.#isPost = this.#random() < 0.5;
    this.#streamId = this.#isPost ? randomBytes(11).toString('hex') : '0';
  }

  async run(): Promise<void> {
    await this.#begin();
    for (let steps = 20 + this.#int(30); steps > 0; steps--) {
      await this.#step();
      await pause(this.#int(12));
    }
    for (const node of this.#nodes) node.resume();
    if (this.#isPost && !this.#ended) this.#write(this.#nodes[0]!, true);
    await this.#check();
  }

  async close(): Promise<void> {
    this.#connection?.unsubscribe();
    for (const zombie of this.#zombies) zombie.unsubscribe();
    const [{ backend }] = this.#nodes as [Node];
    await eventually(() => backend.eventStore.drop(this.#session));
    // What is told when a reader leaves.
    await pause(100);
    await Promise.all(this.#nodes.map((node) => node.close()));
  }

  async #begin(): Promise<void> {
    for (let n = 2 + this.#int(2); n > 0; n--) {
      const runs = this.#isPost && this.#nodes.length === 0;
      this.#nodes.push(new Node(this.url, this.prefix, this.#session, this.#streamId, runs));
    }
    const [first] = this.#nodes as [Node];
    await eventually(() => first.backend.eventStore.open(this.#session));
    if (this.#isPost) await first.stream.write({});
    this.#connect();
  }

  async #step(): Promise<void> {
    const node = this.#pick(this.#nodes);
    const dice = this.#random();
    if (dice < 0.5) for (let n = this.#int(4); n >= 0; n--) this.#write(node);
    else if (dice < 0.75) this.#connect();
    else if (dice < 0.9) {
      node.pause();
      void pause(20 + this.#int(200)).then(() => node.resume());
    } else if (dice < 0.93 && this.#isPost) await this.#takeOver(node);
  }

  #write(node: Node, end = false): void {
    const by = this.#isPost ? this.#nodes[0]! : node;
    const written: Written = { by, data: `"${this.#written.length + 1}"`, outcome: 'pending' };
    this.#written.push(written);
    this.#ended ||= end;
    by.stream.write({ data: written.data, end }).then(
      () => (written.outcome = 'logged'),
      (error: unknown) => Object.assign(written, { outcome: 'rejected', error }),
    );
  }

  /** As when the node that ran the call is taken for dead, whether or not it is. */
  async #takeOver({ backend }: Node): Promise<void> {
    if (this.#ended) return;
    this.#ended = true;
    const options = { writer: randomBytes(11).toString('hex'), seq: 1, end: true };
    const end = async () => backend.eventStore.append(this.#session, this.#streamId, ['"over"'], options);
    await eventually(() => end().catch(unlessFinal));
  }

  /** The client leaves, or merely stops listening, and comes back to some node with its cursor. */
  #connect(): void {
    const left = this.#connection;
    if (left) LIVE.get(left)!.live = false;
    if (left && this.#random() < 0.5) this.#zombies.push(left);
    else left?.unsubscribe();
    const { stream } = this.#pick(this.#nodes);
    const cursor = this.#got.length;
    const connection = { live: true };
    const subscription = new Subscription(() => (connection.live = false));
    LIVE.set(subscription, connection);
    this.#connection = subscription;
    const end = (): void => subscription.unsubscribe();
    void headOf(stream, () => !subscription.closed).then((head) => {
      if (!head || subscription.closed) return;
      const next = ({ index, data }: { index: number; data: string }): void => {
        if (!connection.live || data === NO_DATA) return;
        if (index !== this.#got.length + 1) this.#wrong ??= `event ${index} after ${this.#got.length}`;
        this.#got.push(data);
      };
      const after = Math.min(cursor, head.last);
      subscription.add(stream.subscribe({ next, error: end, complete: end }, after, undefined, head.last));
    });
  }

  async #check(): Promise<void> {
    const settled = () =>
      assert.ok(
        this.#written.every(({ outcome }) => outcome !== 'pending'),
        'a write hangs',
      );
    await eventually(settled);
    const [{ backend }] = this.#nodes as [Node];
    const read = () => backend.eventStore.read(this.#session, this.#streamId, 0, 10_000);
    const { events, ended } = await eventually(read);
    const log = events.map(({ data }) => data);
    assert.equal(ended, this.#isPost);
    this.#logIsWhatWasAcknowledged(log);
    // The server notices in the end that nobody listens: until then one of them may be the newest.
    for (const zombie of this.#zombies) zombie.unsubscribe();
    // One more time, so that it is not merely a reader who was there from the beginning.
    if (this.#random() < 0.5) this.#connect();
    const caughtUp = () => {
      // A response that ends early is followed by another one.
      if (this.#connection!.closed && this.#got.length < log.length) this.#connect();
      assert.deepEqual(this.#got, log);
    };
    const began = this.#nodes.map(({ ticks }) => ticks);
    await eventually(() => {
      this.stalled = this.#nodes.every(({ ticks }, n) => ticks > began[n]! + STALLED_TICKS);
      if (!this.stalled) caughtUp();
    });
    if (this.stalled) {
      this.#connect();
      await eventually(caughtUp);
    }
    assert.equal(this.#wrong, undefined);
  }

  #logIsWhatWasAcknowledged(log: readonly string[]): void {
    assert.equal(new Set(log).size, log.length, 'something is logged twice');
    const latest = new Map<Node, number>();
    for (const { by, data, outcome, error } of this.#written) {
      const index = log.indexOf(data) + 1;
      if (outcome === 'rejected') assert.ok(error instanceof McpEventStoreError, String(error));
      if (index === 0) {
        assert.equal(outcome, 'rejected', `${data} was acknowledged and is not logged`);
        continue;
      }
      assert.ok(index > (latest.get(by) ?? 0), `${data} was logged before what was written before it`);
      latest.set(by, index);
    }
  }

  #int(below: number): number {
    return Math.floor(this.#random() * below);
  }

  #pick<T>(from: readonly T[]): T {
    return from[this.#int(from.length)]!;
  }
}

/** Tries as long as the client waits. */
async function headOf(stream: McpStream, waits: () => boolean): Promise<McpReadResult | undefined> {
  while (waits()) {
    const head = await stream.head().catch(() => undefined);
    if (head) return head;
    await pause(20);
  }
  return undefined;
}

/** Whether the client still listens to a response. */
const LIVE = new WeakMap<Subscription, { live: boolean }>();

function unlessFinal(error: unknown): void {
  if (!(error instanceof McpEventStoreError)) throw error;
}

describeRedis(
  'the stream scheme on Redis',
  () => {
    let server: RedisServer;
    let admin: Redis;

    beforeAll(async () => {
      server = await RedisServer.start();
      admin = new Redis(server.url);
      for (const level of ['error', 'log', 'warn'] as const) {
        vi.spyOn(Logger.prototype, level).mockImplementation(() => {});
      }
    });
    afterAll(async () => {
      vi.restoreAllMocks();
      admin.disconnect();
      await server.stop();
    });

    /** What may happen to all worlds at any time. */
    const disasters: (() => Promise<unknown>)[] = [
      () => admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'),
      () => admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub'),
      () => admin.script('FLUSH'),
      async () => {
        server.pause();
        await pause(50 + Math.random() * 500);
        server.resume();
      },
    ];
    const rage = async (while_: () => boolean) => {
      while (while_()) {
        await disasters[Math.floor(Math.random() * disasters.length)]!();
        await pause(100 + Math.random() * 200);
      }
    };

    it(
      `the stream scheme on Redis keeps its promises in ${RUNS} worlds`,
      { timeout: 120_000 + RUNS * 10_000 },
      async () => {
        let raging = true;
        let stalled = 0;
        const raged = rage(() => raging);
        try {
          for (let from = SEED; from < SEED + RUNS; from += AT_A_TIME) {
            const seeds = Array.from({ length: Math.min(AT_A_TIME, SEED + RUNS - from) }, (_, n) => from + n);
            const worlds = seeds.map((seed) => new World(seed, server.url, 'fuzz'));
            await Promise.all(worlds.map(inWorld));
            stalled += worlds.filter((world) => world.stalled).length;
          }
        } finally {
          raging = false;
          await raged;
        }
        assert.ok(stalled <= 1 + RUNS / 200, `${stalled} of ${RUNS} clients had to come back`);
        await mourned(server.url, async () => {
          const keys = (await admin.keys('fuzz:*')).filter((key) => !key.startsWith('fuzz:{:bus}:'));
          // Logs that were dropped expire within half a minute.
          const lives = await Promise.all(keys.map((key) => admin.pttl(key)));
          const left = keys.filter((_, n) => LONG || lives[n] === -1 || lives[n]! > DROPPED_MS);
          assert.deepEqual([left, await admin.zcard(`fuzz:${LOST}`)], [[], 0]);
        });
      },
    );
  },
  'server',
);

/** Nodes that could not leave in order, since Redis was away, are seen to by the others: here by one that is left. */
async function mourned(url: string, done: () => Promise<void>): Promise<void> {
  const { eventStore, messageBus, close } = testBackend(url, { prefix: 'fuzz', ...LIFE });
  messageBus.lost$.subscribe(async ({ node, done }) => {
    assert.deepEqual(await eventStore.unfinished(node), []);
    await done();
  });
  await messageBus.connected();
  await eventually(done);
  await close();
}

async function inWorld(world: World): Promise<void> {
  try {
    await world.run();
  } catch (cause) {
    throw new Error(`FUZZ_SEED=${world.seed} FUZZ_RUNS=1: ${(cause as Error).message}`, { cause });
  } finally {
    await world.close();
  }
}
