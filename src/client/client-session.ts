import { BehaviorSubject, type Observable, Subject } from 'rxjs';
import { type Deferred, deferred } from '../core/common/promises.js';
import { SESSION_ID_HEADER } from '../core/protocol/headers.js';
import type { JsonRpcRequest, RequestId } from '../core/protocol/json-rpc.js';
import { shown } from '../core/protocol/errors.js';
import { McpClientTransportError, closedError, McpSessionLostError } from './client.errors.js';
import type { SessionHeaders } from './http-endpoint.js';
import { closeUnread } from './response-body.js';
import { abortable, sharedController } from './waiting.js';

/**
 * A transport has one of these states.
 *
 *     new ──start()──▶ started ──initialize──▶ initializing ──answer──▶ live
 *                         ▲                        │ failed              │ 404
 *                         └────────────────────────┘                     ▼
 *                         live ◀──new session── recovering ◀──────── (option "recover")
 *                                                  │ failed              │ without it
 *                                                  └──────▶ lost ◀───────┘
 *
 *     any ──close()──▶ closing ──▶ closed
 *
 * On 2026-07-28 there is no session: such a transport stays `started`.
 *
 * @publicApi
 */
export type McpClientTransportState =
  | { readonly is: 'new' | 'started' | 'initializing' | 'closing' | 'closed' }
  | { readonly is: 'live'; readonly sessionId: string | undefined; readonly protocolVersion: string | undefined }
  | { readonly is: 'recovering' | 'lost'; readonly lostSessionId: string };

/** Describes the next attempt of a request or stream. @publicApi */
export interface McpReconnectEvent {
  /**
   * - `standalone`: the GET of the standalone stream
   * - `resume`: the GET for the rest of an interrupted response
   * - `retry`: a request is sent again
   * - `recover`: the `initialize` of a new session is sent again
   */
  readonly kind: 'standalone' | 'resume' | 'retry' | 'recover';
  /** The id of the call, if the attempt belongs to one. */
  readonly requestId?: RequestId;
  /** Counts the attempts without an event in a row, before this one. */
  readonly failures: number;
  /** The attempt is made after so many milliseconds. */
  readonly delayMs: number;
  /** The error of the last attempt; `undefined` when the server ended the response. */
  readonly cause?: unknown;
}

/** Describes the outcome of the recovery of a lost session. @publicApi */
export type McpRecoveryEvent =
  | { readonly outcome: 'recovered'; readonly lostSessionId: string; readonly sessionId: string | undefined }
  | { readonly outcome: 'failed'; readonly lostSessionId: string; readonly error: unknown };

/** A request is sent in this session. */
export interface SentSession extends SessionHeaders {
  /** Aborts when the session is lost, with the McpSessionLostError of a request that may have run. */
  readonly lost?: AbortSignal;
}

const OPEN = deferred();
OPEN.resolve();

/**
 * # The session as the client knows it
 *
 * The states are those of {@link McpClientTransportState}. While the gate is closed, messages of the 2025 revisions wait at it
 * (`ready`), except answers to requests of the server: it may need them to answer `initialize`.
 *
 * When the server no longer knows the session (rule C7), its requests fail. With the option `recover` one `initialize`
 * is sent for all requests that got the 404; they wait at the gate, then are sent again or fail, depending on whether
 * they may run twice.
 *
 * Invariants: the gate is closed from an `initialize` to its answer, and from a loss to the end of the recovery; one recovery
 * per lost session; nothing leaves `closed`, and `state$` and `recoveries$` complete there.
 */
export class ClientSession {
  readonly #state$ = new BehaviorSubject<McpClientTransportState>({ is: 'new' });
  readonly #recoveries$ = new Subject<McpRecoveryEvent>();
  readonly state$: Observable<McpClientTransportState> = this.#state$.asObservable();
  readonly recoveries$: Observable<McpRecoveryEvent> = this.#recoveries$.asObservable();
  #gate: Deferred<void> = OPEN;
  #protocolVersion: string | undefined;
  /** The request that began the session; it is repeated for a new one. */
  #initialize: JsonRpcRequest | undefined;
  /**
   * The session id from the headers of the response to `initialize`, before its answer: the server may send requests
   * before.
   */
  offered: string | undefined;
  #lost = sharedController();

  /** @param restart sends `initialize` and `notifications/initialized` again; `undefined`: lost sessions are not recovered */
  constructor(private readonly restart: ((initialize: JsonRpcRequest) => Promise<void>) | undefined) {}

  get state(): McpClientTransportState {
    return this.#state$.value;
  }
  /** Returns the session of the next message. */
  get current(): SentSession {
    const { state } = this;
    const sessionId = state.is === 'live' ? state.sessionId : this.offered;
    return { sessionId, protocolVersion: this.#protocolVersion, lost: this.#lost.signal };
  }

  start(joined: SessionHeaders): void {
    this.#protocolVersion = joined.protocolVersion;
    this.#become(joined.sessionId === undefined ? { is: 'started' } : { is: 'live', ...joined });
  }

  /** Closes the gate: an `initialize` is sent. */
  begin(): void {
    this.check();
    if (this.#gate === OPEN) this.#gate = deferred();
    this.#protocolVersion = undefined;
    this.#become({ is: 'initializing' });
  }

  /** Opens the gate: `initialize` was answered. @throws the new session has another revision than the lost one */
  establish(sessionId: string | undefined, result: Record<string, unknown>, initialize: JsonRpcRequest): void {
    const { protocolVersion: revision } = result;
    const protocolVersion = typeof revision === 'string' ? revision : undefined;
    const recovering = this.state.is === 'recovering';
    const before = this.#protocolVersion;
    if (recovering && protocolVersion !== before)
      throw new Error(`the server now uses revision ${shown(protocolVersion)}, but this client negotiated ${before}`);
    this.#protocolVersion = protocolVersion;
    this.#initialize = initialize;
    this.#lost = sharedController();
    this.#become({ is: 'live', sessionId, protocolVersion });
    if (!recovering) this.#open();
  }

  /** Fails the messages that waited for `initialize`, which has failed. */
  fail(cause: unknown): void {
    if (this.state.is !== 'initializing') return;
    this.#become({ is: 'started' });
    const message = 'The message was not sent, because the session could not be started.';
    this.#open(new McpClientTransportError('NOT_CONNECTED', message, { cause }));
  }

  /** Called by the SDK's client with the negotiated revision; 2026-07-28 becomes known only in this way. */
  setProtocolVersion(protocolVersion: string): void {
    this.#protocolVersion = protocolVersion;
    const { state } = this;
    if (state.is === 'live' && state.protocolVersion !== protocolVersion) this.#become({ ...state, protocolVersion });
  }

  /**
   * Begins the recovery of a session for which the server answered 404.
   *
   * @returns settles when there is another session
   * @throws (rejects) McpSessionLostError when there will be none; NOT_CONNECTED; the reason of the signal
   */
  async lose(error: McpSessionLostError, signal: AbortSignal): Promise<void> {
    const { state } = this;
    if (state.is === 'live' && state.sessionId === error.sessionId) this.#interrupt(error.sessionId);
    if (this.state.is === 'lost') throw error;
    this.check();
    await abortable(this.#gate.promise, signal);
  }

  close(is: 'closing' | 'closed'): void {
    if (this.state.is === 'closed') return;
    this.#become({ is });
    this.#open(closedError());
    if (is === 'closing') return;
    this.#state$.complete();
    this.#recoveries$.complete();
  }

  /**
   * Waits until messages may be sent.
   *
   * @throws (rejects) NOT_CONNECTED, McpSessionLostError, or the reason of the signal
   */
  async ready(signal: AbortSignal): Promise<void> {
    while (this.#gate !== OPEN) await abortable(this.#gate.promise, signal);
    this.check();
  }

  /** Throws if no message can be sent. @throws NOT_CONNECTED, McpSessionLostError */
  check(): void {
    const { state } = this;
    this.checkOpen();
    if (state.is === 'lost') throw new McpSessionLostError(state.lostSessionId, false);
    if (state.is !== 'new') return;
    const message = 'The transport is not started. Connect a client to it, or call start().';
    throw new McpClientTransportError('NOT_CONNECTED', message);
  }

  /** Throws if messages are no longer sent or delivered. @throws NOT_CONNECTED */
  checkOpen(): void {
    if (this.state.is === 'closing' || this.state.is === 'closed') throw closedError();
  }

  #interrupt(lostSessionId: string): void {
    // The gate is closed if the session of a recovery was lost before the recovery had ended.
    const recovering = this.restart && this.#initialize && this.#gate === OPEN;
    if (recovering) this.#gate = deferred();
    this.#become({ is: recovering ? 'recovering' : 'lost', lostSessionId });
    this.#lost.abort(new McpSessionLostError(lostSessionId, true));
    if (recovering) void this.#recover(lostSessionId);
  }

  async #recover(lostSessionId: string): Promise<void> {
    try {
      await this.restart!(this.#initialize!);
      this.#open();
      this.#recoveries$.next({ outcome: 'recovered', lostSessionId, sessionId: this.current.sessionId });
    } catch (cause) {
      if (this.state.is === 'closing' || this.state.is === 'closed') return;
      const reason = cause instanceof Error ? cause.message : String(cause);
      const message = `The session was lost, and a new one could not be started (${reason}). Connect again.`;
      const error = new McpSessionLostError(lostSessionId, false, message, { cause });
      this.#become({ is: 'lost', lostSessionId });
      this.#open(error);
      this.#recoveries$.next({ outcome: 'failed', lostSessionId, error });
    }
  }

  #become(state: McpClientTransportState): void {
    this.offered = undefined;
    if (this.state.is !== 'closed') this.#state$.next(state);
  }

  #open(error?: Error): void {
    const gate = this.#gate;
    this.#gate = OPEN;
    if (error) gate.reject(error);
    else gate.resolve();
  }
}

/**
 * Returns the session id of a response of the 2025 revisions; `undefined` for a server without sessions.
 *
 * @param sent the session id of the request
 * @throws SESSION_CHANGED: it is not that of the request (rule C2), or contains characters that a header cannot
 */
export function sessionIdOf(response: Response, sent: string | undefined): string | undefined {
  const id = response.headers.get(SESSION_ID_HEADER) ?? undefined;
  if (id === undefined || (sent === undefined ? /^[\x21-\x7e]+$/.test(id) : id === sent)) return id;
  closeUnread(response);
  const what =
    sent === undefined ? 'a session id that is not visible ASCII' : 'another session id than that of the request';
  throw new McpClientTransportError('SESSION_CHANGED', `The server answered with ${what}. The answer was not used.`);
}
