import { ConfigurableModuleBuilder, type DynamicModule } from '@nestjs/common';
import { check, McpOptionError } from './base/option-checks.js';
import { createMcpController } from './http/mcp.controller.js';
import { McpSessionGuard } from './http/mcp-session.guard.js';
import type { McpStreamableExtras, McpStreamableOptions } from './mcp-streamable.options.js';
import { ENDPOINT_KEY, ENDPOINT_NAME, endpointExports, endpointProviders } from './mcp-streamable.providers.js';

type DecidedExtras = Required<Omit<McpStreamableExtras, 'name'>> & Pick<McpStreamableExtras, 'name'>;

const DEFAULTS: DecidedExtras = {
  path: 'mcp',
  guards: [],
  sessionGuard: McpSessionGuard,
  imports: [],
  isGlobal: false,
};

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
    imports: [...new Set([...(definition.imports ?? []), ...imports])],
    controllers: [createMcpController({ endpoint, path, guards, sessionGuard })],
    providers: [
      ...(definition.providers ?? []),
      { provide: ENDPOINT_KEY, useValue: endpoint },
      { provide: ENDPOINT_NAME, useValue: { name, path, guarded: guards.length > 0 } },
      ...endpointProviders(MODULE_OPTIONS_TOKEN, name),
    ],
    exports: endpointExports(name),
  };
}

function checkExtras(extras: DecidedExtras): DecidedExtras {
  check.text('path', extras.path);
  if (!Array.isArray(extras.guards))
    throw new McpOptionError('guards', 'The option "guards" must be an array of guards.');
  if (!Array.isArray(extras.imports))
    throw new McpOptionError('imports', 'The option "imports" must be an array of modules.');
  check.fn('sessionGuard', extras.sessionGuard);
  if (extras.name !== undefined) check.text('name', extras.name);
  return extras;
}

/** Options that were given as `undefined` were not given. */
function defined<T extends object>(options: T): Partial<T> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Partial<T>;
}
