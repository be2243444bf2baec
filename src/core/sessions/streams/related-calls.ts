import { type CallingClient, currentMcpCall, type McpCall } from '../../calls/mcp-call.js';
import type { Calls } from '../../calls/calls.js';
import type { RequestId } from '../../protocol/json-rpc.js';

/** So many ids of cancelled requests are kept, for handlers that continue to send. */
const REMEMBERED = 256;

/** A message of the server is related to a request, or to none. */
export type Related =
  | { is: 'nothing' }
  | { is: 'open'; call: McpCall }
  /** Its request is over. */
  | { is: 'answered' | 'cancelled'; requestId: RequestId | undefined };

const NOTHING: Related = { is: 'nothing' };

/**
 * Finds the call of a session that a message of the server belongs to.
 *
 * A message of a handler is related by the id that the SDK gives, and otherwise by the async context in which it was
 * sent. A client may use the id of a finished request again: then the async context decides which of the two requests
 * is meant.
 */
export class RelatedCalls {
  /** Is made with the first cancelled request. */
  cancelled: CancelledRequests | undefined;

  constructor(
    private readonly session: CallingClient,
    private readonly running: Pick<Calls, 'of'>,
  ) {}

  /** @param of the call, or the id of its request; `undefined`: the async context decides */
  related(of: McpCall | RequestId | undefined): Related {
    if (typeof of === 'object') return relatedTo(of);
    const context = currentMcpCall();
    // The async context counts only when it belongs to this session.
    const current = context?.from === this.session ? context : undefined;
    const id = of ?? current?.requestId;
    if (id === undefined) return NOTHING;
    const call = current?.requestId === id ? current : this.running.of(this.session).get(id);
    return call ? relatedTo(call) : { is: this.cancelled?.has(id) ? 'cancelled' : 'answered', requestId: id };
  }

  /**
   * Takes note of a call that has ended and whose signal was aborted: it was cancelled, or answered when its time was
   * over.
   */
  aborted({ state, requestId }: McpCall): void {
    if (state === 'cancelled') (this.cancelled ??= new CancelledRequests()).add(requestId!);
  }
}

function relatedTo(call: McpCall): Related {
  const { state, requestId } = call;
  if (state !== 'open') return { is: state, requestId };
  // A notification of the client has no response that could carry a message.
  return requestId === undefined ? NOTHING : { is: 'open', call };
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

  delete(id: RequestId): void {
    this.#ids.delete(id);
  }
}
