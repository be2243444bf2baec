/** What can be in the order. @internal */
export interface Signed {
  earlier: Signed | undefined;
  later: Signed | undefined;
}

/**
 * # Who gave the last sign of life when
 *
 * A doubly linked list through the entries themselves: a sign of life moves an entry to the end, the one that has been
 * silent for longest is the first. Both are O(1). A `Map` keeps such an order too, but finding its first key means
 * stepping over everything that was deleted before it, which after many moves is everything.
 *
 * Invariant: an entry that is in no list has no neighbours, so that it keeps none of them in memory.
 *
 * @internal
 */
export class OrderOfSigns<Entry extends Signed> {
  #first: Entry | undefined;
  #last: Entry | undefined;

  get first(): Entry | undefined {
    return this.#first;
  }

  /** @param entry in no list */
  append(entry: Entry): void {
    entry.earlier = this.#last;
    if (this.#last) this.#last.later = entry;
    else this.#first = entry;
    this.#last = entry;
  }

  /** @param entry in this list */
  remove(entry: Entry): void {
    const earlier = entry.earlier as Entry | undefined;
    const later = entry.later as Entry | undefined;
    if (earlier) earlier.later = later;
    else this.#first = later;
    if (later) later.earlier = earlier;
    else this.#last = earlier;
    entry.earlier = entry.later = undefined;
  }
}
