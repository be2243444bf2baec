import type { CanActivate, ModuleMetadata, Type } from '@nestjs/common';
import { DECORATORS } from '../core/common/decorated.js';
import {
  count,
  flag,
  list,
  McpOptionError,
  oneOf,
  type OptionTable,
  passing,
  type Resolved,
  resolveGroup,
  text,
} from '../core/common/options.js';

/** Options of `McpLiveModule.forRoot()`: `guards`, or `unguarded`. @publicApi */
export interface McpLiveOptions {
  /** Sets the path of the page, below the global prefix of the app, as for any controller. @default 'mcp-live' */
  path?: string;
  /**
   * Lists the guards that decide who may see the page, and end sessions and calls. Give at least one guard; it protects
   * all routes of the page. Nest resolves the dependencies of guards from `imports`. A browser opens the page, so the
   * guards must use what browsers send: a cookie, Basic credentials, or headers of a proxy. The Host of the page must
   * be a loopback name on loopback, an IP address elsewhere, or in the `allowedHosts` of an endpoint.
   */
  guards?: readonly (Type<CanActivate> | CanActivate)[];
  /**
   * Allows only callers on this machine, which are recognized by the address of the socket and the Host. Use it instead
   * of `guards` for development. A reverse proxy on the same machine can look like such a caller, so do not use the
   * option behind a proxy.
   */
  unguarded?: 'loopback';
  /**
   * Lists decorators that are applied to the controller of the page, such as `Public()` or `SkipThrottle()`. Global guards of
   * the app, such as a throttler or a guard of tokens, find their metadata with `Reflector` on `getClass()`.
   *
   * @default none
   */
  decorators?: readonly ClassDecorator[];
  /** Lists the modules from which guards get their dependencies. */
  imports?: ModuleMetadata['imports'];
  /**
   * Limits the number of pages that are open on this node at a time. A further page gets 503. On a busy server, each
   * page costs some tens of kilobytes per second.
   *
   * @default 10
   */
  maxReaders?: number;
  /**
   * Decides whether the page also shows the data of calls: arguments, results, texts of errors, progress, questions and
   * answers of the latest 200 calls, redacted by the rules of `McpAuditModule`. Each reader of the page can then read
   * the data of all callers.
   *
   * @default false
   */
  payloads?: boolean;
  /**
   * Decides whether the page can call tools, read resources and get prompts. The browser is then a client of the
   * endpoint, with the credentials of its user, and all guards of the endpoint apply. It cannot do so where the
   * endpoint refuses the Host or Origin of the page.
   *
   * @default `true`; `false` if `NODE_ENV` is `production`
   */
  tryIt?: boolean;
}

const LIVE_TABLE = {
  path: text('mcp-live'),
  guards: passing(
    undefined,
    (given) => Array.isArray(given) && given.length > 0 && given.every(isGuard),
    'an array of at least one guard: a class, or an object with the method canActivate. An undefined one may come from a circular import',
  ),
  unguarded: oneOf(undefined, ['loopback']),
  decorators: DECORATORS,
  imports: list([], () => true, 'an array of modules'),
  maxReaders: count(10),
  payloads: flag(false),
  tryIt: flag(undefined),
} satisfies OptionTable<McpLiveOptions>;

/** Nest needs these before the factory of `forRootAsync()` runs. */
export const EARLY_NAMES = [
  'path',
  'guards',
  'unguarded',
  'decorators',
  'imports',
] as const satisfies (keyof McpLiveOptions)[];
/** The factory of `forRootAsync()` makes the others. */
export type MadeLiveOptions = Omit<McpLiveOptions, (typeof EARLY_NAMES)[number]>;
export const MADE_NAMES = Object.keys(LIVE_TABLE).filter((name) => !(EARLY_NAMES as readonly string[]).includes(name));

/** `guards` are `undefined` where callers on loopback only may see the page. */
export type ResolvedLiveOptions = Resolved<typeof LIVE_TABLE>;

/** The injection token of the {@link ResolvedLiveOptions}. */
export const LIVE_OPTIONS = Symbol('nestjs-mcp-streamable:live-options');

/** @throws McpOptionError */
export function resolveLiveOptions(given: McpLiveOptions): ResolvedLiveOptions {
  const resolved = resolveGroup(LIVE_TABLE, given);
  const { guards, unguarded } = resolved;
  if (guards === undefined && unguarded === undefined) {
    const reason =
      'McpLiveModule needs "guards": the page shows who uses the server, and ends sessions. Give at least one guard, or { unguarded: "loopback" } for development on this machine.';
    throw new McpOptionError('guards', reason);
  }
  if (guards !== undefined && unguarded !== undefined) {
    const reason =
      'McpLiveModule was given both "guards" and "unguarded". Give "guards" alone to have the page guarded.';
    throw new McpOptionError('unguarded', reason);
  }
  return resolved;
}

function isGuard(guard: unknown): boolean {
  return typeof guard === 'function' || typeof (guard as CanActivate | null | undefined)?.canActivate === 'function';
}
