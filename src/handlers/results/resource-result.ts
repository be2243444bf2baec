import type { InputRequiredResult, ReadResourceResult } from '@modelcontextprotocol/server';
import { isInputRequiredResult, ResourceNotFoundError } from '../../wire/spec.js';
import { invocationMessages } from '../invocation.messages.js';
import { assertSpecified, isDense, isRecord } from './content.js';
import { HandlerResultError } from './handler-result.error.js';
import { jsonOf, plain } from './tool-result.js';

type Contents = ReadResourceResult['contents'][number];

/**
 * The result of a resource from what its method returned: a text, bytes, contents (one or several), a whole result, or
 * any other object, which is sent as JSON. Every entry of the contents says its URI and media type: its own, else those
 * of the resource, else what follows from the value.
 *
 * @param uri as the client asked for it
 * @param mimeType of the resource, as its list entry says
 * @throws ResourceNotFoundError for `undefined` and `null`
 * @throws HandlerResultError when it cannot be sent
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/resources#reading-resources
 */
export function toResourceResult(
  uri: string,
  mimeType: string | undefined,
  value: unknown,
): ReadResourceResult | InputRequiredResult {
  if (value === undefined || value === null) throw new ResourceNotFoundError(uri);
  if (isInputRequiredResult(value)) return value;
  const contents = (part: unknown): Contents => contentsOf(part, uri, mimeType);
  if (isRecord(value) && Array.isArray(value['contents'])) {
    const whole = plain(value) as ReadResourceResult;
    return asSpecified({ ...whole, contents: Array.from(whole.contents, contents) });
  }
  if (Array.isArray(value) && value.length > 0 && isDense(value) && value.every(isContents)) {
    return asSpecified({ contents: value.map(contents) });
  }
  return asSpecified({ contents: [contents(value)] });
}

/** @throws HandlerResultError */
function asSpecified(result: ReadResourceResult): ReadResourceResult {
  if (!isPlainText(result)) assertSpecified('ReadResourceResult', 'resource', result);
  return result;
}

/** Texts and nothing else, as most results are: right beyond doubt, without the schema. */
function isPlainText({ contents, ...rest }: ReadResourceResult): boolean {
  return Object.keys(rest).length === 0 && contents.every(isPlainContents);
}

function isPlainContents(contents: object): boolean {
  const { uri, mimeType, text, ...more } = contents as Readonly<Record<string, unknown>>;
  return [uri, mimeType, text].every((field) => typeof field === 'string') && Object.keys(more).length === 0;
}

function contentsOf(value: unknown, uri: string, mimeType: string | undefined): Contents {
  if (typeof value === 'string') return { uri, mimeType: mimeType ?? 'text/plain', text: value };
  if (value instanceof Uint8Array) {
    return { uri, mimeType: mimeType ?? 'application/octet-stream', blob: base64(value) };
  }
  if (isContents(value)) {
    const fallback = mimeType ?? ('text' in value ? 'text/plain' : 'application/octet-stream');
    return { ...value, uri: value.uri ?? uri, mimeType: value.mimeType ?? fallback };
  }
  if (typeof value !== 'object') throw new HandlerResultError(invocationMessages.unsendable(typeof value));
  return { uri, mimeType: mimeType ?? 'application/json', text: jsonOf(value) };
}

/** An entry of the contents, whose URI and media type may be left out. */
function isContents(value: unknown): value is Partial<Contents> & ({ text: string } | { blob: string }) {
  return isRecord(value) && (typeof value['text'] === 'string' || typeof value['blob'] === 'string');
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}
