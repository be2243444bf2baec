/**
 * # The task store
 *
 * Keeps the tasks of an endpoint: what clients ask for, whichever node runs the task.
 *
 *     working ◀──answer──┬──ask──▶ input_required
 *        └───────────────┴──patch──▶ completed | failed | cancelled, for good
 *
 * Written for the implementer of a store:
 *
 * - **Records** are plain JSON. What a caller does to one that it gave, or was given, changes nothing in the store.
 * - **Time**: a task is gone `ttlMs` after `create`, whatever happens to it. No call prolongs its life.
 * - **Leases**: each node that runs tasks renews its lease, one for all of them. A task whose node has let its lease run out
 *   is `lost`: any node that sees it makes it fail. A task that has ended is never lost.
 * - Calls run concurrently, from several nodes; each of them is atomic. A call may be repeated when its answer got lost.
 *
 * The contract test is exported by `nestjs-mcp-streamable/testing`.
 *
 * @publicApi
 */
export interface McpTaskStore {
  /** Whether other nodes see the tasks, or they live with this process. */
  readonly scope: 'node' | 'shared';

  /**
   * Keeps a new task, `working`, and lets the lease of its node last for `leaseMs` at least. When it resolves, `get` finds the
   * task on every node.
   *
   * @returns `'created'`, or which cap refuses it; then nothing has changed
   */
  create(task: NewTask, limits: TaskLimits, leaseMs: number): Promise<'created' | 'total-cap' | 'principal-cap'>;

  /** @returns the task; `undefined` if there is none (any more) */
  get(id: string): Promise<McpStoredTask | undefined>;

  /**
   * Changes a task, if its status is one of `expected`. An end (`completed`, `failed`, `cancelled`) removes its questions and
   * answers.
   *
   * @returns whether it was changed
   */
  patch(id: string, expected: readonly McpTaskStatus[], change: TaskChange): Promise<boolean>;

  /**
   * Adds questions to a task that has not ended, which makes it `input_required`. A key that was asked before, and answered,
   * is left out.
   *
   * @param questions by key; any text may be a key
   * @param at milliseconds since the epoch: `lastUpdatedAt`
   * @returns whether there was such a task
   */
  ask(id: string, questions: Readonly<Record<string, unknown>>, at: number): Promise<boolean>;

  /**
   * Answers questions of a task: those that are asked, and not yet answered; other keys are ignored. The last answer makes
   * the task `working`.
   *
   * @returns the keys whose answers were taken
   */
  answer(id: string, answers: Readonly<Record<string, object>>, at: number): Promise<string[]>;

  /** @returns whether there was such a task */
  delete(id: string): Promise<boolean>;

  /**
   * Renews the lease of a node.
   *
   * @param leaseMs 0 ends it
   * @returns the tasks of the node that have not ended, and some that are lost, of other nodes: the same ones again until they
   *   have ended
   */
  renew(node: string, leaseMs: number): Promise<TaskLease>;

  /** All tasks, or those of one principal (`null`: of anonymous callers), the oldest first. */
  list(filter?: { principal?: string | null }): Promise<McpTaskInfo[]>;
}

/** @publicApi */
export type McpTaskStatus = 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled';

/** A task that is being created. @publicApi */
export interface NewTask {
  /** Unguessable, of `[A-Za-z0-9]`. */
  readonly id: string;
  /** Whose it is; `undefined`: anonymous. */
  readonly principal: string | undefined;
  /** The name of the tool. */
  readonly tool: string;
  /** The node that runs it. */
  readonly node: string;
  /** Milliseconds since the epoch, by the clock of its node. */
  readonly createdAt: number;
  /** Milliseconds that it is kept. */
  readonly ttlMs: number;
  /** Milliseconds that clients are asked to wait between two polls. */
  readonly pollIntervalMs: number;
}

/** What is known of a task without its result. @publicApi */
export interface McpTaskInfo extends NewTask {
  readonly status: McpTaskStatus;
  /** What it does at the moment, or why it ended. */
  readonly statusMessage?: string;
  readonly lastUpdatedAt: number;
}

/** A task as it is stored. @publicApi */
export interface McpStoredTask extends McpTaskInfo {
  /** Of a task that is `completed`. */
  readonly result?: object;
  /** Of a task that has `failed`: a JSON-RPC error. */
  readonly error?: TaskFailure;
  /** Those that wait for an answer, by key. */
  readonly questions: Readonly<Record<string, unknown>>;
  /** Those that were answered, until the task ends. */
  readonly answers: Readonly<Record<string, object>>;
  /** It has not ended, and the lease of its node has. */
  readonly lost: boolean;
}

/** A JSON-RPC error. @publicApi */
export interface TaskFailure {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

/** What changes of a task; what is absent stays. @publicApi */
export interface TaskChange {
  readonly status?: McpTaskStatus;
  readonly statusMessage?: string;
  readonly result?: object;
  readonly error?: TaskFailure;
  /** Milliseconds since the epoch. */
  readonly lastUpdatedAt: number;
}

/** How many tasks there may be, those that have ended included. `Infinity`: no cap. @publicApi */
export interface TaskLimits {
  readonly total: number;
  /** Of the principal of the task; anonymous callers count as one. */
  readonly perPrincipal: number;
}

/** @publicApi */
export interface TaskLease {
  readonly active: string[];
  readonly lost: string[];
}

/** Of a task that has not ended. */
export const ACTIVE: readonly McpTaskStatus[] = ['working', 'input_required'];

export function hasEnded(status: McpTaskStatus): boolean {
  return !ACTIVE.includes(status);
}
