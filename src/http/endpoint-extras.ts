import { type CanActivate, type ModuleMetadata, type Type, VERSION_NEUTRAL } from '@nestjs/common';
import { check, McpOptionError } from '../common/option-checks.js';
import type { McpEndpointVersion } from '../context/endpoint-name.js';
import { McpSessionGuard } from './mcp-session.guard.js';

/** Options that must be known before the app starts: Nest makes controllers and guards synchronously. @publicApi */
export interface McpStreamableExtras {
  /**
   * Path of the endpoint, below the app's global prefix, as for any controller.
   *
   * @default 'mcp'
   */
  path?: string;
  /**
   * The API version that the endpoint is served under, as `version` of `@Controller()`; no effect in an app without
   * `enableVersioning()`. By default it is served whatever version a request asks for, also when the app has a
   * `defaultVersion`: MCP has revisions of its own, and its clients do not send the API version of the app.
   *
   * @default VERSION_NEUTRAL
   * @see https://docs.nestjs.com/techniques/versioning
   */
  version?: McpEndpointVersion;
  /** Guards of the endpoint; they run before the session guard. Their dependencies are resolved from `imports`. */
  guards?: (Type<CanActivate> | CanActivate)[];
  /**
   * Decorators for the controller of the endpoint, such as `Public()`, `SkipThrottle()` or `SetMetadata()`: what global
   * guards and interceptors read by `Reflector` from `getClass()`. Guards among them (`UseGuards()`) run before `guards`.
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
  /** Modules that guards, the session guard and `forRootAsync` inject from. */
  imports?: ModuleMetadata['imports'];
  /** Makes `McpSessionService` injectable everywhere without an import. @default false */
  isGlobal?: boolean;
  /**
   * Name of the endpoint; needed if the app has several endpoints. Their services are injected with
   * `@InjectMcpSessionService(name)`.
   */
  name?: string;
}

/** Every extra, decided. */
export type ResolvedExtras = Required<Omit<McpStreamableExtras, 'name'>> & { name: string | undefined };

/** The extras of an endpoint by default. */
export const DEFAULTS: ResolvedExtras = {
  path: 'mcp',
  version: VERSION_NEUTRAL,
  guards: [],
  decorators: [],
  sessionGuard: McpSessionGuard,
  imports: [],
  isGlobal: false,
  name: undefined,
};

export const EXTRA_NAMES = Object.keys(DEFAULTS);

/** @throws McpOptionError */
export function resolveExtras(given: McpStreamableExtras): ResolvedExtras {
  const extras: ResolvedExtras = { ...DEFAULTS, ...defined(given) };
  const { path, version, guards, decorators, imports, sessionGuard, isGlobal, name } = extras;
  check.text('path', path);
  if (!isVersion(version)) {
    const text = `The option "version" must be a string, VERSION_NEUTRAL, or an array of these; got ${JSON.stringify(version)}.`;
    throw new McpOptionError('version', text);
  }
  if (!Array.isArray(guards) || !guards.every(isGuard)) {
    const text =
      'The option "guards" must be an array of guards: classes, or objects with the method canActivate. An undefined one may come from a circular import.';
    throw new McpOptionError('guards', text);
  }
  if (!Array.isArray(decorators) || !decorators.every((decorator) => typeof decorator === 'function')) {
    const text =
      'The option "decorators" must be an array of class decorators, such as [Public(), SkipThrottle()]: what a decorator returns, not the decorator itself.';
    throw new McpOptionError('decorators', text);
  }
  if (!Array.isArray(imports)) throw new McpOptionError('imports', 'The option "imports" must be an array of modules.');
  if (!isSessionGuard(sessionGuard)) {
    const text = 'The option "sessionGuard" must be McpSessionGuard or a class that extends it.';
    throw new McpOptionError('sessionGuard', text);
  }
  check.flag('isGlobal', isGlobal);
  if (name !== undefined) check.text('name', name);
  return extras;
}

function isVersion(version: unknown): boolean {
  if (Array.isArray(version))
    return version.length > 0 && version.every((one) => !Array.isArray(one) && isVersion(one));
  return version === VERSION_NEUTRAL || (typeof version === 'string' && version !== '');
}

/** Also detects `undefined`, the result of a circular import. */
function isGuard(guard: unknown): boolean {
  return typeof guard === 'function' || typeof (guard as CanActivate | null | undefined)?.canActivate === 'function';
}

function isSessionGuard(guard: unknown): boolean {
  return guard === McpSessionGuard || (typeof guard === 'function' && guard.prototype instanceof McpSessionGuard);
}

/** Treats options that are `undefined` as absent. */
function defined<T extends object>(options: T): Partial<T> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Partial<T>;
}
