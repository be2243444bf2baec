import type { InputRequiredResult, InputResponses, LoggingLevel } from '@modelcontextprotocol/server';
import { DONE, type MaybePromise, promiseOf, quiet, settle } from '../common/promises.js';
import type { McpCall, McpProgress, OutboundMessage, OutboundOptions } from '../calls/mcp-call.js';
import type { McpClientPort } from '../calls/mcp-context.js';
import type { McpQuestion } from '../calls/mcp-questions.js';
import type { McpPrincipalState, McpState } from '../calls/mcp-state.js';
import type { McpTask } from '../calls/mcp-task.js';
import { McpServerRequestError } from '../calls/server-request.error.js';
import { inspected } from '../handlers/results/handler-failure.js';
import { ERAS } from '../protocol/era.js';
import { ProgressReports } from '../protocol/notification-json.js';
import { assertNotificationOfEra } from '../protocol/notifications.js';
import { sdk } from '../protocol/spec.js';
import { lacking, Question, QuestionError, type RequestedSchemas, suspended, unable } from './question.js';
import { shown } from '../protocol/errors.js';
import {
  type AskingRequest,
  invalidState,
  type RequestStates,
  RequestStateTooLargeError,
  type StateBinding,
} from './request-state.js';
import { RunMemory } from './run-memory.js';

/** The runs of an endpoint share these parts. */
export interface RunParts {
  readonly requestStates: RequestStates;
  /** Opens the states that outlive a call. */
  readonly states: {
    of(caller: McpCall, handle: string | null | undefined): Promise<McpState>;
    ofPrincipal(caller: McpCall): Promise<McpPrincipalState>;
  };
  readonly schemas: RequestedSchemas;
  /** Logs a text for operators. */
  readonly report: (text: string) => void;
}

type RunState =
  | { readonly kind: 'running' }
  | { readonly kind: 'suspended'; readonly questions: Map<string, Question> }
  | { readonly kind: 'refused'; readonly error: Error }
  | { readonly kind: 'ended' };

const RUNNING: RunState = { kind: 'running' };
const ENDED: RunState = { kind: 'ended' };
/**
 * One question may be asked so often in a run: a handler that asks it more often loops, waiting for a different answer.
 */
const MAX_REPETITIONS = 1_000;
/** A handler that returns `inputRequired()` to a client with a session runs, and a client is asked in vain, so many times. */
const MAX_ROUNDS = 8;
/** A client has so many milliseconds to answer a question of such a round. */
const ROUND_TIMEOUT_MS = 600_000;

/**
 * # One run of a handler, and what it asks
 *
 * Legacy: a question is sent while the handler runs, and the handler waits; so it is once a modern call was diverted.
 * Modern: what the client has not yet answered ends the run, and the client repeats the request with the answer.
 *
 *     running ──unanswered question──▶ suspended ──┐
 *        │  └────────client cannot answer──▶ refused ──┤
 *        └───────────────handler settled──────────────┴──▶ ended
 *
 * Invariants:
 *
 * - `suspended` and `refused` are marks: even if the handler, or an enhancer, catches the signal that was thrown,
 *   {@link serve} answers by the mark. The first refusal stays
 * - it answers when the handler has settled, and everything that `ctx.once()` has begun: what was done is remembered
 * - in a run, a key has one question and one answer, in both eras alike
 */
export class HandlerRun implements McpClientPort {
  #state: RunState = RUNNING;
  #marked = false;
  #memory: RunMemory | undefined;
  #responses: InputResponses | undefined;
  /** The state that the handler last gave to `inputRequired()`. */
  #own: string | undefined;
  #asked: Map<string, Asked> | undefined;
  #progress: ProgressReports | undefined;
  /** The state that the client sent, until it is used up. */
  #sent: string | undefined;

  /**
   * Opens the state of the request.
   *
   * @param request `undefined` for a request whose answer cannot be questions
   * @throws ProtocolError -32602 for an invalid `requestState`
   */
  constructor(
    private readonly call: McpCall,
    private readonly parts: RunParts,
    private readonly request?: AskingRequest,
  ) {
    this.#responses = request?.inputResponses as InputResponses | undefined;
    const state = request?.requestState;
    if (state === undefined) return;
    if (typeof state !== 'string') throw invalidState();
    this.#memory = RunMemory.revive(parts.requestStates.open(state, this.#binding), this.#responses);
    this.#own = this.#memory.own;
    this.#sent = state;
  }

  /**
   * Returns whether the run ends with questions, or without the capability for them, whatever its handler returns. Then the call cannot be
   * diverted any more; if it was before, the run asks the new client, and gets no mark for questions.
   */
  get isMarked(): boolean {
    return this.#marked;
  }

  /** Returns the state that the client sent, at the first call; `undefined` without one. */
  takeRequestState(): string | undefined {
    const sent = this.#sent;
    this.#sent = undefined;
    return sent;
  }

  get clientCapabilities(): Readonly<Record<string, unknown>> {
    return this.call.client.capabilities;
  }

  get inputResponses(): InputResponses | undefined {
    return this.#responses;
  }

  get requestState(): string | undefined {
    return this.#own;
  }

  /** Sends a notification. @throws (rejects) Error for a notification that the era, or the client, does not know */
  notify(notification: OutboundMessage): Promise<void> {
    try {
      assertNotificationOfEra(notification.method, this.call.era, () => this.clientCapabilities);
      return this.call.notify(notification);
    } catch (error) {
      // Values that cannot be JSON reject too: a handler that does not await this must not fail by it.
      return Promise.reject(error);
    }
  }

  progress(report: McpProgress): Promise<void> {
    if (this.call.progress(report)) return DONE;
    const progressToken = this.call.message.params?._meta?.progressToken;
    if (progressToken === undefined) return DONE;
    try {
      const notification = (this.#progress ??= new ProgressReports(progressToken)).next(report);
      // Both eras know it.
      return notification ? this.call.notify(notification) : DONE;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  log(level: LoggingLevel, data: unknown, logger?: string): Promise<void> {
    if (!this.call.wantsLog(level)) return DONE;
    return this.notify({ method: 'notifications/message', params: { level, data, logger } });
  }

  /** @param signal gives up waiting, where the client is asked while the handler waits */
  ask(questions: Readonly<Record<string, McpQuestion>>, signal?: AbortSignal): Promise<Record<string, unknown>> {
    return quiet(this.#ask(questions, signal));
  }

  once(key: string, fn: () => unknown): Promise<unknown> {
    return quiet(this.#remembered.once.run(key, fn));
  }

  get task(): McpTask | undefined {
    return this.call.taskPort?.task;
  }

  /**
   * Turns the call into a task.
   *
   * @throws (rejects) McpHandlerSignal when the client is asked: then the call is answered with the questions
   */
  async startTask(): Promise<McpTask | undefined> {
    const state = this.#state;
    if (state.kind === 'suspended') throw suspended(state.questions);
    return state.kind === 'running' ? this.call.taskPort?.start() : undefined;
  }

  state(handle: string | null | undefined): Promise<McpState> {
    return this.parts.states.of(this.call, handle);
  }

  principalState(): Promise<McpPrincipalState> {
    return this.parts.states.ofPrincipal(this.call);
  }

  /**
   * Runs the handler, and returns the result for the client. For a client that is asked while the handler waits, the handler may run
   * several times.
   *
   * @throws what the handler threw, unless the run is marked; MissingRequiredClientCapabilityError
   */
  serve<T>(handler: () => MaybePromise<T>): MaybePromise<T | InputRequiredResult> {
    return settle(
      handler,
      (value) => {
        if (this.#state !== RUNNING || sdk.isInputRequiredResult(value))
          return this.#rounds(handler, { status: 'fulfilled', value });
        this.#state = ENDED;
        return value;
      },
      (reason) => this.#rounds(handler, { status: 'rejected', reason }),
    );
  }

  /** Goes on with a run that may ask. @param first how its first round has ended */
  async #rounds<T>(handler: () => MaybePromise<T>, first: PromiseSettledResult<T>): Promise<T | InputRequiredResult> {
    try {
      let result = await this.#resultOf(first);
      if (!this.call.asksAtOnce) {
        if (!sdk.isInputRequiredResult(result)) return result;
        this.#marked = true;
        return this.#withState(result);
      }
      for (let round = 1; sdk.isInputRequiredResult(result); round++) {
        if (round > MAX_ROUNDS)
          throw new RoundFailure(
            `"${this.call.method}" asked for input ${MAX_ROUNDS} times in a row. The server ended the call.`,
          );
        await this.#fulfil(result);
        const [outcome] = await Promise.allSettled([promiseOf(handler)]);
        result = await this.#resultOf(outcome);
      }
      return result;
    } catch (error) {
      if (!(error instanceof RoundFailure)) throw error;
      return this.#roundFailed(error) as T;
    } finally {
      this.#state = ENDED;
    }
  }

  /** Returns the result of one round. @throws what the handler threw, unless the run is marked */
  async #resultOf<T>(outcome: PromiseSettledResult<T>): Promise<T | InputRequiredResult> {
    const asks = outcome.status === 'fulfilled' && sdk.isInputRequiredResult(outcome.value);
    if (asks || this.#state !== RUNNING) await this.#memory?.once.settled();
    const state = this.#state;
    if (state.kind === 'refused') throw state.error;
    if (state.kind === 'suspended') return this.#inputRequired(state.questions);
    if (outcome.status === 'rejected') throw outcome.reason;
    if (sdk.isInputRequiredResult(outcome.value))
      this.#read(() => this.#assertAskable(outcome.value as InputRequiredResult));
    return outcome.value;
  }

  /**
   * Reads what a handler returned.
   *
   * @throws ProtocolError -32603: it is the handler's own mistake, not the client's
   */
  #read<T>(read: () => T): T {
    try {
      return read();
    } catch (error) {
      if (error instanceof sdk.ProtocolError) throw error;
      if (error instanceof QuestionError)
        throw new sdk.ProtocolError(sdk.ProtocolErrorCode.InternalError, error.message);
      // The error may contain details that the client must not receive.
      const { method } = this.call;
      this.parts.report(
        `The handler of "${method}" returned an inputRequired() that cannot be read: ${inspected(error)}`,
      );
      throw new sdk.ProtocolError(
        sdk.ProtocolErrorCode.InternalError,
        `The questions of "${method}" cannot be asked. See the server log.`,
      );
    }
  }

  /**
   * Checks questions that a handler returned.
   *
   * @throws ProtocolError -32603 for what cannot be sent; MissingRequiredClientCapabilityError in revision 2026-07-28
   */
  #assertAskable({ inputRequests, requestState }: InputRequiredResult): void {
    const { method, era } = this.call;
    const entries = Object.entries(inputRequests ?? {});
    if (entries.length === 0 && typeof requestState !== 'string') {
      throw new sdk.ProtocolError(
        sdk.ProtocolErrorCode.InternalError,
        `The handler of "${method}" returned inputRequired() with neither questions nor a state. Give it at least one of the two.`,
      );
    }
    for (const [key, question] of entries) {
      const refusal = lacking(Question.of(key, question, this.parts.schemas), this.clientCapabilities);
      if (refusal && ERAS[era].declaresPerRequest) throw refusal;
    }
  }

  /**
   * Asks the questions that a handler returned, side by side, and keeps the answers for its next run. The first failure
   * ends all.
   */
  async #fulfil({ inputRequests, requestState }: InputRequiredResult): Promise<void> {
    const { call } = this;
    const { schemas } = this.parts;
    const questions = this.#read(() =>
      Object.entries(inputRequests ?? {}).map(([key, question]) => Question.of(key, question as McpQuestion, schemas)),
    );
    for (const question of questions) {
      const refusal = this.#lacking(question);
      if (refusal) throw refusal;
    }
    const abort = new AbortController();
    const signal = AbortSignal.any([abort.signal, call.signal]);
    const options = { signal, timeoutMs: ROUND_TIMEOUT_MS, resetTimeoutOnProgress: true, onprogress: () => {} };
    try {
      signal.throwIfAborted();
      const answers = questions.map(async (question) => [question.key, await this.#send(question, options)] as const);
      const responses = Object.fromEntries(await Promise.all(answers));
      // It has no prototype, because its names are the client's.
      const bare = Object.create(null) as InputResponses;
      this.#goOn(questions.length > 0 ? Object.assign(bare, responses) : undefined, requestState);
    } catch (error) {
      if (call.aborted) throw error;
      const reason = error instanceof Error ? error.message : String(error);
      throw new RoundFailure(`The input that "${call.method}" needs could not be obtained: ${reason}`);
    } finally {
      abort.abort(new Error('Another question of the same round has failed.'));
    }
  }

  /** Prepares the next run, as if the client had repeated its request. */
  #goOn(responses: InputResponses | undefined, own: unknown): void {
    this.#responses = responses;
    this.#own = typeof own === 'string' ? own : undefined;
    this.#asked = undefined;
    const payload = this.#memory?.toPayload(this.#own);
    this.#memory = payload === undefined ? undefined : RunMemory.revive(payload, responses);
  }

  /**
   * Returns a tool's failure as a result, so that the model reads it.
   *
   * @throws ProtocolError -32603 for anything else
   */
  #roundFailed({ message }: RoundFailure): object {
    if (this.call.method !== 'tools/call') throw new sdk.ProtocolError(sdk.ProtocolErrorCode.InternalError, message);
    return { content: [{ type: 'text', text: message }], isError: true };
  }

  /** Sends a question. @throws (rejects) McpServerRequestError, also for an answer that is none */
  async #send(question: Question, options?: OutboundOptions): Promise<object> {
    const answer = question.accept(await this.call.ask(question.request, options, question));
    if (answer) return answer;
    throw question.mismatched();
  }

  async #ask(questions: Readonly<Record<string, McpQuestion>>, signal?: AbortSignal): Promise<Record<string, unknown>> {
    const { schemas } = this.parts;
    const asked = Object.entries(questions).map(([key, question]) => Question.of(key, question, schemas));
    const answers = asked.map(async (question) => [question.key, await this.#askOnce(question, signal)]);
    return Object.fromEntries(await Promise.all(answers)) as Record<string, unknown>;
  }

  /** Asks a question once: asked again, it has the answer it had, or will have. */
  #askOnce(question: Question, signal?: AbortSignal): Promise<unknown> {
    const { key } = question;
    const byKey = (this.#asked ??= new Map<string, Asked>());
    const before = byKey.get(key);
    if (before) {
      if (!before.question.isSameAs(question))
        throw new Error(
          `The handler asked two different questions with the key "${key}". Give each question a key of its own, the same each time the handler runs.`,
        );
      if (++before.times > MAX_REPETITIONS)
        throw new Error(
          `The handler asked the question "${key}" ${MAX_REPETITIONS} times in one run. A question has one answer: to ask again, use another key each time, such as "${key}-2".`,
        );
      return before.answer;
    }
    const answer = this.#answer(question, signal);
    byKey.set(key, { question, answer, times: 1 });
    // A failed question may be asked again.
    answer.catch(() => byKey.delete(key));
    return answer;
  }

  async #answer(question: Question, signal?: AbortSignal): Promise<unknown> {
    const known = this.#remembered.answerTo(question);
    if (known) return known;
    const { vain } = this.#remembered;
    if (!this.call.asksAtOnce) throw vain < MAX_ROUNDS ? this.#suspend(question) : question.unanswered(vain);
    const refusal = this.#lacking(question);
    if (refusal) throw ERAS[this.call.era].declaresPerRequest ? this.#refuse(refusal) : unable(refusal);
    const answer = await this.#send(question, signal && { signal });
    this.#remembered.put(question.key, answer);
    return answer;
  }

  /** Ends the run with a mark. @returns the signal that leaves the handler */
  #suspend(question: Question): Error {
    const { key } = question;
    const { method } = this.call;
    if (this.#state.kind === 'ended')
      return new McpServerRequestError(
        'CALL_OVER',
        `The question "${key}" cannot be asked: the handler has returned. Ask before it does, and await the answer.`,
      );
    if (!this.request)
      return new McpServerRequestError(
        'NO_STREAM',
        `The question "${key}" cannot be asked during "${method}": in revision 2026-07-28 only "tools/call", "prompts/get" and "resources/read" can ask.`,
      );
    if (this.#state.kind === 'refused') return this.#state.error;
    const refusal = this.#lacking(question);
    if (refusal) return this.#refuse(refusal);
    const questions = this.#state.kind === 'suspended' ? this.#state.questions : new Map<string, Question>();
    questions.set(key, question);
    this.#state = { kind: 'suspended', questions };
    this.#marked = true;
    return suspended(questions);
  }

  /** Returns why a client cannot be asked. That of a legacy client without a session is not known: asking it throws the reason. */
  #lacking(question: Question): Error | undefined {
    const isKnown = this.call.session !== undefined || ERAS[this.call.era].declaresPerRequest;
    return isKnown ? lacking(question, this.clientCapabilities) : undefined;
  }

  /** Ends the run with a mark. @returns the error */
  #refuse(error: Error): Error {
    this.#state = { kind: 'refused', error };
    this.#marked = true;
    return error;
  }

  #inputRequired(questions: ReadonlyMap<string, Question>): InputRequiredResult {
    const requests = [...questions].map(([key, { embedded }]) => [key, embedded] as const);
    return {
      resultType: 'input_required',
      inputRequests: Object.fromEntries(requests),
      ...(this.#own !== undefined && { requestState: this.#own }),
    };
  }

  /** Seals a result with the state: the handler's own state is part of the encrypted state. */
  #withState(result: InputRequiredResult): InputRequiredResult {
    const { requestState: own, ...rest } = result;
    const requestState = this.#sealed(typeof own === 'string' ? own : undefined);
    return requestState === undefined ? rest : { ...rest, requestState };
  }

  /**
   * Seals the memory.
   *
   * @returns `undefined` when there is nothing to remember
   * @throws ProtocolError -32603 when there is too much to remember, -32602 when what the client has sent has no text
   */
  #sealed(own: string | undefined): string | undefined {
    const { requestStates, report } = this.parts;
    try {
      const payload = this.#remembered.toPayload(own);
      return payload === undefined ? undefined : requestStates.seal(payload, this.#binding);
    } catch (error) {
      // Parameters or answers that are nested too deeply overflow the stack.
      if (error instanceof RangeError) {
        throw new sdk.ProtocolError(
          sdk.ProtocolErrorCode.InvalidParams,
          'The parameters are nested too deeply for a request with questions. Send parameters with fewer levels.',
        );
      }
      if (!(error instanceof RequestStateTooLargeError)) throw error;
      const { method, target } = this.#binding;
      report(
        `"${method}" of ${shown(target)} failed: the state to keep until the client answers takes ${error.bytes} bytes; the maximum is ${error.maxBytes} ("maxRequestStateBytes"). Keep less with ctx.once(), such as the key of data that is stored elsewhere.`,
      );
      throw new sdk.ProtocolError(
        sdk.ProtocolErrorCode.InternalError,
        'The server could not keep the state of this request. See the server log.',
      );
    }
  }

  get #remembered(): RunMemory {
    return (this.#memory ??= RunMemory.fresh(this.#responses));
  }

  get #binding(): StateBinding {
    const { principal, routeParams, method } = this.call;
    return { principal, routeParams, method, ...this.request! };
  }
}

/** Thrown when a question that a handler returned has no answer. */
class RoundFailure extends Error {}

interface Asked {
  readonly question: Question;
  readonly answer: Promise<unknown>;
  times: number;
}
