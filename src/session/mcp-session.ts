import type { Transport, TransportSendOptions } from '@modelcontextprotocol/server';
import { AsyncSubject, type Observable } from 'rxjs';
import type { Clock } from '../base/clock.js';
import { deferred } from '../base/deferred.js';
import { within } from '../base/within.js';
import { runInCall, type McpHttpCall, type McpSessionInfo } from '../context/mcp-call.js';
import { ACCEPTED, type McpReply, type McpServing } from '../context/mcp-reply.js';
import type { McpStream } from '../stream/mcp-stream.js';
import { errorResponse, McpError } from '../wire/errors.js';
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
import { hasPrimingEvents } from '../wire/revisions.js';
import { admit } from './admission.js';
import { answerText, unrecorded } from './answer-text.js';
import { CallEndings } from './call-endings.js';
import { InFlightCalls } from './in-flight-calls.js';
import { Inbox, type FromClient } from './inbox.js';
import { withParamsError } from './malformed-params.js';
import { introduced } from './introduction.js';
import { messageExtra } from './message-extra.js';
import { agreedRevision, askingForOurs } from './negotiation.js';
import { OutgoingMessages } from './outgoing-messages.js';
import { PostExchange, type ExchangeHost } from './post-exchange.js';
import { Replays } from './replays.js';
import { SessionCall } from './session-call.js';
import type { SessionEndReason } from './session-events.js';
import { requestsOf, SessionState, statePatch } from './session-state.js';
import { SessionStreams } from './session-streams.js';
import { ServerRequestError } from './session.errors.js';
import { sessionMessages } from './session.messages.js';
import type { SessionEnvironment } from './session.options.js';
import type { InitializeParams, SessionPatch } from './session-store.js';

/** Milliseconds that an ending session waits for its last answers to be logged. */
const FLUSH_MS = 1_000;
const INTERNAL_ERROR = -32603;

/**
 * # One live session: the SDK's transport
 *
 * It stands between HTTP and an SDK server. Inward, `receive` registers the requests of a POST, then hands them to the
 * server; outward, `send` finds the stream that each message of the server belongs to.
 *
 *     new ──initialize──▶ live ──end(reason)──▶ ended
 *
 * Invariants:
 * - it holds no HTTP request, no user and no headers: they travel with each message, in a {@link SessionCall};
 * - a request id is registered before its message is dispatched, and freed when it is answered or cancelled;
 * - `end` answers every open call, cancels every handler, completes every stream, and emits on `closed$` once.
 *
 * @publicApi
 */
export class McpSession implements Transport, ExchangeHost {
  onclose?: Transport['onclose'];
  onerror?: Transport['onerror'];
  onmessage?: Transport['onmessage'];

  readonly #calls: InFlightCalls;
  readonly #streams: SessionStreams;
  readonly #outgoing: OutgoingMessages;
  readonly #endings: CallEndings;
  readonly #replays = new Replays();
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
    this.#endings = new CallEndings(this.#calls, this.#outgoing, environment, this);
    this.lastSeenAt = environment.clock.now();
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
   * @throws McpError BAD_REQUEST, CONFLICT, SESSION_NOT_FOUND (behaviour G1–G7)
   */
  async open(lastEventId?: string): Promise<McpReply> {
    if (this.#lifetime.is === 'ended') throw new McpError('SESSION_NOT_FOUND', sessionMessages.sessionOver());
    this.lastSeenAt = this.clock.now();
    return this.#streams.open(lastEventId);
  }

  /**
   * Serves a request that no client waits for, when a session is rebuilt from its record.
   *
   * @returns the answer; an error when the session ends before
   * @internal
   */
  replay(method: string, params: Record<string, unknown>): Promise<JsonRpcResponse> {
    this.#noteInitialize(method, params as InitializeParams);
    return this.#replays.serve({ method, params }, (request) => this.onmessage?.(request));
  }

  /** The client has changed another live copy: this one follows. @internal */
  follow(patch: SessionPatch): void {
    this.state.note(patch);
    for (const { method, params } of requestsOf(patch)) void this.replay(method, params);
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
    if (isRequest(message)) {
      const request = isInitializeRequest(message) ? askingForOurs(message) : message;
      const call = new SessionCall(this, this.#info, http, request, exchange);
      this.#calls.add(call);
      this.#endings.limit(call);
      this.#noteInitialize(request.method, request.params as InitializeParams | undefined);
      return () => {
        // A batch may have cancelled it before its turn came.
        if (call.state === 'open') this.#hand(call, request);
      };
    }
    return () => this.#notified(http, message);
  }

  #notified(http: McpHttpCall, message: JsonRpcNotification): void {
    const inward = this.#inward(message);
    if (inward) this.#hand(new SessionCall(this, this.#info, http, inward, undefined), inward);
  }

  /** What the server is to know of a notification. */
  #inward(message: JsonRpcNotification): JsonRpcNotification | undefined {
    const { method, params } = message;
    switch (method) {
      case 'notifications/cancelled':
        this.#endings.cancel(params?.['requestId'] as RequestId, params?.['reason']);
        return undefined;
      case 'notifications/progress':
        return this.#outgoing.progressed(message);
      default:
        return message;
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
    const inward = this.#inward(message);
    if (inward) this.onmessage?.(inward);
  }

  /** Looks for what other nodes have said. @param missed some of it may not have come through @internal */
  refresh(missed = false): void {
    this.#streams.refresh();
    if (this.environment.store.scope === 'node' || this.over) return;
    if (missed) this.inbox.look();
    else if (this.#calls.size > 0 || this.#outgoing.waiting > 0 || this.#inbox?.behind) void this.inbox.glance();
  }

  #hand(call: SessionCall, message: JsonRpcMessage): void {
    try {
      const extra = messageExtra(call, this.clientsComeBack ? this.#streams : undefined);
      runInCall(call, () => this.onmessage?.(message, extra));
    } catch (error) {
      this.environment.event({ type: 'protocol-error', sessionId: this.sessionId, error });
      const { requestId } = call;
      if (requestId === undefined) return;
      const failure = errorResponse(requestId, INTERNAL_ERROR, sessionMessages.handlerFailed()) as JsonRpcResponse;
      // A log that refuses it says so elsewhere.
      this.#answer(failure).catch(() => {});
    }
  }

  /** Takes a response into the SDK server. @internal */
  settle(response: JsonRpcResponse): void {
    this.onmessage?.(response);
  }

  // ---- from the server ------------------------------------------------------------------------------------------

  /** Called by the SDK when the server is connected. @internal */
  start(): Promise<void> {
    return Promise.resolve();
  }

  /** Called by the SDK when the revision is negotiated. @internal */
  setProtocolVersion(protocolVersion: string): void {
    this.#info = { ...this.#info, protocolVersion };
    if (this.#lifetime.is === 'new') this.#lifetime = LIVE;
  }

  /**
   * Sends a message of the server: an answer, or something that belongs to a request (by `relatedRequestId`, or because
   * it is sent while that request is handled), or else to the standalone stream.
   *
   * @returns settles when the message is in the log, or has become part of a JSON answer
   * @throws (rejects) ServerRequestError when a request could not reach the client
   */
  send(message: JsonRpcMessage, options?: TransportSendOptions): Promise<void> {
    if (isResponse(message)) return this.#answer(message);
    if (this.#lifetime.is === 'ended') {
      if (!isRequest(message)) return this.#outgoing.late(message.method, options?.relatedRequestId, 'dropped');
      return Promise.reject(new ServerRequestError('SESSION_OVER', sessionMessages.sessionOver()));
    }
    const related = this.#calls.related(options?.relatedRequestId);
    return isRequest(message) ? this.#outgoing.request(message, related) : this.#outgoing.notify(message, related);
  }

  #answer(message: JsonRpcResponse): Promise<void> {
    const id = message.id as RequestId;
    // A server with a handler of its own for `initialize` does not tell its transport.
    const revision = this.#lifetime.is === 'new' ? agreedRevision(message) : undefined;
    if (revision !== undefined) this.setProtocolVersion(revision);
    if (this.#replays.answered(message)) return Promise.resolve();
    const call = this.#calls.answeredBy(id);
    if (call?.state !== 'open') return this.#outgoing.late(undefined, id, 'dropped');
    const patch = 'result' in message ? statePatch(call) : undefined;
    if (!patch) return this.#settle(call, message);
    // The client may rely on what it was told: the record comes first. Meanwhile the call is open, and may be ended.
    const recorded = this.environment.patched(this.sessionId, patch);
    this.state.note(patch, recorded);
    const answer = recorded.then(
      () => message,
      () => unrecorded(id),
    );
    return answer.then((told) => (call.state === 'open' ? this.#settle(call, told) : undefined));
  }

  #settle(call: SessionCall, answer: JsonRpcResponse): Promise<void> {
    call.answered();
    this.#endings.release(call);
    const told = withParamsError(answer, call.message as JsonRpcRequest);
    const text = answerText(told, (error) => {
      this.environment.event({ type: 'protocol-error', sessionId: this.sessionId, error });
    });
    return call.exchange!.answer(call.requestId!, text, call.refusal);
  }

  // ---- ends -----------------------------------------------------------------------------------------------------

  /** Called by the SDK's `server.close()`: the application ends the session. */
  async close(): Promise<void> {
    if (this.#lifetime.is === 'ended') return;
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
    this.#replays.clear();
    this.#inbox?.close();
    try {
      this.onclose?.();
    } catch (error) {
      this.environment.event({ type: 'protocol-error', sessionId: this.sessionId, error });
    }
    await within(this.#streams.flushed(), FLUSH_MS, this.clock);
    this.#streams.close();
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

  #noteInitialize(method: string, params: InitializeParams | undefined): void {
    if (method === 'initialize' && params) this.#info = introduced(this.#info, params);
  }
}

type Lifetime = { is: 'new' } | { is: 'live' } | { is: 'ended'; done: Promise<void> };

const LIVE: Lifetime = { is: 'live' };
