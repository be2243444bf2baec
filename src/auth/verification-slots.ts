import { type McpError, retryLater } from '../core/protocol/errors.js';

/** At most so many verifications run at once. */
export const MOST_AT_ONCE = 50;
/** At most so many verifications of signatures wait for others. */
const MOST_WAITING = 1_000;

/** Returns the error that refuses a request because many tokens are being verified. */
export function tooManyVerifications(): McpError {
  const text = 'This server verifies as many access tokens as it can already. Try again in a moment.';
  return retryLater('UNAVAILABLE', text, 1);
}

/**
 * Lets at most {@link MOST_AT_ONCE} signatures be verified at once. Others wait for their turn, in order of arrival: a signature
 * takes less than a millisecond, and clients that reconnect come together.
 */
export class VerificationSlots {
  #taken = 0;
  readonly #waiting = new Set<() => void>();

  /**
   * Takes a slot. Each call that does not throw needs one {@link leave}.
   *
   * @returns a promise if it must wait
   * @throws McpError UNAVAILABLE
   */
  enter(): Promise<void> | undefined {
    if (this.#taken < MOST_AT_ONCE) {
      this.#taken++;
      return undefined;
    }
    if (this.#waiting.size >= MOST_WAITING) throw tooManyVerifications();
    return new Promise((resolve) => {
      this.#waiting.add(resolve);
    });
  }

  leave(): void {
    const [next] = this.#waiting;
    if (!next) return void this.#taken--;
    this.#waiting.delete(next);
    next();
  }
}
