import type { Redis } from 'ioredis';
import { deferred, within } from '../../core/common/promises.js';
import { RedisClosedError, RedisUnavailableError } from '../redis.errors.js';
import type { RedisConnection } from '../connection/redis-connection.js';
import { backoff } from '../connection/redis-clients.js';

/** The longest pause between two attempts, in milliseconds. */
const LONGEST_PAUSE_MS = 500;

/**
 * # The subscribed connection
 *
 *     connecting ──subscribed──▶ subscribed ──connection lost, or silent──▶ connecting (a new one, after a pause that grows) …
 *     any ──close()──▶ closed
 *
 * The connection does not reconnect automatically, so that every interruption is noticed, and in a cluster the next
 * connection may use another node.
 */
export class Subscription {
  /** The client that is subscribed, if there is one. */
  #client: Redis | undefined;
  #running: Promise<void> | undefined;
  #isClosed = false;
  readonly #closing = deferred();

  constructor(
    private readonly connection: RedisConnection,
    private readonly channels: readonly string[],
    private readonly listener: SubscriptionListener,
  ) {}

  start(): void {
    this.#running ??= this.#run();
  }

  /** Pings Redis, since a connection may be dead without being closed. */
  check(): void {
    const client = this.#client;
    client?.ping().catch(() => client.disconnect());
  }

  /** @throws (rejects) RedisUnavailableError */
  async ping(): Promise<void> {
    if (!this.#client) throw new RedisUnavailableError('ping', 'this node is not subscribed');
    await this.#client.ping();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#closing.resolve();
    this.#client?.disconnect();
    await this.#running;
  }

  async #run(): Promise<void> {
    for (let attempts = 1; !this.#isClosed; attempts++) {
      const client = await this.#subscribed();
      if (client) {
        attempts = 0;
        await this.#whileSubscribed(client);
      }
      await within(this.#closing.promise, backoff(attempts + 1, LONGEST_PAUSE_MS), this.connection.clock);
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

  /** Resolves when the subscription has ended. */
  async #whileSubscribed(client: Redis): Promise<void> {
    const ended = deferred();
    client.once('end', () => ended.resolve());
    if (this.#isClosed || client.status !== 'ready') client.disconnect();
    if (client.status === 'end') return;
    if (!this.#isClosed) {
      this.#client = client;
      this.connection.outages.works('messages');
      this.listener.subscribed();
    }
    await ended.promise;
    this.#client = undefined;
  }
}

export interface SubscriptionListener {
  received(channel: string, text: string): void;
  /** Is called when the subscription is established, for the first time or again. */
  subscribed(): void;
}
