import { Logger } from '@nestjs/common';
import { type Clock } from '../../common/clock.js';
import { redisMessages } from '../redis.messages.js';

/** So often an outage is worth a line at most: one that comes and goes is one outage. */
const QUIET_MS = 10_000;

/**
 * Says once that Redis is away, and once that it is back, however many connections and commands notice.
 *
 *     fine ──a part fails──▶ away (said, unless an outage was said just now) ──every part works──▶ fine (said, if that was)
 */
export class OutageLog {
  readonly #failing = new Set<string>();
  readonly #logger = new Logger('McpStreamable');
  #saidAt = Number.NEGATIVE_INFINITY;
  #said = false;

  constructor(private readonly clock: Clock) {}

  failed(part: string, cause: unknown): void {
    if (this.#failing.size === 0 && this.clock.now() - this.#saidAt >= QUIET_MS) {
      this.#said = true;
      this.#saidAt = this.clock.now();
      this.#logger.error(redisMessages.outage(describe(cause)));
    }
    this.#failing.add(part);
  }

  works(part: string): void {
    if (!this.#failing.delete(part) || this.#failing.size > 0 || !this.#said) return;
    this.#said = false;
    this.#logger.log(redisMessages.recovered());
  }

  warn(message: string): void {
    this.#logger.warn(message);
  }

  debug(message: string): void {
    this.#logger.debug(message);
  }
}

/** Of several failed addresses Node's own error has no message. */
function describe(cause: unknown): string {
  if (cause instanceof AggregateError && cause.message === '') return cause.errors.map(describe).join(', ');
  return cause instanceof Error ? cause.message : String(cause);
}
