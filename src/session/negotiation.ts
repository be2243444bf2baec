import type { JsonRpcRequest, JsonRpcResponse } from '../wire/json-rpc.js';
import { negotiateLegacyRevision } from '../wire/revisions.js';

/** The SDK agrees to revisions that are older than this transport: it is only asked for those that have it (S1). */
export function askingForOurs(initialize: JsonRpcRequest): JsonRpcRequest {
  const { params } = initialize;
  const asked = params?.['protocolVersion'];
  // Anything else the server refuses.
  if (typeof asked !== 'string') return initialize;
  return { ...initialize, params: { ...params, protocolVersion: negotiateLegacyRevision(asked) } };
}

/** The revision that an answer of `initialize` agrees to, if it does. */
export function agreedRevision(answer: JsonRpcResponse): string | undefined {
  const revision = 'result' in answer ? answer.result['protocolVersion'] : undefined;
  return typeof revision === 'string' ? revision : undefined;
}
