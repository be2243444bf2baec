import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import type { Server } from 'node:http';
import { join } from 'node:path';
import { roundRobin } from '../../../examples/cluster/round-robin.js';
import { bundle, ROOT } from '../../support/bundle.js';
import { freePort } from '../../../bench/harness/free-port.js';
import { RedisServer, ended } from '../../support/redis.js';
import type { Order, Report } from './node.js';

/** In the repository, so that packages are found; each test run has its own. */
const PROGRAM = join(ROOT, `build/chaos-${process.pid}`);
/** Lines of each node that are kept for whoever looks for the reason of a failure. */
const LINES = 40;
/** Milliseconds after which a node is taken for dead, unless a test says so itself. */
export const DEAD_AFTER_MS = 2_000;

interface ClusterOptions {
  readonly adapters?: readonly string[];
  readonly shutdownDelayMs?: number;
  readonly deadAfterMs?: number;
}

/** Three nodes, each a process, behind a round-robin proxy, over a Redis; all of which can be killed. */
export class ChaosCluster {
  /** How often each call has begun what must not be done twice. */
  readonly runs = new Map<string, number>();
  /** The nodes among which the proxy chooses. */
  readonly rotation: URL[] = [];
  readonly #nodes: NodeProcess[] = [];
  #proxy: Server | undefined;

  private constructor(readonly redis: RedisServer) {}

  /** @param adapters of the nodes, in turn */
  static async start(
    nodes: number,
    { adapters = ['express'], shutdownDelayMs = 0, deadAfterMs = DEAD_AFTER_MS }: ClusterOptions = {},
  ): Promise<ChaosCluster> {
    // What was acknowledged is in the file when the process is killed; for a machine that dies it would have to be `always`.
    const redis = await RedisServer.start('--appendonly', 'yes', '--appendfsync', 'no');
    const cluster = new ChaosCluster(redis);
    await bundle({ node: 'test/redis/chaos/node.ts' }, PROGRAM);
    const env = {
      DEAD_AFTER_MS: String(deadAfterMs),
      REDIS_URL: redis.url,
      REQUEST_STATE_KEY: randomBytes(32).toString('base64'),
      SHUTDOWN_DELAY_MS: String(shutdownDelayMs),
    };
    for (let at = 0; at < nodes; at++) {
      const ran = (key: string) => cluster.runs.set(key, (cluster.runs.get(key) ?? 0) + 1);
      const adapter = adapters[at % adapters.length]!;
      cluster.#nodes.push(new NodeProcess(await freePort(), { ...env, NODE_ADAPTER: adapter }, ran));
    }
    await Promise.all(cluster.#nodes.map((node) => node.start()));
    cluster.rotation.push(...cluster.#nodes.map(({ url }) => url));
    cluster.#proxy = roundRobin(cluster.rotation);
    await once(cluster.#proxy.listen(0, '127.0.0.1'), 'listening');
    return cluster;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#proxy!.address() as AddressInfo).port}/mcp`;
  }

  get nodes(): readonly NodeProcess[] {
    return this.#nodes;
  }

  /** Settles when every node has noticed that Redis does not answer. */
  async redisMissed(): Promise<void> {
    const living = this.#nodes.filter(({ lives }) => lives);
    await Promise.all(living.map((node) => untilPinged(node, 503)));
  }

  /** Settles when a node can work with Redis. */
  redisFound(node: NodeProcess): Promise<void> {
    return untilPinged(node, 404);
  }

  async stop(): Promise<void> {
    await Promise.all(this.#nodes.map((node) => node.end('SIGKILL')));
    this.#proxy?.close();
    this.#proxy?.closeAllConnections();
    await this.redis.stop();
    rmSync(PROGRAM, { recursive: true, force: true });
  }

  /** The last that the nodes said. */
  get log(): string {
    return this.#nodes.map(({ port, lines }) => `node ${port}:\n${lines.join('')}`).join('\n');
  }
}

/** One of the nodes: a process, or the place of one that was killed. */
class NodeProcess {
  readonly lines: string[] = [];
  /** Of the last process. */
  id = '';
  #process: ChildProcess | undefined;

  constructor(
    readonly port: number,
    private readonly env: Readonly<Record<string, string>>,
    private readonly ran: (key: string) => void,
  ) {}

  get url(): URL {
    return new URL(`http://127.0.0.1:${this.port}`);
  }

  get lives(): boolean {
    return this.#process !== undefined;
  }

  /** Settles when it serves. */
  async start(): Promise<void> {
    const env = { ...process.env, ...this.env, PORT: String(this.port), NO_COLOR: '1' };
    const child = fork(join(PROGRAM, 'node.js'), { env, execArgv: ['--enable-source-maps'], silent: true });
    for (const output of [child.stdout!, child.stderr!]) output.on('data', (text: Buffer) => this.#keep(String(text)));
    child.on('message', (message: Report) => {
      if ('ran' in message) this.ran(message.ran);
    });
    const { serves } = (await heard(child, (message) => 'serves' in message)) as { serves: string };
    this.id = serves;
    this.#process = child;
  }

  /** @throws (rejects) what the node says has failed */
  async order(order: Order): Promise<number> {
    const child = this.#process!;
    const outcome = heard(child, (message) => 'done' in message || 'failed' in message);
    child.send(order);
    const report = await outcome;
    if ('done' in report) return report.done;
    throw new Error(JSON.stringify(report));
  }

  /** The process stands still, as one of a machine that is suspended; the system goes on taking connections for it. */
  pause(): void {
    this.#process?.kill('SIGSTOP');
  }

  resume(): void {
    this.#process?.kill('SIGCONT');
  }

  async end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const child = this.#process;
    if (!child) return;
    this.#process = undefined;
    await ended(child, signal);
  }

  #keep(text: string): void {
    this.lines.push(text);
    if (this.lines.length > LINES) this.lines.shift();
  }
}

function heard(child: ChildProcess, wanted: (message: Report) => boolean): Promise<Report> {
  return new Promise((resolve, reject) => {
    const hear = (message: Report): void => {
      if (!wanted(message)) return;
      child.off('message', hear);
      child.off('exit', left);
      resolve(message);
    };
    const left = (code: number | null): void => reject(new Error(`The node has ended with ${code}.`));
    child.on('message', hear);
    child.once('exit', left);
  });
}

/** Asks for a session that is only Redis's to know: 404 when Redis says that there is none, 503 when it is away. */
async function untilPinged({ port }: NodeProcess, wanted: 404 | 503): Promise<void> {
  const url = `http://127.0.0.1:${port}/mcp`;
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-session-id': 'nobody-has-this-session',
    'mcp-protocol-version': '2025-11-25',
  };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' });
  for (let status = 0; status !== wanted;) {
    const response = await fetch(url, { method: 'POST', headers, body });
    await response.arrayBuffer();
    ({ status } = response);
  }
}
