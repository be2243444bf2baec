import type { McpClock } from './clock.js';

/** A value, or a promise of it: callers await only a promise. */
export type MaybePromise<T> = T | Promise<T>;

/** Holds a promise that is settled from outside. A rejection is marked as handled: awaiting the promise is optional. */
export interface Deferred<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (reason: unknown) => void;
}

export function deferred<T = void>(): Deferred<T> {
  let resolve!: (value: T) => void;
  let reject!: (reason: unknown) => void;
  const promise = new Promise<T>((onResolve, onReject) => {
    resolve = onResolve;
    reject = (reason) => {
      promise.catch(() => {});
      onReject(reason);
    };
  });
  return { promise, resolve, reject };
}

/** @returns a task that runs the given one at the first call, and does nothing at any other */
export function once(task: () => void): () => void {
  let done = false;
  return () => {
    if (done) return;
    done = true;
    task();
  };
}

export const DONE: Promise<void> = Promise.resolve();

const ignore = (): void => {};

/** Marks the rejection as handled; awaiting the promise still throws. */
export function quiet<T>(promise: Promise<T>): Promise<T> {
  if (promise !== (DONE as Promise<unknown>)) promise.catch(ignore);
  return promise;
}

/**
 * Tells whether a value must be awaited. Awaiting a plain value takes a microtask and some promises, each with the cost
 * of the async context: a large part of the cost of a call.
 *
 * Not every thenable is a `Promise`: queries of some libraries run when they are awaited.
 */
export function isThenable<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof (value as Partial<PromiseLike<T>> | null | undefined)?.then === 'function';
}

/** Runs a function, and returns a promise of what it returns or throws, without the cost of an `async` function. */
export function promiseOf<T>(run: () => T | PromiseLike<T>): Promise<T> {
  try {
    return Promise.resolve(run());
  } catch (error) {
    return Promise.reject(error);
  }
}

/** Goes on with a value: at once, or when its promise resolves. */
export function after<T, R>(value: T | PromiseLike<T>, goOn: (value: T) => MaybePromise<R>): MaybePromise<R> {
  // The then() of some libraries returns nothing.
  return isThenable(value) ? Promise.resolve(value).then(goOn) : goOn(value);
}

/** Goes on with what a function returns or throws: at once, or when its promise settles. */
export function settle<T, R>(
  run: () => T | PromiseLike<T>,
  fulfilled: (value: T) => MaybePromise<R>,
  rejected: (error: unknown) => MaybePromise<R>,
): MaybePromise<R> {
  let value: T | PromiseLike<T>;
  try {
    value = run();
  } catch (error) {
    return rejected(error);
  }
  return isThenable(value) ? Promise.resolve(value).then(fulfilled, rejected) : fulfilled(value);
}

/** Runs a function, and `over` when it has returned or thrown, or its promise has settled. */
export function lastly<T>(run: () => T | PromiseLike<T>, over: () => void): MaybePromise<T> {
  return settle(
    run,
    (value) => {
      over();
      return value;
    },
    (error) => {
      over();
      throw error;
    },
  );
}

/** Waits for `task`, but not longer than `limitMs`. @returns whether it was done in time */
export async function within(task: Promise<unknown>, limitMs: number, clock: McpClock): Promise<boolean> {
  let over!: () => void;
  const late = new Promise<void>((resolve) => (over = resolve));
  const timer = clock.setTimeout(over, limitMs);
  try {
    return await Promise.race([task.then(() => true), late.then(() => false)]);
  } finally {
    clock.clear(timer);
  }
}

/**
 * Runs tasks of one key one after the other, and tasks of different keys side by side. A key without tasks takes no
 * memory.
 */
export class Turns {
  readonly #last = new Map<string, Promise<unknown>>();

  get size(): number {
    return this.#last.size;
  }

  /**
   * Runs a task when the tasks of its key before it are over, however they ended.
   *
   * @returns what the task returns, or throws
   */
  async run<T>(key: string, task: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key);
    const turn = before ? before.then(task, task) : task();
    this.#last.set(key, turn);
    try {
      return await turn;
    } finally {
      if (this.#last.get(key) === turn) this.#last.delete(key);
    }
  }
}
