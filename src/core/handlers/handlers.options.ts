import type { CanActivate, Type } from '@nestjs/common';
import {
  count,
  flag,
  group,
  isDevelopment,
  list,
  oneOf,
  type OptionTable,
  required,
  type Resolved,
} from '../common/options.js';

/**
 * Says how long a client may keep what it has read.
 *
 * @see https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
 * @publicApi
 */
export interface McpCacheHints {
  /** Sets the milliseconds for which the result may be cached. With 0 it is not cached. */
  ttlMs: number;
  /**
   * Says whether the result is the same for every caller (`public`), or only for the caller that requested it
   * (`private`).
   *
   * @default 'private'
   */
  scope?: 'public' | 'private';
}

export const CACHE_TABLE = {
  ttlMs: count(required, { min: 0 }),
  scope: oneOf('private', ['public', 'private']),
} satisfies OptionTable<McpCacheHints>;

/** Decides how the handlers of an endpoint are listed, and what clients read of their failures. @internal */
export interface McpHandlerOptions {
  /**
   * Limits the number of entries per page of a list of tools, resources, templates or prompts. With a lower value
   * responses are smaller, but clients that do not request further pages miss the rest.
   *
   * @default 1000
   * @see https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/pagination
   */
  pageSize?: number;
  /**
   * Lists the classes of global guards (`APP_GUARD`, `useGlobalGuards()`) that also decide which entries of a list a
   * caller sees. Guards of classes and methods always decide this too, unless they read the arguments of a call. Each
   * guard named here runs once for each entry of a list: name no guard that counts calls or looks up a token.
   *
   * @default none
   */
  listGuards?: readonly Type<CanActivate>[];
  /**
   * Says whether guards of the whole app (`APP_GUARD`, `useGlobalGuards()`) decide who may call. Set `false` if they accept every
   * caller, as that of `nestjs-cls` does, or only count calls: then the scope `public` of cache hints has an effect beside them, and
   * the log does not take them for a login. The option does not change which guards run.
   *
   * @default true
   */
  guardedByApp?: boolean;
  /**
   * Decides how long clients of revision 2026-07-28 may keep lists, and the result of `server/discover`, before they
   * ask again. `ttlMs` is in milliseconds. With a higher value there are fewer requests, but a client that does not
   * subscribe to changes sees them later. With `scope: 'public'`, a cache between clients and server may give the
   * answer for one caller to another. `public` has no effect if the endpoint, the app or an entry of the list has
   * guards, or if the caller has a principal: these answers are `private`. See `guardedByApp` for guards that accept every caller.
   *
   * @default { ttlMs: 0, scope: 'private' }
   * @see https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
   */
  listCache?: McpCacheHints;
  /**
   * Decides whether clients receive the message of an `Error` that a handler throws. With `true` all clients receive
   * it. With `false` they get a generic text. By default only callers on this machine receive it, because messages of
   * databases and drivers name hosts, tables and paths. A caller on this machine connects from a loopback address to a
   * loopback host, without headers of a proxy. Callers over stdio and the app itself are on this machine too. With
   * `NODE_ENV=production`, the default is `false`.
   *
   * A tool sends the message as a result with `isError`, so that the model can correct its call. Another handler sends
   * it as the JSON-RPC error -32603. A message has at most 2,000 characters, and never contains the stack or the cause.
   * The option has no effect on `McpError` and `ProtocolError`, whose messages always reach the client. It has no
   * effect on `HttpException` either: its message reaches the client below status 500, and never from 500 on.
   *
   * @default `true` for callers on this machine, `false` for others; `false` for all if `NODE_ENV` is `production`
   * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools#error-handling
   */
  errorDetails?: boolean;
  /**
   * Decides what the client of a tool gets when a guard denies the call. With `result` it gets a result with `isError`
   * and the text of the exception, which the model reads. With `http` it gets HTTP 403, as from a route; agent
   * frameworks take that for a broken transport and stop. The option does not apply to a 401, or to a denial with
   * `WWW-Authenticate`: they are always an HTTP response, so that clients can authorize. Clients of resources, prompts
   * and completions always get HTTP 403, because their results cannot report a failure.
   *
   * @default 'result'
   */
  denials?: 'result' | 'http';
  /**
   * Limits the result of a tool, in bytes of JSON. A larger result is replaced by a result with `isError`, which names
   * the size and the arguments that make the result smaller. Agents truncate or refuse results that do not fit into the
   * context of their model, often from 100 kB on. With a lower value a call takes less of that context, and more calls
   * must be repeated. `maxResultBytes` of a tool takes precedence. The option has no effect with the option `server`.
   *
   * @default Infinity (no limit)
   */
  maxResultBytes?: number;
  /**
   * Decides whether structured content of a tool is repeated as a text block, for clients that read only text. With
   * `false` such results have half the size, but the specification recommends the text block. `textMirror` of a tool
   * takes precedence.
   *
   * @default true
   * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools#structured-content
   */
  textMirror?: boolean;
  /**
   * Decides whether the endpoint serves only tools with `readOnlyHint`, such as those of GET routes. Lists leave other
   * tools out, a call of one gets the answer for an unknown tool, and `McpRegistry` refuses them. Resources and prompts
   * are served.
   *
   * @default false
   */
  readOnly?: boolean;
  /**
   * Says that middleware of a route is of no concern for its tool. A client calls the tool with a POST to the endpoint,
   * for which middleware of the route's path does not run. So the app does not start if middleware that `configure()` of
   * a module applies runs for a route, and not for the endpoint. With `'ignore'` it starts. The option of `@Tool()` and
   * `@Tools()` says so for one tool, or for those of one controller.
   *
   * @default the app does not start
   */
  middleware?: 'ignore';
  /**
   * Decides whether the doctor runs. At the start it logs a warning about tools that clients refuse, and about tools
   * that models mix up. Later it warns once about each tool whose result is larger than clients accept. To run it in
   * production, set `true`; it then measures each answer of a tool. The option has no effect with the option `server`.
   *
   * @default `true`; `false` if `NODE_ENV` is `production` or `test`
   */
  doctor?: boolean;
}

export const HANDLER_TABLE = {
  pageSize: count(1_000),
  listGuards: list(undefined, (guard) => typeof guard === 'function', 'an array of guard classes'),
  guardedByApp: flag(true),
  listCache: group({ ttlMs: 0 }, CACHE_TABLE),
  // The default depends on the caller, and on NODE_ENV.
  errorDetails: flag(undefined),
  denials: oneOf('result', ['result', 'http']),
  maxResultBytes: count(Infinity, { infinite: true }),
  textMirror: flag(true),
  readOnly: flag(false),
  middleware: oneOf(undefined, ['ignore']),
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
