import { isObject } from '../../protocol/json-rpc.js';
import type { CallToolResult, InputRequiredResult } from '@modelcontextprotocol/server';
import { sdk } from '../../protocol/spec.js';
import {
  assertContentAlone,
  assertSpecified,
  IF_WRAPPED,
  isContentBlock,
  isContentBlocks,
  jsonOf,
  plain,
  plainData,
  textBlock,
} from './content.js';
import { McpHandlerResultError } from '../handlers.errors.js';
import { dataIn, isOfClass, othersThan, resultIn } from './returned-as.js';

/**
 * Checks structured content against the output schema.
 *
 * @returns the content as it is sent, or a promise of it; `undefined`: as it was given
 * @throws anything, when it does not fit
 */
export type OutputCheck = (structured: unknown) => unknown;

export type ToolResult = CallToolResult | InputRequiredResult;

/**
 * Makes the result of a tool from what its method returned.
 *
 * | returned | becomes |
 * |---|---|
 * | nothing, `null` | a text that says so |
 * | a text | a text block |
 * | a number, boolean, bigint | its text |
 * | a content block, or an array of them | the content |
 * | any other object | structured content, and its JSON as a text block for clients that do not read that (`textMirror`) |
 * | any other array | its JSON as a text block |
 * | an empty array | its JSON too: a list of the app without entries |
 * | a whole result, also that of `inputRequired()` | itself |
 * | `toolResult(…)`, `structured(…)` | a whole result, structured content |
 *
 * With an output schema every value that is not a whole result is structured content, an array, a text or `null` too. The value that the check returns is
 * sent, in the text block too: a schema that strips unknown fields strips them everywhere.
 *
 * An object whose `content` is made of blocks is a whole result. It may have other fields too, so an entity with such a `content` is
 * data only if a class made it, or if the output schema declares one of the other fields, or `content` itself.
 *
 * @param check the output schema
 * @param declared names the properties of the output schema
 * @returns makes a result; it throws McpHandlerResultError when that cannot be sent or does not fit the output schema
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools#structured-content
 */
export function toolResults(
  check?: OutputCheck,
  textMirror = true,
  declared: ReadonlySet<string> = NONE,
): (returned: unknown) => ToolResult | Promise<ToolResult> {
  return (returned) => {
    if (!check && isPlainText(returned)) return returned as CallToolResult;
    if (sdk.isInputRequiredResult(returned)) return returned;
    const data = dataIn(returned);
    if (data) return dataResult(plainData(data.value), check, textMirror);
    const said = resultIn(returned);
    if (said) return wholeResult({ content: [], ...(plain(said) as Partial<CallToolResult>) }, check);
    const value = isWholeResult(returned, declared) ? plain(returned) : returned;
    if (isWholeResult(value, declared)) return wholeResult(value, check);
    return check ? dataResult(plain(value), check, textMirror) : resultOf(value, textMirror);
  };
}

function wholeResult(result: CallToolResult, check?: OutputCheck): CallToolResult | Promise<CallToolResult> {
  if (!check || result.isError) return asSpecified(result);
  return checked(result.structuredContent, check).then((structuredContent) =>
    asSpecified({ ...result, structuredContent }),
  );
}

function dataResult(
  data: unknown,
  check: OutputCheck | undefined,
  textMirror: boolean,
): CallToolResult | Promise<CallToolResult> {
  return check
    ? checked(data, check).then((sent) => structuredResult(sent, textMirror))
    : structuredResult(data, textMirror);
}

/**
 * Checks a value.
 *
 * @throws McpHandlerResultError that holds the value's fault as its cause only: it may quote the value
 */
async function checked(value: unknown, check: OutputCheck): Promise<unknown> {
  if (value === undefined) {
    throw new McpHandlerResultError('The tool has an output schema, but its result has no structured content.');
  }
  try {
    const sent = await check(value);
    return sent === undefined ? value : sent;
  } catch (cause) {
    throw new McpHandlerResultError(
      `The result of the tool does not match its output schema; see the cause. ${IF_WRAPPED}`,
      { cause },
    );
  }
}

function resultOf(value: unknown, textMirror: boolean): CallToolResult {
  // Some models refuse a result without content.
  if (value === undefined || value === null) return { content: [textBlock('The tool returned nothing.')] };
  if (typeof value === 'string') return { content: [textBlock(value)] };
  if (typeof value === 'number' || typeof value === 'boolean' || typeof value === 'bigint') {
    return { content: [textBlock(String(value))] };
  }
  if (isContentBlock(value)) return asSpecified({ content: [value] });
  // An empty array is a list of the app without entries: without "[]" the model would not learn that it is empty.
  if (isContentBlocks(value) && value.length > 0) return asSpecified({ content: value });
  assertContentAlone(value);
  const sent = plain(value);
  return isObject(sent) ? structuredResult(sent, textMirror) : { content: [jsonBlock(sent)] };
}

/** Makes structured content. @throws McpHandlerResultError */
function structuredResult(value: unknown, textMirror: boolean): CallToolResult {
  // The text is made also when it is not sent: it refuses files inside.
  const json = textBlock(jsonOf(value));
  return { content: textMirror ? [json] : [], structuredContent: withoutClass(value) };
}

/** Returns the fields that JSON has of an entity, a map or an error: the SDK takes nothing but plain objects. */
function withoutClass(value: unknown): unknown {
  if (!isObject(value)) return value;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype ? value : { ...value };
}

/** Checks a result that a handler made itself. @throws McpHandlerResultError */
function asSpecified(result: CallToolResult): CallToolResult {
  if (isPlainText(result)) return result;
  const content = withoutClass(result.structuredContent);
  const sent = content === result.structuredContent ? result : { ...result, structuredContent: content };
  assertSpecified('CallToolResult', 'tool', sent);
  // This refuses files inside, of which JSON has nothing.
  if (content !== undefined) jsonOf(content);
  return sent;
}

/**
 * Returns whether a value is a whole result of text blocks only, as most are: it is valid without a check of the
 * schema.
 */
export function isPlainText(value: unknown): boolean {
  if (!isObject(value) || Object.getPrototypeOf(value) !== Object.prototype) return false;
  const { content } = value;
  if (!Array.isArray(content) || content.length === 0 || Object.keys(value).length !== 1) return false;
  for (const block of content as unknown[]) {
    if (!isObject(block) || block['type'] !== 'text' || typeof block['text'] !== 'string') return false;
    if (Object.keys(block).length !== 2) return false;
  }
  return true;
}

function jsonBlock(value: unknown): CallToolResult['content'][number] {
  return textBlock(typeof value === 'string' ? value : jsonOf(value));
}

const RESULT_FIELDS = ['content', 'structuredContent', 'isError', '_meta'];
const NONE: ReadonlySet<string> = new Set();

/**
 * Returns whether an object is a result as the protocol has it. An empty page of an app, `{ content: [], total: 0 }`, is none.
 *
 * @param declared names the properties of the output schema
 */
function isWholeResult(value: unknown, declared: ReadonlySet<string>): value is CallToolResult {
  if (!isObject(value) || !isContentBlocks(value['content'])) return false;
  const { content, structuredContent, isError } = value;
  const foreign = othersThan(RESULT_FIELDS, value);
  if (foreign.length > 0 && ((content as unknown[]).length === 0 || isOfClass(value))) return false;
  if (structuredContent !== undefined && !declared.has('structuredContent')) return true;
  if (isError === true && !declared.has('isError')) return true;
  return !declared.has('content') && !foreign.some((field) => declared.has(field));
}
