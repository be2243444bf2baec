import { contract, count, type OptionTable, type Resolved, resolveGroup, text, timer } from '../core/common/options.js';
import type { McpTaskStore } from '../stores/task-store.js';

/** Takes the options of `McpTasksModule.forRoot()`. @publicApi */
export interface McpTasksOptions {
  /** Names the endpoint whose tools become tasks, by its option `name`. @default the endpoint without a name */
  endpoint?: string;
  /**
   * Stores the tasks.
   *
   * @default that of the option `backend` of the endpoint; without one, the memory of this process
   */
  store?: McpTaskStore;
  /**
   * Sets the milliseconds that a task is kept after its creation, whether it has ended or not. Then it is removed with
   * its result, and a handler that still runs is aborted. A tool may have its own value (`task: { ttlMs }`). With a
   * higher value clients may return later, and more is stored.
   *
   * @default 600000 (10 minutes)
   * @see https://modelcontextprotocol.io/extensions/tasks
   */
  ttlMs?: number;
  /**
   * Sets the milliseconds that clients are asked to wait between two polls. With a lower value clients get results
   * sooner, and send more requests.
   *
   * @default 1000
   */
  pollIntervalMs?: number;
  /**
   * Limits the number of tasks. A task counts until its `ttlMs` has passed, even if it has ended. A further one is
   * refused with 429. This number times `maxResultBytes` bounds the memory of the store.
   *
   * @default 5000
   */
  maxTasks?: number;
  /**
   * Limits the number of tasks of one principal, or of the anonymous callers of one address; otherwise it works like
   * `maxTasks`. If a proxy stands before the app, let the app trust it: otherwise all anonymous callers have its address.
   *
   * @default 100
   */
  maxTasksPerPrincipal?: number;
  /** Limits the number of tasks of all anonymous callers together; otherwise it works like `maxTasks`. @default 1000 */
  maxAnonymousTasks?: number;
  /**
   * Limits a result, and the answers of one `tasks/update`, in bytes of JSON. A task with a larger result fails; larger
   * answers are refused with 413.
   *
   * @default 262144 (256 KiB)
   */
  maxResultBytes?: number;
}

/** A store must have these methods. */
export const STORE_METHODS = ['create', 'get', 'patch', 'ask', 'answer', 'delete', 'active', 'list'] as const;

const TASKS_TABLE = {
  endpoint: text(undefined),
  store: contract(undefined, STORE_METHODS),
  ttlMs: timer(600_000),
  pollIntervalMs: timer(1_000),
  maxTasks: count(5_000, { infinite: true }),
  maxTasksPerPrincipal: count(100, { infinite: true }),
  maxAnonymousTasks: count(1_000, { infinite: true }),
  maxResultBytes: count(262_144, { infinite: true }),
} satisfies OptionTable<McpTasksOptions>;

/** The options that the factory of `forRootAsync()` makes. */
export const TASKS_OPTION_NAMES = Object.keys(TASKS_TABLE).filter((name) => name !== 'endpoint');

export type ResolvedTasksOptions = Resolved<typeof TASKS_TABLE>;

/** The injection token of the {@link ResolvedTasksOptions}. */
export const TASKS_OPTIONS = Symbol('nestjs-mcp-streamable:tasks-options');

/** Validates the options and adds defaults. @throws McpOptionError */
export function resolveTasksOptions(options: McpTasksOptions = {}): ResolvedTasksOptions {
  return resolveGroup(TASKS_TABLE, options);
}
