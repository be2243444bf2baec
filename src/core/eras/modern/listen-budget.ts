import type { McpClock } from '../../common/clock.js';
import { retryLater } from '../../protocol/errors.js';

/** A principal may name so many URIs and tasks at once, after a pause. */
const CAPACITY = 10_000;
/** So many tokens come back in a second. */
const PER_SECOND = 100;
/** A bucket without a subscription is full again after this time. */
const FULL_AFTER_MS = (CAPACITY / PER_SECOND) * 1_000;

interface Bucket {
  readonly tokens: number;
  readonly at: number;
}

/**
 * # How often a principal may open subscriptions
 *
 * The caps of subscriptions bound how many are open, not how often one is opened and closed: each time the guards run for
 * every URI that it names, and the store is asked for every task. So a principal has a bucket of tokens, and a
 * subscription takes one, and one for each URI and task.
 *
 * Invariant: a bucket that would be full is not kept, so that the number of buckets is that of the principals who opened a
 * subscription in the last {@link FULL_AFTER_MS}.
 */
export class ListenBudget {
  /** Buckets are kept by principal, the least recently used first; the anonymous callers share one. */
  readonly #buckets = new Map<string | undefined, Bucket>();

  constructor(private readonly clock: Pick<McpClock, 'now'>) {}

  get size(): number {
    return this.#buckets.size;
  }

  /** Takes tokens for a subscription. @throws McpError TOO_MANY_REQUESTS, and takes nothing then */
  take(principal: string | undefined, names: number): void {
    const at = this.clock.now();
    this.#removeFull(at);
    const bucket = this.#buckets.get(principal) ?? { tokens: CAPACITY, at };
    const elapsedMs = Math.max(0, at - bucket.at);
    const tokens = Math.min(CAPACITY, bucket.tokens + (elapsedMs / 1_000) * PER_SECOND);
    const cost = 1 + names;
    if (tokens < cost) {
      const message = `This caller opens subscriptions too often; all anonymous callers count as one. A subscription takes a token, and one for each URI and task that it names; a caller has ${CAPACITY}, and gets ${PER_SECOND} back in a second. Keep subscriptions open, or try again later.`;
      throw retryLater('TOO_MANY_REQUESTS', message, Math.ceil((cost - tokens) / PER_SECOND));
    }
    this.#buckets.delete(principal);
    this.#buckets.set(principal, { tokens: tokens - cost, at });
  }

  #removeFull(at: number): void {
    for (const [principal, bucket] of this.#buckets) {
      if (at - bucket.at < FULL_AFTER_MS) return;
      this.#buckets.delete(principal);
    }
  }
}
