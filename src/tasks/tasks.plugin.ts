import { Inject, Injectable } from '@nestjs/common';
import {
  type McpEndpointHost,
  type McpEndpointPlugin,
  type McpHandlerHooks,
  McpPlugin,
} from '../core/plugins/mcp-plugin.js';
import { TasksExtension } from './tasks-extension.js';
import { toolTaskOf } from '../core/handlers/decorators/task-options.js';

/** Makes calls of tools with the option `task` tasks. The extension, which is added later, has the tasks of its endpoint. */
@Injectable()
export class TasksPlugin extends McpPlugin {
  readonly ring = 'task';
  override readonly endpoint: string | undefined;

  constructor(@Inject(TasksExtension) private readonly extension: TasksExtension) {
    super();
    this.endpoint = extension.endpoint;
  }

  attach({ name }: McpEndpointHost): McpEndpointPlugin {
    return {
      handler: (target): McpHandlerHooks | undefined => {
        const task = target.kind === 'tool' ? toolTaskOf(target) : undefined;
        return task && { run: (run) => this.extension.at(name)?.run(run, task) };
      },
    };
  }
}
