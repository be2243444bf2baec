import type { JsonRpcNotification, JsonRpcRequest, RequestId } from '../wire/json-rpc.js';
import type { McpCall, McpHttpCall, McpSessionInfo } from './mcp-call.js';

/** A status and headers for an answer that denies. */
export interface HttpRefusal {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
}

/** A notification or request of the server, before it has an envelope. */
export interface OutboundMessage {
  readonly method: string;
  readonly params?: Record<string, unknown>;
}

/** How long a request of the server waits for the client. */
export interface OutboundOptions {
  /** Milliseconds; at most `serverRequestTimeoutMs`, which is the default. */
  readonly timeoutMs?: number;
  /** Each progress notification of the client begins `timeoutMs` anew. */
  readonly resetTimeoutOnProgress?: boolean;
  /** Milliseconds in all, however much progress there is. */
  readonly maxTotalTimeoutMs?: number;
  /** Gives the request up, and tells the client. */
  readonly signal?: AbortSignal;
  /** Asks the client for progress, and hears of it. */
  readonly onprogress?: (progress: Record<string, unknown>) => void;
}

/** What a client says of itself: in `initialize`, or with each modern request. */
export type ClientIdentity = {
  protocolVersion: string;
  capabilities: Record<string, unknown>;
  clientInfo: { name: string; version: string; [key: string]: unknown };
};

/** What a message that is being served is in either era: who sent it, the way back to its client, how it is cancelled. */
export abstract class ServedCall implements McpCall {
  abstract readonly session: McpSessionInfo | undefined;
  abstract readonly message: JsonRpcRequest | JsonRpcNotification;
  #abort: AbortController | undefined;
  #cancelled: { readonly reason: unknown } | undefined;
  #refusal: HttpRefusal | undefined;
  /** A guard of the handler did not let the caller in. */
  denied = false;

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

  /** What the client says of itself. */
  abstract readonly client: ClientIdentity;

  /** Whether the client wants log messages of this level (2025: all of them until it says otherwise). */
  abstract wantsLog(level: string): boolean;

  /** Sends a notification that belongs to this call. @returns settles when it is on its way, or was dropped */
  abstract notify(notification: OutboundMessage): Promise<void>;

  /**
   * Asks the client, on the stream of this call.
   *
   * @returns the result as it came
   * @throws (rejects) ServerRequestError when it could not be sent, ProtocolError when the client answered with an error
   */
  abstract ask(question: OutboundMessage, options?: OutboundOptions): Promise<unknown>;

  refuseWith(status: number, headers: Readonly<Record<string, string>>): void {
    this.#refusal = { status, headers };
  }

  /** How HTTP shall say what the answer says. */
  get refusal(): HttpRefusal | undefined {
    return this.#refusal;
  }

  /** Cancels the handler: its result is not needed any more. Counts once. */
  protected abort(reason: unknown): void {
    if (this.#cancelled) return;
    this.#cancelled = { reason };
    this.#abort?.abort(reason);
  }
}
