import { errorResponse } from '../wire/errors.js';
import type { JsonRpcResponse, RequestId } from '../wire/json-rpc.js';
import { sessionMessages } from './session.messages.js';

const INTERNAL_ERROR = -32603;

/**
 * An answer as it goes over the wire. What JSON has no words for is the handler's fault; the client must hear of the end of
 * its request all the same.
 *
 * @param unwritable hears what JSON says of it
 */
export function answerText(answer: JsonRpcResponse, unwritable: (error: unknown) => void): string {
  try {
    return JSON.stringify(answer);
  } catch (error) {
    unwritable(error);
    return JSON.stringify(errorResponse(answer.id!, INTERNAL_ERROR, sessionMessages.unwritableAnswer()));
  }
}

/** The client must not believe that a change has been made which is in nobody's record. */
export function unrecorded(id: RequestId): JsonRpcResponse {
  return errorResponse(id, INTERNAL_ERROR, sessionMessages.unrecorded()) as JsonRpcResponse;
}
