interface Queue {
  running: number;
  /** Calls wait in the order of their arrival. */
  waiting: Set<{ readonly max: number; readonly begin: () => void }> | undefined;
}

/**
 * Counts the places of the handlers of an endpoint: of all calls of a handler, or of each caller. What has no calls takes no memory; a
 * handler that replaces another has its places.
 */
export class EndpointPlaces {
  readonly #queues = new Map<string, Queue>();

  /** Counts the handlers, or callers, that have a place or wait for one. */
  get size(): number {
    return this.#queues.size;
  }

  /**
   * Takes a place now or in its turn; then `begin` is called.
   *
   * @param name the same text for the calls that share places
   * @returns whether there was one, and the function that gives it back or leaves the queue
   */
  take(name: string, max: number, begin: () => void): { readonly taken: boolean; readonly leave: () => void } {
    let queue = this.#queues.get(name);
    if (!queue) this.#queues.set(name, (queue = { running: 0, waiting: undefined }));
    if (queue.running < max && !queue.waiting?.size) {
      queue.running++;
      return { taken: true, leave: () => this.#free(name, queue) };
    }
    const waiting = { max, begin };
    const all = (queue.waiting ??= new Set());
    all.add(waiting);
    return { taken: false, leave: () => (all.delete(waiting) ? undefined : this.#free(name, queue)) };
  }

  #free(name: string, queue: Queue): void {
    queue.running--;
    for (const next of queue.waiting ?? []) {
      if (queue.running >= next.max) break;
      queue.waiting!.delete(next);
      queue.running++;
      next.begin();
    }
    if (queue.running === 0) this.#queues.delete(name);
  }
}
