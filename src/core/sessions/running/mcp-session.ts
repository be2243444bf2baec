import { AsyncSubject, type Observable } from 'rxjs';
import type { McpClock } from '../../common/clock.js';
import { deferred, within } from '../../common/promises.js';
import {
  type CallingClient,
  type ClientIdentity,
  McpCall,
  type McpHttpCall,
  type McpSessionInfo,
  type OutboundMessage,
  type OutboundOptions,
  runInCall,
} from '../../calls/mcp-call.js';
import { ACCEPTED, type McpReply, type PendingReply } from '../../calls/reply.js';
import { McpServerRequestError } from '../../calls/server-request.error.js';
import { Exchange, type McpResponseMode } from '../../calls/exchange.js';
import type { McpStream } from '../../log/mcp-stream.js';
import { McpError, REQUEST_FAILED } from '../../protocol/errors.js';
import {
  type IncomingBody,
  isRequest,
  isResponse,
  type JsonRpcMessage,
  type JsonRpcNotification,
  type JsonRpcRequest,
  type RequestId,
} from '../../protocol/json-rpc.js';
import { reachesLevel } from '../../protocol/log-levels.js';
import { hasPrimingEvents, negotiated } from '../../protocol/revisions.js';
import { admit } from './admission.js';
import { RelatedCalls } from '../streams/related-calls.js';
import type { FromClient, SessionInbox } from '../other-nodes.js';
import { OutgoingMessages } from '../streams/outgoing-messages.js';
import type { McpSessionEndReason } from '../session-events.js';
import { SessionInfo, SessionState, STATE_PATCHES } from './session-state.js';
import type { McpSessionRecord, McpSessionPatch } from '../store/session-store.js';
import { LoggedSink, SessionStreams, type StreamDetails } from '../streams/session-streams.js';
import { endedText, SESSION_OVER } from '../session.errors.js';
import type { SessionRuntime } from '../session-runtime.js';

/** An ending session waits this many milliseconds for its last answers to be logged. */
const FLUSH_MS = 1_000;

/**
 * # One live session
 *
 * It stands between HTTP and a dispatcher. Inward, `receive` registers the requests of a POST, then hands them to the
 * dispatcher; outward, each message finds the stream that it belongs to.
 *
 *     new ──initialize──▶ live ──end(reason)──▶ ended
 *      └──rebuilt from its record──▶ live
 *
 * Invariants:
 * - it holds no HTTP request, no user and no headers: they travel with each message, in a {@link McpCall};
 * - a request id is registered before its message is dispatched, and freed when it is answered or cancelled;
 * - `end` answers every open call, cancels every handler, completes every stream, and emits on `closed$` once.
 *
 * @publicApi
 */
export class McpSession implements CallingClient {
  readonly #related: RelatedCalls;
  readonly #streams: SessionStreams;
  readonly #outgoing: OutgoingMessages;
  /** Is created by the first subscriber, or at the end, to save memory in thousands of sessions. */
  #closed$: AsyncSubject<McpSessionEndReason> | undefined;
  #inbox: SessionInbox | undefined;
  #info: SessionInfo;
  #lifetime: Lifetime = { is: 'new' };

  /** Log level and subscriptions of the client. @internal */
  readonly state = new SessionState();

  /** The time of its creation in milliseconds since the epoch; for a rebuilt session, by the clock of the store. */
  readonly createdAt: number;
  /** The time of the last message from the client, in milliseconds since the epoch. */
  lastSeenAt: number;

  constructor(
    identity: {
      id: string;
      principal?: string | undefined;
      routeParams?: McpSessionInfo['routeParams'];
      protocolVersion?: string;
      /** The parameters of `initialize`, as JSON. */
      initialize?: string;
      createdAt?: number;
    },
    private readonly runtime: SessionRuntime,
  ) {
    const { id, principal, routeParams, protocolVersion = '', initialize = '{}' } = identity;
    this.#info = new SessionInfo({ id, principal, routeParams, protocolVersion }, initialize);
    this.#related = new RelatedCalls(this, runtime.calls);
    this.#streams = new SessionStreams(id, runtime, this);
    this.#outgoing = new OutgoingMessages(runtime, this.#streams, this);
    this.lastSeenAt = runtime.clock.now();
    this.createdAt = identity.createdAt ?? this.lastSeenAt;
  }

  /** Makes the live copy of a session that has a record. @internal */
  static rebuilt(record: McpSessionRecord, runtime: SessionRuntime): McpSession {
    const { logLevel, subscriptions } = record;
    const session = new McpSession(record, runtime);
    session.#lifetime = LIVE;
    session.state.note({ ...(logLevel !== undefined && { logLevel }), subscribe: subscriptions });
    return session;
  }

  get sessionId(): string {
    return this.#info.id;
  }
  get info(): McpSessionInfo {
    return this.#info;
  }
  get clock(): McpClock {
    return this.runtime.clock;
  }

  /** The format of its responses to a POST. @internal */
  get responseMode(): McpResponseMode {
    return this.runtime.options.responseMode;
  }
  /** Emits the reason when the session has ended, also to later subscribers; then completes. */
  get closed$(): Observable<McpSessionEndReason> {
    return (this.#closed$ ??= new AsyncSubject());
  }
  /** @internal */
  get inbox(): SessionInbox {
    return (this.#inbox ??= this.runtime.nodes.inboxOf(
      {
        sessionId: this.sessionId,
        isRunning: (id) => this.#calls.has(id as RequestId),
        take: (message) => this.#receiveFromNode(message),
      },
      this.runtime,
    ));
  }
  /** Describes its streams for operators. @throws (rejects) a fault of the log @internal */
  streamDetails(): Promise<StreamDetails[]> {
    return this.#streams.details();
  }
  /** Tells whether `initialize` was answered with success. @internal */
  get initialized(): boolean {
    return this.#lifetime.is === 'live';
  }
  /** Tells whether the session has ended: it neither sends nor receives messages. */
  get over(): boolean {
    return this.#lifetime.is === 'ended';
  }
  /** Tells whether the session is not idle: a handler runs, or a response is open. */
  get busy(): boolean {
    return this.#calls.size > 0 || this.#streams.readers > 0;
  }
  get counts(): { inFlight: number; streams: number; readers: number; outbound: number } {
    const { size: streams, readers } = this.#streams;
    return { inFlight: this.#calls.size, streams, readers, outbound: this.#outgoing.waiting };
  }
  /** @internal */
  get primes(): boolean {
    return hasPrimingEvents(this.#info.protocolVersion);
  }

  /** The calls of the session that run, by the id of their request. */
  get #calls(): ReadonlyMap<RequestId, McpCall> {
    return this.runtime.calls.of(this);
  }

  // ---- from the client ------------------------------------------------------------------------------------------

  /**
   * Takes the messages of one POST: registers all of its requests, then dispatches them.
   *
   * @returns how to answer it
   * @throws McpError INVALID_REQUEST: a batch that the revision does not know (E9), a second `initialize` (S4), an id that
   *   is in flight (S11); SESSION_NOT_FOUND: the session has ended. Nothing is dispatched then.
   */
  receive(http: McpHttpCall, body: IncomingBody): PendingReply {
    const requests = this.#admit(body);
    this.lastSeenAt = this.runtime.clock.now();
    if (requests.length === 0) {
      for (const message of body.messages) this.#take(http, message);
      return ACCEPTED;
    }
    const [first] = requests as [JsonRpcRequest];
    if (first.method === 'initialize') requests[0] = this.#introduce(first);
    const running = this.runtime.calls;
    const exchange: Exchange = this.#exchange(requests, body.batch, () =>
      calls.forEach((call) => running.cancelWaiting(call)),
    );
    const calls = requests.map((request) => new McpCall(http, request, this, exchange));
    running.addAll(calls);
    // The client may use the ids of cancelled requests again.
    for (const { id } of requests) this.#related.cancelled?.delete(id);
    if (!body.batch) running.dispatch(calls[0]!);
    else {
      let next = 0;
      for (const message of body.messages) {
        if (isRequest(message)) running.dispatch(calls[next++]!);
        else this.#take(http, message);
      }
    }
    exchange.streamLater();
    return exchange;
  }

  /**
   * Answers a GET: the standalone stream, or the one that the cursor names, from where the client stopped.
   *
   * @throws McpError BAD_REQUEST, SESSION_NOT_FOUND (G1–G7)
   */
  async open(lastEventId?: string): Promise<McpReply> {
    if (this.#lifetime.is === 'ended') throw new McpError('SESSION_NOT_FOUND', SESSION_OVER);
    this.lastSeenAt = this.runtime.clock.now();
    return this.#streams.open(lastEventId);
  }

  /** Applies a change that the client made on another live copy. @internal */
  follow(patch: McpSessionPatch): void {
    this.state.note(patch);
    this.runtime.dispatcher.sessionChanged?.(this, patch);
  }

  #admit(body: IncomingBody): JsonRpcRequest[] {
    if (this.#lifetime.is === 'ended') throw new McpError('SESSION_NOT_FOUND', SESSION_OVER);
    return admit(body, this.#info, this.#lifetime.is === 'live', this.runtime.calls.of(this), this.state);
  }

  #exchange(requests: readonly JsonRpcRequest[], batch: boolean, clientGone: () => void): Exchange {
    const { clock, options } = this.runtime;
    const { responseMode, sseAfterMs } = options;
    // The session id must reach the client with the answer: `initialize` is answered as JSON, always (S1).
    const mode = requests[0]!.method === 'initialize' ? 'json' : responseMode;
    const ids = requests.length === 1 ? [requests[0]!.id] : requests.map(({ id }) => id);
    const sink = (open: readonly RequestId[]): LoggedSink => this.#streams.begin(open);
    const clientsComeBack = (): boolean => this.primes;
    const exchange = new Exchange(ids, { clock, mode, sseAfterMs, batch, clientsComeBack, sink, clientGone });
    if (mode === 'sse') exchange.stream();
    return exchange;
  }

  /** Notes how the client introduces itself. @returns the request with the negotiated revision */
  #introduce(initialize: JsonRpcRequest): JsonRpcRequest {
    const request = negotiated(initialize);
    const { params = {} } = request;
    this.#info = this.#info.with(String(params['protocolVersion']), JSON.stringify(params));
    return request;
  }

  /** Takes a message that is no request. */
  #take(http: McpHttpCall, message: JsonRpcMessage): void {
    if (isResponse(message)) this.#outgoing.answered(message);
    else this.#notified(http, message);
  }

  #notified(http: McpHttpCall, message: JsonRpcNotification): void {
    const { method, params } = message;
    try {
      switch (method) {
        case 'notifications/cancelled':
          return this.#cancel(params?.['requestId'] as RequestId, params?.['reason']);
        case 'notifications/progress':
          return this.#outgoing.progressed(message);
        case 'notifications/roots/list_changed':
          this.runtime.event({ type: 'roots-changed', sessionId: this.sessionId });
      }
      // All but cancellations and progress, which are only of the transport: an SDK server keeps its own state.
      const { dispatcher } = this.runtime;
      if (!dispatcher.notification) return;
      const call = new McpCall(http, message, this);
      runInCall(call, () => dispatcher.notification!(call));
    } catch (error) {
      // Listeners of the app may throw, too; the client gets no error for that.
      this.report(error);
    }
  }

  /** Cancels a request for the client. `initialize` cannot be cancelled. */
  #cancel(id: RequestId, reason: unknown): void {
    const call = this.#calls.get(id);
    if (!call || call.method === 'initialize') return;
    this.runtime.calls.cancel(call, typeof reason === 'string' ? reason : undefined);
  }

  /**
   * Forwards the messages for other nodes before the others are received here, so that no message is lost after a 202;
   * first takes messages that the client sent to other nodes before.
   *
   * @returns `undefined` when there is nothing to do
   * @throws McpError as `receive` does, and (rejects) UNAVAILABLE while the log is unavailable
   * @internal
   */
  handOn(body: IncomingBody): Promise<void> | undefined {
    if (this.inbox.concerns(body.messages)) {
      this.#admit(body);
      return this.inbox.put(body.messages);
    }
    if (this.#outgoing.waiting === 0 || body.messages.every(isRequest)) return undefined;
    return this.inbox.lookOnce();
  }

  /** Takes a message that the client has sent to another node. */
  #receiveFromNode(message: FromClient): void {
    if (this.#lifetime.is !== 'live') return;
    if (isResponse(message)) return this.#outgoing.answered(message);
    const { principal, routeParams } = this.#info;
    this.#notified({ era: 'legacy', principal, routeParams, request: undefined }, message);
  }

  /** Looks for messages from other nodes, and events. @param missed hints may have been lost @internal */
  refresh(missed = false): void {
    this.#streams.refresh();
    if (this.over) return;
    this.#inbox?.confirm(missed);
    if (missed) {
      this.#streams.reopen();
      this.inbox.look();
    } else if (this.#calls.size > 0 || this.#outgoing.waiting > 0) void this.inbox.lookOnce();
  }

  // ---- from the server ------------------------------------------------------------------------------------------

  /**
   * Sends a notification: on the stream of the call that it belongs to, or on the standalone stream.
   *
   * @param of the call, or the id of its request; otherwise the call in which this is called, if it is one of this session
   * @returns settles when the message is in the log
   */
  notify(notification: OutboundMessage, of?: McpCall | RequestId): Promise<void> {
    const related = this.#related.related(of);
    if (this.over) {
      const requestId = related.is === 'open' ? related.call.requestId : undefined;
      return this.#outgoing.late(notification.method, requestId, 'dropped');
    }
    return this.#outgoing.notify(notification, related);
  }

  /**
   * Sends a request to the client.
   *
   * @param of as for `notify`
   * @returns the client's result, as it came
   * @throws (rejects) McpServerRequestError when it could not reach the client, or the client answered with an error;
   *   ProtocolError when the client did not answer in time
   */
  request(question: OutboundMessage, options: OutboundOptions = {}, of?: McpCall | RequestId): Promise<unknown> {
    if (this.over) return Promise.reject(new McpServerRequestError('SESSION_OVER', SESSION_OVER));
    return this.#outgoing.request(question, options, this.#related.related(of));
  }

  /** Ends the responses that read the standalone stream; their clients reconnect. @internal */
  closeStandaloneStream(): void {
    if (this.primes) this.#streams.disconnectStandalone();
  }

  /** @internal */
  identity(): ClientIdentity {
    return this.#info;
  }

  /** @internal */
  wantsLog(level: string): boolean {
    return reachesLevel(level, this.state.logLevel);
  }

  /** Records the change before the answer is sent, because the client relies on an answered change. @internal */
  succeeded(call: McpCall, result: object): Promise<void> | undefined {
    if (call.method === 'initialize' && this.#lifetime.is === 'new') {
      const { protocolVersion } = result as { protocolVersion?: unknown };
      this.#info = this.#info.with(String(protocolVersion));
      this.#lifetime = LIVE;
      return undefined;
    }
    const patchOf = STATE_PATCHES.get(call.method);
    if (!patchOf) return undefined;
    const patch = patchOf(call.received.params ?? {}, this.state);
    const recorded = this.runtime.patched(this.sessionId, patch);
    this.state.note(patch, recorded);
    return recorded.catch(() => {
      // A change that was not recorded must not be answered with success.
      const text = 'The storage of this server is unavailable, so the change could not be stored. Try again later.';
      throw new McpError('INTERNAL_ERROR', text);
    });
  }

  /** @internal */
  ended(call: McpCall): void {
    if (!call.aborted) return;
    this.#related.aborted(call);
    this.#outgoing.failOf(call);
  }

  /** Reports that a handler answered a request twice, or a cancelled one (P8). @internal */
  lateAnswer(requestId: RequestId): void {
    void this.#outgoing.late(undefined, requestId, 'dropped');
  }

  /** Reports a failure that no answer shows. @internal */
  report(error: unknown): void {
    this.runtime.event({ type: 'protocol-error', sessionId: this.sessionId, error });
  }

  // ---- ends -----------------------------------------------------------------------------------------------------

  /** Ends the session as `McpSessionService.terminate()` does, for servers of the application that are closed. @internal */
  async close(): Promise<void> {
    if (this.over) return;
    const ended = this.end('terminated');
    this.runtime.ended(this.sessionId, 'terminated');
    await ended;
  }

  /**
   * Ends the session: every open call is answered with an error, its handler cancelled, every response ends.
   *
   * @param text the text of that error
   * @returns settles when everything is released; bounded, also when the event store is not
   */
  end(reason: McpSessionEndReason, text = endedText(reason)): Promise<void> {
    if (this.#lifetime.is === 'ended') return this.#lifetime.done;
    const done = deferred();
    // First, since handlers that are aborted may end the session too.
    this.#lifetime = { is: 'ended', done: done.promise };
    this.#end(reason, text).then(done.resolve, done.reject);
    return done.promise;
  }

  async #end(reason: McpSessionEndReason, text: string): Promise<void> {
    for (const call of this.#calls.values()) this.runtime.calls.fail(call, REQUEST_FAILED, text);
    this.#outgoing.failAll();
    this.#inbox?.end();
    try {
      this.runtime.dispatcher.sessionEnded?.(this);
    } catch (error) {
      this.report(error);
    }
    const flushed = this.#streams.flushed();
    if (flushed) await within(flushed, FLUSH_MS, this.runtime.clock);
    this.#streams.end();
    const bookkept = this.#streams.bookkept();
    if (bookkept) await within(bookkept, FLUSH_MS, this.runtime.clock);
    const closed$ = (this.#closed$ ??= new AsyncSubject());
    closed$.next(reason);
    closed$.complete();
  }

  /** Gives the streams to the listener for messages of other nodes. @internal */
  get streams(): SessionStreams {
    return this.#streams;
  }

  /** Cancels the calls of a stream that the log has refused: they can no longer be answered. @internal */
  streamFailed(stream: McpStream, error: unknown): void {
    for (const call of this.#callsOn(stream)) this.runtime.calls.cancel(call, error);
  }

  /** Fails the questions of a stream whose messages the log has lost: the client may not have got them. @internal */
  streamLost(stream: McpStream): void {
    for (const call of this.#callsOn(stream)) this.#outgoing.lostOf(call);
  }

  #callsOn(stream: McpStream): McpCall[] {
    return [...this.#calls.values()].filter((call) => {
      const { sink } = call.exchange as Exchange;
      return sink instanceof LoggedSink && sink.stream === stream;
    });
  }
}

type Lifetime = { is: 'new' } | { is: 'live' } | { is: 'ended'; done: Promise<void> };

const LIVE: Lifetime = { is: 'live' };
