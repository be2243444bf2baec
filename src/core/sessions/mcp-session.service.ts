import type { RequestMethod, RequestOptions, ResultTypeMap } from '@modelcontextprotocol/server';
import { Inject, Injectable } from '@nestjs/common';
import type { Observable } from 'rxjs';
import { DONE } from '../common/promises.js';
import { type McpSessionInfo, type OutboundMessage, runBeyondCancelledCall } from '../calls/mcp-call.js';
import { ENDPOINT_NAME, type EndpointName } from '../calls/endpoint-name.js';
import { DivertedCalls } from '../calls/diverted-calls.js';
import type { McpCallEnd, McpRefusal, McpSessionEnd } from '../calls/mcp-instrumentation.js';
import { McpServerRequestError, storeUnavailable } from '../calls/server-request.error.js';
import { CallObserver } from '../calls/call-observer.js';
import { McpSessionGoneError } from '../log/event-store.errors.js';
import type { McpEventStoreStats } from '../log/event-store.js';
import { McpStream } from '../log/mcp-stream.js';
import { STANDALONE_STREAM } from '../protocol/events.js';
import { reachesLevel } from '../protocol/log-levels.js';
import { changeOf } from '../protocol/notifications.js';
import { jsonOf, written } from '../protocol/notification-json.js';
import { offersTools, usesTools } from '../protocol/client-capabilities.js';
import { McpError } from '../protocol/errors.js';
import { checkedBySpec, type SpecTypeName } from '../protocol/spec.js';
import { canonicalUri } from '../protocol/uris.js';
import { isLarger, MAX_CHECKED_VALUES } from '../protocol/values.js';
import { isServed, type LiveSession, LiveSessions } from './running/live-sessions.js';
import { detailsOf, infoOf, type McpSessionDetails } from './running/session-state.js';
import type { McpSessionEvent } from './session-events.js';
import { McpUnknownSessionError } from './session.errors.js';
import { SessionRuntime } from './session-runtime.js';
import { type McpSessionRecord, McpSessionStore } from './store/session-store.js';

/**
 * Gives an app the sessions of one endpoint: to look at them, to talk to their clients, to end them.
 *
 * Inject it into any provider. An app with several endpoints injects by name: `@InjectMcp(McpSessionService, name)`.
 *
 * Each method that asks a store rejects with McpServerRequestError `STORE_UNAVAILABLE` when the store fails; the error of the
 * store is its `cause`.
 *
 * @publicApi
 */
@Injectable()
export class McpSessionService {
  /** The option `name` of the endpoint, or its path. */
  readonly endpoint: string;
  /** Emits the events of the sessions on this node. Never errors. */
  readonly events$: Observable<McpSessionEvent>;
  /** Emits each request of a client that this node has served, when it has ended. Never errors. */
  readonly calls$: Observable<McpCallEnd>;
  /**
   * Emits each session that is over for good, on the node that ended it; not those that a shutdown ends. Never errors.
   */
  readonly ends$: Observable<McpSessionEnd>;
  /** Emits each request that was answered with 4xx or 5xx before it was a call. Never errors. */
  readonly refusals$: Observable<McpRefusal>;

  /** @internal */
  constructor(
    @Inject(LiveSessions) private readonly sessions: LiveSessions,
    @Inject(McpSessionStore) private readonly store: McpSessionStore,
    @Inject(SessionRuntime) private readonly runtime: SessionRuntime,
    @Inject(CallObserver) observer: CallObserver,
    @Inject(ENDPOINT_NAME) { name, path }: EndpointName,
    @Inject(DivertedCalls) private readonly diverted: Pick<DivertedCalls, 'count'> = new DivertedCalls(),
  ) {
    this.events$ = runtime.events$;
    this.calls$ = observer.calls$;
    this.ends$ = observer.sessionEnds$;
    this.refusals$ = observer.refusals$;
    this.endpoint = name ?? path;
  }

  /**
   * Tells whether the load balancer should send calls to this node, for readiness checks: `true` until the app begins
   * to shut down. Calls that still come are taken for `shutdownDelayMs`; then new ones get 503, and running ones may
   * end within `drainMs`.
   */
  get accepting(): boolean {
    return this.runtime.calls.shutdown.is === 'open';
  }

  /**
   * Returns all sessions of the endpoint, oldest first, live on this node or not.
   *
   * @param filter `principal`: only those of this owner, `null`: only anonymous ones
   */
  async list(filter?: { principal?: string | null }): Promise<McpSessionDetails[]> {
    return (await this.#records(filter)).map(detailsOf);
  }

  /** @returns the session, or `undefined` if it does not exist or has ended */
  async get(id: string): Promise<McpSessionDetails | undefined> {
    const record = await this.#record(id);
    return record && detailsOf(record);
  }

  /**
   * Ends a session as a DELETE of its client would: open calls are answered with an error, handlers cancelled, streams
   * ended, record and log removed.
   *
   * @returns whether there was such a session
   */
  async terminate(id: string): Promise<boolean> {
    return !this.sessions.isInitializing(id) && this.#ask(id, () => this.sessions.end(id, 'terminated'));
  }

  /** Ends all sessions of the endpoint. @returns how many there were */
  async terminateAll(): Promise<number> {
    const records = await this.#ask('', () => this.store.list());
    const ended = await Promise.all(records.map(({ id }) => this.terminate(id)));
    return ended.filter(Boolean).length;
  }

  /**
   * Sends a notification to one session, or to all that a predicate selects. Log messages (`notifications/message`) go
   * only to sessions whose client has set no level (`logging/setLevel`), or one that is not above that of the message.
   *
   * Called while a request of that session is handled, it is sent on the stream of that request; otherwise on the
   * standalone stream, where a client that is not listening receives it later.
   *
   * A predicate chooses among sessions. Clients of the era without sessions that subscribed to a change
   * (`subscriptions/listen`) get `list_changed` and `resources/updated` whatever the predicate returns, without any other
   * parameters of the notification. They get no other notifications, and none that is sent to one session.
   *
   * @param to a session id, or a predicate over sessions
   * @returns to how many sessions it was sent, subscribers without a session not counted; an id that is unknown counts 0
   * @see https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
   */
  async notify(
    to: string | ((session: McpSessionInfo) => boolean),
    notification: { method: string; params?: Record<string, unknown> },
  ): Promise<number> {
    if (typeof to === 'function') this.#publish(notification);
    const records = typeof to === 'string' ? [await this.#record(to)] : await this.#records();
    const chosen = records
      .filter((record) => record !== undefined)
      .filter((record) => wantsNotification(record, notification))
      .filter((record) => typeof to === 'string' || to(this.#infoOf(record)));
    if (chosen.length === 0) return 0;
    const once = written(notification);
    return this.#broadcast(chosen, () => once);
  }

  /**
   * Notifies all subscribers of a resource that it has changed: sessions (`resources/subscribe`), and clients of the era
   * without sessions (`subscriptions/listen`), on every node.
   *
   * @param uri in any of its spellings; each client gets the one that it has used
   * @returns to how many sessions it was sent, subscribers without a session not counted
   * @see https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions
   * @see https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
   */
  async resourceUpdated(uri: string): Promise<number> {
    const form = canonicalUri(uri);
    this.runtime.nodes.changed({ uri: form });
    const spellingOf = ({ subscriptions }: McpSessionRecord): string | undefined =>
      subscriptions.find((each) => each === form || canonicalUri(each) === form);
    const subscribed = (await this.#records()).filter((record) => spellingOf(record) !== undefined);
    const bySpelling = new Map<string, OutboundMessage>();
    const notificationFor = (record: McpSessionRecord): OutboundMessage => {
      const uri = spellingOf(record)!;
      const notification =
        bySpelling.get(uri) ?? written({ method: 'notifications/resources/updated', params: { uri } });
      bySpelling.set(uri, notification);
      return notification;
    };
    return runBeyondCancelledCall(() => this.#broadcast(subscribed, notificationFor));
  }

  /**
   * Notifies all sessions and subscribers of a change, also within a cancelled call.
   *
   * @param only notifies those of these principals, `null` for anonymous ones
   * @internal
   */
  async announce(notification: { method: string }, only?: ReadonlySet<string | null>): Promise<number> {
    this.#publish(notification, only);
    const [one] = only ?? [];
    const records = await this.#records(only?.size === 1 ? { principal: one! } : undefined);
    const chosen = only ? records.filter(({ principal }) => only.has(principal ?? null)) : records;
    const once = written(notification);
    return runBeyondCancelledCall(() => this.#broadcast(chosen, () => once));
  }

  /**
   * Asks the client of a session: `sampling/createMessage`, `elicitation/create`, `roots/list`, `ping`.
   *
   * Called while a request of that session is handled, the question travels on the stream of that request; otherwise on
   * the standalone stream, which the client must have opened.
   *
   * @param options `timeout` in milliseconds, `signal`, `onprogress`; at most `serverRequestTimeoutMs` in any case
   * @returns the client's result, checked against the specification
   * @throws McpUnknownSessionError the session does not exist or has ended
   * @throws McpServerRequestError nothing was sent: no stream is open, the client lacks the capability, the request is over, or a
   *   store failed; or the client answered with an error (`CLIENT_ERROR`, its `cause`)
   * @throws ProtocolError the client did not answer in time
   */
  async request<M extends RequestMethod>(
    id: string,
    request: { method: M; params?: Record<string, unknown> },
    options: RequestOptions = {},
  ): Promise<ResultTypeMap[M]> {
    const live = await this.sessions.acquire(id).catch((error: unknown) => {
      // That is the error for HTTP.
      throw error instanceof McpError && error.cause !== undefined ? storeUnavailable(error.cause) : error;
    });
    if (!live) throw new McpUnknownSessionError(id);
    const { timeout, maxTotalTimeout, resetTimeoutOnProgress, signal, onprogress } = options;
    const result = await live.session.request(request, {
      ...(timeout !== undefined && { timeoutMs: timeout }),
      ...(maxTotalTimeout !== undefined && { maxTotalTimeoutMs: maxTotalTimeout }),
      ...(resetTimeoutOnProgress !== undefined && { resetTimeoutOnProgress }),
      ...(signal && { signal }),
      ...(onprogress && { onprogress: onprogress as unknown as (progress: object) => void }),
    });
    return checkedResult(request, result) as ResultTypeMap[M];
  }

  /** Returns the current counts, for health checks, metrics, and tests of what is left behind. */
  async counts(): Promise<McpCounts> {
    return this.#ask('', async () => {
      const { sessions: logs, streams: loggedStreams, ...sizes } = (await this.runtime.store.stats?.()) ?? UNCOUNTED;
      return { sessions: await this.store.count(), ...this.nodeCounts(), logs, loggedStreams, ...sizes };
    });
  }

  /** Returns the counts of this node, without calls to a store, which may be unavailable. */
  nodeCounts(): McpNodeCounts {
    const sum = { streams: 0, readers: 0, outbound: 0 };
    for (const { session } of this.sessions.all()) {
      const { streams, readers, outbound } = session.counts;
      sum.streams += streams;
      sum.readers += readers;
      sum.outbound += outbound;
    }
    const [live, inFlight] = [this.sessions.size, this.runtime.calls.count];
    return {
      live,
      inFlight,
      ...sum,
      subscriptions: this.runtime.nodes.listeners,
      tasks: this.diverted.count,
      heldBytes: this.runtime.held.count,
    };
  }

  /** Notifies subscribers without a session of a notification that is about a change. */
  #publish(
    notification: { method: string; params?: Record<string, unknown> },
    only?: ReadonlySet<string | null>,
  ): void {
    const change = changeOf(notification);
    if (change) this.runtime.nodes.changed(only && 'list' in change ? { ...change, only } : change);
  }

  /** Removes the live copy of a session and keeps its record: the next message rebuilds it. For tests. @internal */
  release(id: string): Promise<void> {
    return this.sessions.release(id);
  }

  async #records(filter?: { principal?: string | null }): Promise<McpSessionRecord[]> {
    const records = await this.#ask('', () => this.store.list(filter));
    return records.filter((record) => this.#isVisible(record));
  }

  async #record(id: string): Promise<McpSessionRecord | undefined> {
    const record = await this.#ask(id, () => this.store.get(id));
    return record && this.#isVisible(record) ? record : undefined;
  }

  #isVisible(record: McpSessionRecord): boolean {
    return isServed(record) && !this.sessions.isInitializing(record.id);
  }

  /** @returns the description that a live session has, or one that is made of its record */
  #infoOf(record: McpSessionRecord): McpSessionInfo {
    return this.sessions.peek(record.id)?.session.info ?? infoOf(record);
  }

  /** Runs a command of a store. @throws McpServerRequestError STORE_UNAVAILABLE */
  async #ask<T>(id: string, command: () => Promise<T>): Promise<T> {
    try {
      return await command();
    } catch (error) {
      this.runtime.storeFault(id, error);
      throw storeUnavailable(error);
    }
  }

  /** Sends to all sessions, even if sending to one of them fails. */
  async #broadcast(
    records: readonly McpSessionRecord[],
    notificationFor: (record: McpSessionRecord) => OutboundMessage,
  ): Promise<number> {
    const awaited: Promise<void>[] = [];
    for (const record of records) {
      const sent = this.#send(record.id, notificationFor(record));
      // A log in memory has it already.
      if (sent !== DONE) awaited.push(sent);
    }
    const outcomes = await Promise.allSettled(awaited);
    const failed = outcomes.filter((outcome) => outcome.status === 'rejected');
    const [failure] = failed;
    // A session that has just ended, or is just being initialized on another node, has no log.
    const gone = failure?.reason instanceof McpSessionGoneError;
    if (failure && records.length === 1 && !gone) throw failure.reason;
    return records.length - failed.length;
  }

  #send(id: string, notification: OutboundMessage): Promise<void> {
    const live: LiveSession | undefined = this.sessions.peek(id);
    if (live) return live.session.notify(notification);
    // Not live here: the client reads from the log, so an append is enough.
    const stream = new McpStream(STANDALONE_STREAM, id, this.runtime);
    const written = stream.write({ data: jsonOf(notification) });
    return written.then(
      // The session may have become live and read in the meantime.
      () => this.sessions.peek(id)?.session.streams.look(STANDALONE_STREAM),
      (error: unknown) => {
        if (error instanceof McpServerRequestError) this.runtime.storeFault(id, error.cause, STANDALONE_STREAM);
        throw error;
      },
    );
  }
}

/** The result types of the requests of a server. */
const RESULTS: Readonly<Record<string, SpecTypeName>> = {
  ping: 'EmptyResult',
  'elicitation/create': 'ElicitResult',
  'sampling/createMessage': 'CreateMessageResultWithTools',
  'roots/list': 'ListRootsResult',
  'tasks/get': 'GetTaskResult',
  'tasks/result': 'GetTaskPayloadResult',
  'tasks/list': 'ListTasksResult',
  'tasks/cancel': 'CancelTaskResult',
};

/** @throws McpServerRequestError INVALID_ANSWER */
function checkedResult({ method, params }: OutboundMessage, result: unknown): unknown {
  const type = RESULTS[method];
  if (type && isLarger(result, MAX_CHECKED_VALUES)) {
    const text = `The answer of the client to "${method}" has more than ${MAX_CHECKED_VALUES} values.`;
    throw new McpServerRequestError('INVALID_ANSWER', text);
  }
  const { problem, value } = type ? checkedBySpec(type, result) : { value: result };
  if (problem) {
    const text = `The answer of the client to "${method}" does not match the specification: "${problem.path}": ${problem.message}.`;
    throw new McpServerRequestError('INVALID_ANSWER', text);
  }
  const isSample = method === 'sampling/createMessage';
  if (!isSample || offersTools(params) || !usesTools(value as object)) return value;
  const text = `The answer of the client to "${method}" uses tools, but the question offered none.`;
  throw new McpServerRequestError('INVALID_ANSWER', text);
}

/**
 * Tells whether the client of a session gets a notification: log messages only at or above the level that it set.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging
 */
function wantsNotification({ logLevel }: McpSessionRecord, { method, params }: OutboundMessage): boolean {
  const level = method === 'notifications/message' ? params?.['level'] : undefined;
  return typeof level !== 'string' || reachesLevel(level, logLevel);
}

/** Counts what one endpoint holds on one node. @internal */
export interface McpNodeCounts {
  /** Sessions with a live copy on this node. */
  live: number;
  /** Requests of clients that are being handled. */
  inFlight: number;
  /** Requests to clients that wait for an answer. */
  outbound: number;
  /** Streams that are being written or read. */
  streams: number;
  /** Responses that are open on streams. */
  readers: number;
  /** Subscriptions of clients without a session (`subscriptions/listen`) on this node. */
  subscriptions: number;
  /** Tasks that run on this node (`nestjs-mcp-streamable/tasks`). */
  tasks: number;
  /** Bytes of the bodies above 16 KiB that are arriving, and of those whose calls or tasks run (`maxHeldBytes`). */
  heldBytes: number;
}

/** Counts what one endpoint holds on one node, and in its stores. @publicApi */
export interface McpCounts extends McpNodeCounts {
  /** Sessions that have a record in the session store. */
  sessions: number;
  /** Sessions, streams, events and bytes of the event log; 0 if it does not count them, as that in Redis. */
  logs: number;
  loggedStreams: number;
  events: number;
  bytes: number;
}

const UNCOUNTED: McpEventStoreStats = { sessions: 0, streams: 0, events: 0, bytes: 0 };
