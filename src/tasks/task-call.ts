import type { InputRequest } from '@modelcontextprotocol/server';
import type { ClockTimer } from '../core/common/clock.js';
import { deferred, quiet } from '../core/common/promises.js';
import type { McpCall } from '../core/calls/mcp-call.js';
import type { McpTask, Takeover, ToolTask } from '../core/calls/mcp-task.js';
import { withoutUrlRequired } from '../core/handlers/methods/method-dispatcher.js';
import { McpError, RefusedCall } from '../core/protocol/errors.js';
import type { RunningTask, TaskNode, TaskOutcome } from './running-task.js';
import { taskResult } from './task-wire.js';

/**
 * # A call that may become a task
 *
 *     waiting ──entering, afterMs, startTask()──▶ making ──stored──▶ task ──work done──▶ its end is stored
 *        │  └─────────────questions─────────────────┤
 *        └──work done───────────────────────────────┴──▶ ordinary (a task that was stored is removed)
 *
 * Invariant: the client is answered with the task only when it is stored, and with anything else only when there is no task.
 */
export class TaskCall implements Takeover {
  readonly #became = deferred<RunningTask>();
  #state: 'waiting' | 'making' | 'task' | 'ordinary' = 'waiting';
  #making: Promise<RunningTask | undefined> | undefined;
  #task: RunningTask | undefined;
  #timer: ClockTimer | undefined;
  /** One promise serves all runs of the method: an interceptor may repeat it. */
  #entering: Promise<void> | undefined;

  constructor(
    private readonly node: TaskNode,
    private readonly call: McpCall,
    private readonly tool: string,
    private readonly options: ToolTask,
  ) {}

  /** Runs the work. @returns the task that the call has become, as its client gets it; else the result of the work */
  async serve(work: () => object | Promise<object>): Promise<object> {
    const settled: Promise<TaskOutcome> = Promise.resolve(work()).then(
      (value) => ({ status: 'fulfilled', value }),
      (reason: unknown) => ({ status: 'rejected', reason: withoutUrlRequired(reason) }),
    );
    // The handler of a task runs on when the call is answered, or its task has ended.
    this.call.hold();
    void settled.then(() => this.call.release());
    await Promise.race([settled, this.#became.promise]);
    const task = this.#task;
    if (task) {
      settled.then((outcome) => task.settle(outcome)).catch(() => {});
      const { about } = task;
      return { ...taskResult({ ...about, status: 'working', lastUpdatedAt: about.createdAt }), resultType: 'task' };
    }
    // A task that is being stored is not wanted any more.
    this.#settle('ordinary');
    const outcome = await settled;
    if (outcome.status === 'rejected') throw outcome.reason;
    return outcome.value;
  }

  get task(): McpTask | undefined {
    return this.#task;
  }

  entering(): Promise<void> | undefined {
    const { afterMs } = this.options;
    if (afterMs === 0) return (this.#entering ??= quiet(this.#enter()));
    if (afterMs !== Infinity && this.#state === 'waiting' && !this.#timer) {
      // When there is no room, it stays an ordinary call.
      this.#timer = this.node.clock.setTimeout(() => void quiet(this.start()), afterMs);
    }
    return undefined;
  }

  start(): Promise<McpTask | undefined> {
    if (this.#state === 'ordinary') return Promise.resolve(undefined);
    return (this.#making ??= this.#make());
  }

  forbid(): void {
    this.#settle('ordinary');
  }

  ask(key: string, question: InputRequest, signal?: AbortSignal): Promise<unknown> {
    return this.#task!.ask(key, question, signal);
  }

  progress(report: Parameters<Takeover['progress']>[0]): void {
    const { progress, total, message } = report;
    this.#task!.update(message ?? (total === undefined ? String(progress) : `${progress} of ${total}`), report);
  }

  async #make(): Promise<RunningTask | undefined> {
    this.#settle('making');
    const wanted = (): boolean => this.#state === 'making' && this.call.state === 'open';
    try {
      const task = await this.node.make(this.call, this.tool, this.options, wanted);
      if (!task) {
        this.#settle('ordinary');
        return undefined;
      }
      this.#task = task;
      this.#settle('task');
      this.#became.resolve(task);
      return task;
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

  #settle(state: 'waiting' | 'making' | 'task' | 'ordinary'): void {
    if (this.#state === 'task' || this.#state === 'ordinary') return;
    this.#state = state;
    if (this.#timer) this.node.clock.clear(this.#timer);
    this.#timer = undefined;
  }
}
