import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { freePort } from '../../bench/harness/free-port.js';
import { once } from 'node:events';
import { describeWith } from './needs.js';

const installed = spawnSync('redis-server', ['--version']).status === 0;
const given = process.env['REDIS_URL'];

/**
 * Tests on a real Redis: the one of `REDIS_URL`, or a `redis-server` that is started for them. Without either they are
 * skipped, loudly; in CI they fail. `npm test` leaves them to `npm run test:all`.
 *
 * @param needs `server`: one that may be killed, which one of `REDIS_URL` may not
 */
export function describeRedis(name: string, body: () => void, needs: 'any' | 'server' = 'any'): void {
  if (process.env['QUICK']) return;
  const there = installed || (given !== undefined && needs === 'any');
  const missing = `No redis-server was found. Install it${needs === 'any' ? ', or set REDIS_URL' : ''}.`;
  describeWith(there ? undefined : missing, name, body);
}

/** A Redis that this process may do anything to. */
export class RedisServer {
  #process: ChildProcess | undefined;
  readonly #directory = mkdtempSync(join(tmpdir(), 'mcp-redis-'));

  private constructor(
    readonly port: number,
    private readonly settings: readonly string[],
  ) {}

  /** @param settings as on the command line of `redis-server` */
  static async start(...settings: string[]): Promise<RedisServer> {
    const server = new RedisServer(await freePort(), settings);
    await server.start();
    return server;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** On the same port as before. */
  async start(): Promise<void> {
    const args = ['--port', String(this.port), '--bind', '127.0.0.1', '--dir', this.#directory, '--save', ''];
    const server = spawn('redis-server', [...args, ...this.settings], { stdio: ['ignore', 'pipe', 'inherit'] });
    this.#process = server;
    await new Promise<void>((resolve, reject) => {
      server.once('exit', (code) => reject(new Error(`redis-server ended with ${code}`)));
      server.stdout.on('data', (text: Buffer) => {
        if (text.includes('Ready to accept connections')) resolve();
      });
    });
  }

  /** At once, as a machine that loses its power. */
  async kill(): Promise<void> {
    const server = this.#process;
    if (!server || server.exitCode !== null || server.signalCode !== null) return;
    const gone = new Promise((resolve) => server.once('exit', resolve));
    server.kill('SIGKILL');
    await gone;
  }

  /** Takes connections, and answers nothing. */
  pause(): void {
    this.#process!.kill('SIGSTOP');
  }

  resume(): void {
    this.#process!.kill('SIGCONT');
  }

  async stop(): Promise<void> {
    await this.kill();
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

let shared: Promise<{ url: string; admin: Redis; stop(): Promise<void> }> | undefined;

/** The Redis that the tests of one file share, each below a prefix of its own. */
export async function sharedRedis(): Promise<{ readonly url: string; readonly admin: Redis }> {
  return (shared ??= startShared());
}

async function startShared() {
  const server = given === undefined ? await RedisServer.start() : undefined;
  const url = given ?? server!.url;
  const admin = new Redis(url);
  return {
    url,
    admin,
    stop: async () => {
      admin.disconnect();
      await server?.stop();
    },
  };
}

/** For the setup of each file: files share this module, and the process. */
export async function stopSharedRedis(): Promise<void> {
  const last = await shared;
  shared = undefined;
  await last?.stop();
}

/** Ends a process. @returns settles when it has gone */
export async function ended(child: ChildProcess, signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
  const gone = once(child, 'exit');
  child.kill(signal);
  await gone;
}

/** The rules for a user of Redis, as docs/several-nodes.md has them: arguments of ACL SETUSER. */
export function documentedRules(where: 'one Redis' | 'a cluster' = 'one Redis'): string[] {
  const page = readFileSync(new URL('../../docs/several-nodes.md', import.meta.url), 'utf8').replaceAll('\\|', '|');
  const [, block] = /redis-cli ACL SETUSER mcp ([^`]+)```/.exec(page)!;
  const rules = block!
    .replaceAll(/\\\n|'/g, '')
    .trim()
    .split(/\s+/);
  const [, line] = /A Redis Cluster needs ([^\n]+) too\./.exec(page)!;
  return where === 'one Redis' ? rules : [...rules, ...line!.match(/\+[\w|]+/g)!];
}
