/** This header has the session id; its name is in the lower case of Node's header objects. @internal */
export const SESSION_ID_HEADER = 'mcp-session-id';

/** This header has the protocol revision; its name is in the lower case of Node's header objects. @internal */
export const PROTOCOL_VERSION_HEADER = 'mcp-protocol-version';

/** This header has the cursor to resume from; its name is in the lower case of Node's header objects. @internal */
export const LAST_EVENT_ID_HEADER = 'last-event-id';

/**
 * This header mirrors the method of a modern request; its name is in the lower case of Node's header objects.
 *
 * @internal
 */
export const METHOD_HEADER = 'mcp-method';

/**
 * This header mirrors what a modern request names; its name is in the lower case of Node's header objects.
 *
 * @internal
 */
export const NAME_HEADER = 'mcp-name';

/** Node gives the headers of a request with names in lower case. @internal */
export type RequestHeaders = Readonly<Record<string, string | string[] | undefined>>;

/**
 * Returns the value of a header that may occur once.
 *
 * Several lines are joined as RFC 9110 §5.2 says, rather than one of them chosen: contradicting lines then fail their
 * validation, and a proxy cannot be made to read another value than this server.
 *
 * @param value as Node gives it
 * @returns the value, or `undefined` if the header is absent
 * @internal
 */
export function singleHeader(value: string | string[] | undefined): string | undefined {
  if (!Array.isArray(value)) return value;
  return value.length === 0 ? undefined : value.join(', ');
}

/**
 * Returns the cursor that a client resumes from. An empty one is none: it is what an `EventSource` has before its first
 * event (HTML, "Server-sent events").
 *
 * @internal
 */
export function cursorOf(headers: RequestHeaders): string | undefined {
  const cursor = singleHeader(headers[LAST_EVENT_ID_HEADER]);
  return cursor === '' ? undefined : cursor;
}

const ENCODED_PREFIX = '=?base64?';
const ENCODED_SUFFIX = '?=';
/** Matches visible ASCII with spaces and tabs inside only, which arrives as it was sent (RFC 9110 §5.5). */
const PLAIN = /^[!-~](?:[\t -~]*[!-~])?$/;
const NOT_ASCII = /[^\t -~]/;
/** Keeps a byte order mark: it belongs to the value. */
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Returns the text of a primitive value, as a header mirrors it (2026-07-28, Streamable HTTP, "Value Encoding").
 *
 * @returns `undefined` for what no header mirrors: `null`, objects, arrays, numbers beyond the safe integers
 * @internal
 */
export function headerText(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  if (typeof value === 'boolean') return String(value);
  return typeof value === 'number' && Math.abs(value) <= Number.MAX_SAFE_INTEGER ? String(value) : undefined;
}

/**
 * Encodes a value of the body for a header: its text, or `=?base64?…?=` around the base64 of its UTF-8 when it would
 * not arrive as it is, or would be taken for base64 itself ("Value Encoding", C13).
 *
 * @returns `undefined` for what must not be sent: see {@link headerText}
 * @internal
 */
export function encodeHeaderValue(value: unknown): string | undefined {
  const text = headerText(value);
  if (text === undefined || (PLAIN.test(text) && !isEncoded(text))) return text;
  const bytes = Array.from(new TextEncoder().encode(text), (byte) => String.fromCodePoint(byte));
  return ENCODED_PREFIX + btoa(bytes.join('')) + ENCODED_SUFFIX;
}

/**
 * The value that a header mirrors: the reverse of {@link encodeHeaderValue} (M4).
 *
 * @param value without white space around it, as Node's parser leaves it
 * @returns `undefined` when it is not what a client may send: not ASCII, or marked as base64 without being canonical
 * base64 (RFC 4648 §3.5) of valid UTF-8
 * @internal
 */
export function decodeHeaderValue(value: string): string | undefined {
  if (NOT_ASCII.test(value)) return undefined;
  if (!isEncoded(value)) return value;
  const base64 = value.slice(ENCODED_PREFIX.length, -ENCODED_SUFFIX.length);
  try {
    const bytes = atob(base64);
    // Each value has one encoding, but atob() accepts white space, missing padding and stray bits.
    if (btoa(bytes) !== base64) return undefined;
    return UTF8.decode(Uint8Array.from(bytes, (byte) => byte.codePointAt(0)!));
  } catch {
    return undefined;
  }
}

/** The marks are case-sensitive ("Value Encoding"). */
function isEncoded(value: string): boolean {
  return value.startsWith(ENCODED_PREFIX) && value.endsWith(ENCODED_SUFFIX);
}
