import type { McpHandlerTarget } from '../../calls/mcp-target.js';
import { oneOf, type OptionTable, resolveGroup, timer } from '../../common/options.js';
import { McpHandlerDefinitionError } from '../handlers.errors.js';

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
  const task = tool.option('task');
  if (task === undefined || task === false) return undefined;
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
