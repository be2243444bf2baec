interface Queue {
  running: number;
  /** Calls wait in the order of their arrival. */
  readonly waiting: Set<{ readonly max: number; readonly begin: () => void }>;
}

/** Counts the places of one handler: of all its calls, or of each caller. A caller without calls takes no memory. */
export class HandlerPlaces {
  readonly #queues = new Map<string | undefined, Queue>();

  /** Counts the callers that have a place or wait for one. */
  get size(): number {
    return this.#queues.size;
  }

  /**
   * Takes a place now or in its turn; then `begin` is called.
   *
   * @returns whether there was one, and the function that gives it back or leaves the queue
   */
  take(
    key: string | undefined,
    max: number,
    begin: () => void,
  ): { readonly taken: boolean; readonly leave: () => void } {
    let queue = this.#queues.get(key);
    if (!queue) this.#queues.set(key, (queue = { running: 0, waiting: new Set() }));
    if (queue.running < max && queue.waiting.size === 0) {
      queue.running++;
      return { taken: true, leave: () => this.#free(key, queue) };
    }
    const waiting = { max, begin };
    queue.waiting.add(waiting);
    return { taken: false, leave: () => (queue.waiting.delete(waiting) ? undefined : this.#free(key, queue)) };
  }

  #free(key: string | undefined, queue: Queue): void {
    queue.running--;
    for (const next of queue.waiting) {
      if (queue.running >= next.max) break;
      queue.waiting.delete(next);
      queue.running++;
      next.begin();
    }
    if (queue.running === 0) this.#queues.delete(key);
  }
}

/** The places of the handlers of an endpoint. A handler without calls takes no memory; one that replaces another has its places. */
export class EndpointPlaces {
  readonly #places = new Map<string, HandlerPlaces>();

  /** Does what {@link HandlerPlaces.take} does, for a handler. @param handler the same text for the handlers that share places */
  take(
    handler: string,
    key: string | undefined,
    max: number,
    begin: () => void,
  ): { readonly taken: boolean; readonly leave: () => void } {
    let places = this.#places.get(handler);
    if (!places) this.#places.set(handler, (places = new HandlerPlaces()));
    const { taken, leave } = places.take(key, max, begin);
    const freed = (): void => {
      leave();
      if (places.size === 0) this.#places.delete(handler);
    };
    return { taken, leave: freed };
  }

  /** Counts the handlers that have calls. */
  get size(): number {
    return this.#places.size;
  }
}
