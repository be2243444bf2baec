import { isObject } from '../../protocol/json-rpc.js';
import type {
  GetPromptResult,
  InputRequiredResult,
  PromptMessage,
  ReadResourceResult,
} from '@modelcontextprotocol/server';
import { sdk } from '../../protocol/spec.js';
import { McpHandlerResultError } from '../handlers.errors.js';
import {
  assertNoBlock,
  assertNoStream,
  assertSpecified,
  IF_WRAPPED,
  isContentBlock,
  isDense,
  jsonOf,
  plain,
  textBlock,
  unsendable,
} from './content.js';
import { resourceNotFound } from './handler-failure.js';
import { dataIn, isOfClass, othersThan } from './returned-as.js';

type Contents = ReadResourceResult['contents'][number];

/** A resource that is read, with the fields that its contents repeat. */
interface ReadResource {
  /** The URI as the client asked for it. */
  readonly uri: string;
  /** The media type of its list entry. */
  readonly mimeType: string | undefined;
  /** Says what the sandbox of a view may do. */
  readonly ui?: object | undefined;
}

/**
 * Makes the result of a resource from what its method returned: a string, bytes, contents (one or several), a whole result,
 * or any other object, which is sent as JSON. Every entry of the contents has its URI and media type: its own, else
 * those of the resource, else what follows from the value.
 *
 * @throws ResourceNotFoundError for `undefined` and `null`
 * @throws McpHandlerResultError when it cannot be sent
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/resources#reading-resources
 */
export function toResourceResult(resource: ReadResource, value: unknown): ReadResourceResult | InputRequiredResult {
  if (value === undefined || value === null) throw resourceNotFound(resource.uri);
  if (sdk.isInputRequiredResult(value)) return value;
  const data = dataIn(value);
  if (data) return { contents: [withUi(jsonContents(data.value, resource), resource)] };
  const contents = (part: unknown): Contents => withUi(contentsOf(part, resource, isContents), resource);
  if (isWholeResult(value)) {
    const whole = plain(value) as ReadResourceResult;
    const said = (part: unknown): Contents => withUi(contentsOf(part, resource, hasContents), resource);
    return asSpecified({ ...whole, contents: Array.from(whole.contents, said) });
  }
  const several = Array.isArray(value) && value.length > 0 && isDense(value) && value.every(isContents);
  if (several) return asSpecified({ contents: value.map(contents) });
  const result = { contents: [contents(value)] };
  return isContents(value) ? asSpecified(result) : result;
}

/** Checks a result that a handler made itself. @throws McpHandlerResultError */
function asSpecified(result: ReadResourceResult): ReadResourceResult {
  assertSpecified('ReadResourceResult', 'resource', result);
  return result;
}

function withUi(contents: Contents, { ui }: ReadResource): Contents {
  return ui ? { ...contents, _meta: { ui, ...contents._meta } } : contents;
}

/** @param isGiven decides whether an object is contents */
function contentsOf(value: unknown, resource: ReadResource, isGiven: typeof hasContents): Contents {
  const { uri, mimeType } = resource;
  if (typeof value === 'string') return { uri, mimeType: mimeType ?? 'text/plain', text: value };
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) {
    return { uri, mimeType: mimeType ?? 'application/octet-stream', blob: base64(value) };
  }
  if (isGiven(value)) {
    const fallback = mimeType ?? ('text' in value ? 'text/plain' : 'application/octet-stream');
    return { ...value, uri: value.uri ?? uri, mimeType: value.mimeType ?? fallback };
  }
  if (typeof value !== 'object') throw unsendable(typeof value);
  assertNoBlock(value!);
  return jsonContents(value, resource);
}

function jsonContents(value: unknown, { uri, mimeType }: ReadResource): Contents {
  return { uri, mimeType: mimeType ?? 'application/json', text: jsonOf(value) };
}

type GivenContents = Partial<Contents> & ({ text: string } | { blob: string });

/** Returns whether an object in `contents` is an entry of them, whose URI and media type may be left out. */
function hasContents(value: unknown): value is GivenContents {
  return isObject(value) && (typeof value['text'] === 'string' || typeof value['blob'] === 'string');
}

const CONTENTS_FIELDS = ['uri', 'mimeType', 'text', 'blob', '_meta'];

/** Returns whether an object that stands alone is contents: an entity with a column `text` has other columns, too. */
function isContents(value: unknown): value is GivenContents {
  return hasContents(value) && othersThan(CONTENTS_FIELDS, value).length === 0;
}

/** Returns whether an object is a result as the protocol has it, which may have other fields; an entity of a class is none. */
function isWholeResult(value: unknown): boolean {
  if (!isObject(value) || !Array.isArray(value['contents'])) return false;
  return !isOfClass(value) || othersThan(['contents', '_meta'], value).length === 0;
}

function base64(bytes: ArrayBufferView | ArrayBuffer): string {
  if (!ArrayBuffer.isView(bytes)) return Buffer.from(bytes).toString('base64');
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}

/**
 * Makes the result of a prompt from what its method returned: a string or a content block (a message of the user), messages
 * (one or several), or a whole result. Nothing gives no messages.
 *
 * @throws McpHandlerResultError for anything else
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/prompts#promptmessage
 */
export function toPromptResult(value: unknown): GetPromptResult | InputRequiredResult {
  if (sdk.isInputRequiredResult(value)) return value;
  if (value === undefined || value === null) return { messages: [] };
  if (typeof value === 'string') return { messages: [messageOf(value)] };
  const given = isObject(value) && Array.isArray(value['messages']) ? plain(value) : value;
  const whole =
    isObject(given) && Array.isArray(given['messages']) ? given : { messages: Array.isArray(given) ? given : [given] };
  const result = { ...whole, messages: Array.from(whole['messages'] as unknown[], messageOf) };
  assertSpecified('GetPromptResult', 'prompt', result);
  return result;
}

function messageOf(value: unknown): PromptMessage {
  if (typeof value === 'string') return { role: 'user', content: textBlock(value) };
  if (isContentBlock(value)) return { role: 'user', content: value };
  if (isMessage(value)) return value;
  throw new McpHandlerResultError(
    `A prompt must return strings, content blocks or messages ({ role: "user" | "assistant", content }). ${IF_WRAPPED}`,
  );
}

function isMessage(value: unknown): value is PromptMessage {
  if (!isObject(value) || !isContentBlock(value['content'])) return false;
  return value['role'] === 'user' || value['role'] === 'assistant';
}

/**
 * Makes the result of a method of an extension from what its handler returned: an object as it is; nothing gives an empty one.
 *
 * @throws McpHandlerResultError for anything else, also for questions, which such a method cannot ask by its result
 */
export function toMethodResult(value: unknown): object {
  if (value === undefined || value === null) return {};
  const result = plain(value);
  assertNoStream(result);
  if (isObject(result) && !sdk.isInputRequiredResult(result)) return result;
  throw new McpHandlerResultError(
    `The handler of a method must return an object, and not one with the resultType "input_required". ${IF_WRAPPED}`,
  );
}
