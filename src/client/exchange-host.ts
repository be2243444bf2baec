import type { JsonRpcMessage, RequestId } from '../wire/json-rpc.js';
import type { ReconnectEvent } from './client-state.js';
import type { ClientSession } from './client-session.js';
import type { SessionLostError } from './client.errors.js';
import type { ResolvedClientOptions } from './client.options.js';
import type { HttpEndpoint } from './http-endpoint.js';
import type { Idempotency } from './idempotency.js';

/** What one message on its way needs of its transport. */
export interface ExchangeHost {
  readonly endpoint: HttpEndpoint;
  readonly session: ClientSession;
  readonly options: ResolvedClientOptions;
  readonly idempotency: Idempotency;
  /** Hands a message of the server over. */
  deliver(message: JsonRpcMessage): void;
  /** Something went wrong that is no call's own. */
  report(error: unknown): void;
  /** Another attempt is about to be made. */
  reconnecting(event: ReconnectEvent): void;
  /**
   * The server does not know a session any more.
   *
   * @param asker who found out, and whether it goes on in another session
   * @returns settles when there is another session
   * @throws (rejects) SessionLostError when there will be none; the reason of the signal
   */
  sessionLost(
    lost: SessionLostError,
    asker: { requestId?: RequestId; replayed: boolean },
    signal: AbortSignal,
  ): Promise<void>;
  /** Tells the server that nobody waits for a request. Never fails. */
  cancelOnServer(requestId: RequestId): void;
  /** Nothing of it is left. */
  exchangeEnded(exchange: object): void;
}
