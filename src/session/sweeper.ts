import type { Clock, ClockTimer } from '../common/clock.js';

/**
 * # When to look for what has expired
 *
 *     resting ──start: something came that may expire──▶ sweeping ──a look finds nothing left──▶ resting
 *                                                           └─────────────stop: the node ends───▶ resting
 *
 * Whoever has looked, looks on while there are records: nobody else may. Invariant: the timer is armed exactly while sweeping.
 */
export class Sweeper {
  #timer: ClockTimer | undefined;
  /** How often something came that may expire. */
  #arrivals = 0;

  /** @param left how much there is that may expire; what cannot be counted is taken for something */
  constructor(
    private readonly clock: Clock,
    private readonly periodMs: number,
    private readonly sweep: () => void,
    private readonly left: () => Promise<number>,
  ) {}

  start(): void {
    this.#arrivals++;
    this.#timer ??= this.clock.setInterval(this.sweep, this.periodMs);
  }

  stop(): void {
    this.clock.clear(this.#timer);
    this.#timer = undefined;
  }

  /** Never rejects. */
  async stopIfNothingLeft(): Promise<void> {
    const arrivals = this.#arrivals;
    const left = await this.left().catch(() => 1);
    // Something may have come meanwhile.
    if (left === 0 && arrivals === this.#arrivals) this.stop();
  }
}
