import { McpError } from './errors.js';
import { isObject, type JsonRpcRequest } from './json-rpc.js';

/** Characters of a URI that a client sends. */
export const MAX_URI_CHARACTERS = 2_048;

/**
 * Refuses a request with a URI that is too long, before any code of an app or of the SDK compares it with templates (D29).
 *
 * @throws McpError INVALID_PARAMS
 */
export function assertUriOf({ method, params }: JsonRpcRequest): void {
  switch (method) {
    case 'resources/read':
    case 'resources/subscribe':
    case 'resources/unsubscribe':
      return assertUri(params?.['uri']);
    case 'completion/complete': {
      const ref: unknown = params?.['ref'];
      return assertUri(isObject(ref) ? ref['uri'] : undefined);
    }
  }
}

/** @throws McpError INVALID_PARAMS */
export function assertUri(uri: unknown, what = 'The URI'): void {
  if (typeof uri !== 'string' || uri.length <= MAX_URI_CHARACTERS) return;
  const text = `${what} has ${uri.length} characters; the maximum is ${MAX_URI_CHARACTERS}. Use a shorter URI.`;
  throw new McpError('INVALID_PARAMS', text);
}
