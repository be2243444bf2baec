import type { JSONRPCMessage, JSONRPCNotification, MessageExtraInfo } from '@modelcontextprotocol/server';
import { authOf, type McpCall } from '../core/calls/mcp-call.js';
import { excerpt, RefusedCall, type RpcError } from '../core/protocol/errors.js';
import { sdk } from '../core/protocol/spec.js';

/*
 * Converts calls to messages for a server of the SDK, and its answers to results, for servers of any lifetime.
 */

/** Takes the answer of a server, once. */
export interface Settlement {
  readonly resolve: (result: object) => void;
  readonly reject: (reason: unknown) => void;
}

/** Returns the caller, as middleware of the SDK has stored it on the HTTP request. */
export function callerOf({ request }: McpCall): Pick<MessageExtraInfo, 'authInfo'> {
  const authInfo = authOf(request);
  return authInfo ? { authInfo } : {};
}

/** Makes the message that tells a server that a call is cancelled. */
export function cancellationOf({ requestId, signal }: McpCall): JSONRPCNotification {
  const text = textOf(signal.reason);
  const params = { requestId: requestId!, ...(text !== undefined && { reason: text }) };
  return { jsonrpc: '2.0', method: 'notifications/cancelled', params };
}

/** Servers of the SDK repeat names of any length in their errors. */
const LONGEST_ERROR = 1_000;

/** Settles a request by the answer of its server. @param status the HTTP status of an error */
export function settle({ resolve, reject }: Settlement, answer: JSONRPCMessage, status?: number): void {
  if ('result' in answer) return resolve(answer.result);
  const { code, data, ...error } = (answer as { error: RpcError }).error;
  const message = excerpt(error.message, LONGEST_ERROR);
  const refused = status !== undefined && new RefusedCall(code, message, status, {}, { data });
  reject(refused || new sdk.ProtocolError(code, message, data));
}

/**
 * Returns the reason of a cancellation as text. The SDK accepts only a string; for other values it throws, and the
 * handler is not cancelled.
 *
 * @returns `undefined` when the client gave none
 */
function textOf(reason: unknown): string | undefined {
  if (!(reason instanceof Error)) return String(reason);
  return reason.name === 'AbortError' ? undefined : reason.message;
}
