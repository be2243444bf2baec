/** Power of two. */
const SMALLEST = 4;

/**
 * A double-ended queue in a ring of slots: every operation is O(1), amortised over growing and shrinking. An array with
 * `shift()` is O(n) for a log of a thousand events.
 *
 * Invariants: the number of slots is a power of two; slots outside of `head … head + length` are `undefined`, so that
 * nothing is kept alive by accident.
 *
 * @internal
 */
export class Ring<T> {
  #slots: (T | undefined)[] = emptySlots();
  #head = 0;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  at(position: number): T | undefined {
    return position >= 0 && position < this.#length ? this.#slots[this.#slot(position)] : undefined;
  }

  push(item: T): void {
    if (this.#length === this.#slots.length) this.#resize(this.#length * 2);
    this.#slots[this.#slot(this.#length++)] = item;
  }

  unshift(item: T): void {
    if (this.#length === this.#slots.length) this.#resize(this.#length * 2);
    this.#head = this.#slot(-1);
    this.#slots[this.#head] = item;
    this.#length++;
  }

  shift(): T | undefined {
    if (this.#length === 0) return undefined;
    const item = this.#slots[this.#head];
    this.#slots[this.#head] = undefined;
    this.#head = this.#slot(1);
    this.#length--;
    if (this.#slots.length > SMALLEST && this.#length < this.#slots.length / 4) this.#resize(this.#slots.length / 2);
    return item;
  }

  /** Keeps only the items that `keep` says yes to. O(length). */
  retain(keep: (item: T) => boolean): void {
    const kept = (this.#sorted().slice(0, this.#length) as T[]).filter(keep);
    this.clear();
    for (const item of kept) this.push(item);
  }

  clear(): void {
    this.#slots = emptySlots();
    this.#head = 0;
    this.#length = 0;
  }

  #slot(position: number): number {
    return (this.#head + position) & (this.#slots.length - 1);
  }

  /** All slots, the items first. */
  #sorted(): (T | undefined)[] {
    return this.#slots.slice(this.#head).concat(this.#slots.slice(0, this.#head));
  }

  #resize(size: number): void {
    this.#slots = this.#sorted();
    this.#slots.length = size;
    this.#head = 0;
  }
}

/** A literal: most streams are short. */
function emptySlots<T>(): (T | undefined)[] {
  return [undefined, undefined, undefined, undefined];
}
