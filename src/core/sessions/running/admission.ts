import type { McpCall, McpSessionInfo } from '../../calls/mcp-call.js';
import { McpError, shown } from '../../protocol/errors.js';
import {
  isInitializeRequest,
  isRequest,
  type IncomingBody,
  type JsonRpcRequest,
  type RequestId,
} from '../../protocol/json-rpc.js';
import { allowsBatches } from '../../protocol/revisions.js';

/** One session may have this many requests in flight. */
const MAX_CALLS = 1_000;
/** One session, or one modern subscription, may subscribe to this many resources. */
export const MAX_SUBSCRIPTIONS = 1_000;
/** The URIs to which one session subscribes may have this many bytes: live copy and record keep them. */
const MAX_SUBSCRIPTION_BYTES = 64 * 1024;
/** One batch may have this many messages (E9). */
const MAX_BATCH = 100;

/**
 * Checks whether a session takes the messages of a POST: all of them or none.
 *
 * @returns the requests among them
 * @throws McpError INVALID_REQUEST with the id of the offending request
 */
export function admit(
  { batch, messages }: IncomingBody,
  { protocolVersion }: McpSessionInfo,
  initialized: boolean,
  running: RunningCalls,
  state: { readonly subscriptions: SubscriptionSize },
): JsonRpcRequest[] {
  const requests = messages.filter(isRequest);
  if (running.size + requests.length > MAX_CALLS) {
    const text = `This session has reached its limit of ${MAX_CALLS} requests in flight. Wait for answers before you send more.`;
    throw new McpError('TOO_MANY_REQUESTS', text, { requestId: requests[0]!.id });
  }
  if (batch) assertBatch(messages.length, requests, protocolVersion);
  let subscribing = false;
  for (const request of requests) {
    const { id: requestId } = request;
    if (request.method === 'resources/subscribe') subscribing = true;
    if (isInitializeRequest(request) === initialized) {
      const text = initialized
        ? 'This session is already initialized. Send "initialize" without Mcp-Session-Id to start another one.'
        : `${shown(request.method)} came before "initialize". Initialize the session first.`;
      throw new McpError('INVALID_REQUEST', text, { requestId });
    }
    if (running.has(requestId)) {
      const text = `A request with the id ${shown(requestId)} is already in flight in this session. Give each request its own id.`;
      throw new McpError('INVALID_REQUEST', text, { requestId });
    }
  }
  if (subscribing) assertSubscribable(requests, running, state.subscriptions);
  return requests;
}

/** The calls of a session, by the id of their request. */
type RunningCalls = ReadonlyMap<RequestId, McpCall>;

export interface SubscriptionSize {
  readonly count: number;
  /** Counts the bytes of all URIs. */
  readonly bytes: number;
}

function subscribes({ method }: JsonRpcRequest): boolean {
  return method === 'resources/subscribe';
}

/**
 * Bounds the subscriptions, which are kept and searched for as long as the session lives. Requests that are still
 * served count as if they had succeeded: otherwise many at once would exceed the limit together.
 */
function assertSubscribable(
  requests: readonly JsonRpcRequest[],
  running: RunningCalls,
  { count, bytes }: SubscriptionSize,
): void {
  const served = Array.from(running.values(), ({ message }) => message as JsonRpcRequest);
  let [total, size] = [count, bytes];
  for (const { id: requestId, params } of [...served, ...requests].filter(subscribes)) {
    const uri = params?.['uri'];
    total++;
    size += typeof uri === 'string' ? Buffer.byteLength(uri) : 0;
    const limit =
      total > MAX_SUBSCRIPTIONS
        ? `${MAX_SUBSCRIPTIONS} subscriptions`
        : `${MAX_SUBSCRIPTION_BYTES} bytes for the URIs of its subscriptions`;
    if (total <= MAX_SUBSCRIPTIONS && size <= MAX_SUBSCRIPTION_BYTES) continue;
    const text = `This session has reached its limit of ${limit}. Unsubscribe from a resource first.`;
    throw new McpError('INVALID_PARAMS', text, { requestId });
  }
}

/** @throws McpError INVALID_REQUEST (E9, S11) */
export function assertBatch(size: number, requests: readonly JsonRpcRequest[], protocolVersion: string): void {
  const refuse = (message: string): never => {
    throw new McpError('INVALID_REQUEST', message);
  };
  if (!allowsBatches(protocolVersion)) {
    refuse(
      `Revision "${protocolVersion}" of the protocol has no batches. Send the messages one by one, or negotiate "2025-03-26".`,
    );
  }
  if (size > MAX_BATCH) refuse(`The batch has ${size} messages; the maximum is ${MAX_BATCH}. Send it in parts.`);
  if (requests.some(isInitializeRequest)) refuse('"initialize" cannot be part of a batch. Send it alone.');
  const ids = requests.map(({ id }) => id);
  const requestId = ids.find((id, position) => ids.indexOf(id) !== position);
  if (requestId === undefined) return;
  const text = `Two requests of this batch have the id ${JSON.stringify(requestId)}. Give each request its own id.`;
  throw new McpError('INVALID_REQUEST', text, { requestId });
}
