import type { ClockTimer } from '../../common/clock.js';
import type { LostNode } from '../../bus/message-bus.js';
import { RedisUnavailableError } from '../redis.errors.js';
import type { RedisConnection } from '../connection/redis-connection.js';
import { beat, forgetLost } from './bus.scripts.js';

/** Dead nodes that one beat claims; the others are claimed by the next ones, or by other nodes. */
const CLAIMED_AT_ONCE = 4;
/**
 * # The signs of life of this node
 *
 *     resting ──start()──▶ beating, every `heartbeatMs`, one beat at a time ──stop()──▶ stopped (no longer among the nodes)
 *
 * By the clock of Redis alone. A beat that fails is left out: the next one comes soon enough, and nobody is taken for dead
 * because Redis was away. A node that learns from its beat that it was no longer known had been taken for dead: it goes on, but what
 * it ran may have been ended, and its readers may have been forgotten.
 */
export class Heartbeat {
  #timer: ClockTimer | undefined;
  #beating: Promise<void> | undefined;
  #registered = false;
  #stopped = false;
  /** When the last beat was sent that succeeded; milliseconds since the epoch. */
  #beatenAt = Number.NEGATIVE_INFINITY;
  /** Why the last one did not. */
  #failure: unknown;
  /** The dead that were claimed, and until when they are this node's; milliseconds since the epoch. */
  readonly #claimed = new Map<string, number>();

  constructor(
    private readonly connection: RedisConnection,
    private readonly node: string,
    private readonly listener: HeartbeatListener,
  ) {}

  /** Beats at once, and then on and on. Once begun, it merely beats. */
  start(): Promise<void> {
    if (!this.#stopped)
      this.#timer ??= this.connection.clock.setInterval(() => void this.#next(), this.connection.options.heartbeatMs);
    return this.#next();
  }

  /**
   * To be awaited before this node leaves anything behind that others would have to see to: they look for what they know of.
   *
   * @throws (rejects) RedisUnavailableError
   */
  async known(): Promise<void> {
    const { clock, options } = this.connection;
    const isKnown = () => this.#stopped || clock.now() - this.#beatenAt < options.deadAfterMs / 2;
    // One may be under way that began before.
    for (let attempts = 0; attempts < 2 && !isKnown(); attempts++) await this.#next();
    if (!isKnown()) throw new RedisUnavailableError('beat', this.#failure);
  }

  /**
   * Takes this node off the list, so that nobody takes it for dead; unless it leaves something behind: then somebody is to
   * see to it. Never rejects.
   */
  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    this.connection.clock.clear(this.#timer);
    await this.#beating;
    if (!(await this.listener.leaves()) || !this.#registered) return;
    const { bus } = this.connection.keys;
    await this.connection.command('leave', (client) => client.zrem(`${bus}nodes`, this.node)).catch(() => {});
  }

  #next(): Promise<void> {
    if (this.#stopped) return Promise.resolve();
    return (this.#beating ??= this.#beat().finally(() => (this.#beating = undefined)));
  }

  async #beat(): Promise<void> {
    const { keys, options } = this.connection;
    const { deadAfterMs, expireAfterMs } = options;
    const most = this.listener.mourns ? CLAIMED_AT_ONCE : 0;
    // The node that claimed a dead one has as long to see to it before others try: it may be dead itself by then.
    const args = [this.node, deadAfterMs, deadAfterMs, expireAfterMs, most];
    const at = this.connection.clock.now();
    try {
      const [known, ...lost] = (await this.connection.run(beat, keys.bus, ...args)) as [number, ...string[]];
      const presumedDead = this.#registered && known === 0;
      this.#registered = true;
      this.#beatenAt = at;
      if (presumedDead) this.listener.presumedDead();
      for (const node of lost) this.#lost(node, at + deadAfterMs);
      this.listener.beaten();
    } catch (error) {
      // Redis is away, which was said.
      this.#failure = error;
    }
  }

  /** Told once in each lease: it is named with every beat until it is done. */
  #lost(node: string, until: number): void {
    if ((this.#claimed.get(node) ?? 0) > this.connection.clock.now()) return;
    this.#claimed.set(node, until);
    this.listener.lost({ node, done: () => this.#done(node) });
  }

  /** Should it fail, somebody claims the node again after the lease, and finds nothing left to do. */
  async #done(node: string): Promise<void> {
    await this.connection.run(forgetLost, this.connection.keys.bus, node).catch(() => {});
    this.#claimed.delete(node);
  }
}

export interface HeartbeatListener {
  /** Whether somebody here sees to nodes that have died. */
  readonly mourns: boolean;
  lost(node: LostNode): void;
  presumedDead(): void;
  beaten(): void;
  /** @returns whether it leaves nothing behind */
  leaves(): Promise<boolean>;
}
