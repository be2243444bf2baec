import type { McpCall, McpHttpCall, McpSessionInfo } from '../call/mcp-call.js';
import type { ClockTimer } from '../base/clock.js';
import type { JsonRpcNotification, JsonRpcRequest, RequestId } from '../wire/json-rpc.js';
import type { PostExchange } from './post-exchange.js';

/**
 * One message of the client while it is served, as its handler sees it.
 *
 *     open ──answer──▶ answered
 *       └──cancelled, or its session or time is over──▶ cancelled
 *
 * A notification is open for as long as somebody cares to look: it has no answer.
 */
export class SessionCall implements McpCall {
  #state: CallState = 'open';
  #abort: AbortController | undefined;
  #reason: unknown;
  #refusal: HttpRefusal | undefined;
  /** Armed when `requestTimeoutMs` is set. */
  timer: ClockTimer | undefined;

  constructor(
    /** The live session that serves the message; compared by identity. */
    readonly owner: object,
    readonly session: McpSessionInfo,
    private readonly http: McpHttpCall,
    readonly message: JsonRpcRequest | JsonRpcNotification,
    /** Where the answer of a request goes; a notification has none. */
    readonly exchange: PostExchange | undefined,
  ) {}

  get era(): McpHttpCall['era'] {
    return this.http.era;
  }
  get principal(): string | undefined {
    return this.http.principal;
  }
  get request(): unknown {
    return this.http.request;
  }
  get method(): string {
    return this.message.method;
  }
  get requestId(): RequestId | undefined {
    return 'id' in this.message ? this.message.id : undefined;
  }
  get state(): CallState {
    return this.#state;
  }

  /** Made when it is first looked at: most handlers never do. */
  get signal(): AbortSignal {
    if (!this.#abort) {
      this.#abort = new AbortController();
      if (this.#state === 'cancelled') this.#abort.abort(this.#reason);
    }
    return this.#abort.signal;
  }

  get aborted(): boolean {
    return this.#state === 'cancelled';
  }

  closeStream(): boolean {
    return this.#state === 'open' && (this.exchange?.closeStream() ?? false);
  }

  refuseWith(status: number, headers: Readonly<Record<string, string>>): void {
    this.#refusal = { status, headers };
  }

  /** How HTTP shall say what the answer says. */
  get refusal(): HttpRefusal | undefined {
    return this.#refusal;
  }

  answered(): void {
    this.#state = 'answered';
  }

  cancelled(reason: unknown): void {
    if (this.#state !== 'open') return;
    this.#state = 'cancelled';
    this.#reason = reason;
    this.#abort?.abort(reason);
  }
}

/** A status and headers for an answer that denies. */
export interface HttpRefusal {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
}

export type CallState = 'open' | 'answered' | 'cancelled';
