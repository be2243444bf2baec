import type {
  JSONRPCErrorResponse,
  JSONRPCMessage,
  JSONRPCNotification,
  JSONRPCRequest,
  JSONRPCResultResponse,
} from '@modelcontextprotocol/server';

import { McpError, type RequestId, shown } from './errors.js';
import { METHODS } from './methods.js';
import { hasMoreValues, isLarger, MAX_VALUES, shortMembersOf } from './values.js';

// Defined beside McpError, which uses them.
export { errorResponse, type JsonRpcErrorBody, type RequestId } from './errors.js';

/** A message that requires a response. @internal */
export type JsonRpcRequest = JSONRPCRequest;
/** A message without a response. @internal */
export type JsonRpcNotification = JSONRPCNotification;
/** The answer of a request that succeeded. @internal */
export type JsonRpcResultResponse = JSONRPCResultResponse;
/** The answer of a request that failed; without an `id` if the request could not be read. @internal */
export type JsonRpcErrorResponse = JSONRPCErrorResponse;
/** @internal */
export type JsonRpcResponse = JsonRpcResultResponse | JsonRpcErrorResponse;
/** Any message. @internal */
export type JsonRpcMessage = JSONRPCMessage;

/** @internal */
export interface IncomingBody {
  /** The body was an array, even if of one message. */
  batch: boolean;
  /** The messages, at least one, each of sound structure and without members that JSON-RPC does not define. */
  messages: readonly JsonRpcMessage[];
}

/** The members that are checked, before their types are known. */
interface RawMessage {
  jsonrpc?: unknown;
  id?: unknown;
  method?: unknown;
  params?: unknown;
  result?: unknown;
  error?: unknown;
}

/**
 * A text that identifies a request has at most this many characters: it is stored, compared and sent back many times.
 */
const MAX_ID_LENGTH = 256;

/**
 * A body has at most this many levels of lists and objects. Schemas, JSON and handlers recurse, and the stack ends at
 * some thousands.
 */
const MAX_DEPTH = 512;

/** The `_meta` of a request or notification has at most this many values: it is read before its method is known. */
const MAX_META_VALUES = 1_000;

/** Members of `params` that a client may leave out, in any method that has them. */
const OPTIONAL_MEMBERS = ['_meta', 'arguments', 'cursor', 'inputResponses', 'requestState'] as const;

const RELATED_TASK_META_KEY = 'io.modelcontextprotocol/related-task';

/** Tells whether a message of sound structure is a request. @internal */
export function isRequest(message: JsonRpcMessage): message is JsonRpcRequest {
  const { method, id } = message as RawMessage;
  return method !== undefined && id !== undefined;
}

/** Tells whether a message of sound structure is a notification. @internal */
export function isNotification(message: JsonRpcMessage): message is JsonRpcNotification {
  const { method, id } = message as RawMessage;
  return method !== undefined && id === undefined;
}

/** Tells whether a message of sound structure is a response, with a result or with an error. @internal */
export function isResponse(message: JsonRpcMessage): message is JsonRpcResponse {
  return (message as RawMessage).method === undefined;
}

/**
 * Tells whether a message of sound structure is an `initialize` request; its parameters are not looked at.
 *
 * @internal
 */
export function isInitializeRequest(message: JsonRpcMessage): message is JsonRpcRequest {
  return isRequest(message) && message.method === 'initialize';
}

/**
 * Reads the body of a POST and checks its structure (JSON-RPC 2.0 §4 to §6, E7 and E8).
 *
 * It runs for every message, so it is hand-written: a few comparisons per message of any size. It is as strict as the
 * SDK, which drops an unknown message without an answer, so that the request would wait forever.
 *
 * Members that JSON-RPC does not define are dropped, and so are optional members that are `null` (E8). So is every
 * `__proto__` key, at any depth: `JSON.parse` makes a plain property of it, but the first `Object.assign` of a handler
 * would make it a prototype.
 *
 * Which method, how many messages, and whether a batch is allowed at all, is decided elsewhere (E9).
 *
 * @param text the body, decoded; a byte order mark in front is skipped
 * @param maxValues it may have so many values (E16)
 * @throws McpError `PAYLOAD_TOO_LARGE` if it has more values; `PARSE_ERROR` if it is empty or not JSON; `INVALID_REQUEST`
 * if a message of it is not JSON-RPC 2.0; with the `requestId` of a lone request that has a sound one
 * @internal
 */
export function readMessages(text: string, maxValues = MAX_VALUES): IncomingBody {
  if (hasMoreValues(text, maxValues)) throw tooManyValues(maxValues, idInText(text));
  const body = parseJson(text);
  // Each level takes two characters: a short body needs no look.
  if (text.length > 2 * MAX_DEPTH && isDeeper(body, MAX_DEPTH)) {
    const problem = `The body is nested more than ${MAX_DEPTH} levels deep. Send flatter parameters.`;
    throw new McpError('INVALID_REQUEST', problem, { requestId: requestIdOf(body) });
  }
  const check = text.length > MAX_META_VALUES ? checkLargeMessage : checkMessage;
  if (!Array.isArray(body)) {
    const message = check(body);
    if (typeof message !== 'string') return { batch: false, messages: [message] };
    throw new McpError('INVALID_REQUEST', message, { requestId: requestIdOf(body) });
  }
  if (body.length === 0)
    throw new McpError('INVALID_REQUEST', 'The batch is empty: []. Send at least one JSON-RPC 2.0 message.');
  const messages = body.map((value, position) => {
    const message = check(value);
    if (typeof message !== 'string') return message;
    throw new McpError('INVALID_REQUEST', `Message ${position} of the batch (counted from 0): ${message}`);
  });
  return { batch: true, messages };
}

/** @internal */
export function tooManyValues(max: number, requestId: RequestId | null = null): McpError {
  const text = `The message has more than ${max} values (items of lists and members of objects). Send less at once, or as one text, or raise "maxBodyValues".`;
  return new McpError('PAYLOAD_TOO_LARGE', text, { option: 'maxBodyValues', requestId });
}

/** Returns the id of a lone request that is not parsed. */
function idInText(text: string): RequestId | null {
  // A text of MAX_ID_LENGTH characters, all of them escaped, and its name.
  const members = shortMembersOf(text, 8 * MAX_ID_LENGTH);
  return typeof members['method'] === 'string' ? requestIdOf(members) : null;
}

/** Tells whether a value has more levels. It recurses into `levels` levels at most. */
function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (levels === 0) return true;
  if (Array.isArray(value)) return value.some((item) => isDeeper(item, levels - 1));
  for (const name in value) if (isDeeper((value as Record<string, unknown>)[name], levels - 1)) return true;
  return false;
}

/**
 * Returns the id of a request. A response has the id of a request of this server: with it, the client would take the
 * refusal for the answer to its own request.
 */
function requestIdOf(value: unknown): RequestId | null {
  if (!isObject(value)) return null;
  const { id, method, result, error } = value as RawMessage;
  const response = method === undefined && (result !== undefined || error !== undefined);
  return !response && isRequestId(id) ? id : null;
}

/** Checks a message of a body that is long enough for a large `_meta`. @returns the same as {@link checkMessage} */
function checkLargeMessage(value: unknown): JsonRpcMessage | string {
  const message = checkMessage(value);
  if (typeof message === 'string' || !('method' in message) || !isLarger(message.params?._meta, MAX_META_VALUES))
    return message;
  return `"_meta" must have at most ${MAX_META_VALUES} values (items of lists and members of objects). Send less.`;
}

/** @returns the message, or the text of its fault */
function checkMessage(value: unknown): JsonRpcMessage | string {
  if (!isObject(value))
    return `A JSON-RPC message must be an object, but it is ${shown(value)}. Send an object with "jsonrpc": "2.0".`;
  const { jsonrpc, id, method, result, error }: RawMessage = value;
  if (jsonrpc !== '2.0')
    return `"jsonrpc" must be "2.0", but it is ${shown(jsonrpc)}. Add "jsonrpc": "2.0" to the message.`;
  if (id !== undefined && !isRequestId(id))
    return `"id" must be a string of at most ${MAX_ID_LENGTH} characters, or an integer from -(2^53 - 1) to 2^53 - 1, but it is ${shownId(id)}. Send another id, or none for a notification.`;
  const kinds = Number(method !== undefined) + Number(result !== undefined) + Number(error !== undefined);
  if (kinds > 1)
    return `The message has more than one of "method", "result" and "error": ${shown(value)}. Send either a request or a response, and in a response either a result or an error.`;
  if (method !== undefined) return checkCall(id, method, (value as RawMessage).params);
  if (result !== undefined) return checkResult(id, result);
  if (error !== undefined) return checkError(id, error);
  return `The message has neither "method" nor "result" nor "error": ${shown(value)}. Send a request, a notification or a response.`;
}

function checkCall(id: RequestId | undefined, method: unknown, sent: unknown): JsonRpcMessage | string {
  if (typeof method !== 'string')
    return `"method" must be a string, but it is ${shown(method)}. Send the name of a method, such as "tools/list".`;
  const params = sent ?? undefined;
  if (params !== undefined && !isObject(params))
    return `"params" must be an object, but it is ${shown(params)}. MCP has no positional parameters: send an object, or omit "params".`;
  if (params) dropNulls(params);
  const problem = params?._meta === undefined ? undefined : metaProblem(params._meta);
  if (problem !== undefined) return problem;
  if (id !== undefined) return params ? { jsonrpc: '2.0', id, method, params } : { jsonrpc: '2.0', id, method };
  // Without an id, a message with the method of a request is invalid, not a notification.
  if (METHODS.has(method))
    return `${shown(method)} is a request, but the message has no "id", so it could not be answered. Add an "id".`;
  const named = params && longReference(params);
  if (named !== undefined) return named;
  return params ? { jsonrpc: '2.0', method, params } : { jsonrpc: '2.0', method };
}

function checkResult(id: RequestId | undefined, result: unknown): JsonRpcResultResponse | string {
  if (id === undefined)
    return 'The message has a "result", but its "id" is missing. Add the "id" of the request that it answers.';
  if (!isObject(result))
    return `"result" must be an object, but it is ${shown(result)}. Send an object, which may be empty.`;
  if (result._meta === null) delete result._meta;
  const meta = result._meta;
  return meta === undefined || isObject(meta) ? { jsonrpc: '2.0', id, result } : wrongMeta(meta);
}

/** Unlike a result, an error may come without an id: its sender may have been unable to read the request. */
function checkError(id: RequestId | undefined, error: unknown): JsonRpcErrorResponse | string {
  if (!isObject(error)) return wrongError(error);
  const { code, message, data } = error;
  if (typeof code !== 'number' || !Number.isSafeInteger(code) || typeof message !== 'string') return wrongError(error);
  const body = data === undefined ? { code, message } : { code, message, data };
  return id === undefined ? { jsonrpc: '2.0', error: body } : { jsonrpc: '2.0', id, error: body };
}

/** Removes optional members that are `null`. `null` anywhere else, as in the arguments of a tool, is a value. */
function dropNulls(params: Record<string, unknown>): void {
  for (const name of OPTIONAL_MEMBERS) if (params[name] === null) Reflect.deleteProperty(params, name);
  const { _meta: meta } = params;
  if (isObject(meta) && meta.progressToken === null) delete meta.progressToken;
}

function wrongError(value: unknown): string {
  return `"error" must be an object with an integer "code" and a string "message", but it is ${shown(value)}. Send both.`;
}

function wrongMeta(value: unknown): string {
  return `"_meta" must be an object, but it is ${shown(value)}. Send an object, or leave it out.`;
}

/** Checks the members of `_meta` on which the SDK's own structural check insists. */
function metaProblem(meta: unknown): string | undefined {
  if (!isObject(meta)) return wrongMeta(meta);
  const { progressToken, [RELATED_TASK_META_KEY]: task } = meta;
  if (progressToken !== undefined && !isRequestId(progressToken))
    return `"_meta.progressToken" must be a string of at most ${MAX_ID_LENGTH} characters, or an integer, but it is ${shownId(progressToken)}. Send such a token, or leave it out.`;
  const taskIsSound = task === undefined || (isObject(task) && typeof task.taskId === 'string');
  if (taskIsSound) return undefined;
  return `"${RELATED_TASK_META_KEY}" in "_meta" must be an object with a string "taskId", but it is ${shown(task)}. Send the task's id, or leave it out.`;
}

/** @internal */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isRequestId(value: unknown): value is RequestId {
  return (typeof value === 'string' && value.length <= MAX_ID_LENGTH) || Number.isSafeInteger(value);
}

/**
 * Finds the name of the request that a notification is about: `notifications/cancelled` and `notifications/progress`.
 */
function longReference({ requestId, progressToken }: Record<string, unknown>): string | undefined {
  const [name, value] = isLongText(requestId) ? ['requestId', requestId] : ['progressToken', progressToken];
  if (!isLongText(value)) return undefined;
  return `"params.${name}" must have at most ${MAX_ID_LENGTH} characters, but it is ${shownId(value)}. No request has such an id or token: send that of the request.`;
}

function isLongText(value: unknown): value is string {
  return typeof value === 'string' && value.length > MAX_ID_LENGTH;
}

function shownId(value: unknown): string {
  return isLongText(value) ? `a string of ${value.length} characters` : shown(value);
}

const BYTE_ORDER_MARK = 0xfeff;
/** Matches an escape that may spell a character of `__proto__`; encoders leave these characters as they are. */
const ESCAPED_PROTO = /\\u00[567]/;

function parseJson(text: string): unknown {
  const json = text.charCodeAt(0) === BYTE_ORDER_MARK ? text.slice(1) : text;
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (cause) {
    const problem = json.trim() === '' ? 'The body is empty' : `The body is not JSON: ${shown(json)}`;
    throw new McpError('PARSE_ERROR', `${problem}. Send one JSON-RPC 2.0 message as JSON, in UTF-8.`, { cause });
  }
  if (json.includes('__proto__') || ESCAPED_PROTO.test(json)) dropProtoKeys(value);
  return value;
}

/**
 * Removes all `__proto__` keys. It uses a list instead of recursion or a reviver, because the sender decides the
 * nesting depth.
 */
function dropProtoKeys(root: unknown): void {
  const pending = [root];
  while (pending.length > 0) {
    const value = pending.pop();
    if (typeof value !== 'object' || value === null) continue;
    Reflect.deleteProperty(value, '__proto__');
    for (const child of Object.values(value)) pending.push(child);
  }
}
