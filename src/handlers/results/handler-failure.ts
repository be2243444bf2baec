import { HttpException } from '@nestjs/common';
import {
  type CallToolResult,
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
} from '@modelcontextprotocol/server';
import type { McpHandlerKind } from '../../context/mcp-execution-context.js';
import { McpStateError, UnknownStateError } from '../../context/mcp-state.errors.js';
import { McpError } from '../../wire/errors.js';
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
 * | 401, 403 before the handler's arguments were read | {@link HandlerDeniedError} | the same |
 * | `HttpException` 400, 422, as validation throws | `isError` with its text | -32602 with its text |
 * | `HttpException` 404 | `isError` with its text | resource not found; of a prompt -32602 with its text |
 * | other `HttpException` below 500 | `isError` with its text | -32603 with its text |
 * | `UnknownStateError` | `isError` with its text | -32602 with its text |
 * | `ServerRequestError`, other `McpStateError` | `isError` with its text | -32603 with its text |
 * | anything else | `isError` with a generic text | -32603 with a generic text |
 *
 * A tool's failure is a result, so that the model reads it and can do better.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools#error-handling
 */

/** Takes what the operator must see: the client was told nothing of it. */
export type FailureReport = (error: unknown) => void;

/**
 * @returns the result that tells of the failure
 * @throws what is a JSON-RPC error or an HTTP status instead
 */
export function toToolFailure(error: unknown, name: string, report: FailureReport): CallToolResult {
  const passed = passedOn(error);
  if (passed) throw passed;
  return { content: [textBlock(told(error) ?? untold(error, 'tool', name, report))], isError: true };
}

/**
 * @param name of the prompt, or the URI that was asked for
 * @returns the error to throw
 */
export function toReadFailure(error: unknown, kind: McpHandlerKind, name: string, report: FailureReport): Error {
  const passed = passedOn(error);
  if (passed) return passed;
  const text = told(error);
  if (text === undefined) return new ProtocolError(ProtocolErrorCode.InternalError, untold(error, kind, name, report));
  const status = error instanceof HttpException ? error.getStatus() : 0;
  if (status === 404 && kind !== 'prompt') return new ResourceNotFoundError(name, text);
  const invalid = status === 400 || status === 422 || status === 404 || error instanceof UnknownStateError;
  return new ProtocolError(invalid ? ProtocolErrorCode.InvalidParams : ProtocolErrorCode.InternalError, text);
}

/** What has a form of its own on the wire. */
function passedOn(error: unknown): Error | undefined {
  if (error instanceof HandlerSignal || error instanceof HandlerDeniedError || error instanceof ProtocolError) {
    return error;
  }
  return error instanceof McpError ? new ProtocolError(error.rpcCode, error.message, error.data) : undefined;
}

/** What may be told as it is; `undefined`: nothing. */
function told(error: unknown): string | undefined {
  if (error instanceof HttpException) return error.getStatus() < 500 ? textOf(error) : undefined;
  return isServerRequestError(error) || error instanceof McpStateError ? error.message : undefined;
}

function untold(error: unknown, kind: McpHandlerKind, name: string, report: FailureReport): string {
  report(error);
  return invocationMessages.internalError(kind, name);
}

/** Of the room `session`, which this one does not know: a client that could not be asked is told why. */
function isServerRequestError(error: unknown): error is Error & { code: string } {
  return (
    error instanceof Error &&
    error.name === 'ServerRequestError' &&
    typeof (error as { code?: unknown }).code === 'string'
  );
}
