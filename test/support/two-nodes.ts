import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { expect } from 'vitest';
import { MCP_DROPPED_SESSION_MS } from 'nestjs-mcp-streamable/stores';
import type { TestAppOptions, TestNode } from './app.js';
import { RedisRoom } from './redis-room.js';
import { Proxy } from './proxy.js';
import { eventually } from './eventually.js';

const NODES = 2;
/**
 * Time that is turned by hand goes further than nodes show signs of life; and where it stands still nobody tries again what a
 * machine with much to do has not done in time.
 */
const PATIENT = { deadAfterMs: 2 ** 31 - 1, commandTimeoutMs: 15_000 };
const KEYS = ['a secret that all nodes of a deployment know'];

/** The nodes of one app: the same options, one prefix in Redis, and a balancer in front. */
export class NodesOfOneApp {
  private constructor(
    readonly nodes: readonly TestNode[],
    readonly balancer: Proxy,
    private readonly options: TestAppOptions,
    private readonly room: RedisRoom,
    private readonly release: () => void,
  ) {}

  static async start(
    options: TestAppOptions,
    startNode: (options: TestAppOptions) => Promise<TestNode>,
  ): Promise<NodesOfOneApp> {
    const { clock, eventLog } = options;
    const room = await RedisRoom.open();
    const release = clock instanceof ManualClock ? turnsToo(room, clock) : () => {};
    const nodes: TestNode[] = [];
    try {
      for (let node = 0; node < NODES; node++) {
        const backend = room.node({ ...PATIENT, ...(eventLog && { eventLog }) });
        nodes.push(await startNode({ requestStateKeys: KEYS, ...options, backend }));
        // What a node may have missed until then it would tell of: a hint too many for tests that count.
        await backend.messageBus.connected();
      }
    } catch (error) {
      // What does not start twice does not start once.
      await Promise.all(nodes.map(({ app }) => app.close()));
      release();
      await room.close();
      throw error;
    }
    const targets = nodes.map(({ url: base }) => new URL(base));
    const balancer = await Proxy.start(targets, options.address === undefined ? {} : { address: options.address });
    return new NodesOfOneApp(nodes, balancer, options, room, release);
  }

  /** Where clients connect. */
  get url(): string {
    const url = new URL(this.nodes[0]!.url);
    url.port = this.balancer.url.port;
    return url.href.replace(/\/$/, '');
  }

  /** What one node has ended the other notices when it looks for what expires. */
  async looksAgain(): Promise<void> {
    const { clock, idleTimeoutMs = 1_800_000 } = this.options;
    // Half an hour, where sessions live for ever.
    const period = Math.min(idleTimeoutMs / 10, 1_800_000);
    if (clock instanceof ManualClock && clock.pending > 0) await clock.advance(period);
  }

  /** How many states lie in Redis. What idempotent tools and confirmations keep outlives the calls. */
  async states(): Promise<number> {
    const keys = await this.room.keys();
    return keys.filter((key) => /^\{:state:(?!once\.).*\}:value:/.test(key)).length;
  }

  /** When all nodes are closed: expects that nothing is left in Redis. */
  async closed(): Promise<void> {
    this.release();
    await this.balancer.close();
    // A log that was dropped may stay for half a minute, so that readers on other nodes find its end (S16).
    // Not `expect.poll`: an app that tests share is stopped when they are over.
    const nothing = async (): Promise<void> =>
      expect(
        (await this.room.lasting(MCP_DROPPED_SESSION_MS)).filter((key) => !key.startsWith('{:state:once.')),
      ).toEqual([]);
    await eventually(nothing);
    await this.room.close();
  }
}

/** The time of Redis goes on with that of the test. @returns what lets go of it */
function turnsToo(room: RedisRoom, clock: ManualClock): () => void {
  const advance = clock.advance.bind(clock);
  clock.advance = async (ms) => {
    await room.advance(ms);
    await advance(ms);
  };
  return () => {
    clock.advance = advance;
  };
}
