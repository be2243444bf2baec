import type { McpClock, ClockTimer } from '../core/common/clock.js';

/** This is the real function, also when a test runner replaces the globals later. */
const nextTurn = globalThis.setImmediate;

/** The time is neither 0 nor today, so that code which confuses epochs and durations fails. */
const BEGINNING = Date.UTC(2026, 0, 1);

/**
 * # A clock that tests advance
 *
 * Time stands still until `advance`. Timers that become due run in order of their time, those of one time in the order in
 * which they were armed; before each of them everything that waits for no timer (microtasks, I/O that is ready) gets its
 * turn. So a chain of promises and timers comes out as in real time.
 *
 * @publicApi
 */
export class ManualClock implements McpClock {
  #now: number;
  readonly #timers = new Set<ManualTimer>();

  /** @param startAt milliseconds since the epoch; by default the beginning of 2026 */
  constructor(startAt: number = BEGINNING) {
    this.#now = startAt;
  }

  /** Counts the armed timers: a test of clean ends asserts 0. */
  get pending(): number {
    return this.#timers.size;
  }

  now(): number {
    return this.#now;
  }

  setTimeout(task: () => void, delayMs: number): ClockTimer {
    return this.#arm({ task, dueAt: this.#now + Math.max(0, delayMs) });
  }

  setInterval(task: () => void, periodMs: number): ClockTimer {
    // The period is bounded as in Node: with a period of 0 `advance` would never end.
    const period = Math.max(1, periodMs);
    return this.#arm({ task, dueAt: this.#now + period, period });
  }

  clear(timer: ClockTimer | undefined): void {
    this.#timers.delete(timer as ManualTimer);
  }

  /**
   * Lets time pass.
   *
   * @param ms 0 runs what is due now
   * @returns when everything that was due has run and has come to rest
   * @throws (rejects) what a timer's task throws
   */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    await settle();
    for (let timer = this.#next(); timer && timer.dueAt <= end; timer = this.#next()) {
      this.#run(timer);
      await settle();
    }
    this.#now = Math.max(this.#now, end);
  }

  #arm(timer: ManualTimer): ClockTimer {
    this.#timers.add(timer);
    return timer;
  }

  #run(timer: ManualTimer): void {
    this.#now = Math.max(this.#now, timer.dueAt);
    if (timer.period === undefined) this.#timers.delete(timer);
    else timer.dueAt += timer.period;
    timer.task();
  }

  #next(): ManualTimer | undefined {
    let next: ManualTimer | undefined;
    for (const timer of this.#timers) if (!next || timer.dueAt < next.dueAt) next = timer;
    return next;
  }
}

interface ManualTimer {
  readonly task: () => void;
  dueAt: number;
  readonly period?: number;
}

/** Waits until all microtasks, and the microtasks that they make, have run. */
function settle(): Promise<void> {
  return new Promise((resolve) => {
    nextTurn(resolve);
  });
}
