import { AsyncLocalStorage } from 'node:async_hooks';
import type { AuthInfo, InputRequest } from '@modelcontextprotocol/server';
import type { ClockTimer } from '../common/clock.js';
import { DONE, quiet } from '../common/promises.js';
import { ERAS, type McpEra } from '../protocol/era.js';
import type { McpError, RefusedCall } from '../protocol/errors.js';
import type { RequestHeaders } from '../protocol/headers.js';
import type { JsonRpcNotification, JsonRpcRequest, RequestId } from '../protocol/json-rpc.js';
import { withCanonicalUri } from '../protocol/uris.js';
import type { CallHooks } from './call-plugins.js';
import type { McpExchange, OutboundMessage } from './reply.js';

import type { McpCallEnd, McpCallInfo } from './mcp-instrumentation.js';
import type { McpTarget } from './mcp-target.js';
import type { TaskPort } from './mcp-task.js';

export type { OutboundMessage } from './reply.js';

/*
 * # One message of a client while it is served
 *
 * A session holds no request, user or headers: those belong to a message. A handler, and the code that it calls, finds
 * them in the call, through the async context of the handler.
 */

/** A session, as its client introduced it. @publicApi */
export interface McpSessionInfo {
  readonly id: string;
  /** The owner of the session: the result of `principal(request)` at `initialize`; `undefined`: anonymous. */
  readonly principal: string | undefined;
  /** The negotiated protocol revision. */
  readonly protocolVersion: string;
  readonly clientInfo: { readonly name: string; readonly version: string };
  readonly clientCapabilities: Readonly<Record<string, unknown>>;
  /**
   * The parameters of the path of its `initialize`, such as `{ tenant: 'acme' }`; absent without any. At other paths
   * the session does not exist.
   */
  readonly routeParams?: RouteParams;
}

/** One HTTP request to the endpoint, after the app's guards have run. @publicApi */
export interface McpHttpCall {
  readonly era: McpEra;
  /** The caller, as `principal(request)` returns it for this request; `undefined`: anonymous. */
  readonly principal: string | undefined;
  /** Express' `Request` or Fastify's `FastifyRequest`, with everything that guards put on it. */
  readonly request: unknown;
  /** The parameters of the path, such as `{ tenant: 'acme' }`; absent without any. */
  readonly routeParams?: RouteParams | undefined;
  /** Counts the bytes of the body of the request while calls use it. @internal */
  readonly held?: { share(): void; release(): void } | undefined;
  /** The headers in which a modern client repeats arguments of tools; absent: its transport has none. @internal */
  readonly headers?: RequestHeaders | undefined;
}

/** The parameters of the path of an endpoint, which also separate what its callers own. @internal */
export type RouteParams = Readonly<Record<string, unknown>>;

/** Returns the parameters of a path as text, by which they are compared; `undefined` without any. @internal */
export function routeText(params: RouteParams | undefined): string | undefined {
  return params && JSON.stringify(params);
}

/**
 * Returns the access token that a guard, or middleware of the SDK, has verified and stored on an HTTP request.
 * @internal
 */
export function authOf(request: unknown): AuthInfo | undefined {
  const { auth, raw } = (request ?? {}) as { auth?: Partial<AuthInfo>; raw?: { auth?: Partial<AuthInfo> } };
  const left = auth ?? raw?.auth;
  return typeof left?.token === 'string' ? (left as AuthInfo) : undefined;
}

/** A question of a handler. @internal */
export interface HandlerQuestion {
  /** Names it within its run. */
  readonly key: string;
  /** In the form of revision 2026-07-28: a part of a result. */
  readonly embedded: InputRequest;
  /** Validates an answer. @returns the answer; `undefined` when it does not match */
  readonly accept: (answer: unknown) => object | undefined;
}

/** The progress of a handler. @internal */
export interface McpProgress {
  /** How much is done: more with every report. */
  progress: number;
  total?: number;
  message?: string;
}

/** Limits how long a request of the server waits for the client. */
export interface OutboundOptions {
  /** Milliseconds; at most `serverRequestTimeoutMs`, which is the default. */
  readonly timeoutMs?: number;
  /** Whether each progress notification of the client restarts `timeoutMs`. */
  readonly resetTimeoutOnProgress?: boolean;
  /** Maximum milliseconds in total, including progress. */
  readonly maxTotalTimeoutMs?: number;
  /** Cancels the request, and notifies the client. */
  readonly signal?: AbortSignal;
  /** Requests progress from the client, and receives it. */
  readonly onprogress?: (progress: Record<string, unknown>) => void;
}

/** The name and capabilities that a client declares: in `initialize`, or with each modern request. */
export type ClientIdentity = {
  protocolVersion: string;
  capabilities: Record<string, unknown>;
  clientInfo: { name: string; version: string; [key: string]: unknown };
};

/**
 * The client of a call: a live session or, without sessions, the client that the request describes; or a task.
 *
 * @internal
 */
export interface CallingClient {
  /** Present if the client has a session. */
  readonly info?: McpSessionInfo | undefined;
  /** Whether it takes structured content that is no object, in either era. */
  readonly takesAnyStructure?: boolean;
  /** Whether it is asked while the handler waits, in either era. */
  readonly asksAtOnce?: boolean;
  identity(call: McpCall): ClientIdentity;
  /** Returns whether the client wants log messages of this level (2025: all, until it sets a level). */
  wantsLog(level: string, call: McpCall): boolean;
  /** Takes a report of progress; absent: a client gets notifications if it has asked for them. */
  progress?(report: McpProgress): void;
  /** Sends a notification that belongs to a call; absent: it takes none. @returns settles when it was sent or logged, or was dropped */
  notify?(notification: OutboundMessage, call: McpCall): Promise<void>;
  /**
   * Sends a request on the stream of a call.
   *
   * @param asked the question of a handler; absent for a request of a server of the app
   * @returns the result as it came
   * @throws (rejects) McpServerRequestError when it could not be sent, or the client answered with an error
   */
  request(
    question: OutboundMessage,
    options: OutboundOptions,
    call: McpCall,
    asked?: HandlerQuestion,
  ): Promise<unknown>;
  /**
   * Called when a call has a result.
   *
   * @returns given, the answer waits until it settles; rejects: the answer is an error
   */
  succeeded?(call: McpCall, result: object): Promise<void> | undefined;
  /** Called when a call has ended, answered or cancelled. */
  ended?(call: McpCall): void;
}

/**
 * A client that a plugin puts in the place of the one that has called, such as a task. It has what the handler sends from then on,
 * and decides how long the handler runs for it.
 *
 * @internal
 */
export interface DivertedClient extends CallingClient {
  /** Names it for its client; it may be a secret. */
  readonly id: string;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  /** The client that has called gets this as its result. */
  readonly handle: object;
  /**
   * Resolves when nothing runs for it any more. With the outcome `cancelled` the signal of the call aborts, with `error` as its reason.
   */
  readonly end: Promise<McpCallEnd>;
  /** Whether the handler waits for an answer. */
  readonly asks: boolean;
  /** Gets questions of handlers alone. */
  request(question: OutboundMessage, options: OutboundOptions, call: McpCall, asked: HandlerQuestion): Promise<unknown>;
  /**
   * Called by operators, and when the call ends before its client has got the handle.
   *
   * @returns whether it had not ended
   * @throws (rejects) McpError UNAVAILABLE
   */
  cancel(): Promise<boolean>;
}

/**
 * The size limit of the result of a call is checked where the result is serialized, so that this happens once.
 *
 * @internal
 */
export interface ResultBound {
  /** The largest answer as JSON, in bytes. */
  readonly maxBytes: number;
  /** Files are read up to so many bytes; absent: whole. */
  readonly maxReadBytes?: number;
  /** @returns the result that is sent instead */
  insteadOf(result: object, bytes: number | `more than ${number}`): object;
}

/**
 * One JSON-RPC request or notification of a client while it is served: its caller, its client, and whether its result
 * is still needed.
 *
 *     open ──answer──▶ answered
 *       └──cancelled, or its client, session, time or node has ended──▶ cancelled
 *
 * A notification stays open: it has no answer.
 *
 * @publicApi
 */
export class McpCall implements McpHttpCall {
  readonly era: McpEra;
  /** The caller, as `principal(request)` returns it for this request; `undefined`: anonymous. */
  readonly principal: string | undefined;
  /** Express' `Request` or Fastify's `FastifyRequest`, with everything that guards put on it. */
  readonly request: unknown;
  /** The parameters of the path, such as `{ tenant: 'acme' }`; `undefined` without any. */
  readonly routeParams: RouteParams | undefined;
  /** See {@link McpHttpCall.headers}. @internal */
  readonly headers: RequestHeaders | undefined;
  /** The session of the client; `undefined` where there are no sessions. */
  readonly session: McpSessionInfo | undefined;
  readonly method: string;
  /** The message, with its URI in the form in which URIs are compared (D41). */
  readonly message: JsonRpcRequest | JsonRpcNotification;
  /** The id of the JSON-RPC request; `undefined` for a notification. */
  readonly requestId: RequestId | undefined;

  /** The body of the request, which the call holds until nothing runs for its caller any more. */
  #held: McpHttpCall['held'];
  #abort: AbortController | undefined;
  #aborted: { readonly reason: unknown } | undefined;
  #whenAborted: Set<(reason: unknown) => void> | undefined;
  #cancelled = false;
  #answered = false;
  /** The client in the place of the one that has called. */
  #diverted: DivertedClient | undefined;
  /** Whether the handler runs on behalf of that client. */
  #goesOn = false;
  /** Counts what holds its place: the call until it has ended, and work that may outlive it. */
  #holders = 1;

  /** What the call is for, once it is served; `undefined`: there is no such thing, or a server of the app serves it. @internal */
  target: McpTarget | undefined;

  // Each of these fields is written by one room: the first by `handlers`, two by `methods`, the next by `tasks`, all others by `calls`.
  /** Why a guard of the handler refused the caller; `undefined`: none has. @internal */
  denied: RefusedCall | undefined;
  /** Set if the results of its tool have a size limit. @internal */
  bound: ResultBound | undefined;
  /** Writes its result as the JSON that its client reads; absent: that of the result as it is. @internal */
  write: ((result: object) => string) | undefined;
  /** Set if the call may become a task. @internal */
  taskPort: TaskPort | undefined;
  /** The place of the call among those that run, once it is admitted. @internal */
  place: CallPlace | undefined;
  /** Why the call is not admitted: one more of a batch than may run. @internal */
  refusal: McpError | undefined;
  /** Whether the call was given to the dispatcher. @internal */
  begun = false;
  /** Describes the call to observers; made once. @internal */
  described: McpCallInfo | undefined;
  /** What plugins do with the call; absent: nothing. @internal */
  hooks: CallHooks | undefined;
  /** When it began, by `performance.now()`, while it is observed. @internal */
  observedAt: number | undefined;
  /** Runs while the call is open, if `requestTimeoutMs` is set. @internal */
  timer: ClockTimer | undefined;

  /** @internal */
  constructor(
    http: McpHttpCall,
    /** The message as the client sent it. @internal */
    readonly received: JsonRpcRequest | JsonRpcNotification,
    /** @internal */
    readonly from: CallingClient,
    /** Takes the answer of a request; a notification has none. @internal */
    readonly exchange?: McpExchange,
  ) {
    this.message = withCanonicalUri(received);
    this.era = http.era;
    this.principal = http.principal;
    this.request = http.request;
    this.routeParams = http.routeParams;
    this.headers = http.headers;
    this.session = from.info;
    this.method = received.method;
    this.requestId = 'id' in received ? received.id : undefined;
    this.#held = exchange && http.held;
    this.#held?.share();
  }

  /** The name and capabilities that the client declared. @internal */
  get client(): ClientIdentity {
    return this.from.identity(this);
  }
  /** @internal */
  get state(): CallState {
    if (this.#answered) return 'answered';
    return this.#cancelled ? 'cancelled' : 'open';
  }
  /** What the client gets as its result, once the call was diverted. @internal */
  get handle(): object | undefined {
    return this.#diverted?.handle;
  }
  /**
   * Returns whether the handler runs on behalf of the caller: until it is answered, or the client has ended that it was diverted to.
   *
   * @internal
   */
  get isServed(): boolean {
    return this.state === 'open' || this.#goesOn;
  }
  /** Returns whether its client takes structured content that is no object (D18). @internal */
  get takesAnyStructure(): boolean {
    return ERAS[this.era].hasAnyStructure || this.from.takesAnyStructure === true;
  }
  /**
   * Returns whether its client is asked while the handler waits; otherwise the call is answered with the questions.
   * @internal
   */
  get asksAtOnce(): boolean {
    return ERAS[this.era].asksAtOnce || this.#diverted?.asksAtOnce === true;
  }
  /** Returns whether `signal` has aborted, without making it (3 µs). @internal */
  get aborted(): boolean {
    return this.#aborted !== undefined;
  }
  /**
   * Aborts when the client cancels the request, when the session ends (DELETE, idle, `terminate()`), when
   * `requestTimeoutMs` or the `timeoutMs` of the handler has passed, when a client without a session disconnects, and
   * at shutdown. That of a task aborts when it is cancelled, when its `ttlMs` has passed, and at shutdown.
   */
  get signal(): AbortSignal {
    if (!this.#abort) {
      // Created on first use: most handlers never read it.
      this.#abort = new AbortController();
      if (this.#aborted) this.#abort.abort(this.#aborted.reason);
    }
    return this.#abort.signal;
  }

  /** Listeners for `signal`, which need not be made for them. @internal */
  get whenAborted(): Set<(reason: unknown) => void> {
    return (this.#whenAborted ??= new Set());
  }

  /**
   * Closes the connection that carries this request's messages and leaves the request running: the client reconnects and
   * resumes. No effect below revision 2025-11-25 and without a session, where clients do not resume.
   *
   * @returns whether a stream was closed
   * @see https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server
   */
  closeStream(): boolean {
    return this.state === 'open' && (this.exchange?.closeStream() ?? false);
  }

  /** The client that gets what the handler sends. */
  get #to(): CallingClient {
    return this.#diverted ?? this.from;
  }

  /** @internal */
  wantsLog(level: string): boolean {
    return this.#to.wantsLog(level, this);
  }

  /** Passes on a report. @returns `false`: its client gets notifications of progress. @internal */
  progress(report: McpProgress): boolean {
    const to = this.#to;
    to.progress?.(report);
    return to.progress !== undefined;
  }

  /** @internal */
  notify(notification: OutboundMessage): Promise<void> {
    const to = this.#to;
    if (!to.notify) return DONE;
    this.hooks?.notified(notification);
    return to.notify(notification, this);
  }

  /** @internal */
  ask(question: OutboundMessage, options: OutboundOptions = {}, asked?: HandlerQuestion): Promise<unknown> {
    const answer = this.#to.request(question, options, this, asked);
    this.hooks?.asked(question, answer);
    return answer;
  }

  /** @internal */
  answered(): void {
    this.#answered = true;
    this.#letGo();
  }

  /** Cancels the handler: its result is no longer needed. Only the first call has an effect. @internal */
  cancelled(reason: unknown): void {
    if (this.#answered || this.#cancelled) return;
    this.#cancelled = true;
    this.expire(reason);
    // The client has not got the handle.
    if (this.#diverted) void quiet(this.#diverted.cancel());
    this.#letGo();
  }

  /**
   * Aborts the handler of a call that will be answered, because its time has passed. Only the first reason counts.
   * @internal
   */
  expire(reason: unknown): void {
    if (this.#aborted) return;
    this.#aborted = { reason };
    for (const listener of this.#whenAborted ?? []) listener(reason);
    this.#abort?.abort(reason);
  }

  /**
   * Puts another client in the place of the one that has called: it gets what the handler sends, and the call holds its signal and its
   * body for it. See `DivertedCalls`.
   *
   * @internal
   */
  divertTo(client: DivertedClient): void {
    this.#diverted = client;
    this.#goesOn = true;
  }

  /** The client that the call was diverted to has ended. @internal */
  endDiverted(end: McpCallEnd): void {
    if (end.outcome === 'cancelled') this.expire(end.error);
    this.#goesOn = false;
    this.#letGo();
    this.hooks?.over(end, ['ended']);
  }

  /** Holds the place of the call among those that run, until {@link release} (E14). @internal */
  hold(): void {
    this.#holders++;
  }

  /** Called once by each holder; the call itself is the first, until it has ended. @internal */
  release(): void {
    if (--this.#holders === 0) this.place?.leave();
  }

  #letGo(): void {
    if (!this.#held || this.isServed) return;
    this.#held.release();
    this.#held = undefined;
  }
}

/** A call takes it while it runs. @internal */
export interface CallPlace {
  /** Called once, when nothing of the call runs any more. */
  leave(): void;
}

export type CallState = 'open' | 'answered' | 'cancelled';

const calls = new AsyncLocalStorage<McpCall | undefined>();

/** Throws if a call has ended while it waited to be served. Nothing reads the error: the client has its answer, or is gone. @internal */
export function assertOpen({ state }: Pick<McpCall, 'state'>): void {
  if (state !== 'open') throw new Error('The call ended before it was served.');
}

/** Runs a function as part of a call. @internal */
export function runInCall<T>(call: McpCall, run: (call: McpCall) => T): T {
  return calls.run(call, run, call);
}

/**
 * Runs a function that notifies clients of a change. A cancelled call sends no further messages (P8), but its changes
 * must still be announced: then the function runs outside of any call.
 *
 * @internal
 */
export function runBeyondCancelledCall<T>(run: () => T): T {
  return calls.getStore()?.aborted ? calls.run(undefined, run) : run();
}

/** Runs a function outside of any call, for work whose result several calls share. @internal */
export function runOutsideCalls<T>(run: () => T): T {
  return calls.run(undefined, run);
}

/**
 * Returns the call that the current code belongs to, by its async context.
 *
 * @returns `undefined` outside of any call, for example in a cron job
 * @publicApi
 */
export function currentMcpCall(): McpCall | undefined {
  return calls.getStore();
}
