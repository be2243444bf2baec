import type { McpSessionInfo } from '../context/mcp-call.js';
import { McpError } from '../wire/errors.js';
import { isInitializeRequest, isRequest, type IncomingBody, type JsonRpcRequest } from '../wire/json-rpc.js';
import { allowsBatches } from '../wire/revisions.js';
import type { InFlightCalls } from './in-flight-calls.js';
import { sessionMessages } from './session.messages.js';

/** Requests that one session may have in flight. */
const MAX_CALLS = 1_000;
/** Resources that one session, or one modern subscription, may be told of. */
export const MAX_SUBSCRIPTIONS = 1_000;
/** Characters of a URI that can be subscribed to. */
export const MAX_URI = 2_048;
/** Messages that one batch may have (E9). */
const MAX_BATCH = 100;

/**
 * Whether a session takes the messages of a POST; all of them or none.
 *
 * @returns the requests among them
 * @throws McpError INVALID_REQUEST with the id of the request that is to blame
 */
export function admit(
  { batch, messages }: IncomingBody,
  { protocolVersion }: McpSessionInfo,
  initialized: boolean,
  inFlight: InFlightCalls,
  subscriptions: number,
): JsonRpcRequest[] {
  const requests = messages.filter(isRequest);
  if (inFlight.size + requests.length > MAX_CALLS) {
    throw new McpError('TOO_MANY_REQUESTS', sessionMessages.tooManyCalls(MAX_CALLS), { requestId: requests[0]!.id });
  }
  if (batch) assertBatch(messages.length, requests, protocolVersion);
  const seen = requests.length > 1 ? new Set<unknown>() : undefined;
  for (const request of requests) {
    const { id: requestId } = request;
    if (isInitializeRequest(request) === initialized) {
      const message = initialized
        ? sessionMessages.initializedAlready()
        : sessionMessages.notInitialized(request.method);
      throw new McpError('INVALID_REQUEST', message, { requestId });
    }
    if (inFlight.has(requestId) || seen?.has(requestId)) {
      throw new McpError('INVALID_REQUEST', sessionMessages.duplicateId(requestId), { requestId });
    }
    if (request.method === 'resources/subscribe') assertSubscribable(request, subscriptions);
    seen?.add(requestId);
  }
  return requests;
}

/** What a session is subscribed to is kept, and looked through, for as long as it lives. */
function assertSubscribable({ id: requestId, params }: JsonRpcRequest, subscriptions: number): void {
  const uri = params?.['uri'];
  const refuse = (message: string): never => {
    throw new McpError('INVALID_PARAMS', message, { requestId });
  };
  if (subscriptions >= MAX_SUBSCRIPTIONS) refuse(sessionMessages.tooManySubscriptions(MAX_SUBSCRIPTIONS));
  if (typeof uri === 'string' && uri.length > MAX_URI) refuse(sessionMessages.longUri(uri.length, MAX_URI));
}

/** @throws McpError INVALID_REQUEST (E9) */
export function assertBatch(size: number, requests: readonly JsonRpcRequest[], protocolVersion: string): void {
  if (!allowsBatches(protocolVersion)) {
    throw new McpError('INVALID_REQUEST', sessionMessages.noBatches(protocolVersion));
  }
  if (size > MAX_BATCH) throw new McpError('INVALID_REQUEST', sessionMessages.batchTooLarge(size, MAX_BATCH));
  if (requests.some(isInitializeRequest)) throw new McpError('INVALID_REQUEST', sessionMessages.initializeInBatch());
}
