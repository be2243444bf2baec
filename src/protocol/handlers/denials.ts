import { ProtocolError } from '@modelcontextprotocol/server';
import { currentMcpCall } from '../../context/mcp-call.js';
import { HandlerDeniedError } from '../../handlers/results/handler-denied.error.js';

/** JSON-RPC code of a denial, which the specification leaves to HTTP. */
const DENIED = -32000;

/**
 * Runs a handler whose guards may deny the call: with the HTTP status that a route's guard would have caused, while
 * nothing of the answer is out, and as a JSON-RPC error in any case.
 */
export function answerDenial<T>(run: () => Promise<T>): Promise<T> {
  return run().catch(refuse);
}

function refuse(error: unknown): never {
  if (!(error instanceof HandlerDeniedError)) throw error;
  currentMcpCall()?.refuseWith(error.status, error.headers);
  throw new ProtocolError(DENIED, error.message);
}
