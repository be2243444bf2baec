import { Injectable } from '@nestjs/common';
import type { InputRequest } from '@modelcontextprotocol/server';
import type { Observable } from 'rxjs';
import type { McpCall } from './mcp-call.js';
import type { StreamFlow } from './mcp-exchange.js';

/*
 * # Calls that become tasks (the extension `io.modelcontextprotocol/tasks`)
 *
 * The port between the method `tools/call` and the module that keeps tasks. It is not used without the module: then no
 * tool of the app has the option `task`.
 */

/** When calls of a tool become tasks; every option of its declaration decided, but those that the module has. @internal */
export interface ToolTask {
  readonly support: 'optional' | 'required';
  /** Milliseconds; `Infinity`: when the handler calls `startTask()`. */
  readonly afterMs: number;
  readonly ttlMs?: number | undefined;
  readonly pollIntervalMs?: number | undefined;
}

/** The task that a call has become. @publicApi */
export interface McpTask {
  /** As the client knows it; unguessable. */
  readonly id: string;
  /**
   * Sets the status message of the task, which clients read as `statusMessage`. Written at most once a second; the last
   * one counts.
   */
  update(statusMessage: string): void;
}

/** How one call may become a task, and how its handler speaks to the client when it has. @internal */
export interface TaskPort {
  /** The task, once the call is one. */
  readonly task: McpTask | undefined;
  /**
   * Settles when the method of the handler may run: all guards have accepted the caller, and the arguments are valid.
   */
  entering(): Promise<void> | undefined;
  /** Makes the call a task now. @returns `undefined` when it stays an ordinary call */
  start(): Promise<McpTask | undefined>;
  /** The call is answered with questions: it cannot become a task any more. */
  forbid(): void;
  /** Asks through the task. @returns the answer as it came; rejects when the task ends first */
  ask(key: string, question: InputRequest, signal?: AbortSignal): Promise<unknown>;
  progress(report: { progress: number; total?: number | undefined; message?: string | undefined }): void;
}

/** A task as a notification says it. @internal */
export type TaskNotification = { readonly method: string; readonly params: Record<string, unknown> };

/** A task while it runs, as operators see it. @internal */
export interface TaskView {
  readonly about: {
    readonly id: string;
    readonly tool: string;
    readonly principal: string | undefined;
    /** Milliseconds since the epoch. */
    readonly createdAt: number;
  };
  /** It waits for answers. */
  readonly asks: boolean;
}

/** What keeps the tasks of an endpoint. @internal */
export interface TaskRunner {
  /** Tasks that run on this node. */
  readonly running: number;
  tasks(): Iterable<TaskView>;
  /** @returns whether there was such a task, that had not ended. @throws (rejects) McpError UNAVAILABLE */
  cancel(id: string): Promise<boolean>;
  /**
   * Serves a call of a tool that may become a task.
   *
   * @param work runs the handler
   * @returns the result of the handler, or the task
   */
  serve(
    call: McpCall,
    tool: { readonly key: string; readonly task?: ToolTask },
    work: (port?: TaskPort) => Promise<object>,
  ): Promise<object>;
  /** Those of the tasks that the caller may hear of. @throws (rejects) MissingRequiredClientCapabilityError */
  honored(ids: readonly string[], call: McpCall): Promise<readonly string[]>;
  /** What becomes of tasks, each at most once a second. Nothing is emitted while the reader is slow. Never errors. */
  watch(ids: readonly string[], flow: StreamFlow): Observable<TaskNotification>;
  /** Takes no more tasks, and lets those that run end, for `limitMs` at most; then they fail. */
  drain(limitMs: number): Promise<void>;
}

/** Where the module of tasks puts what runs them, for one endpoint. @internal */
@Injectable()
export class TaskHost {
  runner: TaskRunner | undefined;
}
