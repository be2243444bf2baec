import { specTypeSchemas } from '@modelcontextprotocol/server';
import { errorResponse, type JsonRpcRequest, type JsonRpcResponse } from '../wire/json-rpc.js';
import { sessionMessages } from './session.messages.js';

const INTERNAL_ERROR = -32603;
const INVALID_PARAMS = -32602;

/** What the parameters of requests must be; of those that the SDK does not refuse as it should. */
const REQUESTS = {
  'logging/setLevel': specTypeSchemas.SetLevelRequest,
  'tools/list': specTypeSchemas.ListToolsRequest,
  'resources/list': specTypeSchemas.ListResourcesRequest,
  'resources/templates/list': specTypeSchemas.ListResourceTemplatesRequest,
  'resources/read': specTypeSchemas.ReadResourceRequest,
  'resources/subscribe': specTypeSchemas.SubscribeRequest,
  'resources/unsubscribe': specTypeSchemas.UnsubscribeRequest,
  'prompts/list': specTypeSchemas.ListPromptsRequest,
  'prompts/get': specTypeSchemas.GetPromptRequest,
  'completion/complete': specTypeSchemas.CompleteRequest,
} as const;

/**
 * The SDK says "internal error" of parameters that are malformed, before any handler sees them; the specification says
 * "invalid params" (for log levels and cursors expressly). Looked at only when something went wrong.
 *
 * @returns the answer with the code it should have
 */
export function withParamsError(answer: JsonRpcResponse, { method, params }: JsonRpcRequest): JsonRpcResponse {
  if (!('error' in answer) || answer.error.code !== INTERNAL_ERROR || !Object.hasOwn(REQUESTS, method)) return answer;
  const outcome = REQUESTS[method as keyof typeof REQUESTS]['~standard'].validate({ method, params });
  const [issue] = 'issues' in outcome ? (outcome.issues ?? []) : [];
  if (!issue) return answer;
  const message = sessionMessages.malformedParams(method, (issue.path ?? []).map(String).join('.'), issue.message);
  return errorResponse(answer.id ?? null, INVALID_PARAMS, message) as JsonRpcResponse;
}
