import type { ClockTimer } from '../base/clock.js';
import type { McpHttpCall, McpSessionInfo } from '../context/mcp-call.js';
import { ServedCall, type ClientIdentity, type OutboundMessage, type OutboundOptions } from '../context/served-call.js';
import type { JsonRpcNotification, JsonRpcRequest } from '../wire/json-rpc.js';
import { reachesLevel } from '../wire/log-levels.js';
import type { PostExchange } from './post-exchange.js';
import type { SessionState } from './session-state.js';

/** The live session that serves a call; compared by identity. */
export interface CallOwner {
  readonly state: Pick<SessionState, 'logLevel'>;
  notify(notification: OutboundMessage, call: SessionCall): Promise<void>;
  request(question: OutboundMessage, options: OutboundOptions, call: SessionCall): Promise<unknown>;
}

/**
 * One message of the client while it is served, as its handler sees it.
 *
 *     open ──answer──▶ answered
 *       └──cancelled, or its session or time is over──▶ cancelled
 *
 * A notification stays open: it has no answer.
 */
export class SessionCall extends ServedCall {
  #answered = false;
  /** Armed when `requestTimeoutMs` is set. */
  timer: ClockTimer | undefined;

  constructor(
    readonly owner: CallOwner,
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

  get client(): ClientIdentity {
    const { protocolVersion, clientInfo, clientCapabilities } = this.session;
    return { protocolVersion, clientInfo, capabilities: { ...clientCapabilities } };
  }

  wantsLog(level: string): boolean {
    return reachesLevel(level, this.owner.state.logLevel);
  }

  notify(notification: OutboundMessage): Promise<void> {
    return this.owner.notify(notification, this);
  }

  ask(question: OutboundMessage, options: OutboundOptions = {}): Promise<unknown> {
    return this.owner.request(question, options, this);
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
