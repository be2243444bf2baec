import { redisBackend } from 'nestjs-mcp-streamable/redis';
import { expect } from 'vitest';
import { randomToken } from '../../src/base/random-token.js';
import type { TestAppOptions, TestNode } from './app.js';
import { sharedRedis } from './redis.js';
import { RoundRobin } from './round-robin.js';

const NODES = 2;
const KEYS = ['a secret that all nodes of a deployment know'];

/** The nodes of one app: the same options, one prefix in Redis, and a balancer in front. */
export class NodesOfOneApp {
  private constructor(
    readonly nodes: readonly TestNode[],
    readonly balancer: RoundRobin,
    private readonly prefix: string,
  ) {}

  static async start(
    options: TestAppOptions,
    startNode: (options: TestAppOptions) => Promise<TestNode>,
  ): Promise<NodesOfOneApp> {
    const { url } = await sharedRedis();
    const prefix = `nodes-${randomToken(8)}`;
    const nodes: TestNode[] = [];
    try {
      for (let node = 0; node < NODES; node++) {
        const backend = redisBackend(url, { prefix });
        nodes.push(await startNode({ requestStateKeys: KEYS, ...options, backend }));
      }
    } catch (error) {
      // What does not start twice does not start once.
      await Promise.all(nodes.map(({ app }) => app.close()));
      throw error;
    }
    const targets = nodes.map(({ url: base }) => new URL(base));
    return new NodesOfOneApp(nodes, await RoundRobin.start(targets, options.address ?? '127.0.0.1'), prefix);
  }

  /** Where clients connect. */
  get url(): string {
    const url = new URL(this.nodes[0]!.url);
    url.port = String(this.balancer.port);
    return url.href.replace(/\/$/, '');
  }

  /** When all nodes are closed: expects that nothing is left in Redis. */
  async closed(): Promise<void> {
    await this.balancer.close();
    const { admin } = await sharedRedis();
    await expect.poll(() => admin.keys(`${this.prefix}:*`), { timeout: 5_000, interval: 5 }).toEqual([]);
  }
}
