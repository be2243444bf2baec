import type { Clock } from '../common/clock.js';

/**
 * Which records the store has heard of lately, so that it hears of each at most once per interval.
 *
 * Invariant: entries are in order of time. Those that are too old to matter go when the next one is asked for, so there are
 * never more than were used within an interval, and there is no timer.
 */
export class RecentTouches {
  readonly #at = new Map<string, number>();

  constructor(
    private readonly clock: Clock,
    /** Milliseconds; `Infinity`: nothing expires, so the store need not hear of anything. */
    private readonly intervalMs: number,
  ) {}

  get size(): number {
    return this.#at.size;
  }

  /** Whether the store should hear of a record again. */
  due(id: string): boolean {
    if (this.intervalMs === Infinity) return false;
    const now = this.clock.now();
    for (const [old, at] of this.#at) {
      if (now - at < this.intervalMs) break;
      this.#at.delete(old);
    }
    return !this.#at.has(id);
  }

  /** The store has heard of a record. */
  note(id: string): void {
    if (this.intervalMs === Infinity) return;
    this.#at.delete(id);
    this.#at.set(id, this.clock.now());
  }

  /** The record is gone. */
  forget(id: string): void {
    this.#at.delete(id);
  }
}
