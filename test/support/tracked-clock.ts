import type { McpClock } from 'nestjs-mcp-streamable/stores';
import { ManualClock } from 'nestjs-mcp-streamable/testing';

type ClockTimer = ReturnType<McpClock['setTimeout']>;

/** Real time that counts its timers: a test of clean ends asserts 0. */
export class TrackedClock implements McpClock {
  readonly #timers = new Set<ClockTimer>();

  get pending(): number {
    return this.#timers.size;
  }
  now(): number {
    return Date.now();
  }
  setTimeout(task: () => void, delayMs: number): ClockTimer {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      task();
    }, delayMs).unref();
    this.#timers.add(timer);
    return timer;
  }
  setInterval(task: () => void, periodMs: number): ClockTimer {
    const timer = setInterval(task, periodMs).unref();
    this.#timers.add(timer);
    return timer;
  }
  clear(timer: ClockTimer | undefined): void {
    if (timer === undefined) return;
    this.#timers.delete(timer);
    clearTimeout(timer as NodeJS.Timeout);
  }
}

/**
 * Time that passes by itself while a timer is armed and nothing else is to be done: a slow dependency stays slow in relation
 * to others, and costs the test no time. Not for intervals: time would never rest.
 */
export class JumpingClock extends ManualClock {
  #running = false;

  override setTimeout(task: () => void, delayMs: number): object {
    const timer = super.setTimeout(task, delayMs);
    if (!this.#running) void this.#run();
    return timer;
  }

  async #run(): Promise<void> {
    this.#running = true;
    while (this.pending > 0) await this.advance(1);
    this.#running = false;
  }
}
