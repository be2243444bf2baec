/**
 * Time as a dependency. Everything in the library that waits or stamps takes a {@link Clock}, so that tests turn time
 * by hand instead of sleeping.
 *
 * Timers never keep the process alive: a server lives by its listening socket, not by our housekeeping.
 */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Runs `task` once after `delayMs`. */
  setTimeout(task: () => void, delayMs: number): ClockTimer;
  /** Runs `task` every `periodMs` until cleared. */
  setInterval(task: () => void, periodMs: number): ClockTimer;
  /** Clears a timer of this clock; clearing twice, or after it ran, does nothing. */
  clear(timer: ClockTimer | undefined): void;
}

/** An opaque handle, given back by {@link Clock.setTimeout} and {@link Clock.setInterval}. */
export type ClockTimer = object;

/** The injection token of the {@link Clock}. */
export const Clock = Symbol('nestjs-mcp-streamable:Clock');

export const systemClock: Clock = {
  now: () => Date.now(),
  setTimeout: (task, delayMs) => setTimeout(task, delayMs).unref(),
  setInterval: (task, periodMs) => setInterval(task, periodMs).unref(),
  clear: (timer) => clearTimeout(timer as NodeJS.Timeout | undefined),
};
