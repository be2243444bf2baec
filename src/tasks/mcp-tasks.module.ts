import {
  type ConfigurableModuleAsyncOptions,
  ConfigurableModuleBuilder,
  type DynamicModule,
  Module,
} from '@nestjs/common';
import { getMcpToken } from '../core/calls/inject-mcp.js';
import { assertAsyncOptions } from '../core/common/async-options.js';
import { McpTaskService } from './mcp-task.service.js';
import { type McpTasksOptions, resolveTasksOptions, TASKS_OPTION_NAMES, TASKS_OPTIONS } from './tasks.options.js';
import { TasksPlugin } from './tasks.plugin.js';

/** The options that a factory makes: Nest needs the name of the endpoint before it runs. */
type MadeOptions = Omit<McpTasksOptions, 'endpoint'>;

/** Takes the options of `McpTasksModule.forRootAsync()`. @publicApi */
export interface McpTasksModuleAsyncOptions
  extends ConfigurableModuleAsyncOptions<MadeOptions, 'createMcpTasksOptions'>, Pick<McpTasksOptions, 'endpoint'> {}

const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN } = new ConfigurableModuleBuilder<MadeOptions>({
  moduleName: 'McpTasks',
})
  .setClassMethodName('forRoot')
  .setFactoryMethodName('createMcpTasksOptions')
  .setExtras<Pick<McpTasksOptions, 'endpoint'>>({ endpoint: undefined }, withTasks)
  .build();

function withTasks(definition: DynamicModule, { endpoint }: Pick<McpTasksOptions, 'endpoint'>): DynamicModule {
  const service = getMcpToken(McpTaskService, endpoint);
  const options = {
    provide: TASKS_OPTIONS,
    useFactory: (made: MadeOptions) => resolveTasksOptions({ ...made, ...(endpoint !== undefined && { endpoint }) }),
    inject: [MODULE_OPTIONS_TOKEN],
  };
  return {
    ...definition,
    global: true,
    providers: [...(definition.providers ?? []), options, TasksPlugin, { provide: service, useClass: McpTaskService }],
    exports: [service],
  };
}

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
export class McpTasksModule extends ConfigurableModuleClass {
  /**
   * Adds tasks to an endpoint.
   *
   * @throws McpOptionError; at start if the endpoint does not exist, or its nodes share no task store
   */
  static override forRoot(options: McpTasksOptions = {}): DynamicModule {
    resolveTasksOptions(options);
    return super.forRoot(options);
  }

  /**
   * Does the same with options from a factory; `endpoint` stands beside it.
   *
   * @throws McpOptionError as `forRoot` does
   */
  static override forRootAsync(options: McpTasksModuleAsyncOptions): DynamicModule {
    assertAsyncOptions('McpTasksModule', options, { early: ['endpoint'], made: TASKS_OPTION_NAMES });
    return super.forRootAsync(options);
  }
}
