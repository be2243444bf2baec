import type { McpClock } from '../core/common/clock.js';
import { within } from '../core/common/promises.js';
import { logger } from '../core/calls/operator-log.js';
import { shown } from '../core/protocol/errors.js';

/** An authorization server, or a verifier of the app, has so many milliseconds to answer. */
export const ANSWER_MS = 5_000;
/** A failure is remembered for so many milliseconds, doubled by each that follows. */
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 30_000;
/**
 * Failures of single questions are logged so many milliseconds apart: a caller with strange tokens could cause many.
 */
const QUIET_MS = 30_000;

/** Returns how long a failure is remembered after one that was remembered for `waitMs`. */
export function longer(waitMs: number): number {
  return Math.min(Math.max(waitMs * 2, FIRST_WAIT_MS), LONGEST_WAIT_MS);
}

/** Thrown when a token cannot be verified, because its source is away. The source has logged why. */
export class SourceAwayError extends Error {
  override readonly name = 'SourceAwayError';
}

/**
 * # The source that tokens are verified with: the keys of an issuer, or the verifier of the app
 *
 *     works ──fails──▶ away, not asked ────────1 s, 2 s … 30 s──▶ away, asked once ──answers──▶ works
 *                            ▲                                         │
 *                            └─────────────────fails───────────────────┘
 *
 * Invariants: while it is away, at most one question is on its way; an outage is one line in the log, and its end another;
 * failures of single questions are one line in {@link QUIET_MS}, and its end another.
 */
export class TokenSource {
  #awaySince: number | undefined;
  #askAgainAt = 0;
  #waitMs = 0;
  #quietUntil = 0;
  #refused = 0;
  #probing = false;

  /** @param name begins a sentence, such as `The keys of the issuer https://idp.test` */
  constructor(
    private readonly name: string,
    private readonly clock: McpClock,
  ) {}

  /**
   * Asks the source. Silence is an outage: the source is not asked for a while.
   *
   * @param meaning of an error: an outage too, a failure of this question alone, or an answer, which is thrown as it is
   * @throws SourceAwayError also without asking
   */
  async ask<T>(question: () => Promise<T>, meaning: (error: unknown) => 'outage' | 'failure' | 'answer'): Promise<T> {
    const away = this.#waitMs > 0;
    if (away && (this.#probing || this.clock.now() < this.#askAgainAt)) throw this.away();
    if (away) this.#probing = true;
    try {
      const answer = question();
      if (!(await within(answer, ANSWER_MS, this.clock))) {
        throw this.#failed(true, new Error(`no answer within ${ANSWER_MS} ms`));
      }
      const given = await answer;
      this.#works();
      return given;
    } catch (error) {
      if (error instanceof SourceAwayError) throw error;
      const kind = meaning(error);
      if (kind !== 'answer') throw this.#failed(kind === 'outage', error);
      this.#works();
      throw error;
    } finally {
      if (away) this.#probing = false;
    }
  }

  /** Returns the error of one more request that is refused. */
  away(cause?: unknown): SourceAwayError {
    this.#refused++;
    return new SourceAwayError(`${this.name} cannot be asked at the moment.`, { cause });
  }

  #failed(isOutage: boolean, cause: unknown): SourceAwayError {
    const now = this.clock.now();
    // Among questions that were on their way together, the first failure counts.
    if (isOutage && now >= this.#askAgainAt) {
      this.#waitMs = longer(this.#waitMs);
      this.#askAgainAt = now + this.#waitMs;
    }
    if (this.#awaySince === undefined && (isOutage || now >= this.#quietUntil)) {
      this.#awaySince = now;
      this.#quietUntil = now + QUIET_MS;
      const reason = cause instanceof Error ? cause.message : shown(cause);
      logger.error(
        `${this.name} failed: ${reason}. Requests whose token needs it get 503; after a failure it is asked again in 1 s, and less often after each failure.`,
      );
    }
    return this.away(cause);
  }

  #works(): void {
    if (this.#awaySince === undefined) return void (this.#refused = 0);
    const seconds = Math.round((this.clock.now() - this.#awaySince) / 1_000);
    logger.log(`${this.name} works again, after ${seconds} s in which ${this.#refused} verifications failed.`);
    this.#awaySince = undefined;
    this.#refused = this.#waitMs = this.#askAgainAt = 0;
  }
}
