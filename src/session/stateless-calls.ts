/** Requests of clients without a session, counted beside those that belong to one. */
export class StatelessCalls {
  #count = 0;

  get count(): number {
    return this.#count;
  }

  began(): void {
    this.#count++;
  }

  ended(): void {
    this.#count--;
  }
}
