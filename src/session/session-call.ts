import type { McpHttpCall, McpSessionInfo } from '../context/mcp-call.js';
import { ServedCall } from '../context/served-call.js';
import type { ClockTimer } from '../base/clock.js';
import type { JsonRpcNotification, JsonRpcRequest } from '../wire/json-rpc.js';
import type { PostExchange } from './post-exchange.js';

/**
 * One message of the client while it is served, as its handler sees it.
 *
 *     open ──answer──▶ answered
 *       └──cancelled, or its session or time is over──▶ cancelled
 *
 * A notification is open for as long as somebody cares to look: it has no answer.
 */
export class SessionCall extends ServedCall {
  #answered = false;
  /** Armed when `requestTimeoutMs` is set. */
  timer: ClockTimer | undefined;

  constructor(
    /** The live session that serves the message; compared by identity. */
    readonly owner: object,
    readonly session: McpSessionInfo,
    http: McpHttpCall,
    readonly message: JsonRpcRequest | JsonRpcNotification,
    /** Where the answer of a request goes; a notification has none. */
    readonly exchange: PostExchange | undefined,
  ) {
    super(http);
  }

  get state(): CallState {
    if (this.#answered) return 'answered';
    return this.aborted ? 'cancelled' : 'open';
  }

  closeStream(): boolean {
    return this.state === 'open' && (this.exchange?.closeStream() ?? false);
  }

  answered(): void {
    this.#answered = true;
  }

  cancelled(reason: unknown): void {
    if (!this.#answered) this.abort(reason);
  }
}

export type CallState = 'open' | 'answered' | 'cancelled';
