/**
 * Time as a dependency: all code of the library that waits, or reads the time, takes a {@link Clock}, so that tests advance a
 * manual clock instead of sleeping.
 *
 * Timers never keep the process alive: the listening socket of a server does.
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
