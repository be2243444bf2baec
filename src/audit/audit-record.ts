import type { RequestId } from '../core/protocol/json-rpc.js';

/**
 * What was decided about a request:
 *
 * - `attempt`: nothing yet; with the option `required` this record precedes the handler, and the one of its outcome has the same `id`
 * - `served`: with a result
 * - `failed`: with a tool result that has `isError`, or with the JSON-RPC error `code`
 * - `denied`: a guard of the handler refused the caller
 * - `cancelled`: by the client, a disconnect, a time limit, or the end of its session or node
 * - `task`: the call continues as a task (`taskId`); the record of its end has the same `id` and one of the outcomes above
 * - `asked`: the client was asked, and repeats the request with answers (revision 2026-07-28)
 * - `refused`: with the HTTP `status`, before there was a call
 *
 * @publicApi
 */
export type McpAuditOutcome = 'attempt' | 'served' | 'failed' | 'denied' | 'cancelled' | 'task' | 'asked' | 'refused';

/**
 * One decision of an endpoint. It is flat and plain JSON: a row of a table, or a line of a log. Absent properties are unknown.
 *
 * What clients choose (names, URI, arguments) is cut where it is long.
 *
 * @publicApi
 */
export interface McpAuditRecord {
  /** Random; an `attempt` and its outcome share it, and a task and its end. */
  readonly id: string;
  /** The time of the decision, such as `2026-07-28T09:30:00.000Z`. */
  readonly time: string;
  readonly outcome: McpAuditOutcome;
  /** The name of the endpoint, or its path. */
  readonly endpoint: string;
  readonly nodeId: string;
  /** The method, such as `tools/call`. */
  readonly method?: string | undefined;
  readonly kind?: 'tool' | 'prompt' | 'resource' | undefined;
  /** The name of the tool or prompt, or the redacted URI of the resource in one form (D41), as the client asked for it: it may not exist. */
  readonly name?: string | undefined;
  /** Absent: an anonymous caller. */
  readonly principal?: string | undefined;
  /** The scopes of the access token of the caller. */
  readonly scopes?: readonly string[] | undefined;
  /** The address of the client; behind a proxy that the app does not trust, that of the proxy. */
  readonly ip?: string | undefined;
  /** The name that the client gives itself. It may claim any. */
  readonly clientName?: string | undefined;
  readonly clientVersion?: string | undefined;
  /** The id of the session. That of an anonymous session is its only credential: a hash stands for it. */
  readonly sessionId?: string | undefined;
  readonly requestId?: RequestId | undefined;
  readonly protocolVersion?: string | undefined;
  /** The arguments, redacted. */
  readonly arguments?: unknown;
  /** Whether the arguments were longer than `maxArgumentLength`, or nested too deep, and some are missing. */
  readonly argumentsCut?: boolean | undefined;
  /** A hash of the arguments: see the option `hashKey`. */
  readonly argumentsHash?: string | undefined;
  /** The JSON-RPC code of a failed call that has no result. */
  readonly code?: number | undefined;
  /** The HTTP status of a refused request. */
  readonly status?: number | undefined;
  /** The stable code of the error of a refused request, such as `UNAUTHORIZED`. */
  readonly reason?: string | undefined;
  /**
   * Counts the refused requests that the record stands for; absent: one. They have the same status, reason and address, and came
   * within a second; the record has what they have in common.
   */
  readonly count?: number | undefined;
  /** The option of the endpoint that decided about a refused request, such as `maxSessions`. */
  readonly option?: string | undefined;
  /** Milliseconds from the dispatch of the call to its outcome, with fractions. */
  readonly durationMs?: number | undefined;
  /** The id of the task that the call has become, or whose end this is. */
  readonly taskId?: string | undefined;
  /** The trace of the active OpenTelemetry span, else that of the `traceparent` which the client sent. */
  readonly traceId?: string | undefined;
}

/**
 * Takes the records: of a table, a queue, a file.
 *
 * ```ts
 * const sink: McpAuditSink = { write: (record) => repository.insert(record) };
 * ```
 *
 * @publicApi
 */
export interface McpAuditSink {
  /**
   * Writes a record. Writes run side by side; a promise has to settle.
   *
   * @param record is not changed afterwards: keep it or write it later
   * @returns resolves when the record is stored; throws or rejects when it is not
   */
  write(record: McpAuditRecord): void | Promise<void>;
}
