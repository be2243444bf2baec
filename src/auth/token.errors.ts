import { HttpException } from '@nestjs/common';
import { DENIAL_DATA } from '../core/handlers/handlers.errors.js';
import { shown } from '../core/protocol/errors.js';

/**
 * Thrown when a token is refused, with the error code of the challenge (RFC 6750 §3.1). The message is for the client.
 *
 * @internal
 */
export class TokenRefusedError extends Error {
  override readonly name = 'TokenRefusedError';

  constructor(
    readonly code: 'invalid_request' | 'invalid_token' | 'insufficient_scope',
    message: string,
    /** The option of the endpoint that decides the refusal. */
    readonly option?: string,
  ) {
    super(message);
  }
}

/**
 * Returns the refusal that an error of a verifier means, from any copy of the SDK; `undefined`: the verifier has
 * failed.
 */
export function refusalBy(error: unknown): TokenRefusedError | undefined {
  if (error instanceof TokenRefusedError) return error;
  if (error instanceof HttpException && error.getStatus() === 401)
    return new TokenRefusedError('invalid_token', 'The token is not valid');
  const { code, errorCode = code, message } = (error ?? {}) as Record<string, unknown>;
  if (errorCode !== 'invalid_token' && errorCode !== 'insufficient_scope') return undefined;
  return new TokenRefusedError(errorCode, typeof message === 'string' && message !== '' ? message : shown(errorCode));
}

/**
 * Thrown when a handler needs scopes that its caller does not have: 403, or 401 for a caller without a token. The guard
 * of `@RequireScopes()` throws it, so that filters of the app can distinguish it from other denials.
 *
 * @publicApi
 */
export class McpInsufficientScopeError extends HttpException {
  override readonly name = 'McpInsufficientScopeError';
  readonly code = 'INSUFFICIENT_SCOPE';
  /** Carries the scopes where HTTP has no status for them: in a batch, and after a stream has begun. @internal */
  readonly [DENIAL_DATA]: { readonly scopes: readonly string[] };

  constructor(
    status: 401 | 403,
    message: string,
    /** The operation needs all of these. */
    readonly scopes: readonly string[],
  ) {
    super(message, status);
    this[DENIAL_DATA] = { scopes };
  }
}
