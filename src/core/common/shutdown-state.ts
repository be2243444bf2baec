import type { McpClock } from './clock.js';
import { deferred, type Deferred, within } from './promises.js';

/**
 * # How far the shutdown of something that runs work is
 *
 *     open ──leave()──▶ leaving ──drain()──▶ draining ──nothing runs, or the time is over──▶ stopped
 *
 * While it is `leaving` it takes work as before.
 */
export class ShutdownState {
  #is: 'open' | 'leaving' | 'draining' | 'stopped' = 'open';
  #idle: Deferred<void> | undefined;

  constructor(
    private readonly clock: McpClock,
    private readonly running: () => number,
  ) {}

  get is(): 'open' | 'leaving' | 'draining' | 'stopped' {
    return this.#is;
  }

  /** Tells whether new work is taken. */
  get takes(): boolean {
    return this.#is === 'open' || this.#is === 'leaving';
  }

  leave(): void {
    if (this.#is === 'open') this.#is = 'leaving';
  }

  /** Waits for running work, for `limitMs` at most. The owner calls it once. */
  async drain(limitMs: number): Promise<void> {
    this.#is = 'draining';
    if (this.running() > 0 && limitMs > 0) {
      this.#idle = deferred();
      await within(this.#idle.promise, limitMs, this.clock);
    }
    this.#is = 'stopped';
  }

  /** Is called by the owner whenever some work is over. */
  left(): void {
    if (this.#idle && this.running() === 0) this.#idle.resolve();
  }
}
