import { HttpException } from '@nestjs/common';
import type { CallToolResult } from '@modelcontextprotocol/server';
import { ProtocolError, ProtocolErrorCode, ResourceNotFoundError } from '../../wire/spec.js';
import type { McpHandlerKind } from '../../context/mcp-execution-context.js';
import { McpStateError, UnknownStateError } from '../../context/mcp-state.errors.js';
import { McpError } from '../../wire/errors.js';
import type { FailureOptions } from '../handlers.options.js';
import { invocationMessages } from '../invocation.messages.js';
import { textBlock } from './content.js';
import { HandlerDeniedError } from './handler-denied.error.js';
import { HandlerSignal } from './handler-signal.js';
import { textOf } from './http-exception-text.js';

/**
 * # What a client is told of a failure
 *
 * | thrown | of a tool | of a resource or prompt |
 * |---|---|---|
 * | `ProtocolError` (of the SDK), `McpError` | JSON-RPC error with its code | the same |
 * | 401, or with `WWW-Authenticate`, before the handler's arguments were read | {@link HandlerDeniedError} | the same |
 * | 403 before the handler's arguments were read | `isError` with its text; `denials: 'http'`: as above | as above |
 * | `HttpException` 400, 422, as validation throws | `isError` with its text | -32602 with its text |
 * | `HttpException` 404 | `isError` with its text | resource not found; of a prompt -32602 with its text |
 * | other `HttpException` below 500 | `isError` with its text | -32603 with its text |
 * | `UnknownStateError` | `isError` with its text | -32602 with its text |
 * | `ServerRequestError`, other `McpStateError` | `isError` with its text | -32603 with its text |
 * | `HttpException` from 500 on | `isError` with a generic text | -32603 with a generic text |
 * | other `Error`, or a text | `isError` with its message if `errorDetails`, else a generic text | -32603 with the same |
 * | anything else, and what throws when it is read | `isError` with a generic text | -32603 with a generic text |
 *
 * A tool's failure is a result, so that the model reads it and can do better.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools#error-handling
 */

/** Takes what the operator must see: the client was told nothing of it, or not all. */
export type FailureReport = (error: unknown) => void;

/** Whose failure it is. */
export interface FailedHandler {
  readonly kind: McpHandlerKind;
  /** Of the tool or prompt, or the URI that was asked for. */
  readonly name: string;
  readonly failures: FailureOptions;
  readonly report: FailureReport;
}

/** Characters of the message of an `Error` that a client is told at most: some libraries put whole documents into it. */
const MAX_DETAIL = 2_000;
/** Where a stack begins that was made part of a message. */
const STACK = /^[ \t]*at .+:\d+:\d+\)?$/m;

/**
 * @returns the result that tells of the failure
 * @throws what is a JSON-RPC error or an HTTP status instead
 */
export function toToolFailure(error: unknown, failed: FailedHandler): CallToolResult {
  const seen = seenAs(error);
  if (seen.is === 'passed' && !isResult(seen.error, failed.failures)) throw seen.error;
  const text = seen.is === 'passed' ? seen.error.message : textFor(seen, error, failed);
  return { content: [textBlock(text)], isError: true };
}

/** @returns the error to throw */
export function toReadFailure(error: unknown, failed: FailedHandler): Error {
  const seen = seenAs(error);
  if (seen.is === 'passed') return seen.error;
  const { kind, name } = failed;
  const text = textFor(seen, error, failed);
  const status = seen.is === 'told' ? seen.status : 500;
  if (status === 404 && kind !== 'prompt') return new ResourceNotFoundError(name, text);
  const invalid = status === 400 || status === 422 || status === 404;
  return new ProtocolError(invalid ? ProtocolErrorCode.InvalidParams : ProtocolErrorCode.InternalError, text);
}

/**
 * What an error is to the client.
 *
 * - `passed`: it has a form of its own on the wire
 * - `told`: it was thrown to be read by the client
 * - `untold`: it was not; `detail` is what it would say
 */
type Seen =
  | { readonly is: 'passed'; readonly error: Error }
  | { readonly is: 'told'; readonly text: string; readonly status: number }
  | { readonly is: 'untold'; readonly detail?: string | undefined };

/** Never throws: what throws when it is looked at, a Proxy or a getter, must not take another way to the client. */
function seenAs(error: unknown): Seen {
  try {
    const passed = passedOn(error);
    return passed ? { is: 'passed', error: passed } : toldOf(error);
  } catch {
    return { is: 'untold' };
  }
}

function passedOn(error: unknown): Error | undefined {
  if (error instanceof HandlerSignal || error instanceof HandlerDeniedError) return error;
  const passed = error instanceof McpError ? new ProtocolError(error.rpcCode, error.message, error.data) : error;
  if (!(passed instanceof ProtocolError)) return undefined;
  // Read here, where it may throw.
  JSON.stringify([passed.code, passed.message, passed.data]);
  return passed;
}

function toldOf(error: unknown): Seen {
  if (error instanceof HttpException) {
    const status = error.getStatus();
    return status < 500 ? { is: 'told', text: textOf(error), status } : { is: 'untold' };
  }
  if (error instanceof UnknownStateError) return { is: 'told', text: error.message, status: 422 };
  if (isServerRequestError(error) || error instanceof McpStateError) {
    return { is: 'told', text: error.message, status: 500 };
  }
  const detail = error instanceof Error ? error.message : error;
  return { is: 'untold', detail: typeof detail === 'string' ? bounded(detail) : undefined };
}

/** @returns `undefined` for a message that says nothing */
function bounded(detail: string): string | undefined {
  // Cut first: a message may hold what a client has sent, of any length.
  const shown = detail.slice(0, MAX_DETAIL);
  const { index } = STACK.exec(shown) ?? {};
  const text = shown.slice(0, index).trim();
  if (text === '') return undefined;
  return index === undefined && detail.length > MAX_DETAIL ? `${text}…` : text;
}

/** A denial that asks for no authorization is for the model to read: the rest of the endpoint is open to the caller. */
function isResult(error: Error, { denials }: FailureOptions): boolean {
  return error instanceof HandlerDeniedError && !error.challenges && denials === 'result';
}

function textFor(seen: Exclude<Seen, { is: 'passed' }>, error: unknown, failed: FailedHandler): string {
  if (seen.is === 'told') return seen.text;
  const { kind, name, failures, report } = failed;
  report(error);
  const detail = failures.errorDetails ? seen.detail : undefined;
  return detail ?? invocationMessages.internalError(kind, name);
}

/** Of the room `session`, which this one does not know: a client that could not be asked is told why. */
function isServerRequestError(error: unknown): error is Error & { code: string } {
  return (
    error instanceof Error &&
    error.name === 'ServerRequestError' &&
    typeof (error as { code?: unknown }).code === 'string'
  );
}
