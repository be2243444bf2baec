import { type DynamicModule, Module } from '@nestjs/common';
import { getMcpTaskServiceToken, McpTaskService } from './mcp-task.service.js';
import { type McpTasksOptions, resolveTasksOptions, TASKS_OPTIONS } from './tasks.options.js';
import { TasksExtension } from './tasks-extension.js';

/**
 * Tasks of an endpoint: calls of tools with the option `task` outlive their request, for clients that know the extension
 * `io.modelcontextprotocol/tasks`.
 *
 * ```ts
 * imports: [McpStreamableModule.forRoot({ … }), McpTasksModule.forRoot()]
 * ```
 *
 * Exports `McpTaskService`, to the whole app.
 *
 * @see https://modelcontextprotocol.io/extensions/tasks
 * @publicApi
 */
@Module({})
export class McpTasksModule {
  /** @throws McpOptionError; at start when there is no such endpoint, or its nodes share no store of tasks */
  static forRoot(options: McpTasksOptions = {}): DynamicModule {
    const service = getMcpTaskServiceToken(options.endpoint);
    return {
      module: McpTasksModule,
      global: true,
      providers: [
        { provide: TASKS_OPTIONS, useValue: resolveTasksOptions(options) },
        TasksExtension,
        { provide: service, useClass: McpTaskService },
      ],
      exports: [service],
    };
  }
}
