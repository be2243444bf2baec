import { McpError } from './errors.js';
import { isObject, type JsonRpcNotification, type JsonRpcRequest } from './json-rpc.js';
import { METHODS } from './methods.js';

/** A URI that a client sends has at most this many characters. */
export const MAX_URI_CHARACTERS = 2_048;

type Params = JsonRpcRequest['params'];

/** Returns the URI in the parameters of a method that has one. */
export function uriOf(method: string, params: Params): unknown {
  if (METHODS.get(method)?.uri !== 'ref') return params?.['uri'];
  const ref: unknown = params?.['ref'];
  return isObject(ref) ? ref['uri'] : undefined;
}

/** Matches the `%XX` of one character in UTF-8, any other `%XX`, and a `%` that begins none. */
const ESCAPES =
  /%[0-7][\dA-F]|%[CD][\dA-F]%[89AB][\dA-F]|%E[\dA-F](?:%[89AB][\dA-F]){2}|%F[0-7](?:%[89AB][\dA-F]){3}|%[\dA-F]{2}|%/gi;
/** Matches what needs no escape: the unreserved characters (RFC 3986 §2.3), and those of IRIs (RFC 3987). */
const UNESCAPED = /^(?:[\w.~-]|\P{ASCII})$/u;
const SCHEME = /^[A-Z][A-Z\d+.-]*:/i;
/** Matches the scheme, the user and the host, where it is a host: `orders://A-7` has an id of the app in its place. */
const HOST = /^((?:https?|wss?|ftp|file):\/\/(?:[^/?#]*@)?)([^/?#]*)/;
const EMPTY_PATH = /^(https?:\/\/[^/?#]+)(?=[?#]|$)/;

/**
 * Returns the form in which URIs are compared (RFC 3986 §6.2.2, D41): two URIs are the same resource if their forms are
 * equal. A `%` that is no escape is written as `%25`, so that nothing is decoded twice.
 */
export function canonicalUri(uri: string): string {
  return uri
    .replace(ESCAPES, canonicalEscape)
    .replace(SCHEME, (scheme) => scheme.toLowerCase())
    .replace(HOST, (_, before: string, host: string) => before + host.replace(/%..|[A-Z]+/g, lowerCase))
    .replace(EMPTY_PATH, '$1/');
}

function canonicalEscape(escape: string): string {
  if (escape === '%') return '%25';
  try {
    const character = decodeURIComponent(escape);
    if (UNESCAPED.test(character)) return character;
  } catch {
    // It is no UTF-8, and stays an escape.
  }
  return escape.toUpperCase();
}

function lowerCase(part: string): string {
  return part.startsWith('%') ? part : part.toLowerCase();
}

/** Returns the form of a URI (D41) in which it is ASCII, as the URIs are that an SDK makes. */
export function asciiUri(uri: string): string {
  return canonicalUri(uri).replace(/[^\p{ASCII}\p{Cs}]+/gu, encodeURIComponent);
}

/** Returns a message with its URI in the form in which URIs are compared. One that is too long stays, and is refused. */
export function withCanonicalUri<Message extends JsonRpcRequest | JsonRpcNotification>(message: Message): Message {
  const { method, params } = message;
  if (METHODS.get(method)?.uri !== 'params') return message;
  const uri: unknown = params?.['uri'];
  if (typeof uri !== 'string' || uri.length > MAX_URI_CHARACTERS) return message;
  const form = canonicalUri(uri);
  return form === uri ? message : { ...message, params: { ...params, uri: form } };
}

/** @throws McpError INVALID_PARAMS */
export function assertUri(uri: unknown, what = 'The URI'): void {
  if (typeof uri !== 'string' || uri.length <= MAX_URI_CHARACTERS) return;
  const text = `${what} has ${uri.length} characters; the maximum is ${MAX_URI_CHARACTERS}. Use a shorter URI.`;
  throw new McpError('INVALID_PARAMS', text);
}

/** Returns the URLs where the metadata of an authorization server may be (RFC 8414 §3, OpenID Connect Discovery §4). */
export function metadataUrls(issuer: string): string[] {
  const { origin, pathname } = new URL(issuer);
  const path = pathname.replace(/\/$/, '');
  const found = [
    `${origin}/.well-known/oauth-authorization-server${path}`,
    `${origin}/.well-known/openid-configuration${path}`,
    `${origin}${path}/.well-known/openid-configuration`,
  ];
  return [...new Set(found)];
}
