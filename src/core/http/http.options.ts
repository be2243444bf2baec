import { count, functionOf, type OptionTable, type Resolved, timer } from '../common/options.js';
import { type McpResponseOptions, RESPONSE_TABLE } from '../calls/response.options.js';
import { HOST_ORIGIN_TABLE, type HostOriginOptions } from './edge/host-origin.js';
import { defaultPrincipal, type McpPrincipalFunction } from './principal.js';

/** Decides how the endpoint speaks HTTP. @internal */
export interface McpHttpOptions extends HostOriginOptions, McpResponseOptions {
  /**
   * Returns the caller of a request: an id that stays the same when a token is refreshed, or `undefined` for an
   * anonymous caller. It receives the request after the guards have run (Express' `Request` or Fastify's
   * `FastifyRequest`). A session belongs to the principal that initialized it; for other principals it does not exist.
   *
   * Numbers, bigints and an `ObjectId` of MongoDB are converted to strings. A request that has a `user` but no
   * principal is refused (500): as anonymous callers, such users would share their sessions.
   *
   * With the option `auth` a caller with a token is `<issuer>|<sub>`, and a request whose `user` is another one is
   * refused (403); a function given here decides alone.
   *
   * @default request.user?.sub ?? request.user?.id ?? request.user?.userId ?? request.user?._id ?? request.auth?.extra?.sub
   */
  principal?: McpPrincipalFunction;
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

export const HTTP_TABLE = {
  principal: functionOf(defaultPrincipal),
  maxBodyBytes: count(4 * 1024 ** 2),
  bodyTimeoutMs: timer(30_000),
  ...RESPONSE_TABLE,
  ...HOST_ORIGIN_TABLE,
} satisfies OptionTable<McpHttpOptions>;

export type ResolvedHttpOptions = Resolved<typeof HTTP_TABLE>;
