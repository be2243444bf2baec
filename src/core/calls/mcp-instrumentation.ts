import type { McpEra } from '../protocol/era.js';
import type { McpErrorCode } from '../protocol/errors.js';
import type { RequestId } from '../protocol/json-rpc.js';

/** A request of a client that is being served is one object for as long as the call lasts. @publicApi */
export interface McpCallInfo {
  readonly era: McpEra;
  readonly method: string;
  /** Name of the tool or prompt, as the client sent it: it may not exist. */
  readonly name: string | undefined;
  /** URI of the resource, each of its spellings in one form: it may not exist. */
  readonly uri: string | undefined;
  readonly requestId: RequestId | undefined;
  /** The id of the session; `undefined` without sessions. */
  readonly sessionId: string | undefined;
  /** The caller; `undefined`: anonymous. */
  readonly principal: string | undefined;
  readonly protocolVersion: string;
  /** `_meta` of the parameters, as the client sent it; trace context, for example (SEP-414). */
  readonly meta: Readonly<Record<string, unknown>> | undefined;
  /**
   * The arguments of the tool or prompt, as the client sent them, before they are checked; `undefined` without any. They are those
   * of the call, not a copy: do not change them. A getter reads them; they are not part of `JSON.stringify(call)`.
   */
  readonly arguments: Readonly<Record<string, unknown>> | undefined;
  /** The client, as it names itself. It may claim any name. A getter reads it. */
  readonly clientInfo: { readonly name: string; readonly version: string };
  /** The scopes of the access token of the caller; `undefined` without a token. A getter reads them. */
  readonly scopes: readonly string[] | undefined;
}

/**
 * A call ended with one of these: with a result, with a tool result that has `isError`, refused by a guard, cancelled
 * (by the client, by a disconnect, by a limit of time, or with its session or node), or with an error of this JSON-RPC
 * code.
 *
 * @publicApi
 */
export type McpCallOutcome = 'ok' | 'tool_error' | 'denied' | 'cancelled' | number;

/** The end of a call. @publicApi */
export interface McpCallEnd {
  readonly call: McpCallInfo;
  readonly outcome: McpCallOutcome;
  /** Milliseconds from the dispatch to the outcome, with fractions. */
  readonly durationMs: number;
  /**
   * Whether there is what it is for: a handler of its name, or a method of the endpoint. Clients may send any other name: do not use
   * those as labels of metrics, which would grow without bound. With the option `server` only calls that succeeded are known to have one.
   */
  readonly handled: boolean;
  /**
   * The class with `@McpCatalogue()` that the tool is from; `undefined` for all others. Each caller may have other tools of a
   * catalogue: use this name, not theirs, as a label of metrics.
   */
  readonly source?: string | undefined;
  /** The result of a call that has one, that of a tool that failed included. */
  readonly result: object | undefined;
  /** Why a call has no result, also a cancelled one, or is refused by a guard. Its text may have details that clients must not get. */
  readonly error?: unknown;
  /** @internal */
  readonly taskId?: string | undefined;
}

/** The end of a session, on the node that ended it. @publicApi */
export interface McpSessionEnd {
  readonly sessionId: string;
  readonly protocolVersion: string;
  /** Milliseconds from `initialize` to the end. */
  readonly durationMs: number;
}

/** A request of the server that was sent to the client of a session, such as `elicitation/create`. @publicApi */
export interface McpQuestionInfo {
  readonly method: string;
  /** The id of the request on the wire. */
  readonly requestId: RequestId;
  readonly sessionId: string;
  /** The owner of the session; `undefined`: anonymous. */
  readonly principal: string | undefined;
  readonly protocolVersion: string;
}

/**
 * A request of the server ended with one of these: the client answered with a result (a user who declined has
 * answered), or with an error of this JSON-RPC code; it did not answer in time; its sender, call or session had ended
 * before; or the event store did not take it.
 *
 * @publicApi
 */
export type McpQuestionOutcome = 'ok' | 'timeout' | 'cancelled' | 'unsent' | number;

/** A request that was refused with 4xx or 5xx before it was served, also as one of a batch. @publicApi */
export interface McpRefusal {
  readonly status: number;
  /** The option that decided the refusal, such as a cap; `undefined`: none. */
  readonly option: string | undefined;
  /** The stable code of the refusal; `undefined` for an error that a guard of the app threw. */
  readonly code?: McpErrorCode | undefined;
  /** Says why, for operators, without credentials; `undefined` with status 400, whose reason quotes the request. */
  readonly reason?: string | undefined;
  /** The caller, if it is known already; many requests are refused before. */
  readonly principal?: string | undefined;
  /** The address of the client, as the adapter gives it: behind a proxy, that of the proxy unless the app trusts it. */
  readonly ip?: string | undefined;
  /** The method of the request, if it was read and is not one of a batch. */
  readonly method?: string | undefined;
  /** Name of the tool or prompt that it names, as the client sent it. */
  readonly name?: string | undefined;
}

/**
 * Observes calls: for telemetry and the like. The option `instrumentation` takes it.
 *
 * ```ts
 * const observer: McpInstrumentation = {
 *   call: (info, run) => store.run({ caller: info.principal }, run),
 *   ended: ({ call, outcome, durationMs }) => logger.log(`${call.method} ${outcome} ${durationMs} ms`),
 * };
 * ```
 *
 * @publicApi
 */
export interface McpInstrumentation {
  /**
   * Runs around each request that is served: around guards, the handler, and the subscription of an Observable. The
   * outcome of the call is that of `run`: an error of this method is logged, and does not change the outcome. If it returns a promise
   * before it calls `run`, the call is served at the latest when that settles.
   *
   * @param run serves the request; call it once, synchronously
   * @returns what `run` returns
   */
  call<T>(info: McpCallInfo, run: () => T): T;
  /**
   * Called once per call, when its outcome is certain, outside of the async context of the call. An error or rejection is logged, and does not change the
   * outcome.
   */
  ended?(end: McpCallEnd): void;
  /**
   * Called once per request of the server to the client of a session, in the async context of its sender: that of the handler,
   * if a handler asks. Questions of the revision 2026-07-28 are results of the client's requests, not requests: none is seen here.
   *
   * @param outcome never rejects
   */
  question?(question: McpQuestionInfo, outcome: Promise<McpQuestionOutcome>): void;
  /** Called once per session that has ended for good; not for sessions that a shutdown of this node ends. */
  sessionEnded?(end: McpSessionEnd): void;
}
