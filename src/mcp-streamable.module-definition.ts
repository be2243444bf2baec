import { type CanActivate, ConfigurableModuleBuilder, type DynamicModule } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { check, McpOptionError } from './base/option-checks.js';
import { createMcpController } from './http/mcp.controller.js';
import { ENDPOINT_KEY } from './http/mcp-edge.guard.js';
import { McpSessionGuard } from './http/mcp-session.guard.js';
import { moduleMessages } from './mcp-streamable.messages.js';
import type { McpStreamableExtras, McpStreamableOptions } from './mcp-streamable.options.js';
import { ENDPOINT_NAME } from './mcp-streamable.endpoint-name.js';
import { endpointExports, endpointProviders } from './mcp-streamable.providers.js';

type DecidedExtras = Required<Omit<McpStreamableExtras, 'name'>> & Pick<McpStreamableExtras, 'name'>;

const DEFAULTS: DecidedExtras = {
  path: 'mcp',
  guards: [],
  sessionGuard: McpSessionGuard,
  imports: [],
  isGlobal: false,
};

const EXTRAS = [...(Object.keys(DEFAULTS) as (keyof McpStreamableExtras)[]), 'name'] as const;

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
  const { path, guards, sessionGuard, imports, isGlobal, name } = checkExtras({ ...DEFAULTS, ...defined(extras) });
  const endpoint = Symbol(`mcp endpoint "${name ?? path}"`);
  return {
    ...definition,
    global: isGlobal,
    imports: [...new Set([DiscoveryModule, ...(definition.imports ?? []), ...imports])],
    controllers: [createMcpController({ endpoint, path, guards, sessionGuard })],
    providers: [
      ...(definition.providers ?? []),
      { provide: ENDPOINT_KEY, useValue: endpoint },
      { provide: ENDPOINT_NAME, useValue: { name, path, guarded: guards.length > 0 } },
      { provide: OPTIONS, useFactory: checkOptions, inject: [MODULE_OPTIONS_TOKEN] },
      ...endpointProviders(OPTIONS, name),
    ],
    exports: endpointExports(name),
  };
}

function checkExtras(extras: DecidedExtras): DecidedExtras {
  const { path, guards, imports, sessionGuard, isGlobal, name } = extras;
  check.text('path', path);
  if (!Array.isArray(guards) || !guards.every(isGuard)) throw new McpOptionError('guards', moduleMessages.guards());
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
  const late = EXTRAS.find((extra) => (options as Partial<McpStreamableExtras>)[extra] !== undefined);
  if (late) throw new McpOptionError(late, moduleMessages.late(late));
  return options as McpStreamableOptions;
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
