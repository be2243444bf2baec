import { Subject, type Observable } from 'rxjs';
import type { JsonRpcRequest, RequestId } from '../wire/json-rpc.js';
import { abortable } from './backoff.js';
import { SessionLostError } from './client.errors.js';
import { clientMessages } from './client.messages.js';
import type { RecoveryEvent } from './client-state.js';
import type { ClientSession } from './client-session.js';

/** What starting a new session needs. */
export interface RecoveryHost {
  readonly session: ClientSession;
  /** Tells everything under way that its session is gone. */
  interrupt(sessionId: string, recovering: boolean): void;
  /** Sends an `initialize` whose answer the client does not get to see. */
  reinitialize(request: JsonRpcRequest): Promise<void>;
  /** Sends `notifications/initialized`, which also opens the standalone stream again. */
  announce(): Promise<void>;
}

/**
 * # What happens when the server has lost the session (behaviour.md C7)
 *
 * Without the option `recover` everything of the session fails. With it, one `initialize` is sent for all who found out; they
 * wait, then go on or fail, each as its own safety allows.
 *
 * Invariants: one recovery per lost session, however many find out; a late finder of an old loss gets the present session.
 */
export class SessionRecovery {
  readonly #events$ = new Subject<RecoveryEvent>();
  #running:
    { readonly replayed: Set<RequestId>; readonly failed: Set<RequestId>; readonly done: Promise<void> } | undefined;
  #count = 0;

  constructor(
    private readonly host: RecoveryHost,
    private readonly enabled: boolean,
  ) {}

  get events$(): Observable<RecoveryEvent> {
    return this.#events$.asObservable();
  }

  /** @see ExchangeHost.sessionLost */
  async lost(
    error: SessionLostError,
    asker: { requestId?: RequestId; replayed: boolean },
    signal: AbortSignal,
  ): Promise<void> {
    const { session } = this.host;
    const { state } = session;
    if (state.is === 'live' && state.sessionId === error.sessionId) this.#begin(error.sessionId);
    if (asker.requestId !== undefined) this.#running?.[asker.replayed ? 'replayed' : 'failed'].add(asker.requestId);
    if (this.#running) await abortable(this.#running.done, signal);
    if (session.state.is === 'lost') throw error;
  }

  end(): void {
    this.#events$.complete();
  }

  #begin(sessionId: string): void {
    const { session } = this.host;
    const { initialize, protocolVersion } = session;
    const able = this.enabled && initialize !== undefined;
    session.lose(sessionId, able);
    if (!able) return this.host.interrupt(sessionId, false);
    const replayed = new Set<RequestId>();
    const failed = new Set<RequestId>();
    const done = this.#start(sessionId, initialize, protocolVersion).then(
      () => {
        this.#running = undefined;
        const { state } = session;
        const now = state.is === 'live' ? state.sessionId : undefined;
        this.#events$.next({
          ...{ outcome: 'recovered', lostSessionId: sessionId, sessionId: now },
          ...{ replayed: [...replayed], failed: [...failed] },
        });
      },
      (cause: unknown) => {
        this.#running = undefined;
        const reason = cause instanceof Error ? cause.message : String(cause);
        const failure = new SessionLostError(sessionId, false, clientMessages.recoveryFailed(reason), { cause });
        session.giveUp(failure);
        this.#events$.next({ outcome: 'failed', lostSessionId: sessionId, error: failure });
        throw failure;
      },
    );
    done.catch(() => {});
    this.#running = { replayed, failed, done };
    this.host.interrupt(sessionId, true);
  }

  async #start(lost: string, initialize: JsonRpcRequest, before: string | undefined): Promise<void> {
    const { session } = this.host;
    // An id that the client does not use: it would take the answer for one of its own.
    await this.host.reinitialize({ ...initialize, id: `recover-${++this.#count}` });
    const now = session.protocolVersion;
    if (now !== before) {
      session.lose(lost, true);
      throw new Error(clientMessages.otherRevision(before, now));
    }
    await this.host.announce();
  }
}
