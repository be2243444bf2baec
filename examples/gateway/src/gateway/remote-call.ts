import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import type { ElicitRequest, ElicitResult } from '@modelcontextprotocol/client';
import type { InputResponses } from '@modelcontextprotocol/server';
import { HttpException } from '@nestjs/common';
import type { McpContext } from 'nestjs-mcp-streamable';
import type { Clock } from './remote-link.js';

/** What a call sends again to a server of revision 2026-07-28. */
export interface Round {
  readonly params: { readonly inputResponses?: InputResponses; readonly requestState?: string };
  readonly options: object;
}

/** What the gateway remembers while the user answers. Its client has it back sealed, for this call of this user only. */
interface State {
  /** The state of a server of 2026-07-28. */
  readonly remote?: string;
  /** The id of a call that waits in this process, at a server of a 2025 revision. */
  readonly waiting?: string;
}

interface Question {
  readonly request: ElicitRequest;
  readonly answer: (result: ElicitResult) => void;
}

/** The user has so long to answer a question. */
const ANSWER_MS = 600_000;
const MAX_WAITING = 1_000;
/** Limits of time are those of the gateway. */
const NO_TIMEOUT = 2_147_483_647;
const calls = new AsyncLocalStorage<RemoteCall>();

/** Answers a question of a server of a 2025 revision: by the user whose call it belongs to. */
export function askedBy(request: ElicitRequest): Promise<ElicitResult> {
  const call = calls.getStore();
  if (!call) throw new Error('The question belongs to no call, so there is no user to ask.');
  return call.ask(request);
}

/** Begins calls of remote servers, and goes on with those whose user was asked. */
export class RemoteCalls {
  readonly #waiting = new Map<string, RemoteCall>();

  constructor(private readonly clock: Clock) {}

  /** @param send sends the request; again with the answers, if it returned questions */
  async run(ctx: McpContext, send: (round: Round) => Promise<object>): Promise<object> {
    const state = JSON.parse(ctx.requestState ?? '{}') as State;
    const call = state.waiting === undefined ? new RemoteCall() : this.#waiting.get(state.waiting);
    if (!call) throw new HttpException('The question has expired, or another node has asked it. Call again.', 424);
    call.listenTo(ctx);
    if (state.waiting === undefined) {
      const requestState = state.remote === '' ? undefined : state.remote;
      const params = ctx.requestState === undefined ? {} : { inputResponses: ctx.inputResponses, requestState };
      call.begin(send, params);
    } else {
      this.#waiting.delete(state.waiting);
      call.answer(ctx.inputResponses);
    }
    const outcome = await call.next();
    if (outcome !== 'asks') {
      call.end();
      const { requestState = '', ...result } = outcome as { requestState?: string; resultType?: string };
      return isQuestions(result) ? { ...result, requestState: JSON.stringify({ remote: requestState }) } : outcome;
    }
    if (this.#waiting.size >= MAX_WAITING) {
      call.cancel('Too many calls wait for answers.');
      throw new HttpException('Too many users are asked at the moment. Call again later.', 429);
    }
    const waiting = randomUUID();
    this.#waiting.set(waiting, call);
    call.expire(this.clock, () => this.#waiting.delete(waiting));
    return { resultType: 'input_required', inputRequests: call.questions(), requestState: JSON.stringify({ waiting }) };
  }

  /** Cancels the calls whose users were asked. */
  close(): void {
    for (const call of this.#waiting.values()) call.cancel('The gateway stops.');
  }
}

/** Returns whether a server of 2026-07-28 needs answers before it has a result. */
export function isQuestions(result: object): boolean {
  return (result as { resultType?: unknown }).resultType === 'input_required';
}

/** One call of a remote server. It may outlive the call of the gateway that has begun it, while a user is asked. */
class RemoteCall {
  readonly #abort = new AbortController();
  readonly #questions = new Map<string, Question>();
  #asked = 0;
  #result: Promise<object> | undefined;
  #ctx: McpContext | undefined;
  #wake = (): void => {};
  #release = (): void => {};

  begin(send: (round: Round) => Promise<object>, params: Round['params']): void {
    const onprogress = (progress: Parameters<McpContext['progress']>[0]) => void this.#ctx!.progress(progress);
    const options = { signal: this.#abort.signal, timeout: NO_TIMEOUT, allowInputRequired: true, onprogress };
    this.#result = calls.run(this, () => send({ params, options }));
    this.#result.catch(() => {});
  }

  /** Is cancelled with this call of the gateway from now on, and reports to it. */
  listenTo(ctx: McpContext): void {
    this.end();
    this.#ctx = ctx;
    const { signal } = ctx;
    const onabort = () => this.cancel(signal.reason);
    signal.addEventListener('abort', onabort);
    this.#release = () => signal.removeEventListener('abort', onabort);
    if (signal.aborted) onabort();
  }

  ask(request: ElicitRequest): Promise<ElicitResult> {
    return new Promise((answer) => {
      this.#questions.set(`question ${++this.#asked}`, { request, answer });
      this.#wake();
    });
  }

  /** Resolves with the result, or when there are questions. */
  next(): Promise<object | 'asks'> {
    const asks = new Promise<'asks'>((resolve) => {
      this.#wake = () => resolve('asks');
      if (this.#questions.size > 0) this.#wake();
    });
    return Promise.race([this.#result!, asks]);
  }

  questions(): object {
    return Object.fromEntries([...this.#questions].map(([key, { request }]) => [key, request]));
  }

  answer(answers: InputResponses | undefined): void {
    for (const [key, { answer }] of this.#questions) answer((answers?.[key] as ElicitResult) ?? { action: 'cancel' });
    this.#questions.clear();
  }

  /** Gives the user some time to answer. */
  expire(clock: Clock, expired: () => void): void {
    const release = this.#release;
    const timer = clock.setTimeout(() => {
      expired();
      this.cancel('The user did not answer.');
    }, ANSWER_MS);
    this.#release = () => {
      clock.clear(timer);
      release();
    };
  }

  cancel(reason: unknown): void {
    this.end();
    this.#abort.abort(reason);
  }

  end(): void {
    this.#release();
  }
}
