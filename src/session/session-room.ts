import { Subject, type Observable } from 'rxjs';
import type { Clock } from '../common/clock.js';
import { Retry } from '../common/retry.js';
import type { McpMessageBus } from '../bus/message-bus.js';
import type { McpDispatcher } from '../context/mcp-dispatcher.js';
import type { CallObserver } from '../exchange/call-observer.js';
import { Calls } from '../exchange/calls.js';
import { EventStoreError } from '../stream/event-store.errors.js';
import type { McpEventStore } from '../stream/event-store.js';
import { DEFAULT_MAX_QUEUED_BYTES, DEFAULT_RETRY } from '../stream/stream.options.js';
import { ChangeFeed } from './change-feed.js';
import { ClusterListener } from './cluster-listener.js';
import { ClusterPeers } from './cluster-messages.js';
import { LiveSessions } from './live-sessions.js';
import { McpSessionService } from './mcp-session.service.js';
import { Reaper } from './reaper.js';
import type { McpSessionEvent } from './session-events.js';
import type { ResolvedSessionOptions, SessionEnvironment } from './session.options.js';
import type { McpSessionStore } from './session-store.js';

/** The injection token of the {@link SessionRoom}. */
export const SESSION_ROOM = Symbol('nestjs-mcp-streamable:session-room');

/** Everything of this room that one endpoint has, put together. */
export interface SessionRoom {
  readonly environment: SessionEnvironment;
  readonly sessions: LiveSessions;
  readonly service: McpSessionService;
  /** What changes, for whoever listens without a session. */
  readonly feed: ChangeFeed;
  readonly events$: Observable<McpSessionEvent>;
}

export interface SessionRoomParts {
  readonly options: ResolvedSessionOptions;
  readonly keepAliveMs: number;
  readonly clock: Clock;
  readonly sessionStore: McpSessionStore;
  readonly eventStore: McpEventStore;
  readonly bus: McpMessageBus;
  /** Tells the operator. */
  report(error: unknown): void;
  readonly dispatcher: McpDispatcher;
  readonly observer: CallObserver;
}

export function furnishSessionRoom(parts: SessionRoomParts): SessionRoom {
  const { options, sessionStore, eventStore, bus, clock } = parts;
  const events$ = new Subject<McpSessionEvent>();
  const peers = new ClusterPeers(bus);
  const patches = new Retry(DEFAULT_RETRY, clock, () => false);
  const fault = (sessionId: string, error: unknown): void => {
    events$.next({ type: 'store-fault', sessionId, streamId: '', fatal: false, error });
  };
  let storeAwayAt: number | undefined;
  const noteAway = (): void => {
    storeAwayAt = clock.now();
  };
  const environment: SessionEnvironment = {
    ...options,
    store: eventStore,
    dispatcher: parts.dispatcher,
    clock,
    nodeId: bus.nodeId,
    retry: DEFAULT_RETRY,
    maxQueuedBytes: DEFAULT_MAX_QUEUED_BYTES,
    event: (event) => {
      if (event.type === 'store-fault' && !(event.error instanceof EventStoreError)) noteAway();
      events$.next(event);
    },
    get storeAwayAt() {
      return storeAwayAt;
    },
    peers,
    calls: new Calls(
      parts.dispatcher,
      { clock, requestTimeoutMs: options.requestTimeoutMs },
      (error, { session }) => {
        if (session) events$.next({ type: 'protocol-error', sessionId: session.id, error });
        else parts.report(error);
      },
      parts.observer,
    ),
    patched: async (sessionId, patch) => {
      try {
        await patches.run(() => sessionStore.patch(sessionId, patch));
        if (sessionStore.scope !== 'shared') return;
        peers.patched(sessionId, patch);
        // The client may go on with another node as soon as it is answered: that one is to have heard.
        await bus.flushed?.();
      } catch (error) {
        fault(sessionId, error);
        throw error;
      }
    },
    suspect: (sessionId) => sessions.suspect(sessionId),
    ended: (sessionId, reason) => {
      sessions.end(sessionId, reason).catch((error: unknown) => fault(sessionId, error));
    },
  };
  bus.reconnected$.subscribe(noteAway);
  // The bus closes last: after it nothing happens here any more.
  bus.messages$.subscribe({
    complete: () => {
      listener.close();
      reaper.close();
      patches.cancel();
      events$.complete();
      parts.observer.close();
    },
  });
  const { idleTimeoutMs } = options;
  const timing = { idleTimeoutMs, keepAliveMs: parts.keepAliveMs };
  const sessions: LiveSessions = new LiveSessions(sessionStore, environment, peers, timing);
  const listener = new ClusterListener(bus, sessions, (sessionId, error) =>
    events$.next({ type: 'protocol-error', sessionId, error }),
  );
  const reaper = new Reaper(bus, environment, sessions, peers);
  const feed = new ChangeFeed(bus);
  const service: McpSessionService = new McpSessionService(
    sessions,
    sessionStore,
    environment,
    events$.asObservable(),
    feed,
    parts.observer.calls$,
  );
  return { environment, sessions, service, feed, events$: events$.asObservable() };
}
