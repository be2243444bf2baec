import { performance } from 'node:perf_hooks';

/*
 * # How late the event loop is
 *
 * A timer every 20 ms, one for all endpoints of the process, which runs only while calls come. What it is late by is
 * the time that other code has kept the loop busy.
 */

const PERIOD_MS = 20;

/** The clock of {@link LoopLag}, which is one that a change of the system time does not move. */
export interface LagTimer {
  now(): number;
  /** Returns the milliseconds that the event loop has waited for something to do since it began. */
  idleMs(): number;
  setTimeout(task: () => void, delayMs: number): unknown;
}

// Taken when the module is loaded: tests that fake time would make the process look late.
const { setTimeout: startTimer } = globalThis;

const processTimer: LagTimer = {
  now: performance.now.bind(performance),
  idleMs: () => performance.eventLoopUtilization().idle,
  setTimeout: (task, delayMs) => startTimer(task, delayMs).unref(),
};

export class LoopLag {
  #dueAt = 0;
  #ticking = false;
  #asked = false;
  /** The last tick was late by this many milliseconds; `#before` is that of the tick before it. */
  #last = 0;
  #before = 0;

  constructor(private readonly timer: LagTimer = processTimer) {}

  now(): number {
    return this.timer.now();
  }

  get idleMs(): number {
    return this.timer.idleMs();
  }

  /**
   * Returns the milliseconds that the loop was late twice in a row: the smaller of its last two delays. One long
   * garbage collection, or a pause in a debugger, is not an overload.
   */
  get lastingMs(): number {
    this.#asked = true;
    if (!this.#ticking) {
      this.#ticking = true;
      this.#arm();
    }
    return Math.min(this.#last, this.#before);
  }

  #arm(): void {
    this.#dueAt = this.timer.now() + PERIOD_MS;
    this.timer.setTimeout(() => this.#tick(), PERIOD_MS);
  }

  #tick(): void {
    this.#before = this.#last;
    this.#last = Math.max(0, this.timer.now() - this.#dueAt);
    this.#ticking = this.#asked;
    this.#asked = false;
    if (this.#ticking) this.#arm();
    else this.#last = this.#before = 0;
  }
}

/** Measures the event loop of this process. */
export const processLag = new LoopLag();

/** Reports no lag, for tests whose clock stands still. */
export const NEVER_LATE = new LoopLag({ now: () => 0, idleMs: () => 0, setTimeout: () => {} });
