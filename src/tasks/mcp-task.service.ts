import { Inject, Injectable } from '@nestjs/common';
import type { Observable } from 'rxjs';
import type { McpStoredTask, McpTaskInfo, McpTaskStatus } from '../stores/task-store.js';
import { TasksPlugin } from './tasks.plugin.js';

/** Counts the tasks in the store, by status, and those that run on this node. @publicApi */
export type McpTaskCounts = Readonly<Record<McpTaskStatus | 'running', number>>;

/**
 * Lists and cancels the tasks of an endpoint, on all its nodes: for pages of an operator, clean-up, and tests. An app
 * with several endpoints injects it by name: `@InjectMcp(McpTaskService, name)`.
 *
 * @publicApi
 */
@Injectable()
export class McpTaskService {
  /** @internal */
  constructor(@Inject(TasksPlugin) private readonly plugin: TasksPlugin) {}

  /**
   * Lists tasks without their results, the oldest first.
   *
   * @param filter `principal`: tasks of this caller; `null`: of anonymous callers
   * @throws (rejects) McpError UNAVAILABLE, with the error of the store as its cause
   */
  list(filter?: { principal?: string | null }): Promise<McpTaskInfo[]> {
    return this.plugin.tasks.list(filter);
  }

  /**
   * Reads a task.
   *
   * @returns the task with its questions, result or error; `undefined` if there is none, or it has expired
   * @throws (rejects) as `list`
   */
  get(id: string): Promise<McpStoredTask | undefined> {
    return this.plugin.tasks.find(id);
  }

  /**
   * Cancels a task as its client would: its handler is aborted, on whichever node it runs.
   *
   * @returns whether there was a task that had not ended
   * @throws (rejects) as `list`
   */
  cancel(id: string): Promise<boolean> {
    return this.plugin.tasks.cancel(id);
  }

  /** Counts the tasks. @throws (rejects) as `list` */
  async counts(): Promise<McpTaskCounts> {
    const counts = { working: 0, input_required: 0, completed: 0, failed: 0, cancelled: 0, running: this.running };
    for (const { status } of await this.list()) counts[status]++;
    return counts;
  }

  /** Counts the tasks that run on this node; does not ask the store. */
  get running(): number {
    return this.plugin.tasks.running;
  }

  /**
   * Emits the id of each task that has changed, on any node; read the task to see the change. Hot; never errors; completes
   * when the endpoint closes.
   */
  get changes$(): Observable<string> {
    return this.plugin.tasks.changes$;
  }
}
