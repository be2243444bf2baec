/**
 * # The task store
 *
 * Stores the tasks of an endpoint, so that every node can answer for a task, whichever node runs it.
 *
 *     working ◀──answer──┬──ask──▶ input_required
 *        └───────────────┴──patch──▶ completed | failed | cancelled, for good
 *
 * For implementers of a store:
 *
 * - **Records** are plain JSON. Changes that a caller makes to an object that it passed or got have no effect on the store.
 * - **Time**: a task is removed `ttlMs` after `create`, whether or not it has ended. No call prolongs it.
 * - **Nodes that die**: the message bus finds them (`lost$`), and another node makes each of their `active` tasks fail.
 * The store does
 *   not know which nodes are alive.
 * - Calls run concurrently, from several nodes; each of them is atomic. A call may be repeated if its answer was lost.
 *
 * The contract test is exported by `nestjs-mcp-streamable/testing`.
 *
 * @publicApi
 */
export interface McpTaskStore {
  /** Whether other nodes see the tasks. `false`: they are in the memory of this process. */
  readonly scope: 'node' | 'shared';

  /**
   * Stores a new task with the status `working`. When it resolves, `get` and `active` find the task on every node.
   *
   * @returns `'created'`, or the limit that was reached; then nothing has changed
   */
  create(task: McpNewTask, limits: McpTaskLimits): Promise<McpTaskOutcome>;

  /** Reads a task. @returns the task; `undefined` if there is none, or it has expired */
  get(id: string): Promise<McpStoredTask | undefined>;

  /**
   * Changes a task, if its status is one of `expected`. A final status (`completed`, `failed`, `cancelled`) removes its
   * questions and answers.
   *
   * @returns whether it was changed
   */
  patch(id: string, expected: readonly McpTaskStatus[], change: McpTaskChange): Promise<boolean>;

  /**
   * Adds questions to a task that has not ended, and sets its status to `input_required`. A key that was answered before is
   * left out.
   *
   * @param questions by key; any text may be a key
   * @param at milliseconds since the epoch: `lastUpdatedAt`
   * @returns whether there was such a task
   */
  ask(id: string, questions: Readonly<Record<string, unknown>>, at: number): Promise<boolean>;

  /**
   * Stores answers to the open questions of a task; other keys are ignored. The last answer sets the status to `working`.
   *
   * @returns the keys whose answers were stored
   */
  answer(id: string, answers: Readonly<Record<string, object>>, at: number): Promise<string[]>;

  /** Deletes a task. @returns whether there was such a task */
  delete(id: string): Promise<boolean>;

  /**
   * Lists the active tasks of a node. A node calls it every few seconds while it runs tasks, so it should need no
   * search through all tasks.
   *
   * @returns the ids of all tasks of a node that have neither ended nor expired, in any order
   */
  active(node: string): Promise<string[]>;

  /** Lists all tasks, or those of one principal (`null`: of anonymous callers), the oldest first. */
  list(filter?: { principal?: string | null }): Promise<McpTaskInfo[]>;
}

/** @publicApi */
export type McpTaskStatus = 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled';

/** @publicApi */
export type McpTaskOutcome = 'created' | 'total-cap' | 'principal-cap' | 'address-cap';

/** A task that is being created. @publicApi */
export interface McpNewTask {
  /** The id is unguessable, of `[A-Za-z0-9]`. */
  readonly id: string;
  /** The principal that owns the task; `undefined`: anonymous. */
  readonly principal: string | undefined;
  /** The parameters of the path at which the task began, which own it too; absent without any. */
  readonly routeParams?: Readonly<Record<string, unknown>>;
  /** The address of an anonymous caller, as a hash: `perAddress` counts by it. Absent: it has a principal, or no address. */
  readonly address?: string;
  /** The name of the tool. */
  readonly tool: string;
  /** The node that runs the task. */
  readonly node: string;
  /** Milliseconds since the epoch, by the clock of its node. */
  readonly createdAt: number;
  /** The task is kept for so many milliseconds, from `createdAt` on. */
  readonly ttlMs: number;
  /** Clients are asked to wait so many milliseconds between two polls. */
  readonly pollIntervalMs: number;
  /** The format of the task; absent: 1. A version of this package that does not know it does not read the task. */
  readonly format?: number;
}

/** A task without its result. @publicApi */
export interface McpTaskInfo extends McpNewTask {
  readonly status: McpTaskStatus;
  /** The current step of its work, or the reason of its end. */
  readonly statusMessage?: string;
  readonly lastUpdatedAt: number;
}

/** A task as it is stored. @publicApi */
export interface McpStoredTask extends McpTaskInfo {
  /** The result, if the task is `completed`. */
  readonly result?: object;
  /** The JSON-RPC error, if the task has `failed`. */
  readonly error?: McpTaskFailure;
  /** Open questions are found by key. */
  readonly questions: Readonly<Record<string, unknown>>;
  /** Answers are found by key, until the task ends. */
  readonly answers: Readonly<Record<string, object>>;
}

/** A JSON-RPC error. @publicApi */
export interface McpTaskFailure {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

/** A change of a task; absent fields stay as they are. @publicApi */
export interface McpTaskChange {
  readonly status?: McpTaskStatus;
  readonly statusMessage?: string;
  readonly result?: object;
  readonly error?: McpTaskFailure;
  /** Milliseconds since the epoch. */
  readonly lastUpdatedAt: number;
}

/** Limits the numbers of tasks, ended ones included. `Infinity`: no limit. @publicApi */
export interface McpTaskLimits {
  readonly total: number;
  /** Limits the tasks of one principal; anonymous callers count as one. */
  readonly perPrincipal: number;
  /** Limits the tasks with one `address`. A store may ignore it; then one anonymous caller can take the places of all. */
  readonly perAddress?: number;
}

/** A task that has not ended has one of these statuses. */
export const ACTIVE: readonly McpTaskStatus[] = ['working', 'input_required'];

export function hasEnded(status: McpTaskStatus): boolean {
  return !ACTIVE.includes(status);
}
