import type { McpHandlerTarget } from '../../calls/mcp-target.js';
import type { NeededExtension } from '../../plugins/feature-kind.js';
import { TASKS_EXTENSION } from '../../protocol/extensions.js';

/** Decides how calls of a tool become tasks. @internal */
export interface ToolTaskOptions {
  /**
   * Decides what a client of 2026-07-28 gets that does not declare the extension. With `'optional'` its call runs
   * without a task. With `'required'` it is refused (-32021).
   *
   * @default 'optional'
   */
  support?: 'optional' | 'required';
  /**
   * Sets the milliseconds from the beginning of the handler after which its call becomes a task. Faster calls are
   * answered directly. With `Infinity` the call becomes a task when the handler calls `ctx.startTask()`.
   *
   * @default 0
   */
  afterMs?: number;
  /**
   * Sets the milliseconds that a task is kept, from its creation. Then the task and its result are removed, and a
   * handler that still runs is aborted.
   *
   * @default the option `ttlMs` of the module
   */
  ttlMs?: number;
  /**
   * Sets the milliseconds that clients should wait between two polls.
   *
   * @default the option `pollIntervalMs` of the module
   */
  pollIntervalMs?: number;
}

/** Returns the option `task` of a tool, unchecked; `undefined`: its calls never become tasks. */
export function taskOptionOf(tool: McpHandlerTarget): unknown {
  const task = tool.option('task');
  return task === false ? undefined : task;
}

/** What the option `task` needs. */
export const NEEDED_BY_TASK: NeededExtension = {
  extension: TASKS_EXTENSION,
  unserved:
    'it has the option "task", but its endpoint does not support tasks. Import McpTasksModule.forRoot() of "nestjs-mcp-streamable/tasks" beside McpStreamableModule; for an endpoint with a name: forRoot({ endpoint: "admin" }).',
};
