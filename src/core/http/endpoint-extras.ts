import { type CanActivate, type ModuleMetadata, type Type, VERSION_NEUTRAL } from '@nestjs/common';
import { DECORATORS } from '../common/decorated.js';
import {
  flag,
  list,
  option,
  type OptionTable,
  passing,
  refused,
  type Resolved,
  resolveOptions,
  text,
} from '../common/options.js';
import type { McpEndpointVersion } from '../calls/endpoint-name.js';
import { McpSessionGuard } from './mcp-session.guard.js';

/** These options must be known before the app starts: Nest makes controllers and guards synchronously. @publicApi */
export interface McpStreamableExtras {
  /** Sets the path of the endpoint, below the app's global prefix, as for any controller. @default 'mcp' */
  path?: string;
  /**
   * Sets the API version of the endpoint, as `version` of `@Controller()` does. It has no effect in an app without
   * `enableVersioning()`. By default the endpoint is served for every version that a request asks for, even if the app
   * has a `defaultVersion`: MCP has its own revisions, and its clients do not send the API version of the app.
   *
   * @default VERSION_NEUTRAL
   * @see https://docs.nestjs.com/techniques/versioning
   */
  version?: McpEndpointVersion;
  /**
   * Lists the guards that decide which requests reach the endpoint. They run before the session guard. Nest resolves
   * their dependencies from `imports`.
   */
  guards?: (Type<CanActivate> | CanActivate)[];
  /**
   * Lists decorators that are applied to the controller of the endpoint, such as `Public()`, `SkipThrottle()` or
   * `SetMetadata()`. Global guards and interceptors find their metadata with `Reflector` on `getClass()`. If the list
   * has a `UseGuards()`, its guards run before those of `guards`.
   *
   * @default none
   */
  decorators?: readonly ClassDecorator[];
  /**
   * Decides which callers may use a session.
   *
   * @default McpSessionGuard (the principal that initialized it)
   */
  sessionGuard?: Type<McpSessionGuard>;
  /** Lists the modules from which guards, the session guard and `forRootAsync` inject. */
  imports?: ModuleMetadata['imports'];
  /** Makes `McpSessionService` injectable everywhere without an import. @default false */
  isGlobal?: boolean;
  /**
   * Names the endpoint. An app with several endpoints must name all but one. Inject the services of a named endpoint
   * with `@InjectMcp(McpSessionService, name)`.
   */
  name?: string;
}

const EXTRAS_TABLE = {
  path: text('mcp'),
  version: option(VERSION_NEUTRAL, versionOf),
  guards: list(
    [],
    isGuard,
    'an array of guards: classes, or objects with the method canActivate. An undefined one may come from a circular import',
  ),
  decorators: DECORATORS,
  sessionGuard: passing(McpSessionGuard, isSessionGuard, 'McpSessionGuard or a class that extends it'),
  imports: list([], () => true, 'an array of modules'),
  isGlobal: flag(false),
  name: text(undefined),
} satisfies OptionTable<McpStreamableExtras>;

export const EXTRA_NAMES = Object.keys(EXTRAS_TABLE);

export type ResolvedExtras = Resolved<typeof EXTRAS_TABLE>;

export const DEFAULTS: McpStreamableExtras = resolveExtras({});

/** Validates the extras of an endpoint and adds defaults. @throws McpOptionError */
export function resolveExtras(given: McpStreamableExtras): ResolvedExtras {
  return resolveOptions(EXTRAS_TABLE, given);
}

function versionOf(given: McpEndpointVersion, name: string): McpEndpointVersion {
  if (isVersion(given)) return given;
  throw refused(name, 'a string, VERSION_NEUTRAL, or an array of these', given);
}

function isVersion(version: unknown): boolean {
  if (Array.isArray(version))
    return version.length > 0 && version.every((one) => !Array.isArray(one) && isVersion(one));
  return version === VERSION_NEUTRAL || (typeof version === 'string' && version !== '');
}

/** Returns whether a value is a guard; `undefined` is the result of a circular import. */
function isGuard(guard: unknown): boolean {
  return typeof guard === 'function' || typeof (guard as CanActivate | null | undefined)?.canActivate === 'function';
}

function isSessionGuard(guard: unknown): boolean {
  return guard === McpSessionGuard || (typeof guard === 'function' && guard.prototype instanceof McpSessionGuard);
}
