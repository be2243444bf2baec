import { Redis } from 'ioredis';
import { expect } from 'vitest';
import { Proxy } from '../../support/proxy.js';
import { RedisServer } from '../../support/redis.js';
import { eventually } from '../../support/eventually.js';

/** A master with a replica, whose link the test cuts: from then on the replica lags. */
export class Pair {
  readonly #admins: Redis[] = [];

  private constructor(
    readonly master: RedisServer,
    readonly replica: RedisServer,
    private readonly link: Proxy,
  ) {}

  static async start(): Promise<Pair> {
    const master = await RedisServer.start('--repl-diskless-sync-delay', '0');
    const link = await Proxy.start(new URL(master.url));
    const replica = await RedisServer.start('--replicaof', '127.0.0.1', link.url.port);
    const pair = new Pair(master, replica, link);
    await pair.inStep();
    return pair;
  }

  /** Settles when the replica has all that the master has. */
  async inStep(): Promise<void> {
    const master = this.#admin(this.master);
    // `WAIT` counts the writes of its own connection.
    await eventually(async () => {
      await master.set('in step', 'or not', 'PX', 60_000);
      expect(await master.wait(1, 1_000)).toBe(1);
    });
  }

  lag(): Promise<void> {
    return this.link.close();
  }

  /** The master dies, and the replica takes over as it is. */
  async failOver(): Promise<void> {
    await this.master.kill();
    await this.#admin(this.replica).replicaof('NO', 'ONE');
  }

  async stop(): Promise<void> {
    for (const admin of this.#admins) admin.disconnect();
    await Promise.all([this.master.stop(), this.replica.stop()]);
  }

  #admin({ url }: RedisServer): Redis {
    const admin = new Redis(url);
    admin.on('error', () => {});
    this.#admins.push(admin);
    return admin;
  }
}
