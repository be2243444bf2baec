import { AsyncSubject, type Observable } from 'rxjs';
import type { Clock } from '../base/clock.js';
import { deferred } from '../base/deferred.js';
import { isThenable } from '../base/thenable.js';
import { within } from '../base/within.js';
import { runInCall, type McpHttpCall, type McpSessionInfo } from '../context/mcp-call.js';
import { ACCEPTED, type McpReply, type McpServing } from '../context/mcp-reply.js';
import type { OutboundMessage, OutboundOptions } from '../context/served-call.js';
import type { McpStream } from '../stream/mcp-stream.js';
import { errorResponse, McpError, rpcErrorOf } from '../wire/errors.js';
import {
  isInitializeRequest,
  isRequest,
  isResponse,
  type IncomingBody,
  type JsonRpcMessage,
  type JsonRpcNotification,
  type JsonRpcRequest,
  type JsonRpcResponse,
  type RequestId,
} from '../wire/json-rpc.js';
import { hasPrimingEvents, negotiateLegacyRevision } from '../wire/revisions.js';
import { admit } from './admission.js';
import { answerText, unrecorded } from './answer-text.js';
import { CallEndings } from './call-endings.js';
import { InFlightCalls, type Related } from './in-flight-calls.js';
import { Inbox, type FromClient } from './inbox.js';
import { introduced } from './introduction.js';
import { OutgoingMessages } from './outgoing-messages.js';
import { PostExchange, type ExchangeHost } from './post-exchange.js';
import { type CallOwner, SessionCall } from './session-call.js';
import type { SessionEndReason } from './session-events.js';
import { SessionState, statePatch } from './session-state.js';
import { SessionStreams } from './session-streams.js';
import { ServerRequestError } from '../context/server-request.error.js';
import { sessionMessages } from './session.messages.js';
import type { SessionEnvironment } from './session.options.js';
import type { InitializeParams, McpSessionRecord, SessionPatch } from './session-store.js';

/** Milliseconds that an ending session waits for its last answers to be logged. */
const FLUSH_MS = 1_000;
const INTERNAL_ERROR = -32603;

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
 * - it holds no HTTP request, no user and no headers: they travel with each message, in a {@link SessionCall};
 * - a request id is registered before its message is dispatched, and freed when it is answered or cancelled;
 * - `end` answers every open call, cancels every handler, completes every stream, and emits on `closed$` once.
 *
 * @publicApi
 */
export class McpSession implements CallOwner, ExchangeHost {
  readonly #calls: InFlightCalls;
  readonly #streams: SessionStreams;
  readonly #outgoing: OutgoingMessages;
  readonly #endings: CallEndings;
  /** Made when somebody listens, or it ends: most sessions are only sessions, thousands of them. */
  #closed$: AsyncSubject<SessionEndReason> | undefined;
  #inbox: Inbox | undefined;
  #info: McpSessionInfo;
  #lifetime: Lifetime = { is: 'new' };

  /** What the client has set. @internal */
  readonly state = new SessionState();

  /** Milliseconds since the epoch of the last message from the client. */
  lastSeenAt: number;

  constructor(
    identity: { id: string; principal?: string | undefined },
    private readonly environment: SessionEnvironment,
  ) {
    const { id, principal } = identity;
    this.#info = introduced({ id, principal, protocolVersion: '' });
    this.#calls = new InFlightCalls(this, environment.running);
    this.#streams = new SessionStreams(id, environment, this);
    this.#outgoing = new OutgoingMessages(environment, this.#streams, this);
    this.#endings = new CallEndings(this.#calls, this.#outgoing, environment);
    this.lastSeenAt = environment.clock.now();
  }

  /** The live copy of a session that has a record. @internal */
  static rebuilt(record: McpSessionRecord, environment: SessionEnvironment): McpSession {
    const { protocolVersion, initialize, logLevel, subscriptions } = record;
    const session = new McpSession(record, environment);
    session.#info = introduced({ ...session.#info, protocolVersion }, initialize);
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
  get clock(): Clock {
    return this.environment.clock;
  }
  /** Emits the reason when the session has ended, also to whoever subscribes afterwards; then completes. */
  get closed$(): Observable<SessionEndReason> {
    return (this.#closed$ ??= new AsyncSubject());
  }
  /** @internal */
  get inbox(): Inbox {
    return (this.#inbox ??= new Inbox(this.sessionId, this.environment, this.#calls, (m) => this.#receiveFromPeer(m)));
  }
  /** `initialize` was answered with success. @internal */
  get initialized(): boolean {
    return this.#lifetime.is === 'live';
  }
  /** Nothing can be sent or received any more. */
  get over(): boolean {
    return this.#lifetime.is === 'ended';
  }
  /** A handler runs, or a response is open: the session is not idle. */
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
  /** @internal */
  get clientsComeBack(): boolean {
    return this.primes;
  }

  // ---- from the client ------------------------------------------------------------------------------------------

  /**
   * Takes the messages of one POST.
   *
   * @returns how to answer it
   * @throws McpError INVALID_REQUEST: a batch that the revision does not know (E9), a second `initialize` (S4), an id that
   *   is in flight (S11); SESSION_NOT_FOUND: the session has ended. Nothing is dispatched then.
   */
  receive(http: McpHttpCall, body: IncomingBody): McpServing {
    const requests = this.#admit(body);
    this.lastSeenAt = this.clock.now();
    const exchange = requests.length > 0 ? this.#exchange(requests, body) : undefined;
    const dispatches = body.messages.map((message) => this.#register(http, message, exchange));
    for (const dispatch of dispatches) dispatch();
    return exchange ?? ACCEPTED;
  }

  /**
   * Answers a GET: the standalone stream, or the one that the cursor names, from where the client stopped.
   *
   * @throws McpError BAD_REQUEST, SESSION_NOT_FOUND (behaviour G1–G7)
   */
  async open(lastEventId?: string): Promise<McpReply> {
    if (this.#lifetime.is === 'ended') throw new McpError('SESSION_NOT_FOUND', sessionMessages.sessionOver());
    this.lastSeenAt = this.clock.now();
    return this.#streams.open(lastEventId);
  }

  /** The client has changed another live copy: this one follows. @internal */
  follow(patch: SessionPatch): void {
    this.state.note(patch);
    this.environment.dispatcher.sessionChanged?.(this, patch);
  }

  #admit(body: IncomingBody): JsonRpcRequest[] {
    if (this.#lifetime.is === 'ended') throw new McpError('SESSION_NOT_FOUND', sessionMessages.sessionOver());
    return admit(body, this.#info, this.#lifetime.is === 'live', this.#calls, this.state.subscriptions);
  }

  #exchange(requests: readonly JsonRpcRequest[], { batch }: IncomingBody): PostExchange {
    const { responseMode, sseAfterMs } = this.environment;
    // The session id must reach the client with the answer: `initialize` is answered as JSON, always (S1).
    const mode = isInitializeRequest(requests[0]!) ? 'json' : responseMode;
    const ids = requests.map(({ id }) => id);
    return new PostExchange(this, ids, { mode, sseAfterMs, batch });
  }

  /** Makes a message known. @returns what hands it over */
  #register(http: McpHttpCall, message: JsonRpcMessage, exchange: PostExchange | undefined): () => void {
    if (isResponse(message)) return () => this.#outgoing.answered(message);
    if (!isRequest(message)) return () => this.#notified(http, message);
    if (message.method === 'initialize') {
      const params = (message.params ?? {}) as Partial<InitializeParams>;
      const protocolVersion = negotiateLegacyRevision(params.protocolVersion);
      this.#info = introduced({ ...this.#info, protocolVersion }, params);
    }
    const call = new SessionCall(this, this.#info, http, message, exchange);
    this.#calls.add(call);
    this.#endings.limit(call);
    return () => {
      // A batch may have cancelled it before its turn came.
      if (call.state === 'open') this.#dispatch(call);
    };
  }

  #notified(http: McpHttpCall, message: JsonRpcNotification): void {
    const { method, params } = message;
    try {
      switch (method) {
        case 'notifications/cancelled':
          return void this.#endings.cancel(params?.['requestId'] as RequestId, params?.['reason']);
        case 'notifications/progress':
          return this.#outgoing.progressed(message);
        case 'notifications/roots/list_changed':
          this.environment.event({ type: 'roots-changed', sessionId: this.sessionId });
      }
      const call = new SessionCall(this, this.#info, http, message, undefined);
      runInCall(call, () => this.environment.dispatcher.notification(call));
    } catch (error) {
      // Of what the application has listen, too: that is not the client's fault.
      this.report(error);
    }
  }

  #dispatch(call: SessionCall): void {
    try {
      const outcome = runInCall(call, () => this.environment.dispatcher.request(call));
      if (!isThenable(outcome)) return this.#succeeded(call, outcome);
      outcome.then(
        (result) => this.#succeeded(call, result),
        (error: unknown) => this.#failed(call, error),
      );
    } catch (error) {
      this.#failed(call, error);
    }
  }

  /**
   * Before messages are received here, what concerns other nodes is handed on, so that nothing is dropped behind a 202; and
   * what the client has told others before is taken first.
   *
   * @throws McpError (rejects) as `receive` does, and UNAVAILABLE while the log is away
   * @internal
   */
  async handOn(body: IncomingBody): Promise<void> {
    if (this.inbox.concerns(body.messages)) {
      this.#admit(body);
      await this.inbox.put(body.messages);
    } else if (this.#outgoing.waiting > 0 && !body.messages.every(isRequest)) await this.inbox.glance();
  }

  /** Takes what the client has sent to another node. */
  #receiveFromPeer(message: FromClient): void {
    if (this.#lifetime.is !== 'live') return;
    if (isResponse(message)) return this.#outgoing.answered(message);
    const { principal } = this.#info;
    this.#notified({ era: 'legacy', principal, request: undefined }, message);
  }

  /** Looks for what other nodes have said. @param missed some of it may not have come through @internal */
  refresh(missed = false): void {
    this.#streams.refresh();
    if (this.environment.store.scope === 'node' || this.over) return;
    if (missed) this.inbox.look();
    else if (this.#calls.size > 0 || this.#outgoing.waiting > 0 || this.#inbox?.behind) void this.inbox.glance();
  }

  // ---- from the server ------------------------------------------------------------------------------------------

  /**
   * Sends a notification: on the stream of the call that it belongs to, or on the standalone stream.
   *
   * @param of the call, or the id of its request; otherwise the call in which this is called, if it is one of this session
   * @returns settles when the message is in the log
   */
  notify(notification: OutboundMessage, of?: SessionCall | RequestId): Promise<void> {
    const related = this.#related(of);
    if (this.over) {
      const requestId = related.is === 'open' ? related.call.requestId : undefined;
      return this.#outgoing.late(notification.method, requestId, 'dropped');
    }
    return this.#outgoing.notify({ jsonrpc: '2.0', ...notification }, related);
  }

  /**
   * Sends a request to the client.
   *
   * @param of as for `notify`
   * @returns the client's result, as it came
   * @throws (rejects) ServerRequestError when it could not reach the client; ProtocolError when the client answered with an
   *   error, or not in time
   */
  request(question: OutboundMessage, options: OutboundOptions = {}, of?: SessionCall | RequestId): Promise<unknown> {
    if (this.over) return Promise.reject(new ServerRequestError('SESSION_OVER', sessionMessages.sessionOver()));
    return this.#outgoing.request(question, options, this.#related(of));
  }

  #related(of: SessionCall | RequestId | undefined): Related {
    return of instanceof SessionCall ? this.#calls.relatedTo(of) : this.#calls.related(of);
  }

  /** Ends the responses that read the standalone stream: their clients come back. @internal */
  closeStandaloneStream(): void {
    if (this.clientsComeBack) this.#streams.disconnectStandalone();
  }

  #succeeded(call: SessionCall, result: object): void {
    if (call.state !== 'open') return;
    const patch = statePatch(call);
    if (patch) return this.#recorded(call, result, patch);
    if (call.method === 'initialize' && this.#lifetime.is === 'new') {
      const { protocolVersion } = result as { protocolVersion?: unknown };
      this.#info = { ...this.#info, protocolVersion: String(protocolVersion) };
      this.#lifetime = LIVE;
    }
    this.#answer(call, { jsonrpc: '2.0', id: call.requestId!, result: result as Record<string, unknown> });
  }

  /** The client may rely on what it was told: the record comes first. Meanwhile the call is open, and may be ended. */
  #recorded(call: SessionCall, result: object, patch: SessionPatch): void {
    const id = call.requestId!;
    const recorded = this.environment.patched(this.sessionId, patch);
    this.state.note(patch, recorded);
    const answer = (response: JsonRpcResponse): void => {
      if (call.state === 'open') this.#answer(call, response);
    };
    recorded.then(
      () => answer({ jsonrpc: '2.0', id, result: result as Record<string, unknown> }),
      () => answer(unrecorded(id)),
    );
  }

  #failed(call: SessionCall, error: unknown): void {
    if (call.state !== 'open') return;
    const told = rpcErrorOf(error);
    // Its text may say what the client is not to know.
    if (!told) this.report(error);
    const { code, message, data } = told ?? { code: INTERNAL_ERROR, message: sessionMessages.handlerFailed() };
    this.#answer(call, errorResponse(call.requestId!, code, message, data) as JsonRpcResponse);
  }

  #answer(call: SessionCall, answer: JsonRpcResponse): void {
    call.answered();
    this.#endings.release(call);
    const text = answerText(answer, (error) => this.report(error));
    // A log that refuses it says so elsewhere.
    call.exchange!.answer(call.requestId!, text, call.refusal).catch(() => {});
  }

  /** An answer came that no client waits for: a second one, or one of a request that was cancelled (P8). @internal */
  lateAnswer(requestId: RequestId): void {
    void this.#outgoing.late(undefined, requestId, 'dropped');
  }

  /** Tells of what failed and no answer tells of. @internal */
  report(error: unknown): void {
    this.environment.event({ type: 'protocol-error', sessionId: this.sessionId, error });
  }

  // ---- ends -----------------------------------------------------------------------------------------------------

  /** Ends the session as `McpSessionService.terminate()` does, for servers of the application that are closed. @internal */
  async close(): Promise<void> {
    if (this.over) return;
    const ended = this.end('terminated');
    this.environment.ended(this.sessionId, 'terminated');
    await ended;
  }

  /**
   * Ends the session: every open call is answered with an error, its handler cancelled, every response ends.
   *
   * @param told the text of that error
   * @returns settles when everything is released; bounded, also when the event store is not
   */
  end(reason: SessionEndReason, told = sessionMessages.ended(reason)): Promise<void> {
    if (this.#lifetime.is === 'ended') return this.#lifetime.done;
    const done = deferred();
    // First, since handlers that are aborted may end the session too.
    this.#lifetime = { is: 'ended', done: done.promise };
    this.#finish(reason, told).then(done.resolve, done.reject);
    return done.promise;
  }

  async #finish(reason: SessionEndReason, told: string): Promise<void> {
    this.#endings.failAll(told);
    this.#outgoing.clear();
    this.#inbox?.close();
    try {
      this.environment.dispatcher.sessionEnded(this);
    } catch (error) {
      this.report(error);
    }
    await within(this.#streams.flushed(), FLUSH_MS, this.clock);
    this.#streams.close();
    await within(this.#streams.told(), FLUSH_MS, this.clock);
    const closed$ = (this.#closed$ ??= new AsyncSubject());
    closed$.next(reason);
    closed$.complete();
  }

  /** Its streams, for what the log and other nodes have to say of them. @internal */
  get streams(): SessionStreams {
    return this.#streams;
  }

  /** The log refused a stream: its requests can no longer be answered. @internal */
  streamFailed(stream: McpStream, error: unknown): void {
    for (const call of this.#calls.all()) {
      if (call.exchange?.stream === stream) this.#endings.dismiss(call, error as Error);
    }
  }
}

type Lifetime = { is: 'new' } | { is: 'live' } | { is: 'ended'; done: Promise<void> };

const LIVE: Lifetime = { is: 'live' };
