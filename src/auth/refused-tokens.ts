import { createHash } from 'node:crypto';
import type { McpClock } from '../core/common/clock.js';
import type { TokenRefusedError } from './token.errors.js';

/** At most so many tokens are remembered; the oldest is removed first. */
const MOST_TOKENS = 10_000;
/** A refusal is reused for so many milliseconds. */
const REFUSED_MS = 5_000;

/** A token that was not verified. */
interface Remembered {
  /** The refusal; `undefined`: the verifier failed. */
  readonly error: TokenRefusedError | undefined;
  readonly until: number;
  /** A failure is remembered for so many milliseconds. */
  readonly failedMs: number;
}

/** Returns what stands for a token where tokens are kept. */
export function keyOf(token: string): string {
  return createHash('sha256').update(token).digest('base64');
}

/** Adds to a map of at most {@link MOST_TOKENS}. */
export function keep<T>(kept: Map<string, T>, key: string, value: T): void {
  kept.delete(key);
  kept.set(key, value);
  if (kept.size > MOST_TOKENS) kept.delete(kept.keys().next().value!);
}

/** Remembers tokens that were refused, or could not be verified, a short time ago; by {@link keyOf}. */
export class RefusedTokens {
  readonly #kept = new Map<string, Remembered>();
  #lastUntil = 0;

  constructor(private readonly clock: McpClock) {}

  get size(): number {
    return this.#kept.size;
  }

  /** Returns whether any is refused now; without cost in the usual case that none is. */
  get any(): boolean {
    if (this.#kept.size > 0 && this.clock.now() >= this.#lastUntil) this.#kept.clear();
    return this.#kept.size > 0;
  }

  get(key: string): Remembered | undefined {
    const known = this.#kept.get(key);
    return known && this.clock.now() < known.until ? known : undefined;
  }

  /** Returns how long the last failure of this token was remembered, also if that time has passed. */
  failedMs(key: string): number {
    return this.#kept.get(key)?.failedMs ?? 0;
  }

  /** Remembers a token. @param error `undefined`: the verifier failed, which is remembered for `failedMs` */
  add(key: string, error: TokenRefusedError | undefined, failedMs = 0): void {
    const until = this.clock.now() + (error ? REFUSED_MS : failedMs);
    this.#lastUntil = Math.max(this.#lastUntil, until);
    keep(this.#kept, key, { error, until, failedMs });
  }

  delete(key: string): void {
    this.#kept.delete(key);
  }
}
