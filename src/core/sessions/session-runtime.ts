import { Inject, Injectable } from '@nestjs/common';
import { type Observable, Subject } from 'rxjs';
import { McpClock, systemClock } from '../common/clock.js';
import { NEVER_LATE, processLag } from '../common/loop-lag.js';
import { logError, logger } from '../calls/operator-log.js';
import { Retry } from '../common/retry.js';
import { MCP_OPTIONS } from '../common/options.js';
import type { McpSessionInfo } from '../calls/mcp-call.js';
import { McpDispatcher } from '../calls/mcp-dispatcher.js';
import { CallObserver } from '../calls/call-observer.js';
import { Calls } from '../calls/calls.js';
import { HeldBytes } from '../calls/held-bytes.js';
import { McpEventStoreError } from '../log/event-store.errors.js';
import { isShared, McpEventStore } from '../log/event-store.js';
import { DEFAULT_MAX_QUEUED_BYTES, DEFAULT_RETRY, type StreamEnvironment } from '../log/stream.options.js';
import { askStore } from '../protocol/errors.js';
import type { JsonRpcRequest } from '../protocol/json-rpc.js';
import { OTHER_NODES, type OtherNodes } from './other-nodes.js';
import type { McpSessionEvent, McpSessionEndReason } from './session-events.js';
import { type McpSessionRecord, McpSessionStore, type McpSessionPatch } from './store/session-store.js';
import { heldBytesLimits, type ResolvedSessionOptions } from './session.options.js';

/** Store faults that are further apart than this count as two outages. */
const QUIET_MS = 60_000;

/**
 * Holds everything that the sessions of an endpoint share: options, stores and calls, the messages to other nodes, and
 * the events for the application.
 *
 * It closes with the message bus, which is the last part of an endpoint to close.
 */
@Injectable()
export class SessionRuntime implements StreamEnvironment {
  readonly retry = DEFAULT_RETRY;
  readonly maxQueuedBytes = DEFAULT_MAX_QUEUED_BYTES;
  readonly comeBackMs: number;
  readonly nodeId: string;
  readonly calls: Calls;
  readonly held: HeldBytes;
  readonly events$: Observable<McpSessionEvent>;
  readonly #events$ = new Subject<McpSessionEvent>();
  readonly #patches: Retry;
  #sessions: SessionsInUse | undefined;

  constructor(
    @Inject(MCP_OPTIONS) readonly options: ResolvedSessionOptions & { readonly maxBodyBytes?: number },
    @Inject(McpClock) readonly clock: McpClock,
    @Inject(McpSessionStore) private readonly records: McpSessionStore,
    @Inject(McpEventStore) readonly store: McpEventStore,
    @Inject(OTHER_NODES) readonly nodes: OtherNodes,
    @Inject(McpDispatcher) readonly dispatcher: McpDispatcher,
    @Inject(CallObserver) private readonly observer: CallObserver,
  ) {
    this.events$ = this.#events$.asObservable();
    this.comeBackMs = options.retryMs;
    this.nodeId = nodes.nodeId;
    this.#patches = new Retry(DEFAULT_RETRY, clock, () => false);
    this.held = new HeldBytes(heldBytesLimits(options, options.maxBodyBytes));
    this.calls = new Calls(
      dispatcher,
      { ...options, clock },
      (error, { session }) => {
        if (session) this.event({ type: 'protocol-error', sessionId: session.id, error });
        else logError(error);
      },
      observer,
      // With the clock of a test the process is never late.
      clock === systemClock ? processLag : NEVER_LATE,
    );
    nodes.left$.subscribe({
      complete: () => {
        this.#patches.cancel();
        this.#events$.complete();
        observer.close();
      },
    });
  }

  /** Sets the owner of the sessions, which itself needs this object. */
  serve(sessions: SessionsInUse): void {
    this.#sessions = sessions;
  }

  /**
   * Runs a call of a store on behalf of a request. The client is asked to retry later, and the app gets an event.
   *
   * @throws McpError UNAVAILABLE (503, `Retry-After`) with the store's error as its cause
   */
  ask<T>(sessionId: string, call: () => Promise<T>): Promise<T> {
    return askStore(call, (error) => this.storeFault(sessionId, error));
  }

  event(event: McpSessionEvent): void {
    this.#events$.next(event);
  }

  /** Reports a request that was sent to the client of a session. @param answer settles as its sender sees it */
  asked(request: JsonRpcRequest, session: McpSessionInfo, answer: Promise<unknown>): void {
    this.observer.asked(request, session, answer);
  }

  /** Reports a session that this node has ended for good. Its store may have another clock. */
  sessionOver({ id: sessionId, protocolVersion, createdAt }: McpSessionRecord): void {
    const durationMs = Math.max(0, this.clock.now() - createdAt);
    this.observer.sessionEnded({ sessionId, protocolVersion, durationMs });
  }

  /** Reports a fault of a store by which no stream is lost. @param sessionId '' if it concerns no single session */
  storeFault(sessionId: string, error: unknown, streamId = ''): void {
    this.event({ type: 'store-fault', sessionId, streamId, fatal: false, error });
  }

  /** Records a change that the client has made to its session. Rejects when the store was unavailable for too long. */
  async patched(sessionId: string, patch: McpSessionPatch): Promise<void> {
    try {
      await this.#patches.run(() => this.records.patch(sessionId, patch));
      // Once answered, the client may send its next request to another node, which must have the change by then.
      if (this.sharedRecords) await this.nodes.patched(sessionId, patch);
    } catch (error) {
      this.storeFault(sessionId, error);
      throw error;
    }
  }

  /** Tells whether other nodes, or the next process, have the records of sessions. */
  get sharedRecords(): boolean {
    return this.records.scope === 'shared';
  }
  /** Tells whether other nodes have the logs of sessions. */
  get sharedLogs(): boolean {
    return isShared(this.store);
  }

  /** Compares a session with its record, because the log no longer has it: it may have ended on another node. */
  suspect(sessionId: string): void {
    this.#sessions?.suspect(sessionId);
  }

  /** Ends a session whose server was closed. */
  ended(sessionId: string, reason: McpSessionEndReason): void {
    this.#sessions?.end(sessionId, reason).catch((error: unknown) => this.storeFault(sessionId, error));
  }
}

/** This part of `LiveSessions` is used here; that file imports this one. */
interface SessionsInUse {
  suspect(id: string): void;
  end(id: string, reason: McpSessionEndReason): Promise<boolean>;
}

/**
 * Logs faults of sessions for operators. While a store is unavailable every request fails: the first failure of an
 * outage is logged as an error, the others at `debug`.
 */
@Injectable()
export class FaultLog {
  #faultAt = Number.NEGATIVE_INFINITY;

  constructor(
    @Inject(McpClock) private readonly clock: McpClock,
    @Inject(SessionRuntime) runtime: Pick<SessionRuntime, 'events$'>,
  ) {
    runtime.events$.subscribe((event) => {
      if (event.type === 'protocol-error') {
        logger.debug(`Session "${event.sessionId.slice(0, 6)}…": ${String(event.error)}`);
      } else if (event.type === 'store-fault') this.#storeFault(event);
    });
  }

  #storeFault({ streamId, error }: Extract<McpSessionEvent, { type: 'store-fault' }>): void {
    if (error instanceof McpEventStoreError) {
      // Caused by the client, which sends too much, reads too slowly, or has disconnected: logged at `debug` only.
      return logger.debug(`The event store refused an operation on stream "${streamId}": ${String(error)}`);
    }
    const now = this.clock.now();
    const text = `A store failed${streamId && ` (stream "${streamId}")`}: ${String(error)}`;
    if (now - this.#faultAt >= QUIET_MS) logger.error(text);
    else logger.debug(text);
    this.#faultAt = now;
  }
}
