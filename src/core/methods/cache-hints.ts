import { Inject, Injectable } from '@nestjs/common';
import { ApplicationConfig, ModulesContainer } from '@nestjs/core';
import { MCP_OPTIONS } from '../common/options.js';
import { ENDPOINT_NAME, type EndpointName } from '../calls/endpoint-name.js';
import type { McpCall } from '../calls/mcp-call.js';
import type { McpCacheHints } from '../handlers/handlers.options.js';
import { globalGuardNames } from '../handlers/invocation/enhancers.js';
import type { EndpointSources } from '../handlers/registry/endpoint-sources.js';
import type { ListedKind } from '../plugins/mcp-plugin.js';
import type { ResolvedHandlerOptions } from '../handlers/handlers.options.js';
import { ERAS } from '../protocol/era.js';
import { sdk } from '../protocol/spec.js';

interface CacheOptions extends Pick<ResolvedHandlerOptions, 'listCache' | 'guardedByApp'> {
  readonly auth?: { readonly anonymous: boolean } | undefined;
}

/**
 * # How long clients may keep results, and for whom
 *
 * Fields of the results of lists, of `resources/read` and of `server/discover` in the modern era; the legacy era does
 * not have them. `public` lets a cache give the answer for one caller to another, without asking the server. So it
 * applies only where every caller gets the same answer: the entry, the endpoint and the app have no guard, and the
 * caller has no principal. Otherwise the result is `private`, even if the option is `public`.
 *
 * Every guard counts, even one that accepts all callers, unless the option `guardedByApp` is `false`.
 *
 * @see https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
 */
@Injectable()
export class EndpointCachePolicy {
  /** The hints of lists, and of `server/discover`. */
  readonly list: Readonly<Required<McpCacheHints>>;
  /** Whether the endpoint itself decides who may call: every caller needs a token, or it has guards. */
  readonly #closed: boolean;
  readonly #guardedByApp: boolean;

  constructor(
    @Inject(MCP_OPTIONS) { listCache, auth, guardedByApp }: CacheOptions,
    @Inject(ENDPOINT_NAME) { guarded }: Pick<EndpointName, 'guarded'>,
    @Inject(ApplicationConfig) private readonly app: ApplicationConfig,
    @Inject(ModulesContainer) private readonly modules: ModulesContainer,
  ) {
    this.list = listCache;
    this.#closed = guarded || (auth !== undefined && !auth.anonymous);
    this.#guardedByApp = guardedByApp;
  }

  /**
   * Returns whether the endpoint or the app has guards. It is checked at each request, because `useGlobalGuards()` is
   * called late.
   */
  guarded(): boolean {
    const { app } = this;
    if (this.#closed) return true;
    return this.#guardedByApp && (app.getGlobalGuards().length > 0 || app.getGlobalRequestGuards().length > 0);
  }

  /** Returns whether a guard most probably decides who may call: not one that a library has made without a class. */
  decides(): boolean {
    return this.#closed || this.namedGuards().length > 0;
  }

  /** Returns the classes of the guards of the app; none if the option `guardedByApp` is `false`. */
  namedGuards(): string[] {
    return this.#guardedByApp ? globalGuardNames(this.app, this.modules).named : [];
  }

  /** Returns the modules whose guards alone make `public` lists `private`. */
  unnamedGuards(): string[] {
    const onlyUnnamed = this.list.scope === 'public' && this.#guardedByApp && !this.decides();
    return onlyUnnamed ? globalGuardNames(this.app, this.modules).unnamed : [];
  }
}

export type CachePolicy = Pick<EndpointCachePolicy, 'list' | 'guarded'>;

/** These fields of a result are its hints. */
export interface CacheFields {
  readonly ttlMs: number;
  readonly cacheScope: 'public' | 'private';
}

type Caller = Pick<McpCall, 'era' | 'principal'>;

const UNCACHED: CacheFields = { ttlMs: 0, cacheScope: 'private' };

/**
 * Returns the hints of a page of a list. All pages have one scope, as the specification demands: it depends on the
 * whole list, not on the entries of the page or those that this caller sees.
 */
export function listHints(
  call: Caller,
  sources: EndpointSources,
  kind: ListedKind,
  policy: CachePolicy,
): Partial<CacheFields> {
  if (!ERAS[call.era].hasCacheHints) return {};
  const { ttlMs, scope } = policy.list;
  const shared = scope === 'public' && isForEveryCaller(call, policy) && !dependsOnCaller(sources, kind);
  return { ttlMs, cacheScope: shared ? 'public' : 'private' };
}

/** Returns the hints of `server/discover`, which is the same for every caller that the endpoint accepts. */
export function discoveryHints(policy: CachePolicy): CacheFields {
  const { ttlMs, scope } = policy.list;
  return { ttlMs, cacheScope: policy.guarded() ? 'private' : scope };
}

/** A resource or template, with what its hints depend on. */
export interface CachedEntry {
  readonly cache?: Readonly<McpCacheHints>;
  readonly guarded: boolean;
}

/**
 * Adds the hints to the result of a read: those of the result itself, if its handler returned some, else those of the
 * resource.
 *
 * @param repeated whether the request has answers of the client, which are not part of a cache key
 */
export function withReadHints<Result extends object>(
  call: Caller,
  result: Result,
  { cache, guarded }: CachedEntry,
  policy: CachePolicy,
  repeated: boolean,
): Result {
  if (sdk.isInputRequiredResult(result)) return result;
  const { ttlMs, cacheScope, ...rest } = result as Result & Partial<Record<keyof CacheFields, unknown>>;
  if (!ERAS[call.era].hasCacheHints) return (ttlMs ?? cacheScope) === undefined ? result : (rest as Result);
  if (repeated) return { ...rest, ...UNCACHED } as unknown as Result;
  const scope = isScope(cacheScope) ? cacheScope : cache?.scope;
  const shared = scope === 'public' && !guarded && isForEveryCaller(call, policy);
  return {
    ...rest,
    ttlMs: isTtl(ttlMs) ? ttlMs : (cache?.ttlMs ?? UNCACHED.ttlMs),
    cacheScope: shared ? 'public' : 'private',
  } as unknown as Result;
}

function isForEveryCaller({ principal }: Caller, policy: CachePolicy): boolean {
  return principal === undefined && !policy.guarded();
}

function dependsOnCaller(sources: EndpointSources, kind: ListedKind): boolean {
  return sources.table.plugins?.hidesByCaller === true || sources.perCaller(kind);
}

function isTtl(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isScope(value: unknown): value is CacheFields['cacheScope'] {
  return value === 'public' || value === 'private';
}
