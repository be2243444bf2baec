import { type DynamicModule, Module } from '@nestjs/common';
import { type ASYNC_OPTIONS_TYPE, ConfigurableModuleClass, type OPTIONS_TYPE } from './mcp-client.module-definition.js';

/**
 * MCP servers to be injected: each is an `McpClient`, which connects when it is first used, comes back when it is lost, and is
 * closed when the app shuts down.
 *
 * ```ts
 * imports: [McpClientModule.forRoot({ clients: { orders: { url: 'https://orders.example.com/mcp' } } })]
 * ```
 *
 * Needs `@modelcontextprotocol/client`.
 *
 * @publicApi
 */
@Module({})
export class McpClientModule extends ConfigurableModuleClass {
  /** @throws McpOptionError */
  static override forRoot(options: typeof OPTIONS_TYPE): DynamicModule {
    return super.forRoot({ ...options, names: Object.keys(options.clients ?? {}) });
  }

  /** As `forRoot`, with options from a factory; `names` lists what it configures. @throws McpOptionError */
  static override forRootAsync(options: typeof ASYNC_OPTIONS_TYPE): DynamicModule {
    return super.forRootAsync(options);
  }
}
