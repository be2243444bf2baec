import { setMaxListeners } from 'node:events';
import type { McpClock, ClockTimer } from '../core/common/clock.js';

/** Returns an `AbortController` for any number of concurrent listeners. */
export function sharedController(): AbortController {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  return controller;
}

/** Follows other signals, and may have a deadline. Until `release()` is called the others keep a listener. */
export class LinkedAbort {
  readonly #controller = sharedController();
  readonly #parents: readonly AbortSignal[];
  readonly #follow = (): void => this.abort(this.#parents.find(({ aborted }) => aborted)?.reason);
  #timer: ClockTimer | undefined;

  constructor(
    private readonly clock: McpClock,
    ...parents: (AbortSignal | undefined)[]
  ) {
    this.#parents = parents.filter((parent) => parent !== undefined);
    for (const parent of this.#parents) parent.addEventListener('abort', this.#follow, { once: true });
    if (this.#parents.some(({ aborted }) => aborted)) this.#follow();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  abort(reason: unknown): void {
    this.release();
    this.#controller.abort(reason);
  }

  /** Aborts after `ms`; replaces the deadline that was set before. */
  deadline(ms: number, reason: () => Error): void {
    this.clock.clear(this.#timer);
    if (ms === Infinity || this.signal.aborted) return;
    this.#timer = this.clock.setTimeout(() => this.abort(reason()), ms);
  }

  release(): void {
    this.clock.clear(this.#timer);
    for (const parent of this.#parents) parent.removeEventListener('abort', this.#follow);
  }
}

/** Waits. @throws (rejects) the reason of the signal, at once when it is aborted */
export function pause(ms: number, clock: McpClock, signal: AbortSignal): Promise<void> {
  let timer: ClockTimer | undefined;
  const due = new Promise<void>((resolve) => {
    timer = clock.setTimeout(resolve, ms);
  });
  return abortable(due, signal, () => clock.clear(timer));
}

/**
 * Waits for a promise that cannot be ended, until the signal is aborted.
 *
 * @throws (rejects) like `task`, or with the reason of the signal when that is aborted first
 */
export function abortable<T>(task: Promise<T>, signal: AbortSignal, onAbort?: () => void): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      onAbort?.();
      reject(signal.reason as Error);
    };
    task.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  });
}

/** Waits until other work of the process has had its turn. */
export const nextTurn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));
