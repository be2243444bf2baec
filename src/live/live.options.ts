import type { CanActivate, ModuleMetadata, Type } from '@nestjs/common';
import { check, McpOptionError, namesOf } from '../common/option-checks.js';

/** Options of `McpLiveModule.forRoot()`: `guards`, or `unguarded`. @publicApi */
export interface McpLiveOptions {
  /**
   * Path of the page, below the app's global prefix, as for any controller.
   *
   * @default 'mcp-live'
   */
  path?: string;
  /**
   * Guards of all routes of the page, at least one: they decide who may see the page and end sessions and calls. Their
   * dependencies are resolved from `imports`. A browser opens the page, so the guards must use what browsers send: a
   * cookie, Basic credentials, or headers of a proxy. The Host of the page must be a loopback name on loopback, an IP
   * address elsewhere, or in the `allowedHosts` of an endpoint.
   */
  guards?: readonly (Type<CanActivate> | CanActivate)[];
  /**
   * Instead of `guards`, for development: allows callers on this machine only, by the address of the socket and the
   * Host. A reverse proxy on the same machine can look like such a caller: do not use it behind one.
   */
  unguarded?: 'loopback';
  /** Modules that guards inject from. */
  imports?: ModuleMetadata['imports'];
  /**
   * Maximum number of pages open on this node at a time; a further one gets 503. On a busy server, each costs some tens
   * of kilobytes per second.
   *
   * @default 10
   */
  maxReaders?: number;
}

/** Every option, decided. */
export interface ResolvedLiveOptions {
  readonly path: string;
  /** `undefined`: callers on loopback only. */
  readonly guards: readonly (Type<CanActivate> | CanActivate)[] | undefined;
  readonly imports: NonNullable<ModuleMetadata['imports']>;
  readonly maxReaders: number;
}

/** The injection token of the {@link ResolvedLiveOptions}. */
export const LIVE_OPTIONS = Symbol('nestjs-mcp-streamable:live-options');

const NAMES = namesOf<McpLiveOptions>({ path: true, guards: true, unguarded: true, imports: true, maxReaders: true });

/** @throws McpOptionError */
export function resolveLiveOptions(given: McpLiveOptions): ResolvedLiveOptions {
  check.group('options', given ?? null);
  check.names('', given, NAMES);
  const { path = 'mcp-live', guards, unguarded, imports = [], maxReaders = 10 } = given;
  check.text('path', path);
  check.count('maxReaders', maxReaders);
  if (!Array.isArray(imports)) throw new McpOptionError('imports', 'The option "imports" must be an array of modules.');
  if (unguarded !== undefined) check.oneOf('unguarded', unguarded, ['loopback']);
  else if (guards === undefined) {
    const text =
      'McpLiveModule needs "guards": the page shows who uses the server, and ends sessions. Give at least one guard, or { unguarded: "loopback" } for development on this machine.';
    throw new McpOptionError('guards', text);
  }
  if (unguarded !== undefined && guards !== undefined) {
    const text = 'McpLiveModule was given both "guards" and "unguarded". Give "guards" alone to have the page guarded.';
    throw new McpOptionError('unguarded', text);
  }
  if (guards !== undefined && (!Array.isArray(guards) || guards.length === 0 || !guards.every(isGuard))) {
    const text =
      'The option "guards" of McpLiveModule must be an array of at least one guard: a class, or an object with the method canActivate. An undefined one may come from a circular import.';
    throw new McpOptionError('guards', text);
  }
  return { path, guards, imports, maxReaders };
}

function isGuard(guard: unknown): boolean {
  return typeof guard === 'function' || typeof (guard as CanActivate | null | undefined)?.canActivate === 'function';
}
