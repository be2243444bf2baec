import { McpError } from './errors.js';
import { isObject, type JsonRpcRequest } from './json-rpc.js';

/** A URI that a client sends has at most this many characters. */
export const MAX_URI_CHARACTERS = 2_048;

type Params = JsonRpcRequest['params'];

const ofParams = (params: Params): unknown => params?.['uri'];

/**
 * Reads the URI in the parameters of a method. One that is too long is refused before any code of an app or of the SDK
 * compares it with templates (D29).
 */
export const URI_OF: ReadonlyMap<string, (params: Params) => unknown> = new Map([
  ['resources/read', ofParams],
  ['resources/subscribe', ofParams],
  ['resources/unsubscribe', ofParams],
  ['completion/complete', ofReference],
]);

function ofReference(params: Params): unknown {
  const ref: unknown = params?.['ref'];
  return isObject(ref) ? ref['uri'] : undefined;
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
