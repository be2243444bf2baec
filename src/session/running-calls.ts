import type { Clock } from '../base/clock.js';
import { deferred, type Deferred } from '../base/deferred.js';
import { within } from '../base/within.js';

/**
 * # The calls that run on this node
 *
 * Requests of clients, with a session and without, from when they are handed to a server until they are answered or given
 * up; and whether this node takes more of them.
 *
 *     open ──drain()──▶ draining ──none runs, or the time is over──▶ stopped
 *
 * A stream that a client merely listens to is no call: nothing waits for its end.
 */
export class RunningCalls {
  #count = 0;
  #state: RunningState = 'open';
  #idle: Deferred<void> | undefined;

  get count(): number {
    return this.#count;
  }

  get state(): RunningState {
    return this.#state;
  }

  began(): void {
    this.#count++;
  }

  ended(): void {
    if (--this.#count === 0) this.#idle?.resolve();
  }

  /** Takes no more calls, and lets those that run end, for `limitMs` at most. To be called once. */
  async drain(limitMs: number, clock: Clock): Promise<void> {
    this.#state = 'draining';
    if (this.#count > 0 && limitMs > 0) {
      this.#idle = deferred();
      await within(this.#idle.promise, limitMs, clock);
    }
    this.#state = 'stopped';
  }
}

export type RunningState = 'open' | 'draining' | 'stopped';
