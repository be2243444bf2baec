import type { McpClock } from 'nestjs-mcp-streamable/stores';

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
