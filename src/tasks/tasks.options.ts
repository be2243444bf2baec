import { check, namesOf } from '../common/option-checks.js';
import type { McpTaskStore } from './task-store.js';

/** Options of `McpTasksModule.forRoot()`. @publicApi */
export interface McpTasksOptions {
  /** The option `name` of the endpoint whose tools become tasks. @default the endpoint without a name */
  endpoint?: string;
  /**
   * Where tasks are kept.
   *
   * @default that of the option `backend` of the endpoint; without one, the memory of this process
   */
  store?: McpTaskStore;
  /**
   * Milliseconds that a task is kept, from its beginning on, whether it has ended or not; then it is gone with its result, and
   * a handler that still runs is aborted. Tools may say otherwise (`task: { ttlMs }`). Raising it lets clients come back
   * later, and raises what is kept.
   *
   * @default 600000 (10 minutes)
   * @see https://modelcontextprotocol.io/extensions/tasks
   */
  ttlMs?: number;
  /**
   * Milliseconds that clients are asked to wait between two polls. Lower: results are seen sooner, and there are more requests.
   *
   * @default 1000
   */
  pollIntervalMs?: number;
  /**
   * Milliseconds after which the tasks of a node that did not renew its lease fail. It renews its lease three times in
   * this time, with one write for all its tasks. Lower: clients learn sooner of a dead node, but one that merely paused loses
   * its tasks.
   *
   * @default 15000
   */
  leaseMs?: number;
  /**
   * Tasks in all, those that have ended included, until their `ttlMs` is over. One more is refused with 429. What is kept is
   * bounded by this times `maxResultBytes`.
   *
   * @default 5000
   */
  maxTasks?: number;
  /** Tasks of one principal; otherwise like `maxTasks`. @default 100 */
  maxTasksPerPrincipal?: number;
  /** Tasks of all anonymous callers together; otherwise like `maxTasks`. @default 1000 */
  maxAnonymousTasks?: number;
  /**
   * Bytes that a result may have as JSON, and the answers of one `tasks/update`. A task whose result is larger has failed; larger
   * answers are refused with 413.
   *
   * @default 262144 (256 KiB)
   */
  maxResultBytes?: number;
}

const NAMES = namesOf<McpTasksOptions>({
  ...{ endpoint: true, store: true, ttlMs: true, pollIntervalMs: true, leaseMs: true },
  ...{ maxTasks: true, maxTasksPerPrincipal: true, maxAnonymousTasks: true, maxResultBytes: true },
});

/** The methods of a store. */
export const STORE_METHODS = ['create', 'get', 'patch', 'ask', 'answer', 'delete', 'renew', 'list'] as const;

export type ResolvedTasksOptions = Required<Omit<McpTasksOptions, 'endpoint' | 'store'>> &
  Pick<McpTasksOptions, 'endpoint' | 'store'>;

/** The injection token of the {@link ResolvedTasksOptions}. */
export const TASKS_OPTIONS = Symbol('nestjs-mcp-streamable:tasks-options');

/** @throws McpOptionError */
export function resolveTasksOptions(options: McpTasksOptions = {}): ResolvedTasksOptions {
  check.names('', check.group('options', options ?? null), NAMES);
  const { endpoint, store, ttlMs = 600_000, pollIntervalMs = 1_000, leaseMs = 15_000 } = options;
  const { maxTasks = 5_000, maxTasksPerPrincipal = 100, maxAnonymousTasks = 1_000, maxResultBytes = 262_144 } = options;
  if (endpoint !== undefined) check.text('endpoint', endpoint);
  return {
    endpoint,
    store: check.implementation('store', store, STORE_METHODS),
    ttlMs: check.timer('ttlMs', ttlMs),
    pollIntervalMs: check.timer('pollIntervalMs', pollIntervalMs),
    leaseMs: check.timer('leaseMs', leaseMs, { min: 3 }),
    maxTasks: check.count('maxTasks', maxTasks, { infinite: true }),
    maxTasksPerPrincipal: check.count('maxTasksPerPrincipal', maxTasksPerPrincipal, { infinite: true }),
    maxAnonymousTasks: check.count('maxAnonymousTasks', maxAnonymousTasks, { infinite: true }),
    maxResultBytes: check.count('maxResultBytes', maxResultBytes, { infinite: true }),
  };
}
