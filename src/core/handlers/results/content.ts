import { isObject } from '../../protocol/json-rpc.js';
import type { ContentBlock } from '@modelcontextprotocol/server';
import { StreamableFile } from '@nestjs/common';
import { excerpt } from '../../protocol/errors.js';
import { checkedBySpec, type SpecTypeName } from '../../protocol/spec.js';
import { McpHandlerResultError } from '../handlers.errors.js';
import { jsonWithoutFiles } from './files.js';

/** Checks the fields that each type of block must have besides its type. */
const BLOCK_FIELDS: Readonly<Record<string, (block: Record<string, unknown>) => boolean>> = {
  text: ({ text }) => typeof text === 'string',
  image: ({ data, mimeType }) => typeof data === 'string' && typeof mimeType === 'string',
  audio: ({ data, mimeType }) => typeof data === 'string' && typeof mimeType === 'string',
  resource: ({ resource }) => isObject(resource) && typeof resource['uri'] === 'string',
  resource_link: ({ uri, name }) => typeof uri === 'string' && typeof name === 'string',
};

const isBytes = (value: unknown): boolean =>
  ArrayBuffer.isView(value) || value instanceof ArrayBuffer || value instanceof Blob;

export function isContentBlock(value: unknown): value is ContentBlock {
  if (!isObject(value) || typeof value['type'] !== 'string') return false;
  return Object.hasOwn(BLOCK_FIELDS, value['type']) && BLOCK_FIELDS[value['type']]!(value);
}

/**
 * Returns the type of media that lack what a client needs to show them: alone, in an array, or as the content of a
 * result. An object of the app may have the type "image" too, but then hardly `data` or bytes.
 */
function almostBlockIn(value: unknown): string | undefined {
  for (const part of [value, ...partsOf(value)]) if (isObject(part) && isAlmostBlock(part)) return String(part['type']);
  return undefined;
}

/** Throws for a block: a resource has contents, which JSON of a block would not be. @throws McpHandlerResultError */
export function assertNoBlock(value: object): void {
  if (!isObject(value)) return;
  if (isAlmostBlock(value)) throw incompleteBlock(String(value['type']));
  if (!isContentBlock(value) || value.type === 'text') return;
  throw new McpHandlerResultError(
    `A resource returned a content block of the type "${value.type}", as tools and prompts have. Return image(bytes), audio(bytes) or file(bytes, { name }), which "nestjs-mcp-streamable" exports, or contents: { blob: <base64>, mimeType: "image/png" }.`,
  );
}

/** Returns the entries of an array, or of the content of a result. */
function partsOf(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  return isObject(value) && Array.isArray(value['content']) ? value['content'] : [];
}

function isAlmostBlock(value: Record<string, unknown>): boolean {
  if (isContentBlock(value)) return false;
  const { type, text, data, uri, blob, resource } = value;
  if (type === 'text') return isBytes(text);
  if (type === 'resource')
    return isObject(resource) ? 'blob' in resource || 'text' in resource : uri !== undefined && blob !== undefined;
  return (type === 'image' || type === 'audio') && (data !== undefined || Object.values(value).some(isBytes));
}

/** Refuses media beside something that is not content: as JSON the model would read their base64. @throws McpHandlerResultError */
export function assertContentAlone(value: unknown): void {
  const parts = partsOf(value);
  if (parts.every(isContentBlock)) return;
  const media = parts.find((part) => isContentBlock(part) && part.type !== 'text');
  if (!media) return;
  throw new McpHandlerResultError(
    `A handler returned content of the type "${media.type}" beside something that is not content. Return all parts as content: a text as text("…"), which "nestjs-mcp-streamable" exports, data as text(JSON.stringify(data)), or beside "content" in "structuredContent".`,
  );
}

export function isContentBlocks(value: unknown): value is ContentBlock[] {
  return Array.isArray(value) && isDense(value) && value.every(isContentBlock);
}

/** Returns whether an array has no holes: `every()` skips them, and JSON writes `null`. */
export function isDense(array: readonly unknown[]): boolean {
  return !array.includes(undefined);
}

export function textBlock(text: string): ContentBlock {
  return { type: 'text', text };
}

/**
 * Checks a complete result of a handler. Without the check the client would refuse it, without a line in the log.
 *
 * @throws McpHandlerResultError
 */
export function assertSpecified(type: SpecTypeName, kind: 'tool' | 'resource' | 'prompt', result: object): void {
  const { problem } = checkedBySpec(type, result);
  if (problem) throw notSpecified(kind, `${problem.path}: ${problem.message}`);
}

function notSpecified(kind: string, problem: string): McpHandlerResultError {
  return new McpHandlerResultError(
    `A ${kind} returned a result, or content, that does not match the specification. ${problem}`,
  );
}

/** Returns the error for a block without its fields. @param type the type of the block */
function incompleteBlock(type: string): McpHandlerResultError {
  const instead = { resource: 'file(bytes, { name })', text: 'text("…")' }[type] ?? `${type}(bytes)`;
  return new McpHandlerResultError(
    `A handler returned an incomplete content block of the type "${type}". Return ${instead}, which "nestjs-mcp-streamable" exports; or a block as the specification has it, such as { type: "image", data: <base64>, mimeType: "image/png" }.`,
  );
}

/**
 * Returns the `toJSON()` of a value that has one, such as a date or an entity of an ORM.
 *
 * @throws McpHandlerResultError, also for what is almost content
 */
export function plain(value: unknown): unknown {
  const almost = almostBlockIn(value);
  if (almost) throw incompleteBlock(almost);
  return plainData(value);
}

/** Does the same with data, which may look like content. @throws McpHandlerResultError */
export function plainData(value: unknown): unknown {
  if (typeof value === 'function' || typeof value === 'symbol') throw unsendable(typeof value);
  if (isBytes(value)) {
    throw new McpHandlerResultError(
      'A handler returned bytes without a media type. Return image(bytes), audio(bytes) or file(bytes, { name }), which "nestjs-mcp-streamable" exports.',
    );
  }
  const own = (value as { toJSON?: unknown } | null | undefined)?.toJSON;
  return typeof own === 'function' ? JSON.parse(jsonOf(value)) : value;
}

/** Returns the JSON of a value. @throws McpHandlerResultError when the value cannot be JSON, or JSON would lose a part of it */
export function jsonOf(value: unknown): string {
  assertNoStream(value);
  let text: string | undefined;
  try {
    text = jsonWithoutFiles(value);
  } catch (cause) {
    if (cause instanceof McpHandlerResultError) throw cause;
    throw new McpHandlerResultError(`A handler returned ${unwritableText(value)}.`, { cause });
  }
  if (text === undefined) throw unsendable('value that is undefined as JSON');
  // An empty object may be an entry of the app, or all that JSON has of a Map.
  const lost = text.includes('{}') ? lostIn(value) : undefined;
  if (!lost) return text;
  throw new McpHandlerResultError(
    `A handler returned ${shownPart(lost)}, of which JSON has nothing. Return a plain object, an array or a text, such as Object.fromEntries(map), [...set], error.message or await promise.`,
  );
}

/** A part of a value that JSON cannot have. */
interface LostPart {
  readonly what: string;
  readonly path: readonly string[];
}

/** Returns the name of a built-in class, such as `Map`; that of a class of the app is `Object`. */
function builtInName(value: object): string {
  return Object.prototype.toString.call(value).slice('[object '.length, -1);
}

/** Returns the first part of a value that JSON cannot have, or of which it has nothing. @param around the objects that the value is part of */
function lostIn(value: unknown, path: readonly string[] = [], around: readonly unknown[] = []): LostPart | undefined {
  const own = (value as { toJSON?: unknown } | null | undefined)?.toJSON;
  const written: unknown = typeof own === 'function' ? Reflect.apply(own, value, [path.at(-1) ?? '']) : value;
  if (typeof written === 'bigint') return { what: 'a bigint', path };
  if (typeof written !== 'object' || written === null) return undefined;
  if (around.includes(written)) return { what: 'a cycle', path };
  const parts = Object.entries(written);
  const name = builtInName(written);
  const isEmptied = parts.length === 0 && name !== 'Object' && !ArrayBuffer.isView(written);
  if (isEmptied && JSON.stringify(written) === '{}')
    return { what: `${/^[AEIO]/.test(name) ? 'an' : 'a'} ${name}`, path };
  for (const [key, part] of parts) {
    const lost = lostIn(part, [...path, key], [...around, written]);
    if (lost) return lost;
  }
  return undefined;
}

function shownPart({ what, path }: LostPart): string {
  return path.length === 0 ? what : `${what} at "${excerpt(path.join('.'))}"`;
}

/** Names the part because of which a value cannot be JSON. */
function unwritableText(value: unknown): string {
  const general = 'a value that cannot be written as JSON';
  try {
    const lost = lostIn(value);
    return lost ? `${general}: ${shownPart(lost)}` : `${general}; see the cause`;
  } catch {
    // A getter or a toJSON() throws, or the value is nested too deeply.
    return `${general}; see the cause`;
  }
}

/** Throws for a stream: JSON would contain its private fields. @throws McpHandlerResultError */
export function assertNoStream(value: unknown): void {
  if (value instanceof StreamableFile) {
    value.getStream().destroy();
    throw unsendable('StreamableFile');
  }
  if (Object.prototype.toString.call(value) === '[object Generator]') {
    throw unsendable('generator that is not async');
  }
}

/**
 * Advises on results that are not what the handler is declared to return: the app may have an interceptor for those of
 * routes.
 */
export const IF_WRAPPED =
  'If an interceptor of the app has wrapped it, let the interceptor skip MCP handlers: if (McpExecutionContext.isMcp(context)) return next.handle().';

export function unsendable(type: string): McpHandlerResultError {
  return new McpHandlerResultError(
    `A handler returned a ${type}, which cannot be sent. Return a string, an object, or content.`,
  );
}
