// #region service
import { Inject, Injectable } from '@nestjs/common';
import { type McpTaskInfo, McpTaskService } from 'nestjs-mcp-streamable/tasks';

@Injectable()
export class RunningReports {
  constructor(@Inject(McpTaskService) private readonly tasks: McpTaskService) {}

  async of(principal: string): Promise<McpTaskInfo[]> {
    const tasks = await this.tasks.list({ principal });
    return tasks.filter(
      ({ status }) => status === 'working' || status === 'input_required',
    );
  }

  /** Cancels the tasks, and so aborts their handlers, on any node. */
  async cancelAllOf(principal: string): Promise<void> {
    for (const { id } of await this.of(principal)) await this.tasks.cancel(id);
  }
}
// #endregion
