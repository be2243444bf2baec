/**
 * Runs tasks of one key one after the other, and tasks of different keys side by side. Nothing is kept of a key for which
 * no task runs or waits.
 */
export class Turns {
  readonly #last = new Map<string, Promise<unknown>>();

  get size(): number {
    return this.#last.size;
  }

  /** Runs a task when those before it are over, however they ended. @returns what the task returns, or throws */
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
