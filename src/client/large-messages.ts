import { type SpecTypeName, specTypeSchemas } from '@modelcontextprotocol/server';
import { excerpt, shown } from '../core/protocol/errors.js';
import {
  isResponse,
  type JsonRpcMessage,
  type JsonRpcRequest,
  type JsonRpcResponse,
  readMessages,
} from '../core/protocol/json-rpc.js';
import { type CheckOutcome, firstProblem } from '../core/protocol/spec.js';
import { countValues, hasMoreValues, isLarger, MAX_CHECKED_VALUES } from '../core/protocol/values.js';
import { McpClientTransportError } from './client.errors.js';

/*
 * # Large messages of the server
 *
 * The official client checks each message by schemas that make an issue of each value that does not fit: 1.7 GB for 1 MB. So
 * the values of a message are counted before it is parsed, and a message of many values is checked here first, up to its first
 * problem. What does not fit does not reach the client: in place of an answer it gets an error.
 *
 * The client asks for all pages of a list, and holds them: they count as one message.
 */

/** A message with more values is checked before the client gets it. */
const MANY_VALUES = 1_000;

const TOO_MANY = `its questions have more than ${MAX_CHECKED_VALUES} values`;

const INTERNAL_ERROR = -32_603;

const RESULTS: Readonly<Record<string, SpecTypeName>> = {
  initialize: 'InitializeResult',
  'server/discover': 'DiscoverResult',
  'tools/call': 'CallToolResult',
  'tools/list': 'ListToolsResult',
  'resources/list': 'ListResourcesResult',
  'resources/templates/list': 'ListResourceTemplatesResult',
  'resources/read': 'ReadResourceResult',
  'prompts/list': 'ListPromptsResult',
  'prompts/get': 'GetPromptResult',
  'completion/complete': 'CompleteResult',
};

const MESSAGES: Readonly<Record<string, SpecTypeName>> = {
  'sampling/createMessage': 'CreateMessageRequest',
  'elicitation/create': 'ElicitRequest',
  'roots/list': 'ListRootsRequest',
  ping: 'PingRequest',
  'notifications/message': 'LoggingMessageNotification',
  'notifications/progress': 'ProgressNotification',
  'notifications/cancelled': 'CancelledNotification',
  'notifications/resources/updated': 'ResourceUpdatedNotification',
  'notifications/resources/list_changed': 'ResourceListChangedNotification',
  'notifications/tools/list_changed': 'ToolListChangedNotification',
  'notifications/prompts/list_changed': 'PromptListChangedNotification',
  'notifications/elicitation/complete': 'ElicitationCompleteNotification',
  'notifications/tasks/status': 'TaskStatusNotification',
  'notifications/subscriptions/acknowledged': 'SubscriptionsAcknowledgedNotification',
};

/** @throws MESSAGE_TOO_LARGE for a message with more values; McpError for a text that is no message */
export function messagesIn(
  text: string,
  { maxMessageValues }: { readonly maxMessageValues: number },
): readonly JsonRpcMessage[] {
  if (hasMoreValues(text, maxMessageValues)) {
    const message = `The server sent a message of more than ${maxMessageValues} values ("maxMessageValues"). It was not read; raise the option to receive it.`;
    throw new McpClientTransportError('MESSAGE_TOO_LARGE', message);
  }
  return readMessages(text, maxMessageValues).messages;
}

/** Returns an answer, or an error in its place, if it has many values and does not match the specification. */
export function soundAnswer(method: string, answer: JsonRpcResponse): JsonRpcResponse {
  if (!('result' in answer) || !isLarger(answer.result, MANY_VALUES)) return answer;
  const { resultType = 'complete' } = answer.result as { resultType?: unknown };
  const asks = resultType === 'input_required';
  const problem = asks ? undefined : problemOf(RESULTS[method], answer.result);
  const text = asks && isLarger(answer.result, MAX_CHECKED_VALUES) ? TOO_MANY : problem;
  if (text === undefined) return answer;
  const message = `The server answered ${shown(method)} with a result that does not match the specification: ${text}.`;
  return { jsonrpc: '2.0', id: answer.id, error: { code: INTERNAL_ERROR, message } };
}

/** The pages of so many lists are counted at the same time. */
const MAX_CURSORS = 1_000;
/** Longer cursors count as one. */
const MAX_CURSOR_LENGTH = 256;

/** Counts the pages of the lists of a server. */
export class ListedPages {
  /** The values and characters of a list before a page, by method and cursor of the page. */
  readonly #before = new Map<string, { readonly values: number; readonly characters: number }>();

  constructor(private readonly limits: { readonly maxMessageValues: number; readonly maxMessageBytes: number }) {}

  /** Returns an answer, or an error in its place, if the list is too large with this page. */
  count({ method, params }: JsonRpcRequest, answer: JsonRpcResponse): JsonRpcResponse {
    if (!('result' in answer) || !method.endsWith('/list')) return answer;
    const { nextCursor } = answer.result;
    const cursor = params?.['cursor'];
    if (cursor === undefined && nextCursor === undefined) return answer;
    const before = cursor === undefined ? undefined : this.#before.get(keyOf(method, cursor));
    const values = (before?.values ?? 0) + countValues(answer.result);
    const characters = (before?.characters ?? 0) + JSON.stringify(answer.result).length;
    const { maxMessageValues, maxMessageBytes } = this.limits;
    const limit =
      values > maxMessageValues
        ? `${maxMessageValues} values ("maxMessageValues")`
        : characters > maxMessageBytes
          ? `${maxMessageBytes} bytes ("maxMessageBytes")`
          : undefined;
    if (limit !== undefined) {
      const message = `The pages of ${shown(method)} have more than ${limit} together. Raise the option to receive them.`;
      return { jsonrpc: '2.0', id: answer.id, error: { code: INTERNAL_ERROR, message } };
    }
    if (nextCursor !== undefined) {
      const [oldest] = this.#before.keys();
      if (this.#before.size >= MAX_CURSORS) this.#before.delete(oldest!);
      this.#before.set(keyOf(method, nextCursor), { values, characters });
    }
    return answer;
  }
}

function keyOf(method: string, cursor: unknown): string {
  return typeof cursor === 'string' && cursor.length <= MAX_CURSOR_LENGTH ? `${method} ${cursor}` : method;
}

/** Returns why a request or notification of the server does not reach the client, if it has many values. */
export function faultOf(message: JsonRpcMessage): string | undefined {
  if (isResponse(message) || !isLarger(message.params, MANY_VALUES)) return undefined;
  const { method, params } = message as { method: string; params?: unknown };
  const problem = problemOf(MESSAGES[method], { method, params });
  return (
    problem &&
    `The server sent ${shown(method)} with parameters that do not match the specification: ${problem}. The message was dropped.`
  );
}

function problemOf(type: SpecTypeName | undefined, value: unknown): string | undefined {
  if (!type) return undefined;
  // The schemas of the specification are synchronous.
  const { issues } = firstProblem(specTypeSchemas[type], value) as CheckOutcome;
  const [issue] = issues ?? [];
  return issue && `"${excerpt((issue.path ?? []).map(String).join('.'))}": ${excerpt(issue.message)}`;
}
