import { performance } from 'node:perf_hooks';

/*
 * # How late the event loop is
 *
 * A timer every 20 ms, one for all endpoints of the process, which runs only while calls come. What it is late by is
 * the time that other code has kept the loop busy, or that the system has given to other processes: the processor time that this
 * process has used meanwhile tells which.
 */

const PERIOD_MS = 20;
/** A loop is late by work of its own process if that has used the processor for so much of the time. */
const MOST = 0.5;

/** The clock of {@link LoopLag}, which is one that a change of the system time does not move. */
export interface LagTimer {
  now(): number;
  /** Returns the milliseconds that the event loop has waited for something to do since it began. */
  idleMs(): number;
  /** Returns the milliseconds of processor time that the process has used. */
  cpuMs(): number;
  setTimeout(task: () => void, delayMs: number): unknown;
}

// Taken when the module is loaded: tests that fake time would make the process look late.
const { setTimeout: startTimer } = globalThis;

const processTimer: LagTimer = {
  now: performance.now.bind(performance),
  idleMs: () => performance.eventLoopUtilization().idle,
  cpuMs: () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1_000;
  },
  setTimeout: (task, delayMs) => startTimer(task, delayMs).unref(),
};

export class LoopLag {
  #dueAt = 0;
  #cpuMs = 0;
  #ticking = false;
  #asked = false;
  /** The tick before the last one is `#before`. */
  #last = IN_TIME;
  #before = IN_TIME;

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
    return Math.min(this.#last.lateMs, this.#before.lateMs);
  }

  /**
   * Returns whether work of this process has made the loop late, both times. Otherwise other processes had the processor: each
   * call takes longer then, but this process has not more to do than it can.
   */
  get isOwn(): boolean {
    return this.#last.isOwn && this.#before.isOwn;
  }

  #arm(cpuMs = this.timer.cpuMs()): void {
    this.#dueAt = this.timer.now() + PERIOD_MS;
    this.#cpuMs = cpuMs;
    this.timer.setTimeout(() => this.#tick(), PERIOD_MS);
  }

  #tick(): void {
    this.#before = this.#last;
    const lateMs = Math.max(0, this.timer.now() - this.#dueAt);
    // It is a call of the system, which some sandboxes make slow: one per tick.
    const cpuMs = this.timer.cpuMs();
    this.#last = { lateMs, isOwn: cpuMs - this.#cpuMs >= MOST * (PERIOD_MS + lateMs) };
    this.#ticking = this.#asked;
    this.#asked = false;
    if (this.#ticking) this.#arm(cpuMs);
    else this.#last = this.#before = IN_TIME;
  }
}

/** One tick of the timer. */
interface Tick {
  readonly lateMs: number;
  readonly isOwn: boolean;
}

const IN_TIME: Tick = { lateMs: 0, isOwn: false };

/** Measures the event loop of this process. */
export const processLag = new LoopLag();

/** Reports no lag, for tests whose clock stands still. */
export const NEVER_LATE = new LoopLag({ now: () => 0, idleMs: () => 0, cpuMs: () => 0, setTimeout: () => {} });
