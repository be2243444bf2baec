import type { McpHandlerTarget } from '../core/calls/mcp-target.js';
import { oneOf, type OptionTable, resolveGroup, timer } from '../core/common/options.js';
import type { ToolOptions } from '../core/handlers/decorators/handler-options.js';
import { taskOptionOf } from '../core/handlers/decorators/task-options.js';
import { McpHandlerDefinitionError } from '../core/handlers/handlers.errors.js';

type ToolTaskOptions = Exclude<ToolOptions['task'], string | false | undefined>;

const TASK_TABLE = {
  support: oneOf('optional', ['optional', 'required']),
  afterMs: timer(0, { min: 0, infinite: true }),
  ttlMs: timer(undefined),
  pollIntervalMs: timer(undefined),
} satisfies OptionTable<ToolTaskOptions>;

/** When calls of a tool become tasks: the options of the tool with their defaults, without those of the module. */
export interface ToolTask {
  readonly support: 'optional' | 'required';
  /** The call becomes a task after so many milliseconds; `Infinity`: when the handler calls `startTask()`. */
  readonly afterMs: number;
  readonly ttlMs?: number | undefined;
  readonly pollIntervalMs?: number | undefined;
}

/** Reads the option `task`. @returns `undefined`: calls never become tasks @throws McpHandlerDefinitionError */
export function toolTaskOf(tool: McpHandlerTarget): ToolTask | undefined {
  const task = taskOptionOf(tool);
  if (task === undefined) return undefined;
  try {
    const given = typeof task === 'string' ? (WORDS[task] ?? task) : task;
    return resolveGroup(TASK_TABLE, given, 'task');
  } catch (error) {
    const words = "false, 'optional', 'required', 'manual', or an object of options";
    const reason = `its "task" must be ${words}: ${(error as Error).message}`;
    throw new McpHandlerDefinitionError(tool.origin, reason, { cause: error });
  }
}

const WORDS: Readonly<Record<string, ToolTaskOptions>> = {
  optional: {},
  required: { support: 'required' },
  manual: { afterMs: Infinity },
};
