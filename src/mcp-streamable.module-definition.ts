import { type CanActivate, ConfigurableModuleBuilder, type DynamicModule, VERSION_NEUTRAL } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { check, McpOptionError } from './common/option-checks.js';
import { createEndpointController } from './http/endpoint-controller.js';
import { ENDPOINT_KEY } from './http/edge/endpoint-route.js';
import { McpSessionGuard } from './http/mcp-session.guard.js';
import { moduleMessages } from './mcp-streamable.messages.js';
import {
  EXTRA_NAMES,
  OPTION_NAMES,
  type McpStreamableExtras,
  type McpStreamableOptions,
} from './mcp-streamable.options.js';
import { ENDPOINT_NAME } from './mcp-streamable.endpoint-name.js';
import { endpointExports, endpointProviders } from './mcp-streamable.providers.js';
import { McpShutdownModule } from './mcp-streamable.shutdown.js';

type DecidedExtras = Required<Omit<McpStreamableExtras, 'name'>> & Pick<McpStreamableExtras, 'name'>;

const DEFAULTS: DecidedExtras = {
  path: 'mcp',
  version: VERSION_NEUTRAL,
  guards: [],
  decorators: [],
  sessionGuard: McpSessionGuard,
  imports: [],
  isGlobal: false,
};

/** What Nest itself reads beside a factory, and the extras. */
const ASYNC_NAMES = ['useFactory', 'useClass', 'useExisting', 'inject', 'provideInjectionTokensFrom', ...EXTRA_NAMES];

/** The injection token of the options, once they are known to be options. */
const OPTIONS = Symbol('nestjs-mcp-streamable:options');

/** `forRoot` and `forRootAsync`, and what each call makes: a module with a controller of its own. */
export const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN, OPTIONS_TYPE, ASYNC_OPTIONS_TYPE } =
  new ConfigurableModuleBuilder<McpStreamableOptions>({ moduleName: 'McpStreamable' })
    .setClassMethodName('forRoot')
    .setFactoryMethodName('createMcpStreamableOptions')
    .setExtras<McpStreamableExtras>({ ...DEFAULTS, name: undefined }, furnish)
    .build();

function furnish(definition: DynamicModule, extras: McpStreamableExtras): DynamicModule {
  const checked = checkExtras({ ...DEFAULTS, ...defined(extras) });
  const { path, version, guards, decorators, sessionGuard, imports, isGlobal, name } = checked;
  const endpoint = Symbol(`mcp endpoint "${name ?? path}"`);
  return {
    ...definition,
    global: isGlobal,
    imports: [...new Set([DiscoveryModule, McpShutdownModule, ...(definition.imports ?? []), ...imports])],
    controllers: [createEndpointController({ endpoint, path, version, guards, decorators, sessionGuard })],
    providers: [
      ...(definition.providers ?? []),
      { provide: ENDPOINT_KEY, useValue: endpoint },
      { provide: ENDPOINT_NAME, useValue: { name, path, version, guarded: guards.length > 0 } },
      { provide: OPTIONS, useFactory: checkOptions, inject: [MODULE_OPTIONS_TOKEN] },
      ...endpointProviders(OPTIONS, name),
    ],
    exports: endpointExports(name),
  };
}

function checkExtras(extras: DecidedExtras): DecidedExtras {
  const { path, version, guards, decorators, imports, sessionGuard, isGlobal, name } = extras;
  check.text('path', path);
  if (!isVersion(version)) throw new McpOptionError('version', moduleMessages.version(version));
  if (!Array.isArray(guards) || !guards.every(isGuard)) throw new McpOptionError('guards', moduleMessages.guards());
  if (!Array.isArray(decorators) || !decorators.every((decorator) => typeof decorator === 'function')) {
    throw new McpOptionError('decorators', moduleMessages.decorators());
  }
  if (!Array.isArray(imports)) throw new McpOptionError('imports', moduleMessages.imports());
  if (!isSessionGuard(sessionGuard)) throw new McpOptionError('sessionGuard', moduleMessages.sessionGuard());
  check.flag('isGlobal', isGlobal);
  if (name !== undefined) check.text('name', name);
  return extras;
}

/** What the options are, wherever they came from. An extra among them would be ignored, and a guard must not be. */
function checkOptions(options: unknown): McpStreamableOptions {
  if (typeof options !== 'object' || options === null)
    throw new McpOptionError('options', moduleMessages.options(options));
  const late = EXTRA_NAMES.find((extra) => (options as Record<string, unknown>)[extra] !== undefined);
  if (late) throw new McpOptionError(late, moduleMessages.late(late));
  // The extras among the names: a misspelt option may mean one.
  check.names('', options, [...OPTION_NAMES, ...EXTRA_NAMES]);
  return options as McpStreamableOptions;
}

/** What forRoot() was given, before Nest reads it. @throws McpOptionError */
export function assertOptions(options: unknown): void {
  if (typeof options === 'object' && options !== null) return;
  throw new McpOptionError('options', moduleMessages.noOptions('forRoot', options));
}

/** What forRootAsync() was given, before Nest reads it. @throws McpOptionError */
export function assertAsyncOptions(options: unknown): void {
  if (typeof options !== 'object' || options === null) {
    throw new McpOptionError('options', moduleMessages.noOptions('forRootAsync', options));
  }
  const misplaced = Object.keys(options).find((name) => OPTION_NAMES.includes(name));
  if (misplaced) throw new McpOptionError(misplaced, moduleMessages.notBesideFactory(misplaced));
  check.names('', options, ASYNC_NAMES);
}

function isVersion(version: unknown): boolean {
  if (Array.isArray(version))
    return version.length > 0 && version.every((one) => !Array.isArray(one) && isVersion(one));
  return version === VERSION_NEUTRAL || (typeof version === 'string' && version !== '');
}

/** Also catches the `undefined` that circular imports leave behind. */
function isGuard(guard: unknown): boolean {
  return typeof guard === 'function' || typeof (guard as CanActivate | null | undefined)?.canActivate === 'function';
}

function isSessionGuard(guard: unknown): boolean {
  return guard === McpSessionGuard || (typeof guard === 'function' && guard.prototype instanceof McpSessionGuard);
}

/** Options that were given as `undefined` were not given. */
function defined<T extends object>(options: T): Partial<T> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Partial<T>;
}
