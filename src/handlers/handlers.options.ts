import type { CanActivate, Type } from '@nestjs/common';
import { check, McpOptionError } from '../base/option-checks.js';
import { CACHE_NAMES, type CacheHints } from './definitions/handler-options.js';
import { handlerMessages } from './handlers.messages.js';

/** How the handlers of an endpoint are listed. @publicApi */
export interface McpHandlerOptions {
  /**
   * Entries per page of a list of tools, resources, templates or prompts. Lower: smaller answers, but clients that do not
   * ask for further pages miss the rest.
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
   * How long clients of revision 2026-07-28 may keep lists, and what `server/discover` said, before they ask again. Higher:
   * fewer requests; clients that do not subscribe to changes see them later. `scope: 'public'` lets caches between clients
   * and server give one caller's answer to another. It has no effect, and `private` is sent, where the endpoint or the app
   * has guards, where an entry of the list has, and to callers with a principal.
   *
   * @default { ttlMs: 0, scope: 'private' }
   * @see https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
   */
  listCache?: CacheHints;
}

/** Every option, decided. */
export type ResolvedHandlerOptions = Required<Omit<McpHandlerOptions, 'listCache'>> & {
  readonly listCache: Readonly<Required<CacheHints>>;
};

/** The injection token of the {@link ResolvedHandlerOptions}. */
export const HANDLER_OPTIONS = Symbol('nestjs-mcp-streamable:handler-options');

/** @throws McpOptionError */
export function resolveHandlerOptions({
  pageSize = 1_000,
  listGuards = [],
  listCache = { ttlMs: 0 },
}: McpHandlerOptions = {}): ResolvedHandlerOptions {
  const classes = Array.isArray(listGuards) && listGuards.every((guard) => typeof guard === 'function');
  if (!classes) throw new McpOptionError('listGuards', handlerMessages.notGuards());
  const { ttlMs, scope = 'private' } = check.group('listCache', listCache, CACHE_NAMES);
  return {
    pageSize: check.count('pageSize', pageSize),
    listGuards,
    listCache: {
      ttlMs: check.count('listCache.ttlMs', ttlMs, { min: 0 }),
      scope: check.oneOf('listCache.scope', scope, ['public', 'private']),
    },
  };
}
