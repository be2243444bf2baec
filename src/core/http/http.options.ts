import { count, functionOf, type OptionTable, type Resolved, timer } from '../common/options.js';
import { MAX_VALUES } from '../protocol/values.js';
import { type McpResponseOptions, RESPONSE_TABLE } from '../calls/response.options.js';
import { HOST_ORIGIN_TABLE, type HostOriginOptions } from './edge/host-origin.js';
import { defaultPrincipal, type McpPrincipalFunction } from './principal.js';

/** Decides how the endpoint speaks HTTP. @internal */
export interface McpHttpOptions extends HostOriginOptions, McpResponseOptions {
  /**
   * Returns the caller of a request: an id that stays the same when a token is refreshed, or `undefined` for an
   * anonymous caller. It receives the request (Express' `Request` or Fastify's `FastifyRequest`) after the guards have
   * run. A session belongs to the principal that initialized it; other principals get the answer for an unknown
   * session.
   *
   * Numbers, bigints and an `ObjectId` of MongoDB are converted to strings. A request that has a `user` but no
   * principal is refused (500): as anonymous callers, such users would share their sessions.
   *
   * With the option `auth`, the principal of a token is `<issuer>|<sub>`. If the `user` of the request is another
   * caller, the request is refused (403). If you pass a function, it alone decides.
   *
   * @default request.user?.sub ?? request.user?.id ?? request.user?.userId ?? request.user?._id ?? request.auth?.extra?.sub
   */
  principal?: McpPrincipalFunction;
  /**
   * Limits the body of a POST, in bytes, counted while reading. A larger body gets 413. Other routes of the app keep
   * their own limits. A higher value lets one request use more memory.
   *
   * @default 4194304 (4 MiB)
   */
  maxBodyBytes?: number;
  /**
   * Limits the values in the body of a POST: items of lists and members of objects; an empty list or object counts once
   * more. A body with more gets 413 before it is parsed. A text is one value, however long it is. Lines over stdio and
   * calls of `McpToolCaller` have the same limit. A higher value lets one request use more time and memory, since the
   * schemas take microseconds and kilobytes for each value that does not fit.
   *
   * @default 100000; 10000 with the option `server`, since the SDK's servers look for all faults of a request
   */
  maxBodyValues?: number;
  /**
   * Limits the milliseconds in which the body of a request must arrive. A request whose body takes longer gets 408.
   * Raise the value for clients on slow networks.
   *
   * @default 30000
   */
  bodyTimeoutMs?: number;
  /**
   * Sets the bytes per second at which a body above 16 KiB must arrive. A request whose body arrives more slowly in any
   * 5 seconds gets 408, so that unfinished bodies do not take the room of others until `bodyTimeoutMs`. Lower the value
   * for clients on very slow networks; 0 disables the limit.
   *
   * @default 1024
   */
  minBodyBytesPerSecond?: number;
}

export const HTTP_TABLE = {
  principal: functionOf(defaultPrincipal),
  maxBodyBytes: count(4 * 1024 ** 2),
  maxBodyValues: count(undefined),
  bodyTimeoutMs: timer(30_000),
  minBodyBytesPerSecond: count(1_024, { min: 0 }),
  ...RESPONSE_TABLE,
  ...HOST_ORIGIN_TABLE,
} satisfies OptionTable<McpHttpOptions>;

export type ResolvedHttpOptions = Resolved<typeof HTTP_TABLE> & { readonly maxBodyValues: number };

/** The SDK's servers look for all faults of a request. */
const MAX_VALUES_OF_SERVERS = 10_000;

/** @param bySdk whether a server of the SDK serves the requests */
export function maxBodyValues({ maxBodyValues }: Resolved<typeof HTTP_TABLE>, bySdk: boolean): number {
  return maxBodyValues ?? (bySdk ? MAX_VALUES_OF_SERVERS : MAX_VALUES);
}
