/**
 * Time as a dependency: all code of the library that waits, or reads the time, takes a {@link McpClock}, so that tests advance a
 * manual clock instead of sleeping.
 *
 * Timers never keep the process alive: the listening socket of a server does.
 */
export interface McpClock {
  /** Returns the milliseconds since the epoch. */
  now(): number;
  /** Runs `task` once after `delayMs`. */
  setTimeout(task: () => void, delayMs: number): ClockTimer;
  /** Runs `task` every `periodMs` until cleared. */
  setInterval(task: () => void, periodMs: number): ClockTimer;
  /** Clears a timer of this clock; clearing twice, or after it ran, does nothing. */
  clear(timer: ClockTimer | undefined): void;
}

/**
 * {@link McpClock.clear} takes this opaque handle, which comes from {@link McpClock.setTimeout} and {@link
 * McpClock.setInterval}.
 */
export type ClockTimer = object;

export const McpClock = Symbol('nestjs-mcp-streamable:McpClock');

export const systemClock: McpClock = {
  now: () => Date.now(),
  setTimeout: (task, delayMs) => setTimeout(task, delayMs).unref(),
  setInterval: (task, periodMs) => setInterval(task, periodMs).unref(),
  clear: (timer) => clearTimeout(timer as NodeJS.Timeout | undefined),
};
