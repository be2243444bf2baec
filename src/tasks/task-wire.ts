import type { McpStoredTask, McpTaskInfo } from '../stores/task-store.js';

/** A task in the form of the protocol is flat; times are ISO 8601. */
export interface WireTask extends Record<string, unknown> {
  readonly taskId: string;
  readonly status: McpTaskInfo['status'];
  readonly statusMessage?: string;
  readonly createdAt: string;
  readonly lastUpdatedAt: string;
  readonly ttlMs: number;
  readonly pollIntervalMs: number;
}

/** Returns the answer to a call that became a task, without its `resultType`. */
export function taskResult(task: McpTaskInfo): WireTask {
  const { id, status, statusMessage, createdAt, lastUpdatedAt, ttlMs, pollIntervalMs } = task;
  return {
    taskId: id,
    status,
    ...(statusMessage && { statusMessage }),
    createdAt: new Date(createdAt).toISOString(),
    lastUpdatedAt: new Date(lastUpdatedAt).toISOString(),
    ttlMs,
    pollIntervalMs,
  };
}

/** Returns the same with the fields of its status: questions, a result or an error. */
export function detailedTask(task: McpStoredTask): WireTask {
  const { status, questions, result, error } = task;
  return {
    ...taskResult(task),
    ...(status === 'input_required' && { inputRequests: questions }),
    ...(status === 'completed' && { result }),
    ...(status === 'failed' && { error }),
  };
}
