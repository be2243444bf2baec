import { Injectable } from '@nestjs/common';
import { endOf } from './call-observer.js';
import type { McpCall } from './mcp-call.js';
import type { McpCallOutcome } from './mcp-instrumentation.js';

/*
 * # Calls that become tasks (the extension `io.modelcontextprotocol/tasks`)
 *
 * What the core asks of the module of tasks: {@link TaskRunner.serve} may take over a call, and answer for it. The call then has a
 * `takeover`, which its context and its run find there. Without the module no tool of the app has the option `task`.
 */

/** Describes a running task to operators. @internal */
export interface TaskView {
  readonly about: {
    readonly id: string;
    readonly tool: string;
    readonly principal: string | undefined;
    /** Milliseconds since the epoch. */
    readonly createdAt: number;
  };
  /** Whether the task waits for answers. */
  readonly asks: boolean;
}

/** Runs the tasks of an endpoint. @internal */
export interface TaskRunner {
  readonly running: number;
  tasks(): Iterable<TaskView>;
  /** Cancels a task. @returns whether there was a task that had not ended. @throws (rejects) McpError UNAVAILABLE */
  cancel(id: string): Promise<boolean>;
  /**
   * Serves a call that may become a task: one of a tool with the option `task`.
   *
   * @param work serves the call as without tasks
   * @returns the result of the work, or the task
   */
  serve(call: McpCall, work: () => object | Promise<object>): object | Promise<object>;
}

/** Describes the end of a task on the node that ran it. @internal */
export interface TaskEnd {
  /** The call that has become the task. */
  readonly call: McpCall;
  readonly taskId: string;
  /** `cancelled` also where the task has expired, or its node has stopped. */
  readonly outcome: McpCallOutcome;
  /** Milliseconds since it was made. */
  readonly durationMs: number;
}

/** Holds the {@link TaskRunner} of one endpoint; the module of tasks sets it. @internal */
@Injectable()
export class TaskHost {
  runner: TaskRunner | undefined;

  ended({ call, taskId, outcome, durationMs }: TaskEnd): void {
    const end = endOf(call, outcome, { durationMs, result: undefined, taskId });
    call.hooks?.over(end, { answered: false, ended: true });
  }
}
