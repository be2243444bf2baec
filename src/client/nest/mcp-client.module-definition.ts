import { ConfigurableModuleBuilder, type DynamicModule } from '@nestjs/common';
import { check, McpOptionError } from '../../common/option-checks.js';
import { loadClientPackage } from './client-package.js';
import { mcpClientMessages } from './mcp-client.messages.js';
import { McpClient } from './mcp-client.js';
import { clientOptionsOf, type McpClientModuleExtras, type McpClientModuleOptions } from './mcp-client.options.js';
import { getMcpClientToken } from './mcp-client.token.js';

/** `forRoot` and `forRootAsync`, and what each call makes: one provider for each client. */
export const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN, OPTIONS_TYPE, ASYNC_OPTIONS_TYPE } =
  new ConfigurableModuleBuilder<McpClientModuleOptions>({ moduleName: 'McpClient' })
    .setClassMethodName('forRoot')
    .setFactoryMethodName('createMcpClientOptions')
    .setExtras<McpClientModuleExtras>({ names: undefined, isGlobal: false }, furnish)
    .build();

function furnish(definition: DynamicModule, { names, isGlobal = false }: McpClientModuleExtras): DynamicModule {
  if (names === undefined) throw new McpOptionError('names', mcpClientMessages.noNames());
  check.texts('names', names);
  check.flag('isGlobal', isGlobal);
  const clients = names.map((name) => ({
    provide: getMcpClientToken(name),
    useFactory: async (options: McpClientModuleOptions): Promise<McpClient> => {
      // Now, so that an app without it does not start; it connects when it is used.
      await loadClientPackage();
      return new McpClient(name, clientOptionsOf(options, name), () => loadClientPackage());
    },
    inject: [MODULE_OPTIONS_TOKEN],
  }));
  return {
    ...definition,
    global: isGlobal,
    providers: [...(definition.providers ?? []), ...clients],
    exports: clients.map(({ provide }) => provide),
  };
}
