import { isObject } from '../../protocol/json-rpc.js';
import type { CallToolResult } from '@modelcontextprotocol/server';
import { HttpException } from '@nestjs/common';
import { inspect } from 'node:util';
import type { McpHandlerKind } from '../../calls/mcp-execution-context.js';
import { McpServerRequestError } from '../../calls/server-request.error.js';
import { McpStateError, McpUnknownStateError } from '../../calls/mcp-state.js';
import { excerpt, McpError, RefusedCall, REQUEST_TIMEOUT, shown } from '../../protocol/errors.js';
import { isLocalCaller } from '../../protocol/local-caller.js';
import { sdk } from '../../protocol/spec.js';
import { McpHandlerSignal } from '../../calls/handler-signals.js';
import { HandlerDeniedError, McpHandlerTimeoutError } from '../handlers.errors.js';
import { type FailureOptions, detailsForLocalCallers } from '../handlers.options.js';
import { textBlock } from './content.js';

/**
 * # What a client learns of a failure
 *
 * | thrown | of a tool | of a resource, prompt or method |
 * |---|---|---|
 * | `ProtocolError` (of the SDK), `McpError` | JSON-RPC error with its code | the same |
 * | 401, or with `WWW-Authenticate`, before the handler's arguments were read | {@link HandlerDeniedError} | the same |
 * | 403 before the handler's arguments were read | `isError` with its text; `denials: 'http'`: as above | as above |
 * | `HttpException` 400, 422, as validation throws | `isError` with its text | -32602 with its text |
 * | `HttpException` 404 | `isError` with its text | resource not found; of a prompt or method -32602 with its text |
 * | other `HttpException` below 500 | `isError` with its text | -32603 with its text |
 * | `McpUnknownStateError` | `isError` with its text | -32602 with its text |
 * | `McpServerRequestError` of a client that lacks a capability | -32021 with its text and the capability | the same |
 * | other `McpServerRequestError`, other `McpStateError` | `isError` with its text | -32603 with its text |
 * | a limit of its time | `isError` with its text | -32001 with its text |
 * | `HttpException` from 500 on | `isError` with a generic text | -32603 with a generic text |
 * | other `Error`, or a text | `isError` with its message if `errorDetails`, else a generic text | -32603 with the same |
 * | anything else, and what throws when it is read | `isError` with a generic text | -32603 with a generic text |
 *
 * A tool's failure is a result, so that the model reads it and can correct its call.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools#error-handling
 */

/** Logs an error that is not sent to the client, or not whole. */
export type FailureReport = (error: unknown) => void;

/** Describes the handler that failed. */
export interface FailedHandler {
  readonly kind: McpHandlerKind;
  /** The name of the tool or prompt, or the URI that was requested. */
  readonly name: string;
  readonly failures: FailureOptions;
  /** The HTTP request of the call, or its replacement. */
  readonly request: unknown;
  readonly report: FailureReport;
}

/**
 * At most so many characters of the message of an `Error` are sent to a client: some libraries put whole documents into
 * it.
 */
const MAX_DETAIL = 2_000;
/** The text of a denial or a validation has at most so many messages. */
const MAX_LINES = 20;
/** Matches the first line of a stack trace inside a message. */
const STACK = /^[ \t]*at .+:\d+:\d+\)?$/m;

/**
 * Converts the failure of a tool.
 *
 * @returns the result that says that the tool failed
 * @throws an error that becomes a JSON-RPC error or an HTTP status instead
 */
export function toToolFailure(error: unknown, failed: FailedHandler): CallToolResult {
  const seen = seenAs(error);
  // A denial that asks for no authorization is for the model to read: the rest of the endpoint is open to the caller.
  const { passed } = seen;
  const isResult = passed instanceof HandlerDeniedError && !passed.challenges && failed.failures.denials === 'result';
  if (passed && !isResult) throw passed;
  return { content: [textBlock(passed?.message ?? textFor(seen, error, failed))], isError: true };
}

/** Converts the failure of a read. @returns the error to throw */
export function toReadFailure(error: unknown, failed: FailedHandler): Error {
  const seen = seenAs(error);
  if (seen.passed) return seen.passed;
  const { kind, name } = failed;
  const { status = 500, code } = seen;
  const text = textFor(seen, error, failed);
  if (code !== undefined) return new sdk.ProtocolError(code, text);
  if (status === 404 && (kind === 'resource' || kind === 'template')) return new sdk.ResourceNotFoundError(name, text);
  const invalid = status === 400 || status === 422 || status === 404;
  return new sdk.ProtocolError(
    invalid ? sdk.ProtocolErrorCode.InvalidParams : sdk.ProtocolErrorCode.InternalError,
    text,
  );
}

/**
 * Returns the answer for a handler that does not exist; a completion gets it also for one that the caller's lists do
 * not show (D30).
 *
 * @param asked the name or the URI that the client sent
 */
export function notFound(kind: McpHandlerKind, asked: string): Error {
  if (kind === 'resource' || kind === 'template') return resourceNotFound(asked);
  const [what, list] = kind === 'tool' ? ['Tool', 'tools/list'] : ['Prompt', 'prompts/list'];
  const available = `"${list}" returns the available ${list.split('/', 1)[0]}.`;
  return new sdk.ProtocolError(sdk.ProtocolErrorCode.InvalidParams, `${what} ${shown(asked)} not found. ${available}`);
}

/** Makes the error of a resource that does not exist. Its data has the whole URI, which is bounded (D29). */
export function resourceNotFound(uri: string): Error {
  return new sdk.ResourceNotFoundError(uri, `Resource not found: ${excerpt(uri)}`);
}

/** Describes how a client sees an error. */
interface Seen {
  /** An error with its own form on the wire. */
  readonly passed?: Error;
  /** The text of an error that was thrown for the client. */
  readonly text?: string;
  readonly status?: number;
  /** The JSON-RPC code of a read that fails by it. */
  readonly code?: number;
  /** The message of an error that was not thrown for the client. */
  readonly detail?: string | undefined;
}

/**
 * Returns how a client sees an error. Never throws, even if reading the error does (a Proxy, a getter): the second
 * error could reach the client.
 */
function seenAs(error: unknown): Seen {
  try {
    if (error instanceof McpHandlerSignal || error instanceof RefusedCall) return { passed: error };
    const passed = error instanceof McpError ? new sdk.ProtocolError(error.rpcCode, error.message, error.data) : error;
    if (passed instanceof sdk.ProtocolError) {
      // It is read here, where it may throw.
      JSON.stringify([passed.code, passed.message, passed.data]);
      return { passed };
    }
    if (error instanceof HttpException) {
      const status = error.getStatus();
      return status < 500 ? { text: textOf(error), status } : {};
    }
    if (error instanceof McpUnknownStateError) return { text: error.message, status: 422 };
    if (error instanceof McpHandlerTimeoutError) return { text: error.message, code: REQUEST_TIMEOUT };
    if (error instanceof McpServerRequestError) {
      const { cause, message } = error;
      return cause instanceof sdk.MissingRequiredClientCapabilityError ? { passed: cause } : { text: message };
    }
    if (error instanceof McpStateError) return { text: error.message };
    const detail = error instanceof Error ? error.message : error;
    return typeof detail === 'string' ? { detail: bounded(detail) } : {};
  } catch {
    return {};
  }
}

/** Shortens a message. @returns `undefined` for a message that says nothing */
function bounded(detail: string): string | undefined {
  // The message is cut first: it may hold what a client has sent, of any length.
  const shown = detail.slice(0, MAX_DETAIL);
  const { index } = STACK.exec(shown) ?? {};
  const text = shown.slice(0, index).trim();
  if (text === '') return undefined;
  return index === undefined && detail.length > MAX_DETAIL ? `${text}…` : text;
}

function textFor(
  { text, detail }: Seen,
  error: unknown,
  { kind, name, failures, request, report }: FailedHandler,
): string {
  if (text !== undefined) return text;
  report(error);
  const detailed = failures.errorDetails ?? (detailsForLocalCallers() && isLocalCaller(request));
  return (detailed ? detail : undefined) ?? `Internal error in the ${kind} ${shown(name)}. See the server log.`;
}

/**
 * Returns the text of an `HttpException` for the client: its message, or its first messages, one per line; else its whole
 * response, which was meant for a client too.
 */
export function textOf(exception: HttpException): string {
  const response: unknown = exception.getResponse();
  if (typeof response === 'string') return response || exception.message;
  if (!isObject(response)) return exception.message;
  const { message } = response;
  if (typeof message === 'string') return message;
  if (Array.isArray(message) && message.every((line) => typeof line === 'string')) return firstLines(message);
  return jsonOrUndefined(message ?? response) ?? exception.message;
}

/** Returns the first of many messages: a `ValidationPipe` has one for each fault. */
function firstLines(lines: readonly string[]): string {
  const first = lines.slice(0, MAX_LINES).map((line) => excerpt(line));
  const more = lines.length - first.length;
  return [...first, ...(more > 0 ? [`and ${more} more`] : [])].join('\n');
}

/**
 * Returns JSON, or nothing: the response may be an entity with a cycle or a bigint, and the error of JSON is not for
 * the client.
 */
function jsonOrUndefined(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}

/** Returns an error for the log. Never throws, although reading an error (a Proxy, a getter) may. */
export function inspected(error: unknown): string {
  try {
    return inspect(error);
  } catch {
    return 'an error that cannot be shown';
  }
}
