import { Inject, Injectable } from '@nestjs/common';
import { type Observable, Subject } from 'rxjs';
import { Clock } from '../common/clock.js';
import { logError } from '../context/operator-log.js';
import { Retry } from '../common/retry.js';
import { McpMessageBus } from '../bus/message-bus.js';
import { McpDispatcher } from '../context/mcp-dispatcher.js';
import { CallObserver } from '../exchange/call-observer.js';
import { Calls } from '../exchange/calls.js';
import type { ResponseMode } from '../exchange/exchange.js';
import { EventStoreError } from '../stream/event-store.errors.js';
import { McpEventStore } from '../stream/event-store.js';
import { DEFAULT_MAX_QUEUED_BYTES, DEFAULT_RETRY } from '../stream/stream.options.js';
import { ClusterPeers } from './cluster-messages.js';
import type { LiveSessions } from './live-sessions.js';
import type { McpSessionEvent, SessionEndReason } from './session-events.js';
import { McpSessionStore, type SessionPatch } from './session-store.js';
import { type ResolvedSessionOptions, SESSION_OPTIONS, type SessionEnvironment } from './session.options.js';

/**
 * What all sessions of an endpoint share: its options, stores and calls, the way to other nodes, and the events that tell
 * the application what happens.
 *
 * It closes with the message bus, which is the last part of an endpoint to close.
 */
@Injectable()
export class SessionRuntime implements SessionEnvironment {
  readonly retry = DEFAULT_RETRY;
  readonly maxQueuedBytes = DEFAULT_MAX_QUEUED_BYTES;
  readonly nodeId: string;
  readonly responseMode: ResponseMode;
  readonly sseAfterMs: number;
  readonly retryMs: number;
  readonly serverRequestTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly peers: ClusterPeers;
  readonly calls: Calls;
  readonly events$: Observable<McpSessionEvent>;
  readonly #events$ = new Subject<McpSessionEvent>();
  readonly #patches: Retry;
  #sessions: LiveSessions | undefined;
  #storeAwayAt: number | undefined;

  constructor(
    @Inject(SESSION_OPTIONS) options: ResolvedSessionOptions,
    @Inject(Clock) readonly clock: Clock,
    @Inject(McpSessionStore) private readonly records: McpSessionStore,
    @Inject(McpEventStore) readonly store: McpEventStore,
    @Inject(McpMessageBus) private readonly bus: McpMessageBus,
    @Inject(McpDispatcher) readonly dispatcher: McpDispatcher,
    @Inject(CallObserver) observer: CallObserver,
  ) {
    this.events$ = this.#events$.asObservable();
    this.nodeId = bus.nodeId;
    this.responseMode = options.responseMode;
    this.sseAfterMs = options.sseAfterMs;
    this.retryMs = options.retryMs;
    this.serverRequestTimeoutMs = options.serverRequestTimeoutMs;
    this.requestTimeoutMs = options.requestTimeoutMs;
    this.peers = new ClusterPeers(bus);
    this.#patches = new Retry(DEFAULT_RETRY, clock, () => false);
    const report = (error: unknown, session: string | undefined): void => {
      if (session === undefined) logError(error);
      else this.#events$.next({ type: 'protocol-error', sessionId: session, error });
    };
    this.calls = new Calls(
      dispatcher,
      { clock, requestTimeoutMs: options.requestTimeoutMs },
      (error, { session }) => report(error, session?.id),
      observer,
    );
    bus.reconnected$.subscribe(() => this.#noteAway());
    bus.messages$.subscribe({
      complete: () => {
        this.#patches.cancel();
        this.#events$.complete();
        observer.close();
      },
    });
  }

  /** When a store, or the way to other nodes, was last found to have been away. */
  get storeAwayAt(): number | undefined {
    return this.#storeAwayAt;
  }

  /** Says which sessions `suspect` and `ended` are about; they need this object first. */
  serve(sessions: LiveSessions): void {
    this.#sessions = sessions;
  }

  event(event: McpSessionEvent): void {
    if (event.type === 'store-fault' && !(event.error instanceof EventStoreError)) this.#noteAway();
    this.#events$.next(event);
  }

  async patched(sessionId: string, patch: SessionPatch): Promise<void> {
    try {
      await this.#patches.run(() => this.records.patch(sessionId, patch));
      if (this.records.scope !== 'shared') return;
      this.peers.patched(sessionId, patch);
      // The client may send its next request to another node as soon as it is answered: that node must have been told.
      await this.bus.flushed?.();
    } catch (error) {
      this.#fault(sessionId, error);
      throw error;
    }
  }

  suspect(sessionId: string): void {
    this.#sessions?.suspect(sessionId);
  }

  ended(sessionId: string, reason: SessionEndReason): void {
    this.#sessions?.end(sessionId, reason).catch((error: unknown) => this.#fault(sessionId, error));
  }

  #fault(sessionId: string, error: unknown): void {
    this.#events$.next({ type: 'store-fault', sessionId, streamId: '', fatal: false, error });
  }

  #noteAway(): void {
    this.#storeAwayAt = this.clock.now();
  }
}
