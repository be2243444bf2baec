import type { ClockTimer } from '../core/common/clock.js';
import { type MaybePromise, quiet, settle } from '../core/common/promises.js';
import type { McpTask, TaskPort } from '../core/calls/mcp-task.js';
import { withoutUrlRequired } from '../core/protocol/spec.js';
import type { McpRun, McpRunHooks } from '../core/plugins/mcp-plugin.js';
import { McpError, RefusedCall } from '../core/protocol/errors.js';
import type { RunningTask, TaskNode, TaskOutcome } from './running-task.js';
import type { ToolTask } from './tool-task.js';

/**
 * # A call that may become a task
 *
 *     guarded ──entering──▶ waiting ──afterMs, startTask()──▶ making ──stored──▶ task ──work done──▶ its end is stored
 *        │                     │                                   │
 *        └─────────────────────┴──work done, questions─────────────┴──▶ ordinary (a task that was stored is removed)
 *
 * Invariant: the client is answered with the task only when it is stored, and with anything else only when there is no task.
 */
export class TaskCall implements McpRunHooks, TaskPort {
  #state: TaskCallState = 'guarded';
  #making: Promise<RunningTask | undefined> | undefined;
  #timer: ClockTimer | undefined;
  task: RunningTask | undefined;

  constructor(
    private readonly run: McpRun,
    private readonly node: TaskNode,
    private readonly options: ToolTask,
  ) {
    run.call.taskPort = this;
  }

  enclose<T>(inside: () => MaybePromise<T>): MaybePromise<T> {
    return settle(
      inside,
      (value) => {
        this.#over({ status: 'fulfilled', value: value as object });
        return value;
      },
      (reason) => {
        this.#over({ status: 'rejected', reason: withoutUrlRequired(reason) });
        throw reason;
      },
    );
  }

  #over(outcome: TaskOutcome): void {
    // A task that is being stored is not wanted any more. One that was stored in this turn may not be known here yet.
    this.#settle('ordinary');
    if (this.#making) void quiet(this.#making.then((task) => task?.settle(outcome)));
  }

  entering(): Promise<void> | undefined {
    const { afterMs } = this.options;
    if (this.#state === 'guarded') this.#state = 'waiting';
    if (afterMs === 0) return this.#enter();
    if (afterMs !== Infinity && this.#state === 'waiting' && !this.#timer) {
      // When there is no room, it stays an ordinary call.
      this.#timer = this.node.clock.setTimeout(() => void quiet(this.start()), afterMs);
    }
    return undefined;
  }

  start(): Promise<McpTask | undefined> {
    if (this.#state === 'guarded' || this.#state === 'ordinary') return Promise.resolve(undefined);
    return (this.#making ??= this.#make());
  }

  async #make(): Promise<RunningTask | undefined> {
    this.#settle('making');
    const { call } = this.run;
    const wanted = (): boolean => this.#state === 'making' && !this.run.isMarked && call.state === 'open';
    try {
      this.task = await this.node.make(this.run, this.options, wanted);
      this.#settle(this.task ? 'task' : 'ordinary');
      return this.task;
    } catch (error) {
      // The handler may call it again.
      this.#making = undefined;
      if (this.#state === 'making') this.#settle('waiting');
      throw error;
    }
  }

  async #enter(): Promise<void> {
    try {
      await this.start();
    } catch (error) {
      // There is no task, and the handler has not run: HTTP has the status of the refusal.
      if (!(error instanceof McpError)) throw error;
      const { rpcCode, message, status, headers, data } = error;
      throw new RefusedCall(rpcCode, message, status, headers, { cause: error, data });
    }
  }

  #settle(state: TaskCallState): void {
    if (this.#state === 'task' || this.#state === 'ordinary') return;
    this.#state = state;
    if (this.#timer) this.node.clock.clear(this.#timer);
    this.#timer = undefined;
  }
}

type TaskCallState = 'guarded' | 'waiting' | 'making' | 'task' | 'ordinary';
