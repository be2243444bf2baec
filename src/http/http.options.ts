import { check } from '../base/option-checks.js';
import type { HostOriginOptions } from './edge/host-origin.js';

/** Who sends a request. @publicApi */
export type PrincipalFunction = (request: never) => string | undefined | Promise<string | undefined>;

/** How the endpoint speaks HTTP. @publicApi */
export interface McpHttpOptions extends HostOriginOptions {
  /**
   * Who sends a request: a text that stays the same when a token is refreshed, or `undefined` for anonymous. It gets the
   * request as the guards left it (Express' `Request` or Fastify's `FastifyRequest`). A session belongs to the principal
   * that initialized it, and nobody else can tell that it exists.
   *
   * @default request.user?.sub ?? request.user?.id ?? request.auth?.clientId
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
  /**
   * Milliseconds between the comments that keep silent streams open. Longer than what a proxy on the way tolerates (often
   * 60 s), and it cuts them.
   *
   * @default 15000
   */
  keepAliveMs?: number;
  /**
   * Bytes that may wait for a slow client, per response. Above it no more events are read for that response; it is cut
   * when the log has forgotten its next event, or nothing was taken for two keep-alive periods. Raising it raises what
   * slow clients can make this process hold.
   *
   * @default 1048576 (1 MiB)
   */
  maxBufferedBytes?: number;
}

/** Every option, decided. */
export type ResolvedHttpOptions = Required<McpHttpOptions>;

/** The injection token of the {@link ResolvedHttpOptions}. */
export const HTTP_OPTIONS = Symbol('nestjs-mcp-streamable:http-options');

/** @throws McpOptionError */
export function resolveHttpOptions(options: McpHttpOptions = {}): ResolvedHttpOptions {
  const { principal = defaultPrincipal, maxBodyBytes = 4 * 1024 ** 2, bodyTimeoutMs = 30_000 } = options;
  const { keepAliveMs = 15_000, maxBufferedBytes = 1024 ** 2, allowedHosts = [], allowedOrigins = [] } = options;
  return {
    principal: check.fn('principal', principal)!,
    maxBodyBytes: check.count('maxBodyBytes', maxBodyBytes),
    bodyTimeoutMs: check.timer('bodyTimeoutMs', bodyTimeoutMs),
    keepAliveMs: check.timer('keepAliveMs', keepAliveMs),
    maxBufferedBytes: check.count('maxBufferedBytes', maxBufferedBytes),
    allowedHosts: check.texts('allowedHosts', allowedHosts),
    allowedOrigins: check.texts('allowedOrigins', allowedOrigins),
  };
}

/** What the guards of the Nest world usually leave behind: Passport's `user`, the MCP SDK's `auth`. */
function defaultPrincipal(request: {
  user?: { sub?: unknown; id?: unknown };
  auth?: { clientId?: unknown };
}): string | undefined {
  const id = request.user?.sub ?? request.user?.id ?? request.auth?.clientId;
  return typeof id === 'number' || typeof id === 'bigint' ? String(id) : (id as string | undefined);
}
