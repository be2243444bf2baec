import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { CORE, pinnedTo } from '../harness/cores.js';
import { freePort } from '../harness/free-port.js';
import { byKind, type ByKind, type Kind } from './model.js';

const SLOTS = 16_384;
/** After the last command, so long until nothing more comes of what was done. */
const SETTLED_MS = 300;
/** Keys of the index, of a node and of the bus; any other tag is that of a session. */
const TAGS: readonly (readonly [RegExp, Kind])[] = [
  [/\{:sessions/, 'index'],
  [/\{:node:/, 'node'],
  [/\{:bus\}/, 'bus'],
  [/\{/, 'session'],
];

/** What Redis has spent since it started. */
export interface Totals {
  /** Microseconds of CPU time. */
  readonly cpu: number;
  /** Bytes that it has received and sent. */
  readonly bytes: number;
  /** Bytes that it holds. */
  readonly memory: number;
}

/** One Redis, or a Redis Cluster of masters, of this measurement's own: it counts the commands of others by the kind of their key. */
export class CountedRedis {
  private constructor(
    private readonly masters: readonly { process: ChildProcess; port: number; directory: string; admin: Redis }[],
  ) {
    // They must not outlive the measurement, however that ends.
    process.once('exit', () => masters.forEach(({ process }) => process.kill('SIGKILL')));
  }

  static async start(count: number): Promise<CountedRedis> {
    const masters = [];
    const buses: number[] = [];
    for (let n = 0; n < count; n++) {
      const [port, bus] = [await freePort(), await freePort()];
      buses.push(bus);
      const directory = mkdtempSync(join(tmpdir(), 'mcp-capacity-redis-'));
      const cluster = count > 1 ? ['--cluster-enabled', 'yes', '--cluster-port', String(bus)] : [];
      const settings = ['--port', String(port), '--bind', '127.0.0.1', '--dir', directory, '--save', '', ...cluster];
      const [command, ...args] = pinnedTo(CORE.redis, ['redis-server', ...settings]);
      const server = spawn(command, args, { stdio: 'ignore' });
      masters.push({ process: server, port, directory, admin: admin(port) });
    }
    if (count > 1) {
      await connected(
        masters.map(({ admin }) => admin),
        masters.map(({ port }, n) => [port, buses[n]!]),
      );
    }
    return new CountedRedis(masters);
  }

  /** For a server of the bench. */
  get env(): Record<string, string> {
    const ports = this.masters.map(({ port }) => port);
    return ports.length > 1 ? { REDIS_CLUSTER: ports.join(',') } : { REDIS_URL: `redis://127.0.0.1:${ports[0]}` };
  }

  async totals(): Promise<Totals> {
    const all = await Promise.all(this.masters.map(({ admin }) => totalsOf(admin)));
    const sum = (of: keyof Totals): number => all.reduce((total, one) => total + one[of], 0);
    return { cpu: sum('cpu'), bytes: sum('bytes'), memory: sum('memory') };
  }

  /**
   * @param beats whether heartbeats, and pings of subscriptions, count
   * @returns how many commands came of it, by the kind of key, and how many of them each master got
   */
  async commandsOf(work: () => Promise<void>, beats = false): Promise<{ commands: ByKind; masters: number[] }> {
    const found = new Map<Kind, number>();
    const masters = this.masters.map(() => 0);
    let last = performance.now();
    const monitors = await Promise.all(
      this.masters.map(async ({ admin }, at) => {
        const monitor = await admin.monitor();
        monitor.on('monitor', (_time: string, args: string[], source: string) => {
          // Commands of scripts are part of those that run the scripts.
          if (source === 'lua') return;
          const kind = kindOf(args, beats);
          if (!kind) return;
          last = performance.now();
          found.set(kind, (found.get(kind) ?? 0) + 1);
          masters[at]!++;
        });
        return monitor;
      }),
    );
    await work();
    while (performance.now() - last < SETTLED_MS) await delay(SETTLED_MS / 3);
    for (const monitor of monitors) monitor.disconnect();
    return { commands: byKind((kind) => found.get(kind) ?? 0), masters };
  }

  async stop(): Promise<void> {
    for (const { process: server, directory, admin } of this.masters) {
      admin.disconnect();
      const exit = once(server, 'exit');
      server.kill('SIGKILL');
      await exit;
      rmSync(directory, { recursive: true, force: true });
    }
  }
}

/** Waits until the server is there. */
function admin(port: number): Redis {
  const client = new Redis(port, { retryStrategy: () => 50, maxRetriesPerRequest: null });
  // Until then it is refused.
  client.on('error', () => {});
  return client;
}

/** @returns nothing for what does not belong to an operation: connections, questions of this process */
function kindOf([name = '', ...args]: string[], beats: boolean): Kind | undefined {
  if (name.toLowerCase() === 'ping') return beats ? 'none' : undefined;
  const key = /^eval/i.test(name) ? args[2] : args[0];
  const [, kind] = TAGS.find(([tag]) => key !== undefined && tag.test(key)) ?? [];
  // A beat is a script of the bus; messages are evaluated as they stand.
  const isBeat = kind === 'bus' && name.toLowerCase() === 'evalsha';
  return isBeat && !beats ? undefined : kind;
}

async function totalsOf(admin: Redis): Promise<Totals> {
  const text = await admin.info();
  const value = (name: string): number => Number(new RegExp(`^${name}:(.*)$`, 'm').exec(text)?.[1]);
  return {
    cpu: (value('used_cpu_sys') + value('used_cpu_user')) * 1e6,
    bytes: value('total_net_input_bytes') + value('total_net_output_bytes'),
    memory: value('used_memory'),
  };
}

/** Makes a cluster of masters. */
async function connected(admins: readonly Redis[], ports: readonly (readonly [number, number])[]): Promise<void> {
  const share = SLOTS / admins.length;
  for (const [n, admin] of admins.entries()) {
    const [from, to] = [Math.floor(share * n), Math.floor(share * (n + 1)) - 1];
    await admin.call('CLUSTER', 'ADDSLOTSRANGE', String(from), String(to));
    await admin.call('CLUSTER', 'SET-CONFIG-EPOCH', String(n + 1));
  }
  for (const [port, bus] of ports.slice(1)) {
    await admins[0]!.call('CLUSTER', 'MEET', '127.0.0.1', String(port), String(bus));
  }
  const isReady = async (admin: Redis): Promise<boolean> => {
    const info = String(await admin.call('CLUSTER', 'INFO'));
    return info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${admins.length}`);
  };
  while (!(await Promise.all(admins.map(isReady))).every(Boolean)) await delay(50);
}
