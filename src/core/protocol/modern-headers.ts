import { PROTOCOL_VERSION_META_KEY } from './era.js';
import { excerpt, McpError, shown } from './errors.js';
import {
  decodeHeaderValue,
  encodeHeaderValue,
  headerText,
  METHOD_HEADER,
  NAME_HEADER,
  PROTOCOL_VERSION_HEADER,
  type RequestHeaders,
  singleHeader,
} from './headers.js';
import type { JsonRpcNotification, JsonRpcRequest } from './json-rpc.js';
import { METHODS } from './methods.js';
import type { ParamHeader } from './param-headers.js';

/**
 * Modern requests repeat parts of their bodies in headers, for proxies: revision, method, name, and the arguments that
 * a tool declares. A proxy reads the header, this server the body, so a request whose headers differ from its body is
 * refused (2026-07-28, Streamable HTTP, "Server Validation"; M4).
 *
 * This file has both directions: creating the headers of a client, and checking the headers of a request.
 */

/**
 * Returns the name of the header that mirrors an argument.
 *
 * @param headerName `Region` for `Mcp-Param-Region`
 * @internal
 */
export function paramHeaderName(headerName: string): string {
  return `Mcp-Param-${headerName}`;
}

/**
 * Returns the headers that a client sends with a modern message, as they go over the wire (C13).
 *
 * @param message as its JSON will say it: a `Date` among the arguments is not a text yet
 * @param declarations those of the tool that is called
 * @returns by name; without those whose value is absent, `null`, or that no header can carry
 * @internal
 */
export function mirrorHeaders(
  { method, params }: JsonRpcRequest | JsonRpcNotification,
  declarations: readonly ParamHeader[] = [],
): Record<string, string> {
  const mirrored: [string, unknown][] = [
    [PROTOCOL_VERSION_HEADER, params?._meta?.[PROTOCOL_VERSION_META_KEY]],
    [METHOD_HEADER, method],
    [NAME_HEADER, nameOf(method, params)?.value],
  ];
  for (const { headerName, path } of declarations) {
    mirrored.push([paramHeaderName(headerName), valueAt(params?.arguments, path)]);
  }
  return Object.fromEntries(
    mirrored.flatMap(([name, value]) => {
      const encoded = encodeHeaderValue(value);
      return encoded === undefined ? [] : [[name, encoded]];
    }),
  );
}

/**
 * Checks that the standard headers are there, and that `Mcp-Name` says what the body says; of the others the classifier of
 * the request has compared what is there.
 *
 * Decides as the SDK does, except that it refuses names that are not ASCII, or not canonical base64.
 *
 * @param request whose `_meta` has been checked
 * @throws McpError `HEADER_MISMATCH`, with `data.mismatch`: the `header` as it came, and what the `body` says
 * @internal
 */
export function checkStandardHeaders(headers: RequestHeaders, request: JsonRpcRequest): void {
  const { method, params } = request;
  if (headers[PROTOCOL_VERSION_HEADER] === undefined) {
    throw missing('MCP-Protocol-Version', VERSION_SOURCE, params?._meta?.[PROTOCOL_VERSION_META_KEY]);
  }
  if (headers[METHOD_HEADER] === undefined) throw missing('Mcp-Method', 'method', method);
  checkName(headers, request);
}

/**
 * Checks the headers that mirror the arguments of a tool. One whose argument is absent or `null` is not looked at, and
 * neither is one whose argument is an object or an array: such an argument fails its schema.
 *
 * Decides as the SDK does, with the exceptions of {@link checkStandardHeaders}, and one more: an integer that a header
 * cannot represent is refused, since no proxy could see the value that the tool gets.
 *
 * @param declarations those of the tool
 * @param args `params.arguments` as it came, not validated
 * @returns McpError `HEADER_MISMATCH`, with `data.mismatch`: the name of the `header`, and what the `body` says
 * @internal
 */
export function paramHeadersFault(
  declarations: readonly ParamHeader[],
  args: unknown,
  headers: RequestHeaders,
): McpError | undefined {
  for (const declaration of declarations) {
    const body = paramMismatch(declaration, valueAt(args, declaration.path), headers);
    if (body !== undefined) return refusal({ header: paramHeaderName(declaration.headerName), body });
  }
  return undefined;
}

/**
 * Names the header of revision or method that differs from the body; the text of the classifier would repeat both whole.
 *
 * @param message that the classifier has refused
 * @returns `undefined` if neither differs
 * @internal
 */
export function differentHeader(
  headers: RequestHeaders,
  { method, params }: JsonRpcRequest | JsonRpcNotification,
): McpError | undefined {
  const pairs: [string, string | undefined, string, unknown][] = [
    [
      'MCP-Protocol-Version',
      singleHeader(headers[PROTOCOL_VERSION_HEADER]),
      VERSION_SOURCE,
      params?._meta?.[PROTOCOL_VERSION_META_KEY],
    ],
    ['Mcp-Method', singleHeader(headers[METHOD_HEADER]), 'method', method],
  ];
  for (const [header, got, source, value] of pairs) {
    if (got === undefined || value === undefined || got.trim() === value) continue;
    return refusal({ header: excerpt(got), body: different(header, got, source, value) });
  }
  return undefined;
}

/** `error.data.mismatch` has it, as in the SDK. */
interface Mismatch {
  readonly header: string;
  readonly body: string;
}

function refusal(mismatch: Mismatch): McpError {
  const text = `The headers of the request disagree with its body: ${mismatch.body}. Send the value of the body in the header, as "=?base64?…?=" if it is not plain ASCII.`;
  return new McpError('HEADER_MISMATCH', text, { data: { mismatch } });
}

const VERSION_SOURCE = `_meta["${PROTOCOL_VERSION_META_KEY}"]`;

/** Compares the name; this check does not refuse a body without one. */
function checkName(headers: RequestHeaders, { method, params }: JsonRpcRequest): void {
  const named = nameOf(method, params);
  if (!named) return;
  const { source, value } = named;
  const got = singleHeader(headers[NAME_HEADER]);
  if (got === undefined) {
    if (value === undefined) return;
    throw missing('Mcp-Name', source, value);
  }
  const decoded = decodeHeaderValue(got);
  if (decoded === undefined) throw refusal({ header: excerpt(got), body: badlyEncoded('Mcp-Name', got) });
  if (value !== undefined && decoded !== value) {
    throw refusal({ header: excerpt(got), body: different('Mcp-Name', decoded, source, value) });
  }
}

/** Returns the value that `Mcp-Name` mirrors; `undefined` for a method that names nothing. */
function nameOf(method: string, params: JsonRpcRequest['params']): { source: string; value?: string } | undefined {
  const field = METHODS.get(method)?.mirrored;
  if (field === undefined) return undefined;
  const value: unknown = params?.[field];
  return { source: `params.${field}`, ...(typeof value === 'string' && { value }) };
}

function missing(header: string, source: string, value: unknown): McpError {
  return refusal({ header: '(missing)', body: absent(header, source, value) });
}

/** @returns the fault, or `undefined` */
function paramMismatch(
  { headerName, path, type }: ParamHeader,
  value: unknown,
  headers: RequestHeaders,
): string | undefined {
  const header = paramHeaderName(headerName);
  const source = `arguments.${path.join('.')}`;
  if (typeof value === 'number' && headerText(value) === undefined) {
    return `the body has ${shown(value)} as ${source}, which the header ${header} cannot represent: integers in headers are from -(2^53 - 1) to 2^53 - 1`;
  }
  const text = headerText(value);
  if (text === undefined) return undefined;
  const got = singleHeader(headers[header.toLowerCase()]);
  if (got === undefined) return absent(header, source, value);
  const decoded = decodeHeaderValue(got);
  if (decoded === undefined) return badlyEncoded(header, got);
  if (decoded === text || (type === 'integer' && isSameInteger(decoded, value))) return undefined;
  return different(header, decoded, source, value);
}

/** Matches an integer, also one with decimals that are all zero, or with zeros in front ("Server Validation", note). */
const INTEGER = /^-?\d+(?:\.0+)?$/;

function isSameInteger(text: string, value: unknown): boolean {
  return typeof value === 'number' && INTEGER.test(text) && Number(text) === value;
}

/** Reads own properties only, because an argument may have any name. */
function valueAt(root: unknown, path: readonly string[]): unknown {
  let value = root;
  for (const name of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
    value = (value as Record<string, unknown>)[name];
  }
  return value;
}

function absent(header: string, source: string, value: unknown): string {
  return `the body has ${shown(value)} as ${source}, but the header ${header} is missing`;
}

function different(header: string, got: string, source: string, value: unknown): string {
  return `the header ${header} is ${shown(got)}, but the body has ${shown(value)} as ${source}`;
}

function badlyEncoded(header: string, got: string): string {
  return `the header ${header} is ${shown(got)}, which is neither ASCII nor the canonical base64 of a text in UTF-8`;
}
