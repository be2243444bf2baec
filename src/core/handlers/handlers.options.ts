import type { CanActivate, Type } from '@nestjs/common';
import { count, flag, group, isDevelopment, list, oneOf, type OptionTable, type Resolved } from '../common/options.js';
import { CACHE_TABLE, type McpCacheHints } from './decorators/handler-options.js';

/** Decides how the handlers of an endpoint are listed, and what clients read of their failures. @internal */
export interface McpHandlerOptions {
  /**
   * The number of entries per page of a list of tools, resources, templates or prompts. With a lower value responses
   * are smaller, but clients that do not request further pages miss the rest.
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
   * Says how long clients of revision 2026-07-28 may keep lists, and the result of `server/discover`, before they ask
   * again. With a higher value there are fewer requests, and clients that do not subscribe to changes see them later.
   * `scope: 'public'` lets caches between clients and server give one caller's answer to another. `private` is sent
   * instead if the endpoint, the app or an entry of the list has guards, and to callers with a principal.
   *
   * @default { ttlMs: 0, scope: 'private' }
   * @see https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
   */
  listCache?: McpCacheHints;
  /**
   * Whether clients receive the message of an `Error` that a handler throws. The message of a tool is a result with
   * `isError`, so that the model can correct its call; the message of other handlers is the JSON-RPC error -32603.
   * Clients receive at most 2,000 characters, and never the stack or the cause. With `false` they receive a generic
   * text. Messages of databases and drivers name hosts, tables and paths, so by default only callers on this machine
   * receive it: those whose connection comes from a loopback address, for a loopback Host and without headers of a
   * proxy, and those of stdio and of the app itself. With `true` all clients receive it. The option has no effect on
   * `HttpException`, `McpError` and `ProtocolError`: messages below status 500 always reach the client, and messages
   * from 500 on never do.
   *
   * @default callers on this machine; `false` if `NODE_ENV` is `production`
   * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools#error-handling
   */
  errorDetails?: boolean;
  /**
   * Decides what the client of a tool gets when a guard denies the call. With `result` it gets a result with `isError`
   * and the text of the exception, which the model reads. With `http` it gets HTTP 403, as from a route; agent
   * frameworks take that for a broken transport and stop. A 401, and a denial that carries `WWW-Authenticate`, is HTTP
   * in any case, so that clients can authorize. Denials of resources, prompts and completions are HTTP too, because
   * their results cannot say that they failed.
   *
   * @default 'result'
   */
  denials?: 'result' | 'http';
  /**
   * The maximum size in bytes of the result of a tool, as JSON. A larger result is replaced by a result with `isError`
   * that names the size, and the arguments by which to ask for less. Agents truncate or refuse results that do not fit
   * into the context of their model, often from 100 kB on. With a lower value a call takes less of that context, and
   * more calls must be repeated. `maxResultBytes` of a tool takes precedence. The option has no effect with the option
   * `server`.
   *
   * @default Infinity
   */
  maxResultBytes?: number;
  /**
   * Whether structured content of a tool is repeated as a text block, for clients that do not read the content. `false`
   * halves such results; the specification recommends the text. `textMirror` of a tool takes precedence.
   *
   * @default true
   * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools#structured-content
   */
  textMirror?: boolean;
  /**
   * Whether the endpoint serves only tools with `readOnlyHint`, such as those of GET routes. Lists leave other tools
   * out, a call of one is answered as if it did not exist, and `McpRegistry` refuses them. Resources and prompts are
   * served.
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
