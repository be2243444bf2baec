import type { McpCall, McpHttpCall } from '../../call/mcp-call.js';
import type { JsonRpcRequest, RequestId } from '../../wire/json-rpc.js';

/** A status and headers for an answer that denies. */
export interface HttpRefusal {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * One modern request while it is served, as its handler sees it. It has no session, and ends with its connection.
 *
 *     open ──cancel()──▶ cancelled
 */
export class ModernCall implements McpCall {
  readonly era = 'modern';
  readonly session = undefined;
  #abort: AbortController | undefined;
  #cancelled: { readonly reason: unknown } | undefined;
  #refusal: HttpRefusal | undefined;

  constructor(
    private readonly http: McpHttpCall,
    readonly message: JsonRpcRequest,
  ) {}

  get principal(): string | undefined {
    return this.http.principal;
  }
  get request(): unknown {
    return this.http.request;
  }
  get method(): string {
    return this.message.method;
  }
  get requestId(): RequestId {
    return this.message.id;
  }

  get aborted(): boolean {
    return this.#cancelled !== undefined;
  }

  /** Made when it is first looked at: most handlers never do. */
  get signal(): AbortSignal {
    if (!this.#abort) {
      this.#abort = new AbortController();
      if (this.#cancelled) this.#abort.abort(this.#cancelled.reason);
    }
    return this.#abort.signal;
  }

  /** There is nothing to come back to: a modern connection is its request. */
  closeStream(): boolean {
    return false;
  }

  refuseWith(status: number, headers: Readonly<Record<string, string>>): void {
    this.#refusal = { status, headers };
  }

  /** How HTTP shall say what the answer says. */
  get refusal(): HttpRefusal | undefined {
    return this.#refusal;
  }

  /** Nobody waits for the result any more. */
  cancel(reason: unknown): void {
    if (this.#cancelled) return;
    this.#cancelled = { reason };
    this.#abort?.abort(reason);
  }
}
