import { check, namesOf } from '../common/option-checks.js';
import { type McpResponseOptions, resolveResponseOptions } from '../exchange/response.options.js';
import type { HostOriginOptions } from './edge/host-origin.js';
import { defaultPrincipal, type PrincipalFunction } from './principal.js';

/** How the endpoint speaks HTTP. @publicApi */
export interface McpHttpOptions extends HostOriginOptions, McpResponseOptions {
  /**
   * Returns the caller of a request: an id that stays the same when a token is refreshed, or `undefined` for an
   * anonymous caller. It receives the request after the guards have run (Express' `Request` or Fastify's
   * `FastifyRequest`). A session belongs to the principal that initialized it; for other principals it does not exist.
   *
   * Numbers, bigints and an `ObjectId` of MongoDB are converted to strings. A request that has a `user` but no
   * principal is refused (500): as anonymous callers, such users would share their sessions.
   *
   * With the option `auth` a caller with a token is `<issuer>|<sub>`, and a request whose `user` is somebody else is
   * refused (403); a function given here decides alone.
   *
   * @default request.user?.sub ?? request.user?.id ?? request.user?.userId ?? request.user?._id ?? request.auth?.extra?.sub
   */
  principal?: PrincipalFunction;
  /**
   * Maximum size of the body of a POST in bytes, counted while reading; a larger one gets 413. Other routes of the app
   * keep their own limits. Raising it lets one request use more memory.
   *
   * @default 4194304 (4 MiB)
   */
  maxBodyBytes?: number;
  /**
   * Milliseconds within which the body of a request must arrive; otherwise it gets 408. Raise it for clients on slow
   * networks.
   *
   * @default 30000
   */
  bodyTimeoutMs?: number;
}

export const HTTP_NAMES = namesOf<McpHttpOptions>({
  ...{ principal: true, maxBodyBytes: true, bodyTimeoutMs: true, keepAliveMs: true, maxBufferedBytes: true },
  ...{ allowedHosts: true, allowedOrigins: true },
});

/** Every option, decided. */
export type ResolvedHttpOptions = Required<McpHttpOptions>;

/** The injection token of the {@link ResolvedHttpOptions}. */
export const HTTP_OPTIONS = Symbol('nestjs-mcp-streamable:http-options');

/** @throws McpOptionError */
export function resolveHttpOptions(options: McpHttpOptions = {}): ResolvedHttpOptions {
  const { principal = defaultPrincipal, maxBodyBytes = 4 * 1024 ** 2, bodyTimeoutMs = 30_000 } = options;
  const { allowedHosts = [], allowedOrigins = [] } = options;
  return {
    principal: check.fn('principal', principal)!,
    maxBodyBytes: check.count('maxBodyBytes', maxBodyBytes),
    bodyTimeoutMs: check.timer('bodyTimeoutMs', bodyTimeoutMs),
    ...resolveResponseOptions(options),
    allowedHosts: check.texts('allowedHosts', allowedHosts),
    allowedOrigins: check.texts('allowedOrigins', allowedOrigins),
  };
}
