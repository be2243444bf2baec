import { currentMcpCall, type McpCall } from '../../context/mcp-call.js';
import type { RequestId } from '../../wire/json-rpc.js';

/** Number of ids of cancelled requests that are kept, for handlers that continue to send. */
const REMEMBERED = 256;

/** The request that a message of the server belongs to. */
export type Related =
  | { is: 'nothing' }
  | { is: 'open'; call: McpCall }
  /** Its request is over. */
  | { is: 'answered' | 'cancelled'; requestId: RequestId | undefined };

const NOTHING: Related = { is: 'nothing' };

/**
 * The requests of one session that are being served, by id; freed when answered.
 *
 * A message of a handler is related by the id that the SDK gives, and otherwise by the async context in which it was
 * sent. A client may use the id of a finished request again: then the async context decides which of the two requests
 * is meant.
 */
export class InFlightCalls {
  readonly #calls = new Map<RequestId, McpCall>();
  #cancelled: CancelledRequests | undefined;

  constructor(private readonly session: object) {}

  get size(): number {
    return this.#calls.size;
  }

  has(id: RequestId): boolean {
    return this.#calls.has(id);
  }

  get(id: RequestId): McpCall | undefined {
    return this.#calls.get(id);
  }

  all(): McpCall[] {
    return [...this.#calls.values()];
  }

  add(call: McpCall): void {
    this.#calls.set(call.requestId!, call);
    this.#cancelled?.delete(call.requestId!);
  }

  remove(call: McpCall): void {
    const id = call.requestId!;
    if (this.#calls.get(id) === call) this.#calls.delete(id);
    if (call.state === 'cancelled') (this.#cancelled ??= new CancelledRequests()).add(id);
  }

  related(relatedRequestId: RequestId | undefined): Related {
    const current = this.#current();
    const id = relatedRequestId ?? current?.requestId;
    if (id === undefined) return NOTHING;
    const call = current?.requestId === id ? current : this.#calls.get(id);
    return call ? this.relatedTo(call) : { is: this.#cancelled?.has(id) ? 'cancelled' : 'answered', requestId: id };
  }

  relatedTo(call: McpCall): Related {
    const { state, requestId } = call;
    if (state !== 'open') return { is: state, requestId };
    // A notification of the client has no response that could carry a message.
    return requestId === undefined ? NOTHING : { is: 'open', call };
  }

  /** The async context counts only when it belongs to this session. */
  #current(): McpCall | undefined {
    const call = currentMcpCall();
    return call?.from === this.session ? call : undefined;
  }
}

/** The latest cancelled requests of a session: no further message is sent for them. */
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
