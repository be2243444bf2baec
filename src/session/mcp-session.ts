import type { AuthInfo, MessageExtraInfo, Transport, TransportSendOptions } from '@modelcontextprotocol/server';
import { AsyncSubject, type Observable } from 'rxjs';
import type { Clock } from '../base/clock.js';
import { deferred } from '../base/deferred.js';
import { within } from '../base/within.js';
import { runInCall, type McpHttpCall, type McpSessionInfo } from '../call/mcp-call.js';
import { ACCEPTED, type McpReply, type McpServing } from '../call/mcp-reply.js';
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
import { concernsPeers } from './cluster-messages.js';
import { InFlightCalls } from './in-flight-calls.js';
import { withParamsError } from './malformed-params.js';
import { agreedRevision, askingForOurs } from './negotiation.js';
import { OutgoingMessages } from './outgoing-messages.js';
import { PostExchange, type ExchangeHost, type FrameSource } from './post-exchange.js';
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

  readonly #calls = new InFlightCalls(this);
  readonly #streams: SessionStreams;
  readonly #outgoing: OutgoingMessages;
  readonly #endings: CallEndings;
  readonly #replays = new Replays();
  readonly #closed$ = new AsyncSubject<SessionEndReason>();
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
    this.#info = { id, principal, protocolVersion: '', clientInfo: UNKNOWN_CLIENT, clientCapabilities: {} };
    this.#streams = new SessionStreams(id, environment, this);
    this.#outgoing = new OutgoingMessages(environment, this.#streams, this);
    const tellServer = (message: JsonRpcMessage): void => this.onmessage?.(message);
    this.#endings = new CallEndings(this.#calls, this.#outgoing, environment, tellServer);
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
    return this.#closed$;
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
    if (this.#lifetime.is === 'ended') throw new McpError('SESSION_NOT_FOUND', sessionMessages.sessionOver());
    const requests = admit(body, this.#info, this.#lifetime.is === 'live', this.#calls, this.state.subscriptions);
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

  #exchange(requests: readonly JsonRpcRequest[], { batch }: IncomingBody): PostExchange {
    const { responseMode, sseAfterMs } = this.environment;
    // The session id must reach the client with the answer: `initialize` is answered as JSON, always (S1).
    const mode = isInitializeRequest(requests[0]!) ? 'json' : responseMode;
    const ids = requests.map(({ id }) => id);
    return new PostExchange(this, ids, { mode, sseAfterMs, batch });
  }

  /** Makes a message known. @returns what hands it over */
  #register(http: McpHttpCall, message: JsonRpcMessage, exchange: PostExchange | undefined): () => void {
    if (isResponse(message)) return () => this.#outgoing.answered(message, 'client');
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
    const call = new SessionCall(this, this.#info, http, message, undefined);
    switch (message.method) {
      case 'notifications/cancelled':
        if (!this.#cancel(message)) this.#handOn(message);
        return undefined;
      case 'notifications/progress': {
        const inward = this.#outgoing.progressed(message, 'client');
        return inward && this.#hand(call, inward);
      }
      case 'notifications/roots/list_changed':
        this.#handOn(message);
        return this.#hand(call, message);
      default:
        return this.#hand(call, message);
    }
  }

  #cancel({ params }: JsonRpcNotification): boolean {
    return this.#endings.cancel(params?.['requestId'] as RequestId, params?.['reason']);
  }

  /** The other live copies, if there may be any, are to know it too. */
  #handOn(message: JsonRpcNotification): void {
    const { store, peers } = this.environment;
    if (store.scope === 'shared') peers.forwardToAll(this.sessionId, message);
  }

  /** Whether other nodes have to hear of a message. @internal */
  concernsPeers(message: JsonRpcMessage): boolean {
    return concernsPeers(message, this.environment.nodeId, this.#calls);
  }

  /** Takes what the client has sent to another node. @internal */
  receiveFromPeer(message: JsonRpcResponse | JsonRpcNotification): void {
    if (this.#lifetime.is !== 'live') return;
    if (isResponse(message)) return this.#outgoing.answered(message, 'peer');
    if (message.method === 'notifications/cancelled') return void this.#cancel(message);
    const progress = message.method === 'notifications/progress';
    const inward = progress ? this.#outgoing.progressed(message, 'peer') : message;
    if (inward) this.onmessage?.(inward);
  }

  #hand(call: SessionCall, message: JsonRpcMessage): void {
    try {
      runInCall(call, () => this.onmessage?.(message, this.#extra(call)));
    } catch (error) {
      this.environment.event({ type: 'protocol-error', sessionId: this.sessionId, error });
      const { requestId } = call;
      if (requestId === undefined) return;
      const failure = errorResponse(requestId, INTERNAL_ERROR, sessionMessages.handlerFailed()) as JsonRpcResponse;
      // A log that refuses it says so elsewhere.
      this.#answer(failure).catch(() => {});
    }
  }

  #extra(call: SessionCall): MessageExtraInfo {
    const extra: MessageExtraInfo = {};
    const auth = (call.request as { auth?: Partial<AuthInfo> } | undefined)?.auth;
    if (typeof auth?.token === 'string') extra.authInfo = auth as AuthInfo;
    if (call.exchange && this.clientsComeBack) {
      extra.closeSSEStream = () => void call.closeStream();
      extra.closeStandaloneSSEStream = () => this.#streams.disconnectStandalone();
    }
    return extra;
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
    if (this.#lifetime.is === 'new') this.#lifetime = { is: 'live' };
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
    this.state.note(patch);
    // The client may rely on what it was told: the record comes first. Meanwhile the call is open, and may be ended.
    const recorded = this.environment.patched(this.sessionId, patch);
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
   * @returns settles when everything is released; bounded, also when the event store is not
   */
  end(reason: SessionEndReason): Promise<void> {
    if (this.#lifetime.is === 'ended') return this.#lifetime.done;
    const done = deferred();
    // First, since handlers that are aborted may end the session too.
    this.#lifetime = { is: 'ended', done: done.promise };
    this.#finish(reason).then(done.resolve, done.reject);
    return done.promise;
  }

  async #finish(reason: SessionEndReason): Promise<void> {
    const message = sessionMessages.ended(reason);
    this.#endings.failAll(message);
    this.#outgoing.clear();
    this.#replays.clear();
    try {
      this.onclose?.();
    } catch (error) {
      this.environment.event({ type: 'protocol-error', sessionId: this.sessionId, error });
    }
    await within(this.#streams.flushed(), FLUSH_MS, this.clock);
    this.#streams.close();
    this.#closed$.next(reason);
    this.#closed$.complete();
  }

  /** Its streams, for what the log and other nodes have to say of them. @internal */
  get streams(): SessionStreams {
    return this.#streams;
  }

  /** @internal */
  openStream(requests: readonly RequestId[]): McpStream {
    return this.#streams.begin(requests);
  }

  /** @internal */
  readonly frames$: FrameSource = (stream, after, options) => this.#streams.frames$(stream, after, options);

  /** The log refused a stream: its requests can no longer be answered. @internal */
  streamFailed(stream: McpStream, error: unknown): void {
    for (const call of this.#calls.all()) {
      if (call.exchange?.stream === stream) this.#endings.dismiss(call, error as Error);
    }
  }

  #noteInitialize(method: string, params: InitializeParams | undefined): void {
    if (method !== 'initialize' || !params) return;
    const { clientInfo, capabilities } = params;
    this.#info = { ...this.#info, clientInfo: clientInfo ?? UNKNOWN_CLIENT, clientCapabilities: capabilities ?? {} };
  }
}

const UNKNOWN_CLIENT = { name: 'unknown', version: '0' };

type Lifetime = { is: 'new' } | { is: 'live' } | { is: 'ended'; done: Promise<void> };
