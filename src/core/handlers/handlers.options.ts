import type { CanActivate, Type } from '@nestjs/common';
import { count, flag, group, isDevelopment, list, oneOf, type OptionTable, type Resolved } from '../common/options.js';
import { CACHE_TABLE, type McpCacheHints } from './decorators/handler-options.js';

/** Decides how the handlers of an endpoint are listed, and what clients read of their failures. @internal */
export interface McpHandlerOptions {
  /**
   * Entries per page of a list of tools, resources, templates or prompts. Lower: smaller responses, but clients that do
   * not request further pages miss the rest.
   *
   * @default 1000
   * @see https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/pagination
   */
  pageSize?: number;
  /**
   * Classes of global guards (`APP_GUARD`, `useGlobalGuards()`) that also decide what lists show a caller. The guards of
   * classes and methods always do, unless they ask for arguments. Each guard named here runs once for each entry of a
   * list: name none that counts calls, or that looks up a token.
   *
   * @default none
   */
  listGuards?: readonly Type<CanActivate>[];
  /**
   * Says how long clients of revision 2026-07-28 may keep lists, and the result of `server/discover`, before they ask again.
   * Higher: fewer requests; clients that do not subscribe to changes see them later. `scope: 'public'` lets caches
   * between clients and server give one caller's answer to another. It has no effect, and `private` is sent, where the
   * endpoint or the app has guards, where an entry of the list has, and to callers with a principal.
   *
   * @default { ttlMs: 0, scope: 'private' }
   * @see https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
   */
  listCache?: McpCacheHints;
  /**
   * Whether clients receive the message of an `Error` that a handler throws: of a tool as a result with `isError`, so
   * that the model can correct its call; of other handlers as the JSON-RPC error -32603. At most 2,000 characters of
   * it, and never its stack or its cause. `false`: a generic text instead. Messages of databases and drivers name
   * hosts, tables and paths, so by default only callers on this machine receive it: those whose connection comes from a
   * loopback address, for a loopback Host and without headers of a proxy, and those of stdio and of the app itself.
   * `true`: all clients. Has no effect on `HttpException`, `McpError` and `ProtocolError`: those below status 500 always
   * reach the client, those from 500 on never do.
   *
   * @default callers on this machine; `false` if `NODE_ENV` is `production`
   * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools#error-handling
   */
  errorDetails?: boolean;
  /**
   * Decides what the client of a tool gets when a guard denies the call. `result`: a result with `isError` and the text of the
   * exception, which the model reads. `http`: HTTP 403, as from a route; agent frameworks take that for a broken transport
   * and stop. A 401, and a denial that carries `WWW-Authenticate`, is HTTP in any case, so that clients can authorize. So
   * are denials of resources, prompts and completions, whose results cannot say that they failed.
   *
   * @default 'result'
   */
  denials?: 'result' | 'http';
  /**
   * Maximum size in bytes of the result of a tool, as JSON. A larger result is replaced by one with `isError` that
   * names its size and the arguments by which to ask for less: agents truncate or refuse results that do not fit into
   * the context of their model, often from 100 kB on. Lower: a call takes less of that context, and more calls have to
   * be repeated. `maxResultBytes` of a tool takes precedence. No effect with the option `server`.
   *
   * @default Infinity
   */
  maxResultBytes?: number;
  /**
   * Whether structured content that a tool returns is repeated as a text block, for clients that do not read it.
   * `false` halves such results; the specification recommends the text. `textMirror` of a tool takes precedence.
   *
   * @default true
   * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools#structured-content
   */
  textMirror?: boolean;
  /**
   * Whether the endpoint serves only tools with `readOnlyHint`, such as those of GET routes. Others are left out of its list, a call of one
   * is answered as if it did not exist, and `McpRegistry` refuses them. Resources and prompts are served.
   *
   * @default false
   */
  readOnly?: boolean;
  /**
   * Whether the log warns at start of tools that clients refuse, or models choose badly among, and once of each tool whose
   * result is larger than clients accept; see the doctor. `true`: also with `NODE_ENV=production`; each answer
   * of a tool is then measured. No effect with the option `server`.
   *
   * @default true; `false` if `NODE_ENV` is `production` or `test`
   */
  doctor?: boolean;
}

export const HANDLER_TABLE = {
  pageSize: count(1_000),
  listGuards: list(undefined, (guard) => typeof guard === 'function', 'an array of guard classes'),
  listCache: group({ ttlMs: 0 }, CACHE_TABLE),
  // The default depends on the caller, and on NODE_ENV.
  errorDetails: flag(undefined),
  denials: oneOf('result', ['result', 'http']),
  maxResultBytes: count(Infinity, { infinite: true }),
  textMirror: flag(true),
  readOnly: flag(false),
  doctor: (given, option) => flag(isDevelopment())(given, option),
} satisfies OptionTable<McpHandlerOptions>;

export type ResolvedHandlerOptions = Resolved<typeof HANDLER_TABLE>;

/** These options decide how failures of handlers are answered. */
export type FailureOptions = Pick<ResolvedHandlerOptions, 'errorDetails' | 'denials'>;

/** These options decide how results of tools are answered, unless the tool overrides them. */
export type ToolResultOptions = Pick<McpHandlerOptions, 'maxResultBytes' | 'textMirror'>;

/**
 * Returns whether callers on this machine receive the messages of errors, if the option `errorDetails` is not given.
 */
export function detailsForLocalCallers(): boolean {
  return process.env['NODE_ENV'] !== 'production';
}
