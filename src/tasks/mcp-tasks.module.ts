import { type DynamicModule, type FactoryProvider, Module, type ModuleMetadata, type Provider } from '@nestjs/common';
import { getMcpToken } from '../core/calls/inject-mcp.js';
import { McpTaskService } from './mcp-task.service.js';
import { type McpTasksOptions, resolveTasksOptions, TASKS_OPTIONS } from './tasks.options.js';
import { TasksExtension } from './tasks-extension.js';

/** Takes the options of `McpTasksModule.forRootAsync()`. @publicApi */
export interface McpTasksAsyncOptions extends Pick<ModuleMetadata, 'imports'> {
  /** Names the endpoint as in `forRoot()`: Nest needs it before the factory runs. */
  endpoint?: string;
  /** The tokens of the arguments of the factory. */
  inject?: FactoryProvider['inject'];
  /** Creates the options. @returns the other options, or a promise of them */
  useFactory: (...injected: never[]) => McpTasksFactoryOptions | Promise<McpTasksFactoryOptions>;
}

type McpTasksFactoryOptions = Omit<McpTasksOptions, 'endpoint'>;

/**
 * Adds tasks to an endpoint: calls of tools with the option `task` outlive their request, for clients that support the extension
 * `io.modelcontextprotocol/tasks`.
 *
 * ```ts
 * imports: [McpStreamableModule.forRoot({ … }), McpTasksModule.forRoot()]
 * ```
 *
 * It exports `McpTaskService` to the whole app.
 *
 * @see https://modelcontextprotocol.io/extensions/tasks
 * @publicApi
 */
@Module({})
export class McpTasksModule {
  /**
   * Adds tasks to an endpoint.
   *
   * @throws McpOptionError; at start if the endpoint does not exist, or its nodes share no task store
   */
  static forRoot(options: McpTasksOptions = {}): DynamicModule {
    return moduleOf({ provide: TASKS_OPTIONS, useValue: resolveTasksOptions(options) }, options.endpoint);
  }

  /** Does the same with options from a factory. */
  static forRootAsync({ endpoint, imports = [], inject = [], useFactory }: McpTasksAsyncOptions): DynamicModule {
    const make = async (...injected: never[]) => {
      const options = await useFactory(...injected);
      return resolveTasksOptions({ ...options, ...(endpoint !== undefined && { endpoint }) });
    };
    return { ...moduleOf({ provide: TASKS_OPTIONS, useFactory: make, inject }, endpoint), imports };
  }
}

function moduleOf(options: Provider, endpoint: string | undefined): DynamicModule {
  const service = getMcpToken(McpTaskService, endpoint);
  return {
    module: McpTasksModule,
    global: true,
    providers: [options, TasksExtension, { provide: service, useClass: McpTaskService }],
    exports: [service],
  };
}
