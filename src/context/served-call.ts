import type { McpCall, McpHttpCall, McpSessionInfo } from './mcp-call.js';
import type { JsonRpcNotification, JsonRpcRequest, RequestId } from '../wire/json-rpc.js';

/** A status and headers for an answer that denies. */
export interface HttpRefusal {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
}

/** What a message that is being served is in either era: who sent it, how it is cancelled, how HTTP is to refuse it. */
export abstract class ServedCall implements McpCall {
  abstract readonly session: McpSessionInfo | undefined;
  abstract readonly message: JsonRpcRequest | JsonRpcNotification;
  #abort: AbortController | undefined;
  #cancelled: { readonly reason: unknown } | undefined;
  #refusal: HttpRefusal | undefined;

  constructor(private readonly http: McpHttpCall) {}

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

  abstract closeStream(): boolean;

  refuseWith(status: number, headers: Readonly<Record<string, string>>): void {
    this.#refusal = { status, headers };
  }

  /** How HTTP shall say what the answer says. */
  get refusal(): HttpRefusal | undefined {
    return this.#refusal;
  }

  /** Nobody waits for the result any more. Counts once. */
  protected abort(reason: unknown): void {
    if (this.#cancelled) return;
    this.#cancelled = { reason };
    this.#abort?.abort(reason);
  }
}
