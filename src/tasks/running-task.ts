import { channel } from 'node:diagnostics_channel';
import type { InputRequest } from '@modelcontextprotocol/server';
import type { Observable } from 'rxjs';
import type { McpClock, ClockTimer } from '../core/common/clock.js';
import { deferred, type Deferred, within } from '../core/common/promises.js';
import { Retry } from '../core/common/retry.js';
import { endOf } from '../core/calls/call-observer.js';
import type { DivertedClient, McpCall } from '../core/calls/mcp-call.js';
import type { McpCallEnd, McpCallOutcome } from '../core/calls/mcp-instrumentation.js';
import type { McpTask } from '../core/calls/mcp-task.js';
import type { McpRun } from '../core/plugins/mcp-plugin.js';
import { McpServerRequestError } from '../core/calls/server-request.error.js';
import { rpcErrorOf } from '../core/protocol/errors.js';
import { TASK_REPORTS_CHANNEL, type TaskReport } from '../core/protocol/extensions.js';
import {
  ACTIVE,
  hasEnded,
  type McpTaskStore,
  type McpNewTask,
  type McpTaskChange,
  type McpTaskFailure,
  type McpStoredTask,
} from '../stores/task-store.js';
import { taskResult } from './task-wire.js';
import type { ToolTask } from './tool-task.js';

const REPORTS = channel(TASK_REPORTS_CHANNEL);
/** Two writes of a status message are so many milliseconds apart. */
const MESSAGE_MS = 1_000;
/** A status message has at most so many characters. */
const MAX_MESSAGE = 1_000;
/** A question is asked so often for an answer that matches it. */
const MAX_ASKED = 8;
/** The last write of a node that stops takes at most so many milliseconds. */
const LAST_WRITE_MS = 2_000;

/** Serves the tasks of a node: each of them, a call that may become one, and a client that watches some. */
export interface TaskNode {
  readonly store: McpTaskStore;
  readonly clock: McpClock;
  readonly maxResultBytes: number;
  /**
   * Stores a new task, to which the call of the run is diverted.
   *
   * @param wanted is called after the task is stored; if it returns `false`, the task is removed again
   * @returns `undefined` if it is not wanted any more, or the node stops
   * @throws McpError if a limit is reached, or the store is unavailable
   */
  make(run: McpRun, task: ToolTask, wanted: () => boolean): Promise<RunningTask | undefined>;
  /** Notifies all nodes that the record of a task has changed. */
  changed(id: string): void;
  /** Emits the ids of tasks that have changed, on any node. */
  readonly changes$: Observable<string>;
  /** Emits when changes may have been missed. */
  readonly missed$: Observable<void>;
  /** Reads a task. */
  find(id: string): Promise<McpStoredTask | undefined>;
  /** Cancels a task. @returns whether there was a task that had not ended */
  cancel(id: string): Promise<boolean>;
  /** Called with 1 or -1 when the number of clients that watch changes. */
  watching(difference: 1 | -1): void;
  /** Called when the task has ended on this node. */
  left(task: RunningTask): void;
  /** Logs an error for the operator. */
  report(text: string, error?: unknown): void;
}

/** The result or the error of the work of a task. */
export type TaskOutcome = PromiseSettledResult<object>;

/**
 * # A task on the node that runs it: the client of a call that has become one
 *
 *     running ──work settled──▶ settling ──stored, or ended elsewhere──▶ ended
 *        ├──cancelled, failed or expired, as its record says──▶ ended (the handler is aborted)
 *        └──ttlMs passed, node stops──────────────────────────▶ ended (the same)
 *
 * The record decides: a write of this node has an effect only while the task has not ended in the record. Writes of other nodes
 * (answers, a cancellation) are found by reading the record, after a signal or at the next tick.
 *
 * Invariants: each question has a key of its own for the life of the task; `left` is called once, and after it no timer is armed
 * and no promise is pending.
 */
export class RunningTask implements McpTask, DivertedClient {
  readonly asksAtOnce = true;
  readonly handle: object;
  readonly #over = deferred<McpCallEnd>();
  readonly end: Promise<McpCallEnd> = this.#over.promise;
  readonly #waiting = new Map<string, Deferred<unknown>>();
  /** Holds the keys of all questions so far. */
  readonly #used = new Set<string>();
  /** Holds the questions that are written together at the end of this turn. */
  #asking: Record<string, InputRequest> | undefined;
  #message: string | undefined;
  #messageTimer: ClockTimer | undefined;
  #state: 'running' | 'settling' | 'ended' = 'running';
  /** The change that ends the task, once the work is done. */
  #last: McpTaskChange | undefined;
  #looking: 'no' | 'yes' | 'again' = 'no';
  #outcome: McpCallOutcome = 'cancelled';
  readonly #expiry: ClockTimer;
  readonly #writes: Retry;

  constructor(
    readonly about: McpNewTask,
    private readonly node: TaskNode,
    readonly call: McpCall,
  ) {
    const { clock } = node;
    const { ttlMs, id, createdAt } = about;
    this.handle = { ...taskResult({ ...about, status: 'working', lastUpdatedAt: createdAt }), resultType: 'task' };
    this.#writes = new Retry({ firstDelayMs: 100, maxDelayMs: 5_000, giveUpAfterMs: ttlMs }, clock, () => false);
    this.#expiry = clock.setTimeout(() => {
      this.#end(new Error(`The task ${id} was kept for ${ttlMs} ms ("ttlMs"), and has expired.`));
    }, ttlMs);
  }

  get id(): string {
    return this.about.id;
  }

  get createdAt(): number {
    return this.about.createdAt;
  }

  get asks(): boolean {
    return this.#waiting.size > 0;
  }

  cancel(): Promise<boolean> {
    return this.node.cancel(this.id);
  }

  // ---- what the handler sends ------------------------------------------------------------------------------------

  identity(call: McpCall): ReturnType<DivertedClient['identity']> {
    return call.from.identity(call);
  }

  /** Returns `false`: the extension has no log messages. */
  wantsLog(): boolean {
    return false;
  }

  progress(report: Parameters<NonNullable<DivertedClient['progress']>>[0]): void {
    const { progress, total, message } = report;
    this.update(message ?? (total === undefined ? String(progress) : `${progress} of ${total}`), report);
  }

  /** Asks again when an answer does not match, as in a round. */
  async request(
    ...[, { signal }, , { key, embedded, accept }]: Parameters<DivertedClient['request']>
  ): Promise<unknown> {
    for (let times = 1; ; times++) {
      const answer = await this.ask(key, embedded, signal);
      if (times === MAX_ASKED || accept(answer)) return answer;
    }
  }

  update(statusMessage: string, report: TaskReport['report'] = { message: statusMessage }): void {
    if (this.#state !== 'running') return;
    if (REPORTS.hasSubscribers) REPORTS.publish({ taskId: this.id, report } satisfies TaskReport);
    this.#message = statusMessage.slice(0, MAX_MESSAGE);
    if (!this.#messageTimer) this.#writeMessage();
  }

  /**
   * Asks a question.
   *
   * @param signal of this question alone
   * @returns the answer; rejects when the task ends or `signal` aborts first
   */
  ask(key: string, question: InputRequest, signal?: AbortSignal): Promise<unknown> {
    if (this.#state !== 'running') {
      const text = `The question "${key}" cannot be asked: the handler has returned, or its task has ended. Ask before, and await the answer.`;
      return Promise.reject(new McpServerRequestError('CALL_OVER', text));
    }
    const unique = this.#unique(key);
    const answer = deferred<unknown>();
    this.#waiting.set(unique, answer);
    signal?.addEventListener('abort', () => {
      if (this.#waiting.delete(unique)) answer.reject(signal.reason);
    });
    if (!this.#asking) {
      this.#asking = {};
      queueMicrotask(() => void this.#ask());
    }
    Object.defineProperty(this.#asking, unique, { value: question, enumerable: true });
    return answer.promise;
  }

  /** Ends the task with the outcome of its work. Resolves when that is stored. */
  async settle(outcome: TaskOutcome): Promise<void> {
    if (this.#state !== 'running') return;
    this.#state = 'settling';
    this.#quiet(new McpServerRequestError('CALL_OVER', 'The handler has returned.'));
    const end = (this.#last = this.#changeOf(outcome));
    this.#outcome = outcomeOf(end);
    try {
      if (await this.#writes.run(() => this.node.store.patch(this.id, ACTIVE, end))) this.node.changed(this.id);
      // It had ended in the record, unless the answer to an earlier write was lost.
      else if ((await this.node.store.get(this.id))?.status !== end.status) this.#outcome = 'cancelled';
    } catch (error) {
      if (!this.#isOver) this.node.report(`The end of the task ${this.id} could not be stored.`, error);
    }
    this.#leave();
  }

  /** Reads the record: questions may have been answered, and the task may have ended. */
  look(): void {
    if (this.#looking !== 'no') this.#looking = 'again';
    else if (this.#state === 'running') void this.#look();
  }

  /** Ends the task because the node stops. */
  async stop(): Promise<void> {
    if (this.#isOver) return;
    const reason = new Error('The server is shutting down.');
    const error = { code: -32603, message: 'The server that ran this task was stopped before the task had ended.' };
    const end = this.#last ?? failed(error, this.node.clock.now());
    const written = this.node.store.patch(this.id, ACTIVE, end).catch(() => false);
    this.#end(reason);
    if (await within(written, LAST_WRITE_MS, this.node.clock)) this.node.changed(this.id);
  }

  async #ask(): Promise<void> {
    const questions = this.#asking!;
    this.#asking = undefined;
    const { store, clock } = this.node;
    try {
      const asked = await this.#writes.run(() => store.ask(this.id, questions, clock.now()));
      if (!asked) return this.look();
      this.node.changed(this.id);
    } catch (error) {
      for (const key of Object.keys(questions)) this.#take(key)?.reject(error);
    }
  }

  async #look(): Promise<void> {
    do {
      this.#looking = 'yes';
      const record = await this.node.store.get(this.id).catch((): 'unknown' => 'unknown');
      // This holds also when the record was not read again: that of an ended task does not change.
      if (this.#state !== 'running') break;
      if (record === 'unknown') continue;
      if (!record || hasEnded(record.status)) {
        this.#end(new Error(`The task ${this.id} ${record ? `was ${record.status}` : 'has expired'}.`));
        break;
      }
      for (const [key, answer] of Object.entries(record.answers)) this.#take(key)?.resolve(answer);
    } while ((this.#looking as string) === 'again');
    this.#looking = 'no';
  }

  #writeMessage(): void {
    const statusMessage = this.#message;
    if (statusMessage === undefined) {
      this.#messageTimer = undefined;
      return;
    }
    this.#message = undefined;
    this.#messageTimer = this.node.clock.setTimeout(() => this.#writeMessage(), MESSAGE_MS);
    const change = { statusMessage, lastUpdatedAt: this.node.clock.now() };
    // A message that is not written is replaced by the next one.
    this.node.store.patch(this.id, ACTIVE, change).then(
      (written) => (written ? this.node.changed(this.id) : this.look()),
      () => {},
    );
  }

  get #isOver(): boolean {
    return this.#state === 'ended';
  }

  #unique(key: string): string {
    let unique = key;
    for (let n = 2; this.#used.has(unique); n++) unique = `${key}-${n}`;
    this.#used.add(unique);
    return unique;
  }

  #take(key: string): Deferred<unknown> | undefined {
    const waiting = this.#waiting.get(key);
    this.#waiting.delete(key);
    return waiting;
  }

  #changeOf(outcome: TaskOutcome): McpTaskChange {
    const lastUpdatedAt = this.node.clock.now();
    if (outcome.status === 'rejected') {
      const rpcError = rpcErrorOf(outcome.reason);
      if (!rpcError) this.#report('failed.', outcome.reason);
      const error = rpcError ? this.#kept('error', rpcError) : new Fault(HANDLER_FAILED);
      return failed(error, lastUpdatedAt);
    }
    const result = this.#kept('result', this.#bounded(outcome.value));
    if (result instanceof Fault) return failed(result, lastUpdatedAt);
    return { status: 'completed', statusMessage: '', result, lastUpdatedAt };
  }

  /** Replaces a result that is larger than the tool allows by advice, as in any answer. */
  #bounded(result: object): object {
    const { bound } = this.call;
    const bytes = bound ? bytesOf(result) : 0;
    return bound && bytes > bound.maxBytes ? bound.insteadOf(result, bytes) : result;
  }

  /** Returns the result, or the failure if it is not JSON or too large. */
  #kept<T extends object>(what: 'result' | 'error', value: T): T | Fault {
    const { maxResultBytes } = this.node;
    try {
      const json = JSON.stringify(value);
      const bytes = Buffer.byteLength(json);
      if (bytes <= maxResultBytes) return JSON.parse(json) as T;
      const message = `The ${what} has ${bytes} bytes as JSON; the maximum for a task is ${maxResultBytes} ("maxResultBytes"). Ask for less.`;
      this.#report(`failed: ${message}`);
      return new Fault(message);
    } catch (error) {
      this.#report(`has a ${what} that cannot be written as JSON.`, error);
      return new Fault(HANDLER_FAILED);
    }
  }

  #report(what: string, error?: unknown): void {
    this.node.report(`The task ${this.id} of the tool "${this.about.tool}" ${what}`, error);
  }

  #end(reason: unknown): void {
    if (this.#state === 'ended') return;
    this.#leave(reason);
  }

  /** Rejects everything that waits. */
  #quiet(reason: unknown): void {
    if (this.#messageTimer) this.node.clock.clear(this.#messageTimer);
    for (const { reject } of this.#waiting.values()) reject(reason);
    this.#waiting.clear();
  }

  #leave(reason: unknown = new Error('The task is over.')): void {
    if (this.#state === 'ended') return;
    this.#state = 'ended';
    this.#quiet(reason);
    this.#writes.cancel();
    this.node.clock.clear(this.#expiry);
    const durationMs = this.node.clock.now() - this.createdAt;
    const error = this.#outcome === 'cancelled' ? reason : undefined;
    this.#over.resolve(endOf(this.call, this.#outcome, { durationMs, result: undefined, error, taskId: this.id }));
    this.node.left(this);
  }
}

function outcomeOf({ error, result }: McpTaskChange): McpCallOutcome {
  if (error) return error.code;
  return (result as { isError?: unknown }).isError === true ? 'tool_error' : 'ok';
}

export function failed(error: McpTaskFailure, lastUpdatedAt: number): McpTaskChange {
  const { code, message, data } = error;
  const failure = data === undefined ? { code, message } : { code, message, data };
  return { status: 'failed', statusMessage: message.slice(0, MAX_MESSAGE), error: failure, lastUpdatedAt };
}

/** Returns the size as JSON; 0 if it cannot be JSON, which is found later. */
function bytesOf(result: object): number {
  try {
    return Buffer.byteLength(JSON.stringify(result));
  } catch {
    return 0;
  }
}

/** The failure of a task whose handler did not fail. */
class Fault implements McpTaskFailure {
  readonly code = -32603;
  constructor(readonly message: string) {}
}

const HANDLER_FAILED = 'The server could not run this task. See the server log.';
