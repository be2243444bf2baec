/** @module nestjs-mcp-streamable/tasks */

export type { McpTask } from '../core/calls/mcp-task.js';
export { InMemoryTaskStore } from './in-memory-task-store.js';
export { type McpTaskCounts, McpTaskService } from './mcp-task.service.js';
export { McpTasksModule, type McpTasksModuleAsyncOptions } from './mcp-tasks.module.js';
export type {
  McpStoredTask,
  McpTaskInfo,
  McpTaskStatus,
  McpTaskStore,
  McpNewTask,
  McpTaskChange,
  McpTaskFailure,
  McpTaskLimits,
  McpTaskOutcome,
} from '../stores/task-store.js';
export type { McpTasksOptions } from './tasks.options.js';
export { getMcpToken, InjectMcp } from '../core/calls/inject-mcp.js';
