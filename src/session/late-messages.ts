import type { RequestId } from '../wire/json-rpc.js';

/** Ids that a client cancelled are remembered for a while, for handlers that go on talking. */
const REMEMBERED = 256;

/** Late notifications that are still worth something to the client, on the standalone stream (P8). */
const OUTLIVES_ITS_REQUEST = /^notifications\/(?!progress$|cancelled$)/;

export function outlivesItsRequest(method: string): boolean {
  return OUTLIVES_ITS_REQUEST.test(method);
}

/** The requests of a session that were cancelled lately: of these nothing is sent any more. */
export class CancelledRequests {
  readonly #ids = new Set<RequestId>();

  add(id: RequestId): void {
    this.#ids.delete(id);
    this.#ids.add(id);
    if (this.#ids.size > REMEMBERED) this.#ids.delete(this.#ids.values().next().value!);
  }

  has(id: RequestId): boolean {
    return this.#ids.has(id);
  }

  /** The client uses the id again. */
  delete(id: RequestId): void {
    this.#ids.delete(id);
  }
}
