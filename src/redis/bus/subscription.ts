import type { Redis } from 'ioredis';
import { deferred } from '../../common/promises.js';
import { RedisClosedError } from '../redis.errors.js';
import type { RedisConnection } from '../connection/redis-connection.js';
import { backoff } from '../connection/redis-clients.js';

/** Upper bound of the pause between two attempts. */
const LONGEST_PAUSE_MS = 500;

/**
 * # The subscribed connection
 *
 *     connecting ──subscribed──▶ subscribed ──connection lost, or silent──▶ connecting (a new one, after a pause that grows) …
 *     any ──close()──▶ closed
 *
 * The connection does not reconnect by itself: so every interruption is noticed, and in a cluster the next connection may
 * lead to another node.
 */
export class Subscription {
  #state: SubscriptionState = { is: 'connecting' };
  #running: Promise<void> | undefined;
  #awake = deferred();

  constructor(
    private readonly connection: RedisConnection,
    private readonly channels: readonly string[],
    private readonly listener: SubscriptionListener,
  ) {}

  start(): void {
    this.#running ??= this.#run();
  }

  /** Pings: a connection may be dead without having been closed. */
  check(): void {
    if (this.#state.is !== 'subscribed') return;
    const { client } = this.#state;
    client.ping().catch(() => client.disconnect());
  }

  async close(): Promise<void> {
    const before = this.#state;
    this.#state = { is: 'closed' };
    if (before.is === 'subscribed') before.client.disconnect();
    this.#awake.resolve();
    await this.#running;
  }

  async #run(): Promise<void> {
    for (let attempts = 1; !this.#isClosed; attempts++) {
      const client = await this.#subscribed();
      if (client) {
        attempts = 0;
        await this.#whileSubscribed(client);
      }
      if (!this.#isClosed) await this.#pause(backoff(attempts + 1, LONGEST_PAUSE_MS));
    }
  }

  /** @returns a subscribed client; `undefined` if there is none now */
  async #subscribed(): Promise<Redis | undefined> {
    let client: Redis | undefined;
    try {
      client = await this.connection.subscriber();
      if (!client) return undefined;
      client.on('error', (error: unknown) => this.connection.outages.failed('messages', error));
      client.on('message', (channel: string, text: string) => this.listener.received(channel, text));
      await client.connect();
      await client.subscribe(...this.channels);
      return client;
    } catch (error) {
      client?.disconnect();
      if (!(error instanceof RedisClosedError)) this.connection.outages.failed('messages', error);
      return undefined;
    }
  }

  /** Settles when the subscription has ended. */
  async #whileSubscribed(client: Redis): Promise<void> {
    const ended = deferred();
    client.once('end', () => ended.resolve());
    if (this.#isClosed || client.status !== 'ready') client.disconnect();
    if (client.status === 'end') return;
    if (!this.#isClosed) {
      this.#state = { is: 'subscribed', client };
      this.connection.outages.works('messages');
      this.listener.subscribed();
    }
    await ended.promise;
    if (!this.#isClosed) this.#state = { is: 'connecting' };
  }

  get #isClosed(): boolean {
    return this.#state.is === 'closed';
  }

  async #pause(ms: number): Promise<void> {
    this.#awake = deferred();
    const { clock } = this.connection;
    const timer = clock.setTimeout(() => this.#awake.resolve(), ms);
    await this.#awake.promise;
    clock.clear(timer);
  }
}

type SubscriptionState = { is: 'connecting' } | { is: 'subscribed'; client: Redis } | { is: 'closed' };

export interface SubscriptionListener {
  received(channel: string, text: string): void;
  /** The subscription is established, for the first time or again. */
  subscribed(): void;
}
