import { deferred, type Deferred } from '../../common/promises.js';
import type { RedisConnection } from '../connection/redis-connection.js';
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
 *                       └──failed──▶ waiting ──▶ sending the same again; what has become too old is lost
 *
 * One command is under way at a time, so that messages stay in order. Whether a failed one was carried out is not known, so it
 * is repeated, and the receivers leave out what they have heard already: messages are numbered. A connection that comes
 * back soon costs no message; one that stays away costs those that grow older than a command may take, and those for which
 * there is no room. When something was lost, all nodes are told as soon as that is possible.
 */
export class Outbox {
  readonly #waiting: Message[] = [];
  #waitingUnits = 0;
  /** How many messages were taken, and how many of them are sent or lost. */
  #taken = 0;
  #over = 0;
  /** Who waits until so many are. */
  readonly #flushing: { readonly upTo: number; readonly done: Deferred<void> }[] = [];
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
    this.#taken++;
    this.#waitingUnits += text.length;
    this.#waiting.push({ channel, text, since: this.connection.clock.now() });
    this.#sending ??= this.#drain();
  }

  /** Says that something was lost, if so; to be called when Redis answers. */
  confess(): void {
    if (!this.#lost) return;
    this.#lost = false;
    this.push(this.connection.keys.gaps, '');
  }

  /** Settles when what waits now is sent, or lost: what is said meanwhile keeps nobody waiting. */
  flushed(): Promise<void> {
    if (this.#over === this.#taken) return Promise.resolve();
    const done = deferred();
    this.#flushing.push({ upTo: this.#taken, done });
    return done.promise;
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
      if (await this.#sent(batch)) {
        this.#take(batch.length);
        this.confess();
        continue;
      }
      this.#dropOld();
      if (this.#waiting.length > 0) await this.#pause();
    }
    // Not a moment later: what is pushed from now on starts anew.
    this.#sending = undefined;
  }

  async #sent(batch: readonly Message[]): Promise<boolean> {
    const { bus } = this.connection.keys;
    const texts = batch.flatMap(({ channel, text }) => [channel, text]);
    try {
      await this.connection.run(publish, bus, ...texts);
      return true;
    } catch {
      return false;
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
    this.#over += count;
    while (this.#flushing.length > 0 && this.#flushing[0]!.upTo <= this.#over) this.#flushing.shift()!.done.resolve();
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
