import type { RedisConnection } from '../connection/redis-connection.js';
import { RedisUnavailableError } from '../redis.errors.js';
import { publish } from './bus.scripts.js';

/** Messages of one command. */
const MOST_AT_ONCE = 256;
/** UTF-16 code units that may wait for Redis. */
const MOST_WAITING = 8 * 1024 * 1024;
const RETRY_MS = 25;

/**
 * # Messages on their way out
 *
 *     idle ──push──▶ sending ──sent──▶ idle, or sending what came meanwhile
 *                       ├──certainly not sent──▶ waiting, at most as long as a command may take ──▶ sending
 *                       └──perhaps sent──▶ not sent again: lost
 *
 * One command is under way at a time, so that messages stay in order. A connection that comes back at once costs no message;
 * one that stays away costs those that grow too old, and those for which there is no room. When something was lost, all nodes
 * are told as soon as that is possible.
 */
export class Outbox {
  readonly #waiting: Message[] = [];
  #waitingUnits = 0;
  #sending: Promise<void> | undefined;
  #lost = false;
  #closed = false;

  constructor(private readonly connection: RedisConnection) {}

  push(channel: string, text: string): void {
    if (this.#closed) return;
    if (this.#waitingUnits + text.length > MOST_WAITING) {
      this.#lost = true;
      return;
    }
    this.#waitingUnits += text.length;
    this.#waiting.push({ channel, text, since: this.connection.clock.now() });
    this.#sending ??= this.#drain().finally(() => (this.#sending = undefined));
  }

  /** Says that something was lost, if so; to be called when Redis answers. */
  confess(): void {
    if (!this.#lost) return;
    this.#lost = false;
    this.push(this.connection.keys.gaps, '');
  }

  /** Takes nothing more. @returns settles when what waits is sent, or lost */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#sending;
  }

  async #drain(): Promise<void> {
    // What is sent in one go travels together.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.slice(0, MOST_AT_ONCE);
      const outcome = await this.#send(batch);
      if (outcome === 'waits') await this.#pause();
      else this.#take(batch.length);
      if (outcome === 'lost') this.#lost = true;
      if (outcome === 'sent') this.confess();
      this.#dropOld();
    }
  }

  async #send(batch: readonly Message[]): Promise<'sent' | 'waits' | 'lost'> {
    const { bus } = this.connection.keys;
    try {
      await this.connection.run(publish, bus, ...batch.flatMap(({ channel, text }) => [channel, text]));
      return 'sent';
    } catch (error) {
      return error instanceof RedisUnavailableError && error.untouched ? 'waits' : 'lost';
    }
  }

  #dropOld(): void {
    const { commandTimeoutMs } = this.connection.options;
    const oldest = this.connection.clock.now() - commandTimeoutMs;
    const old = this.#waiting.findIndex(({ since }) => since > oldest);
    const count = old < 0 ? this.#waiting.length : old;
    if (count === 0) return;
    this.#lost = true;
    this.#take(count);
  }

  #take(count: number): void {
    for (const { text } of this.#waiting.splice(0, count)) this.#waitingUnits -= text.length;
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => {
      this.connection.clock.setTimeout(resolve, RETRY_MS);
    });
  }
}

interface Message {
  readonly channel: string;
  readonly text: string;
  readonly since: number;
}
