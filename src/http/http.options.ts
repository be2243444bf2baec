import { check, namesOf } from '../common/option-checks.js';
import { type McpResponseOptions, resolveResponseOptions } from '../exchange/response.options.js';
import { credentialsOf } from './credentials.js';
import type { HostOriginOptions } from './edge/host-origin.js';

/** The id of a caller: a text, or a value that has one text, such as a number or an `ObjectId`. @publicApi */
export type PrincipalId = string | number | bigint | { toHexString(): string };

/** Names the sender of a request; nothing, `''` and `NaN` are the anonymous caller. @publicApi */
export type PrincipalFunction = (
  request: never,
) => PrincipalId | null | undefined | Promise<PrincipalId | null | undefined>;

/** How the endpoint speaks HTTP. @publicApi */
export interface McpHttpOptions extends HostOriginOptions, McpResponseOptions {
  /**
   * Who sends a request: an id that stays the same when a token is refreshed, or `undefined` for anonymous. It gets the
   * request as the guards left it (Express' `Request` or Fastify's `FastifyRequest`). A session belongs to the principal
   * that initialized it; for other principals it does not exist.
   *
   * Numbers, bigints and an `ObjectId` of MongoDB are taken as their text. A request with a `user` for whom there is no
   * principal is refused (500): as anonymous callers, such users would share their sessions.
   *
   * With the option `auth` a caller with a token is `<issuer>|<sub>`, or `<issuer>|<client id>` for a token without `sub`.
   *
   * @default request.user?.sub ?? request.user?.id ?? request.user?.userId ?? request.user?._id ?? request.auth?.clientId
   */
  principal?: PrincipalFunction;
  /**
   * Bytes that the body of a POST may have. Counted while reading; the app's other routes keep their own limits.
   *
   * @default 4194304 (4 MiB)
   */
  maxBodyBytes?: number;
  /**
   * Milliseconds in which a body must arrive.
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

/** The properties that guards leave on a request: Passport's `user`, the MCP SDK's `auth`. */
interface Marked {
  readonly user?: unknown;
  readonly auth?: { readonly clientId?: unknown };
}

/** Express' request, or Fastify's, where middleware leaves its marks on Node's request. */
type MarkedRequest = Marked & { readonly raw?: Marked };

/**
 * The user that guards, or middleware, left on a request.
 *
 * @returns `undefined` also for the `false` that Passport leaves where signing in is optional
 * @internal
 */
export function userOf({ user, raw }: MarkedRequest): unknown {
  const left = user ?? raw?.user ?? false;
  return left === false ? undefined : left;
}

/** @internal */
export function defaultPrincipal(request: MarkedRequest): PrincipalId | null | undefined {
  const credentials = credentialsOf(request);
  if (credentials) return credentials.principal;
  const user = userOf(request);
  // Texts have a method "sub".
  const fields: Partial<Record<'sub' | 'id' | 'userId' | '_id', unknown>> = typeof user === 'object' ? user! : {};
  const id = fields.sub ?? fields.id ?? fields.userId ?? fields._id;
  // Many users have the same OAuth client: it must not stand for a user without an id.
  const byClient = user === undefined || (typeof user === 'object' && Object.keys(user!).length === 0);
  return (id ?? (byClient ? (request.auth ?? request.raw?.auth)?.clientId : undefined)) as PrincipalId | undefined;
}
