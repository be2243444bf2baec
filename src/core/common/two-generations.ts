/**
 * A cache of at most twice `size` values: when the young generation is full it becomes the old one, and what was not used since
 * is dropped with the one before.
 */
export class TwoGenerations<T> {
  #young = new Map<string, T>();
  #old = new Map<string, T>();

  constructor(private readonly size: number) {}

  get(key: string): T | undefined {
    const young = this.#young.get(key);
    if (young !== undefined) return young;
    const old = this.#old.get(key);
    if (old !== undefined) this.set(key, old);
    return old;
  }

  set(key: string, value: T): void {
    if (this.#young.size >= this.size) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(key, value);
  }
}
