import type { McpClock, ClockTimer } from './clock.js';
import { type MaybePromise, promiseOf } from './promises.js';

/** Says how often and for how long an attempt is repeated. */
export interface RetryPolicy {
  /** The second attempt waits this many milliseconds, each further one twice as many. */
  firstDelayMs: number;
  /** A delay has at most this many milliseconds. */
  maxDelayMs: number;
  /** The last error is final after this many milliseconds, as the delays count them. */
  giveUpAfterMs: number;
}

/**
 * Repeats an attempt until it succeeds, fails for good, or the policy is exhausted. May run several at a time.
 *
 * `cancel()` ends the waiting at once: the attempts that are under way decide.
 */
export class Retry {
  #cancelled = false;
  /** Created at the first wait: most retries never wait. */
  #waits: Map<ClockTimer, () => void> | undefined;

  constructor(
    private readonly policy: RetryPolicy,
    private readonly clock: McpClock,
    private readonly isFinal: (error: unknown) => boolean,
  ) {}

  run<T>(attempt: () => T | PromiseLike<T>): Promise<T> {
    return promiseOf(attempt).catch((error: unknown) => this.#goOn(attempt, error));
  }

  /**
   * Continues with an attempt that has already started.
   *
   * @param failed called before the first pause
   */
  goOn<T>(first: PromiseLike<T>, attempt: () => MaybePromise<T>, failed: () => void): Promise<T> {
    return Promise.resolve(first).catch((error: unknown) => {
      failed();
      return this.#goOn(attempt, error);
    });
  }

  /** Does what `run` does, with handlers for the outcome: one promise fewer while no attempt fails. */
  runThen<T>(
    attempt: () => T | PromiseLike<T>,
    fulfilled: (value: T) => void,
    rejected: (error: unknown) => never,
  ): Promise<void> {
    return promiseOf(attempt).then(fulfilled, (error: unknown) => this.#goOn(attempt, error).then(fulfilled, rejected));
  }

  async #goOn<T>(attempt: () => T | PromiseLike<T>, failure: unknown): Promise<T> {
    let error = failure;
    let delay = this.policy.firstDelayMs;
    let waited = 0;
    for (;;) {
      if (this.#cancelled || this.isFinal(error) || waited >= this.policy.giveUpAfterMs) throw error;
      await this.#pause(delay);
      if (this.#cancelled) throw error;
      waited += delay;
      delay = Math.min(delay * 2, this.policy.maxDelayMs);
      try {
        return await attempt();
      } catch (next) {
        error = next;
      }
    }
  }

  /** Ends the waiting: no further attempt begins. */
  cancel(): void {
    this.#cancelled = true;
    for (const [timer, over] of this.#waits ?? []) {
      this.clock.clear(timer);
      over();
    }
  }

  #pause(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.clock.setTimeout(over, delayMs);
      const waits = (this.#waits ??= new Map());
      waits.set(timer, over);
      function over(): void {
        waits.delete(timer);
        resolve();
      }
    });
  }
}
