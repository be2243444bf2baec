import { BehaviorSubject, type Observable } from 'rxjs';
import { deferred, type Deferred } from '../common/promises.js';
import { SESSION_ID_HEADER } from '../wire/headers.js';
import type { JsonRpcRequest } from '../wire/json-rpc.js';
import { abortable } from './backoff.js';
import { ClientTransportError, SessionLostError } from './client.errors.js';
import { clientMessages } from './client.messages.js';
import type { ClientTransportState } from './client-state.js';
import type { SessionHeaders } from './request-headers.js';

const VISIBLE_ASCII = /^[\x21-\x7e]+$/;

/**
 * # The session as the client knows it
 *
 * The states are those of {@link ClientTransportState}. While `initializing` or `recovering`, messages of the 2025 revisions
 * wait at the gate (`ready`), except answers to requests of the server: it may need them to answer `initialize`.
 *
 * Invariants: the gate exists in exactly those two states, and opens once; the stored `initialize` is the one that was
 * answered last; nothing leaves `closed`, and `state$` completes there.
 */
export class ClientSession {
  readonly #state$ = new BehaviorSubject<ClientTransportState>({ is: 'new' });
  #gate: Deferred<void> = OPEN;
  #initialize: JsonRpcRequest | undefined;
  #protocolVersion: string | undefined;
  /** The id in the head of an answer to `initialize` that has not come yet. */
  #offered: string | undefined;

  get state(): ClientTransportState {
    return this.#state$.value;
  }
  get state$(): Observable<ClientTransportState> {
    return this.#state$.asObservable();
  }
  /** The `initialize` that began the session, to begin another one with. */
  get initialize(): JsonRpcRequest | undefined {
    return this.#initialize;
  }
  /** What the next message says of the session. */
  get headers(): SessionHeaders {
    const { state } = this;
    const sessionId = state.is === 'live' ? state.sessionId : this.#offered;
    return { sessionId, protocolVersion: this.#protocolVersion };
  }
  get protocolVersion(): string | undefined {
    return this.#protocolVersion;
  }

  start(joined: { sessionId: string | undefined; protocolVersion: string | undefined }): void {
    this.#protocolVersion = joined.protocolVersion;
    this.#become(joined.sessionId === undefined ? { is: 'started' } : { is: 'live', ...joined });
  }

  /** An `initialize` is sent. */
  begin(): void {
    this.check({ evenIfLost: true });
    if (this.#gate === OPEN) this.#gate = deferred();
    this.#protocolVersion = undefined;
    this.#become({ is: 'initializing' });
  }

  /** The head of the answer to `initialize` has come. The server may ask something before it answers. */
  offer(sessionId: string | undefined): void {
    this.#offered = sessionId;
  }

  /** `initialize` was answered. */
  establish(sessionId: string | undefined, protocolVersion: string | undefined, initialize: JsonRpcRequest): void {
    this.#protocolVersion = protocolVersion;
    this.#initialize = initialize;
    this.#become({ is: 'live', sessionId, protocolVersion });
    this.#open();
  }

  /** `initialize` failed: what waited for it fails too. */
  abandon(cause: unknown): void {
    if (this.state.is !== 'initializing') return;
    this.#become({ is: 'started' });
    this.#open(new ClientTransportError('NOT_CONNECTED', clientMessages.initializeFailed(), { cause }));
  }

  /** The SDK's client says what was negotiated; 2026-07-28 only in this way. */
  setProtocolVersion(protocolVersion: string): void {
    this.#protocolVersion = protocolVersion;
    const { state } = this;
    if (state.is === 'live' && state.protocolVersion !== protocolVersion) this.#become({ ...state, protocolVersion });
  }

  /** The server does not know the session any more. */
  lose(lostSessionId: string, recovering: boolean): void {
    if (recovering) this.#gate = deferred();
    this.#become({ is: recovering ? 'recovering' : 'lost', lostSessionId });
  }

  /** There will be no other session. */
  giveUp(error: SessionLostError): void {
    if (this.state.is !== 'recovering') return;
    this.#become({ is: 'lost', lostSessionId: error.sessionId });
    this.#open(error);
  }

  close(is: 'closing' | 'closed'): void {
    if (this.state.is === 'closed') return;
    this.#become({ is });
    this.#open(new ClientTransportError('NOT_CONNECTED', clientMessages.closed()));
    if (is === 'closed') this.#state$.complete();
  }

  /**
   * Waits until messages may be sent.
   *
   * @throws (rejects) NOT_CONNECTED, SessionLostError, or the reason of the signal
   */
  async ready(signal: AbortSignal): Promise<void> {
    while (this.state.is === 'initializing' || this.state.is === 'recovering')
      await abortable(this.#gate.promise, signal);
    this.check();
  }

  /** @throws NOT_CONNECTED, SessionLostError: nothing can be sent at all */
  check({ evenIfLost = false } = {}): void {
    const { state } = this;
    if (state.is === 'new') throw new ClientTransportError('NOT_CONNECTED', clientMessages.notStarted());
    if (state.is === 'closing' || state.is === 'closed')
      throw new ClientTransportError('NOT_CONNECTED', clientMessages.closed());
    if (state.is === 'lost' && !evenIfLost) throw new SessionLostError(state.lostSessionId, false);
  }

  #become(state: ClientTransportState): void {
    this.#offered = undefined;
    if (this.state.is !== 'closed') this.#state$.next(state);
  }

  #open(error?: Error): void {
    const gate = this.#gate;
    this.#gate = OPEN;
    if (error) gate.reject(error);
    else gate.resolve();
  }
}

const OPEN = deferred();
OPEN.resolve();

/**
 * The session id that `initialize` was answered with; `undefined` for a server without sessions.
 *
 * @throws SESSION_CHANGED when it could not be sent back
 */
export function sessionIdOf({ headers }: Response): string | undefined {
  const id = headers.get(SESSION_ID_HEADER);
  if (id === null) return undefined;
  if (!VISIBLE_ASCII.test(id)) throw new ClientTransportError('SESSION_CHANGED', clientMessages.badSessionId());
  return id;
}

/** @throws SESSION_CHANGED: the response is of another session than the request (behaviour.md C2) */
export function assertSameSession({ headers }: Response, sent: SessionHeaders): void {
  const id = headers.get(SESSION_ID_HEADER);
  if (id === null || sent.sessionId === undefined || id === sent.sessionId) return;
  throw new ClientTransportError('SESSION_CHANGED', clientMessages.sessionChanged());
}
