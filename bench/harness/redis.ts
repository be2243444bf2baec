import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { CORE, pinnedTo } from './cores.js';
import { freePort } from './free-port.js';

/** The Redis that servers under measurement share: the one of `REDIS_URL`, or a `redis-server` of the bench's own. */
export class SharedRedis {
  private constructor(
    readonly url: string,
    private readonly admin: Redis,
    private readonly own: { process: ChildProcess; directory: string } | undefined,
  ) {}

  /** @returns nothing where there is no Redis, and says so on the standard error */
  static async obtain(purpose: string): Promise<SharedRedis | undefined> {
    const { REDIS_URL } = process.env;
    if (REDIS_URL) return new SharedRedis(REDIS_URL, new Redis(REDIS_URL), undefined);
    if (spawnSync('redis-server', ['--version']).status !== 0) {
      console.warn(`\n!!! SKIPPED: ${purpose} needs Redis. Install redis-server, or set REDIS_URL. !!!\n`);
      return undefined;
    }
    const port = await freePort();
    const directory = mkdtempSync(join(tmpdir(), 'mcp-bench-redis-'));
    const settings = ['--port', String(port), '--bind', '127.0.0.1', '--dir', directory, '--save', ''];
    const [command, ...args] = pinnedTo(CORE.redis, ['redis-server', ...settings]);
    const server = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    await ready(server);
    // It must not outlive the bench, however that ends.
    process.once('exit', () => server.kill('SIGKILL'));
    const url = `redis://127.0.0.1:${port}`;
    return new SharedRedis(url, new Redis(url), { process: server, directory });
  }

  /** Microseconds of CPU time that Redis has had. */
  async cpu(): Promise<number> {
    const text = await this.admin.info('cpu');
    const used = (name: string): number => Number(new RegExp(`^used_cpu_${name}:(.*)$`, 'm').exec(text)?.[1]);
    return (used('sys') + used('user')) * 1e6;
  }

  /** Keys below a prefix that are there because of a session. */
  async keysOf(prefix: string): Promise<string[]> {
    const keys: string[] = [];
    for await (const some of this.admin.scanStream({ match: `${prefix}:*`, count: 1_000 })) {
      keys.push(...(some as string[]));
    }
    // Who is alive is written down whether there is a session or not.
    return [...new Set(keys)].filter((key) => !key.startsWith(`${prefix}:{:bus}`));
  }

  async stop(): Promise<void> {
    this.admin.disconnect();
    if (!this.own) return;
    const { process: server, directory } = this.own;
    const exit = once(server, 'exit');
    server.kill('SIGKILL');
    await exit;
    rmSync(directory, { recursive: true, force: true });
  }
}

function ready(server: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.once('exit', (code) => reject(new Error(`redis-server ended with ${code}.`)));
    server.stdout!.on('data', (text: Buffer) => {
      if (text.includes('Ready to accept connections')) resolve();
    });
  });
}
