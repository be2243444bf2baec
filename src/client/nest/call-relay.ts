import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import type { Client, ElicitRequest, ElicitResult, RequestOptions } from '@modelcontextprotocol/client';
import type { InputResponses } from '@modelcontextprotocol/server';
import { HttpException } from '@nestjs/common';
import type { McpContext } from '../../core/calls/mcp-context.js';
import { type ClockTimer, type McpClock, systemClock } from '../../core/common/clock.js';

/** Spread it into the parameters of the request: it has what the user has answered, for servers of 2026-07-28. @experimental */
export interface McpRelayedParams {
  readonly inputResponses?: InputResponses;
  readonly requestState?: string;
}

/** Configures a {@link McpCallRelay}. @experimental */
export interface McpCallRelayOptions {
  /** Sets the clock, which tests advance. @default the clock of the system */
  readonly clock?: McpClock;
  /** A user has so long to answer a question of a server that waits. @default 600000 (10 minutes) */
  readonly answerMs?: number;
  /** Limits how many calls wait for answers at a time. @default 1000 */
  readonly maxWaiting?: number;
}

/** Sends a request to another server; again, with the answers, when its result was questions. @experimental */
export type McpRelayedSend = (params: McpRelayedParams, options: RequestOptions) => Promise<object>;

/** What is remembered while the user answers. The client has it sealed, for this call of this user. */
interface State {
  /** The server of 2026-07-28 that asks may have given a state of its own. */
  readonly remote?: string | undefined;
  /** A call to a server of a 2025 revision waits in this process: its id. */
  readonly waiting?: string;
}

interface Waiting {
  readonly call: RelayedCall;
  readonly timer: ClockTimer;
}

/** The call of this app has limits of time. */
const NO_TIMEOUT = 2_147_483_647;
const calls = new AsyncLocalStorage<RelayedCall>();

/**
 * # Calls of this app that other servers answer
 *
 *     call() ──▶ sent ──result──▶ ended
 *                 │ ▲
 *        question ▼ │ call() of the same user, with the answers
 *               waiting ──answerMs, close(), the caller goes──▶ cancelled
 *
 * Progress, cancellation and questions pass through, in all combinations of eras. A server of 2026-07-28 returns its questions, and
 * is called again with the answers. One of a 2025 revision waits for them, so a call of it may outlive the call of this app.
 *
 * @experimental
 */
export class McpCallRelay {
  readonly #waiting = new Map<string, Waiting>();

  readonly #clock: McpClock;
  readonly #answerMs: number;
  readonly #maxWaiting: number;

  constructor({ clock = systemClock, answerMs = 600_000, maxWaiting = 1_000 }: McpCallRelayOptions = {}) {
    this.#clock = clock;
    this.#answerMs = answerMs;
    this.#maxWaiting = maxWaiting;
  }

  /**
   * Lets servers of 2025 revisions ask the users of relayed calls. Give it to each `McpClient` as its option `configure`; the
   * `capabilities` in its option `client` need `elicitation`.
   */
  readonly configure = (client: Client): void => {
    client.setRequestHandler('elicitation/create', (request) => {
      const call = calls.getStore();
      if (!call) throw new Error('The question belongs to no call, so there is no user to ask.');
      return call.ask(request);
    });
  };

  /**
   * Calls another server for a call of this app. A handler returns the result as it is: it may be questions to the client.
   *
   * @param ctx of the call of this app
   * @throws (rejects) what `send` throws; HttpException 424 for an answer that comes too late, or to another node; 429 when too many
   *   calls wait for answers
   */
  async call(ctx: McpContext, send: McpRelayedSend): Promise<object> {
    const { waiting, remote } = JSON.parse(ctx.requestState ?? '{}') as State;
    const call = waiting === undefined ? new RelayedCall() : this.#take(waiting);
    call.listenTo(ctx);
    if (waiting !== undefined) call.answer(ctx.inputResponses ?? {});
    else call.begin(send, ctx.requestState === undefined ? {} : answersOf(ctx, remote));
    const result = await call.next();
    if (!result) return this.#wait(call);
    const { requestState, ...questions } = result as { requestState?: string; resultType?: unknown };
    if (questions.resultType !== 'input_required') return result;
    return { ...questions, requestState: JSON.stringify({ remote: requestState } satisfies State) };
  }

  /** Cancels the calls that wait for answers. */
  close(): void {
    for (const id of this.#waiting.keys()) this.#take(id).cancel('The server stops.');
  }

  #wait(call: RelayedCall): object {
    if (this.#waiting.size >= this.#maxWaiting) {
      call.cancel('Too many calls wait for answers.');
      throw new HttpException('Too many users are asked at the moment. Call again later.', 429);
    }
    const waiting = randomUUID();
    const timer = this.#clock.setTimeout(() => this.#take(waiting).cancel('The user did not answer.'), this.#answerMs);
    this.#waiting.set(waiting, { call, timer });
    call.onCancelled = () => void (this.#waiting.has(waiting) && this.#take(waiting));
    const requestState = JSON.stringify({ waiting } satisfies State);
    return { resultType: 'input_required', inputRequests: call.questions, requestState };
  }

  /** @throws HttpException for a call that does not wait any more */
  #take(id: string): RelayedCall {
    const waiting = this.#waiting.get(id);
    if (!waiting) throw new HttpException('The question has expired, or another node has asked it. Call again.', 424);
    this.#waiting.delete(id);
    this.#clock.clear(waiting.timer);
    return waiting.call;
  }
}

function answersOf({ inputResponses }: McpContext, requestState: string | undefined): McpRelayedParams {
  return { ...(inputResponses && { inputResponses }), ...(requestState !== undefined && { requestState }) };
}

/** One call of another server. */
class RelayedCall {
  readonly #abort = new AbortController();
  readonly #asked = new Map<string, { request: ElicitRequest; answer: (result: ElicitResult) => void }>();
  #questions = 0;
  #result!: Promise<object>;
  #ctx!: McpContext;
  #wake = (): void => {};
  onCancelled = (): void => {};

  /** From now on it reports to this call of the app, and is cancelled with it. */
  listenTo(ctx: McpContext): void {
    this.#ctx = ctx;
    const { signal } = ctx;
    const onabort = (): void => void (this.#ctx === ctx && this.cancel(signal.reason));
    signal.addEventListener('abort', onabort, { once: true });
    if (signal.aborted) onabort();
  }

  begin(send: McpRelayedSend, params: McpRelayedParams): void {
    const onprogress: RequestOptions['onprogress'] = (progress) => void this.#ctx.progress(progress);
    const options = { signal: this.#abort.signal, timeout: NO_TIMEOUT, allowInputRequired: true, onprogress };
    this.#result = calls.run(this, () => send(params, options));
    this.#result.catch(() => {});
  }

  ask(request: ElicitRequest): Promise<ElicitResult> {
    return new Promise((answer) => {
      this.#asked.set(`question ${++this.#questions}`, { request, answer });
      this.#wake();
    });
  }

  /** Resolves with the result; with `undefined` when there are questions. */
  next(): Promise<object | undefined> {
    const asked = new Promise<undefined>((resolve) => {
      this.#wake = () => resolve(undefined);
      if (this.#asked.size > 0) this.#wake();
    });
    return Promise.race([this.#result, asked]);
  }

  get questions(): Readonly<Record<string, ElicitRequest>> {
    return Object.fromEntries([...this.#asked].map(([key, { request }]) => [key, request]));
  }

  answer(answers: Readonly<Record<string, unknown>>): void {
    for (const [key, { answer }] of this.#asked) answer((answers[key] as ElicitResult) ?? { action: 'cancel' });
    this.#asked.clear();
  }

  cancel(reason: unknown): void {
    this.#abort.abort(reason);
    this.onCancelled();
  }
}
