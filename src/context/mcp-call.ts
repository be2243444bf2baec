import { AsyncLocalStorage } from 'node:async_hooks';
import type { Era } from '../wire/era.js';
import type { RequestId } from '../wire/json-rpc.js';

/**
 * # One message being served
 *
 * A session holds no request, no user and no headers: those belong to a message and travel with it. A handler, and
 * whatever it calls, finds them here, through the async context that is set around the handler.
 */

/** What is known of a session by whoever serves it or looks at it. @publicApi */
export interface McpSessionInfo {
  readonly id: string;
  /** Who owns the session, as `principal(request)` said at `initialize`; `undefined`: anonymous. */
  readonly principal: string | undefined;
  /** The negotiated protocol revision. */
  readonly protocolVersion: string;
  readonly clientInfo: { readonly name: string; readonly version: string };
  readonly clientCapabilities: Readonly<Record<string, unknown>>;
}

/** One HTTP request to the endpoint, as the app's guards left it. @publicApi */
export interface McpHttpCall {
  readonly era: Era;
  /** Who calls, as `principal(request)` says of this request; `undefined`: anonymous. */
  readonly principal: string | undefined;
  /** Express' `Request` or Fastify's `FastifyRequest`, with everything that guards put on it. */
  readonly request: unknown;
}

/** One JSON-RPC request or notification of a client while it is served. @publicApi */
export interface McpCall extends McpHttpCall {
  readonly session: McpSessionInfo | undefined;
  readonly method: string;
  /** Of the JSON-RPC request; `undefined` for a notification. */
  readonly requestId: RequestId | undefined;
  /**
   * Aborts when the client cancels the request, when the session ends (DELETE, idle, `terminate()`), when
   * `requestTimeoutMs` is over, and at shutdown.
   */
  readonly signal: AbortSignal;
  /**
   * Whether `signal` has aborted, for who would make one (3 µs) only to ask that.
   *
   * @internal
   */
  readonly aborted?: boolean;
  /**
   * A guard of the handler did not let the caller in, however the client is told.
   *
   * @internal
   */
  denied?: boolean;
  /**
   * Ends the connection that carries this request's messages and leaves the request running: the client comes back and
   * resumes. Does nothing below revision 2025-11-25, whose clients do not come back.
   *
   * @returns whether a stream was closed
   * @see https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server
   */
  closeStream(): boolean;
  /**
   * Gives the HTTP answer a status and headers of its own, while nothing of it is out and it answers nothing else: a
   * guard that denies a call speaks to HTTP then, as on any route.
   *
   * @internal
   */
  refuseWith(status: number, headers: Readonly<Record<string, string>>): void;
}

const calls = new AsyncLocalStorage<McpCall | undefined>();

/** Runs `task` as part of a call. @internal */
export function runInCall<T>(call: McpCall, task: () => T): T {
  return calls.run(call, task);
}

/**
 * Runs `task`, which tells clients of a fact. A call that was cancelled says nothing more (behaviour P8), but what it has
 * changed is so all the same: then the task runs on behalf of no call.
 *
 * @internal
 */
export function runBeyondCancelledCall<T>(task: () => T): T {
  return calls.getStore()?.signal.aborted ? calls.run(undefined, task) : task();
}

/**
 * The call on whose behalf the current code runs.
 *
 * @returns `undefined` outside of any call, for example in a cron job
 * @publicApi
 */
export function currentMcpCall(): McpCall | undefined {
  return calls.getStore();
}
