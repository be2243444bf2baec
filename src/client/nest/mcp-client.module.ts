import { ConfigurableModuleBuilder, type DynamicModule, Module } from '@nestjs/common';
import { getMcpToken } from '../../core/calls/inject-mcp.js';
import { flag, McpOptionError, required, texts } from '../../core/common/options.js';
import { McpClient } from './mcp-client.js';
import { clientOptionsOf, type McpClientModuleExtras, type McpClientModuleOptions } from './mcp-client.options.js';

const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN, OPTIONS_TYPE } =
  new ConfigurableModuleBuilder<McpClientModuleOptions>({ moduleName: 'McpClient' })
    .setClassMethodName('forRoot')
    .setFactoryMethodName('createMcpClientOptions')
    .setExtras<McpClientModuleExtras>({ names: undefined, isGlobal: false }, withClients)
    .build();

/** Adds one provider for each client. */
function withClients(definition: DynamicModule, { names, isGlobal }: McpClientModuleExtras): DynamicModule {
  if (names === undefined) {
    const message =
      'The option "names" must list the clients that the factory configures, as in names: ["orders"]: Nest needs the names of the injectable clients before the factory runs.';
    throw new McpOptionError('names', message);
  }
  texts(required)(names, 'names');
  const clients = names.map((name) => ({
    provide: getMcpToken(McpClient, name),
    useFactory: (options: McpClientModuleOptions) => McpClient.create(name, clientOptionsOf(options, name)),
    inject: [MODULE_OPTIONS_TOKEN],
  }));
  return {
    ...definition,
    global: flag(false)(isGlobal, 'isGlobal'),
    providers: [...(definition.providers ?? []), ...clients],
    exports: clients.map(({ provide }) => provide),
  };
}

/**
 * Provides clients of MCP servers for injection: each `McpClient` connects when it is first used, reconnects after a
 * loss, and is closed when the app shuts down.
 *
 * ```ts
 * imports: [McpClientModule.forRoot({ clients: { orders: { url: 'https://orders.example.com/mcp' } } })]
 * ```
 *
 * `forRootAsync` takes `names` beside the factory: the clients that it configures. The package
 * `@modelcontextprotocol/client` must be installed.
 *
 * @publicApi
 */
@Module({})
export class McpClientModule extends ConfigurableModuleClass {
  /** Provides the clients. @throws McpOptionError */
  static override forRoot(options: typeof OPTIONS_TYPE): DynamicModule {
    return super.forRoot({ ...options, names: Object.keys(options.clients ?? {}) });
  }
}
