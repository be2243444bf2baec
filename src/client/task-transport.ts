import type { Transport, TransportSendOptions } from '@modelcontextprotocol/server';
import { type McpClock, systemClock } from '../core/common/clock.js';
import { deferred, type Deferred, quiet } from '../core/common/promises.js';
import { randomToken } from '../core/common/random-token.js';
import { CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY } from '../core/protocol/era.js';
import { errorResponse, REQUEST_FAILED, REQUEST_TIMEOUT, shown } from '../core/protocol/errors.js';
import { TASKS_EXTENSION, type TaskReport } from '../core/protocol/extensions.js';
import {
  isNotification,
  isObject,
  isRequest,
  isResponse,
  type JsonRpcMessage,
  type JsonRpcRequest,
  type JsonRpcResponse,
  type RequestId,
} from '../core/protocol/json-rpc.js';
import { isModernRevision } from '../core/protocol/revisions.js';
import { soundAnswer } from './large-messages.js';
import { nextTurn, pause, sharedController } from './waiting.js';

/** Marks, in `_meta`, a progress notification of a poll without a new status. @internal */
export const POLLED_META_KEY = 'nestjs-mcp-streamable/polled';
/** Two polls are so many milliseconds apart: without a value of the server, and the limits of that value. */
const POLL_MS = { default: 1_000, least: 20, most: 60_000 };
/** So many polls in a row may fail. */
const MAX_FAILURES = 5;

/**
 * # A transport for the official `Client` that follows tasks
 *
 * The official client does not support the extension `io.modelcontextprotocol/tasks`. This class wraps its transport:
 * it declares the extension with each `tools/call` of revision 2026-07-28, and when the answer is a task it polls the
 * task until it has ended. For the client the call only takes longer:
 *
 *     called ──"task"──▶ followed ──completed, failed, cancelled──▶ answered
 *                           ├──input_required──▶ answered with the questions; its repetition goes on following
 *                           └──given up by the client──▶ the task is cancelled
 *
 * The status of the task arrives as progress, with each poll: a timeout that progress restarts is restarted by each of them.
 *
 * @publicApi
 */
export class McpTaskTransport implements Transport {
  onclose?: Transport['onclose'];
  onerror?: Transport['onerror'];
  onmessage?: Transport['onmessage'];
  /** Holds the calls that may become tasks, or have. */
  readonly #calls = new Map<RequestId, FollowedCall>();
  /** Holds the requests of this transport. */
  readonly #asked = new Map<RequestId, Deferred<JsonRpcResponse>>();
  /** Prefixes the ids, so that they differ from those of the client. */
  readonly #name = `task-${randomToken(8)}-`;
  #lastId = 0;
  /** `_meta` of the last call; `undefined` while there was none that may become a task. */
  #meta: Meta | undefined;

  constructor(
    private readonly inner: Transport,
    private readonly clock: McpClock = systemClock,
    /** Returns reports of a task's handler, which replace its status messages. @internal */
    private readonly reports?: (taskId: string) => readonly TaskReport['report'][],
  ) {}

  get sessionId(): string | undefined {
    return this.inner.sessionId;
  }
  get hasPerRequestStream(): boolean {
    return this.inner.hasPerRequestStream ?? false;
  }

  setProtocolVersion(version: string): void {
    this.inner.setProtocolVersion?.(version);
  }

  setSupportedProtocolVersions(versions: string[]): void {
    this.inner.setSupportedProtocolVersions?.(versions);
  }

  start(): Promise<void> {
    const { inner } = this;
    const before = inner.onmessage;
    inner.onmessage = (message, extra) => {
      before?.(message, extra);
      if (!this.#take(message)) this.onmessage?.(message, extra);
    };
    inner.onerror = (error) => this.onerror?.(error);
    inner.onclose = () => {
      this.#end();
      this.onclose?.();
    };
    return inner.start();
  }

  async send(message: JsonRpcMessage, options: TransportSendOptions = {}): Promise<void> {
    if (isNotification(message) && message.method === 'notifications/cancelled') {
      const call = this.#calls.get(message.params?.['requestId'] as RequestId);
      call?.abort.abort(message.params?.['reason']);
      // The request was already answered, so the task is cancelled.
      if (call?.followed) return;
    }
    if (!isRequest(message) || message.method !== 'tools/call' || !isModern(message)) {
      return this.inner.send(message, options);
    }
    const call = new FollowedCall(message, options.requestSignal);
    this.#calls.set(message.id, call);
    this.#meta = call.meta;
    const { signal } = call.abort;
    signal.addEventListener('abort', () => call.followed || this.#calls.delete(message.id), { once: true });
    const taskId = this.#taskIn(message);
    if (taskId !== undefined) {
      call.followed = true;
      void this.#follow(call, taskId, message.params?.['inputResponses']);
      return;
    }
    try {
      await this.inner.send(declaring(message), options);
    } catch (error) {
      this.#calls.delete(message.id);
      throw error;
    }
  }

  async close(): Promise<void> {
    this.#end();
    await this.inner.close();
  }

  #end(): void {
    for (const call of this.#calls.values()) call.abort.abort(new Error('The connection is closed.'));
    this.#calls.clear();
    for (const { reject } of this.#asked.values()) reject(new Error('The connection is closed.'));
    this.#asked.clear();
  }

  /** Takes a message. @returns whether it is none of the client's */
  #take(message: JsonRpcMessage): boolean {
    if (!isResponse(message) || message.id === undefined) return false;
    const asked = this.#asked.get(message.id);
    if (asked) {
      this.#asked.delete(message.id);
      asked.resolve(message);
      return true;
    }
    const call = this.#calls.get(message.id);
    const result = 'result' in message ? message.result : undefined;
    const { resultType, taskId, pollIntervalMs } = (result ?? {}) as Partial<Task> & { resultType?: unknown };
    if (resultType !== 'task' || typeof taskId !== 'string' || !this.#meta) {
      this.#calls.delete(message.id);
      return false;
    }
    if (!call) {
      // The call was cancelled while the answer was under way.
      void this.#cancel(taskId, this.#meta);
      return true;
    }
    call.followed = true;
    call.pollMs = pollMsOf(pollIntervalMs);
    this.#reportProgress(call, result as Partial<Task>);
    void this.#follow(call, taskId);
    return true;
  }

  /** Polls a task until the call can be answered. Never rejects. */
  async #follow(call: FollowedCall, taskId: string, inputResponses?: unknown): Promise<void> {
    const { id } = call.request;
    const { signal } = call.abort;
    try {
      if (inputResponses !== undefined) await this.#ask(call, 'tasks/update', { taskId, inputResponses });
      for (;;) {
        await pause(inputResponses === undefined || call.polls > 0 ? call.pollMs : POLL_MS.least, this.clock, signal);
        const task = (await this.#ask(call, 'tasks/get', { taskId })) as unknown as Task;
        call.pollMs = pollMsOf(task.pollIntervalMs);
        this.#reportProgress(call, task);
        const answer = this.#answerTo(call, task, inputResponses);
        if (!answer) continue;
        // The official client hands progress over a microtask later, and forgets the callback with the answer.
        await nextTurn();
        if (signal.aborted) return await this.#cancelFollowed(call, taskId);
        return this.#answer(call, answer);
      }
    } catch (error) {
      if (signal.aborted) return this.#cancelFollowed(call, taskId);
      const { code = REQUEST_FAILED, data } = error as { code?: unknown; data?: unknown };
      const text = `The task ${shown(taskId)} of ${shown(call.request.params?.['name'])} could not be followed: ${(error as Error).message}`;
      const answer = errorResponse(id, Number.isSafeInteger(code) ? (code as number) : REQUEST_FAILED, text, data);
      this.#answer(call, answer as JsonRpcResponse);
    }
  }

  /** Returns the answer to a call. @returns `undefined` while there is nothing to answer with */
  #answerTo({ request: { id } }: FollowedCall, task: Task, given: unknown): JsonRpcResponse | undefined {
    const { taskId, status, result, error, inputRequests = {} } = task;
    const ofResult = (value: object): JsonRpcResponse => ({ jsonrpc: '2.0', id, result: { ...value } });
    switch (status) {
      case 'completed':
        return ofResult({ ...result, resultType: 'complete' });
      case 'failed': {
        const { code = REQUEST_FAILED, message = 'The task failed.', data } = error ?? {};
        return errorResponse(id, code, message, data) as JsonRpcResponse;
      }
      case 'cancelled':
        return errorResponse(id, REQUEST_FAILED, `The task ${shown(taskId)} was cancelled.`) as JsonRpcResponse;
      case 'input_required': {
        // The task may still include answered questions, if nodes see updates late.
        const open = Object.entries(inputRequests).filter(([key]) => !(isObject(given) && Object.hasOwn(given, key)));
        if (open.length === 0) return undefined;
        const requestState = this.#name + taskId;
        return ofResult({ resultType: 'input_required', inputRequests: Object.fromEntries(open), requestState });
      }
      default:
        return undefined;
    }
  }

  /** Returns the task of a call that is repeated with answers. */
  #taskIn({ params }: JsonRpcRequest): string | undefined {
    const state = params?.['requestState'];
    return typeof state === 'string' && state.startsWith(this.#name) ? state.slice(this.#name.length) : undefined;
  }

  #answer({ request: { id } }: FollowedCall, answer: JsonRpcResponse): void {
    if (this.#calls.delete(id)) this.onmessage?.(soundAnswer('tools/call', answer));
  }

  /** Cancels the task of a call that the client has cancelled. */
  async #cancelFollowed(call: FollowedCall, taskId: string): Promise<void> {
    if (this.#calls.delete(call.request.id)) await this.#cancel(taskId, call.meta);
  }

  async #cancel(taskId: string, meta: Meta): Promise<void> {
    await this.#request(meta, 'tasks/cancel', { taskId }).catch(() => {});
  }

  #reportProgress({ request, reported }: FollowedCall, { taskId, statusMessage }: Partial<Task>): void {
    const progressToken = request.params?._meta?.progressToken;
    if (progressToken === undefined) return;
    const send = (progress: TaskReport['report'] & { _meta?: Record<string, unknown> }): void => {
      const params = { progressToken, progress: ++reported.count, ...progress };
      this.onmessage?.({ jsonrpc: '2.0', method: 'notifications/progress', params });
    };
    const news = !this.reports && statusMessage !== undefined && statusMessage !== reported.message;
    if (news) reported.message = statusMessage;
    for (const report of this.reports?.(taskId!) ?? []) send(report);
    send(news ? { message: statusMessage } : { _meta: { [POLLED_META_KEY]: true } });
  }

  /**
   * Sends a request for the task.
   *
   * @throws (rejects) an error with the code of the answer; what could not be sent five times
   */
  async #ask(call: FollowedCall, method: string, params: Record<string, unknown>): Promise<Record<string, unknown>> {
    const { signal } = call.abort;
    for (let failures = 1; ; failures++) {
      try {
        const answer = await this.#request(call.meta, method, params, signal);
        call.polls++;
        if ('result' in answer) return answer.result;
        const { code, message, data } = answer.error;
        throw Object.assign(new Error(message), { code, data });
      } catch (error) {
        if (signal.aborted || isFinal(error) || failures >= MAX_FAILURES) throw error;
        await pause(Math.max(call.pollMs, POLL_MS.default), this.clock, signal);
      }
    }
  }

  async #request(
    meta: Meta,
    method: string,
    params: Record<string, unknown>,
    signal?: AbortSignal,
  ): Promise<JsonRpcResponse> {
    const id = `${this.#name}${++this.#lastId}`;
    const answer = deferred<JsonRpcResponse>();
    this.#asked.set(id, answer);
    const message = declaring({ jsonrpc: '2.0', id, method, params: { ...params, _meta: meta } });
    const abort = (): void => answer.reject(signal!.reason);
    signal?.addEventListener('abort', abort, { once: true });
    try {
      // The reason of a transport that has one comes a little later.
      const onRequestStreamEnd = (): void =>
        void nextTurn().then(() => answer.reject(new Error('The response ended without an answer.')));
      const options = { onRequestStreamEnd, ...(signal && { requestSignal: signal }) };
      quiet(this.inner.send(message, options)).catch(answer.reject);
      return await answer.promise;
    } finally {
      signal?.removeEventListener('abort', abort);
      this.#asked.delete(id);
    }
  }
}

/** Follows a call from its request to the answer that the client gets. */
class FollowedCall {
  readonly abort = sharedController();
  /** Whether the call is a task. */
  followed = false;
  pollMs = POLL_MS.default;
  polls = 0;
  /** The last progress that the client received of the task. */
  readonly reported: { message: string | undefined; count: number } = { message: undefined, count: 0 };

  constructor(
    readonly request: JsonRpcRequest,
    signal: AbortSignal | undefined,
  ) {
    signal?.addEventListener('abort', () => this.abort.abort(signal.reason), { once: true });
  }

  /** Returns `_meta` for requests about the task: it describes the client like that of the call. */
  get meta(): Meta {
    const { progressToken: _, ...meta } = this.request.params?._meta ?? {};
    return meta;
  }
}

type Meta = Readonly<Record<string, unknown>>;

/** A task in the result of `tasks/get`. */
interface Task {
  readonly taskId: string;
  readonly status: string;
  readonly statusMessage?: string;
  readonly pollIntervalMs?: unknown;
  readonly result?: object;
  readonly error?: { readonly code?: number; readonly message?: string; readonly data?: unknown };
  readonly inputRequests?: Readonly<Record<string, unknown>>;
}

/** Answers with these codes say nothing of the task: the request failed, took too long, or the server has a fault. */
const PASSING: ReadonlySet<unknown> = new Set([REQUEST_FAILED, REQUEST_TIMEOUT, -32603]);

/** Returns whether the server has answered for the task, or would answer the same; otherwise it is asked again. */
function isFinal(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  if (code === 'MESSAGE_TOO_LARGE') return true;
  return Number.isSafeInteger(code) && !PASSING.has(code);
}

function pollMsOf(pollIntervalMs: unknown): number {
  const wanted = typeof pollIntervalMs === 'number' && pollIntervalMs > 0 ? pollIntervalMs : POLL_MS.default;
  return Math.min(Math.max(wanted, POLL_MS.least), POLL_MS.most);
}

function isModern({ params }: JsonRpcRequest): boolean {
  const meta: Readonly<Record<string, unknown>> | undefined = params?._meta;
  return isModernRevision(meta?.[PROTOCOL_VERSION_META_KEY]);
}

/** Adds the extension for tasks to the capabilities of a request. */
function declaring(message: JsonRpcRequest): JsonRpcRequest {
  const { params = {} } = message;
  const meta: Readonly<Record<string, unknown>> = params._meta ?? {};
  const capabilities = meta[CLIENT_CAPABILITIES_META_KEY] as { extensions?: object } | undefined;
  const extensions = { [TASKS_EXTENSION]: {}, ...capabilities?.extensions };
  const _meta = { ...meta, [CLIENT_CAPABILITIES_META_KEY]: { ...capabilities, extensions } };
  return { ...message, params: { ...params, _meta } };
}
