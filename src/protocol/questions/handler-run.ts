import {
  CLIENT_CAPABILITIES_META_KEY,
  type InputRequiredResult,
  type InputResponses,
  isInputRequiredResult,
  type LoggingLevel,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ProtocolErrorCode,
  type ServerContext,
} from '@modelcontextprotocol/server';
import { quiet } from '../../base/quiet.js';
import type { McpCall } from '../../context/mcp-call.js';
import type { McpClientPort } from '../../context/mcp-context.js';
import type { McpQuestion } from '../../context/mcp-questions.js';
import { HandlerSuspended } from '../../handlers/results/handler-signal.js';
import { ServerRequestError } from '../../session/session.errors.js';
import { sessionMessages } from '../../session/session.messages.js';
import type { SdkClientPort } from '../handlers/sdk-client-port.js';
import { type RequestStates, RequestStateTooLargeError, type StateBinding } from '../modern/request-state.js';
import { missingCapabilities } from './client-capabilities.js';
import { Question } from './question.js';
import { questionMessages } from './questions.messages.js';
import type { RequestedSchemas } from './requested-schemas.js';
import { RunMemory } from './run-memory.js';

/** What the runs of an endpoint share. */
export interface RunParts {
  readonly states: RequestStates;
  readonly schemas: RequestedSchemas;
  /** Takes what the operator must see. */
  readonly report: (text: string) => void;
}

/** A request that can be answered with questions: `tools/call`, `prompts/get`, `resources/read`. */
export type AskingRequest = Pick<StateBinding, 'target' | 'params'>;

type RunState =
  | { readonly kind: 'running' }
  | { readonly kind: 'suspended'; readonly questions: Map<string, Question> }
  | { readonly kind: 'refused'; readonly error: Error }
  | { readonly kind: 'over' };

const RUNNING: RunState = { kind: 'running' };
const OVER: RunState = { kind: 'over' };
/** A handler that asks one question as often as that waits in a loop for another answer: it would never come. */
const MAX_REPETITIONS = 1_000;

/**
 * # One run of a handler, and what it asks
 *
 * Legacy: a question is sent while the handler runs, and the handler waits. Modern: what the client has not yet answered
 * ends the run, and the client repeats the request with the answer.
 *
 *     running ──unanswered question──▶ suspended ──┐
 *        │  └────────client cannot answer──▶ refused ──┤
 *        └───────────────handler settled──────────────┴──▶ over
 *
 * Invariants:
 *
 * - `suspended` and `refused` are marks: whatever the handler, or anything around it, makes of the signal that was thrown,
 *   {@link finish} answers by the mark. The first refusal stays
 * - it answers when the handler has settled, and everything that `ctx.once()` has begun: what was done is remembered
 * - in a run, a key has one question and one answer, in both eras alike
 */
export class HandlerRun implements McpClientPort {
  #state: RunState = RUNNING;
  #memory: RunMemory | undefined;
  #responses: InputResponses | undefined;
  #asked: Map<string, Asked> | undefined;

  /**
   * @param request `undefined` for a request whose answer cannot be questions
   * @throws ProtocolError -32602 for a `requestState` that does not belong here
   */
  constructor(
    private readonly call: McpCall,
    private readonly sdk: ServerContext,
    private readonly port: SdkClientPort,
    private readonly parts: RunParts,
    private readonly request?: AskingRequest,
  ) {
    const state: unknown = request && sdk.mcpReq.requestState();
    if (typeof state === 'string') {
      this.#memory = RunMemory.revive(parts.states.open(state, this.#binding), this.inputResponses);
    }
  }

  get clientCapabilities(): Readonly<Record<string, unknown>> {
    const envelope = this.sdk.mcpReq.envelope as Readonly<Record<string, object>> | undefined;
    const declared = this.call.session?.clientCapabilities ?? envelope?.[CLIENT_CAPABILITIES_META_KEY] ?? {};
    return declared as Readonly<Record<string, unknown>>;
  }

  /** Without a prototype: its names are the client's. */
  get inputResponses(): InputResponses | undefined {
    const { inputResponses } = this.sdk.mcpReq;
    return inputResponses && (this.#responses ??= Object.assign(Object.create(null) as InputResponses, inputResponses));
  }

  get requestState(): string | undefined {
    return this.#memory?.own;
  }

  notify(notification: { method: string; params?: Record<string, unknown> }): Promise<void> {
    return this.port.notify(notification);
  }

  log(level: LoggingLevel, data: unknown, logger?: string): Promise<void> {
    return this.port.log(level, data, logger);
  }

  ask(questions: Readonly<Record<string, McpQuestion>>): Promise<Record<string, unknown>> {
    return quiet(this.#ask(questions));
  }

  once(key: string, fn: () => unknown): Promise<unknown> {
    return quiet(this.#remembered.once.run(key, fn));
  }

  /**
   * Runs the handler, and says what the client is answered.
   *
   * @throws what the handler threw, unless the run is marked; MissingRequiredClientCapabilityError
   */
  async finish<T>(handler: () => Promise<T>): Promise<T | InputRequiredResult> {
    const outcome = await handler().then(fulfilled, rejected);
    const asks = outcome.status === 'fulfilled' && isInputRequiredResult(outcome.value);
    if (asks || this.#state !== RUNNING) await this.#memory?.once.settled();
    const state = this.#state;
    this.#state = OVER;
    if (state.kind === 'refused') throw state.error;
    if (state.kind === 'suspended') return this.#inputRequired(state.questions);
    if (outcome.status === 'rejected') throw outcome.reason;
    return isInputRequiredResult(outcome.value) ? this.#withState(outcome.value) : outcome.value;
  }

  async #ask(questions: Readonly<Record<string, McpQuestion>>): Promise<Record<string, unknown>> {
    const { schemas } = this.parts;
    const asked = Object.entries(questions).map(([key, question]) => Question.of(key, question, schemas));
    const answers = asked.map(async (question) => [question.key, await this.#askOnce(question)]);
    return Object.fromEntries(await Promise.all(answers)) as Record<string, unknown>;
  }

  /** A question that was asked before has the answer it had, or will have. */
  #askOnce(question: Question): Promise<unknown> {
    const { key } = question;
    const byKey = (this.#asked ??= new Map<string, Asked>());
    const before = byKey.get(key);
    if (before) {
      if (!before.question.isSameAs(question)) throw new Error(questionMessages.twoQuestions(key));
      if (++before.times > MAX_REPETITIONS) throw new Error(questionMessages.sameAnswer(key, MAX_REPETITIONS));
      return before.answer;
    }
    const answer = this.#answer(question);
    byKey.set(key, { question, answer, times: 1 });
    // What failed may be tried again.
    answer.catch(() => byKey.delete(key));
    return answer;
  }

  async #answer(question: Question): Promise<unknown> {
    const known = this.#remembered.answerTo(question);
    if (known) return known;
    if (this.call.era === 'modern') throw this.#suspend(question);
    this.#assertUnderstood(question);
    const answer = await this.port.send(question.request);
    this.#remembered.put(question.key, answer);
    return answer;
  }

  /** P7. Before the SDK looks, whose error says nothing to a client. @throws ServerRequestError */
  #assertUnderstood({ required, embedded }: Question): void {
    const missing = missingCapabilities(required, this.clientCapabilities);
    for (const [name, members] of Object.entries(missing ?? {})) {
      const [member] = Object.hasOwn(this.clientCapabilities, name) ? Object.keys(members) : [];
      const capability = member === undefined ? name : `${name}.${member}`;
      throw new ServerRequestError(
        'CLIENT_LACKS_CAPABILITY',
        sessionMessages.lacksCapability(embedded.method, capability),
      );
    }
  }

  /** @returns what leaves the handler */
  #suspend(question: Question): Error {
    const { key } = question;
    const { method } = this.sdk.mcpReq;
    if (this.#state.kind === 'over') return new ServerRequestError('CALL_OVER', questionMessages.callOver(key));
    if (!this.request) return new ServerRequestError('NO_STREAM', questionMessages.cannotAsk(key, method));
    if (this.#state.kind === 'refused') return this.#state.error;
    const missing = missingCapabilities(question.required, this.clientCapabilities);
    if (missing) return this.#refuse(question, missing);
    const questions = this.#state.kind === 'suspended' ? this.#state.questions : new Map<string, Question>();
    questions.set(key, question);
    this.#state = { kind: 'suspended', questions };
    return new HandlerSuspended(questionMessages.suspended([...questions.keys()]));
  }

  #refuse({ key, embedded }: Question, requiredCapabilities: Question['required']): Error {
    const text = questionMessages.missingCapability(key, embedded.method);
    const error = new MissingRequiredClientCapabilityError({ requiredCapabilities }, text);
    this.#state = { kind: 'refused', error };
    return error;
  }

  #inputRequired(questions: ReadonlyMap<string, Question>): InputRequiredResult {
    const requests = [...questions].map(([key, { embedded }]) => [key, embedded] as const);
    return this.#withState({
      resultType: 'input_required',
      inputRequests: Object.fromEntries(requests),
      ...(this.requestState !== undefined && { requestState: this.requestState }),
    });
  }

  /** The handler's own state travels inside of ours. */
  #withState(result: InputRequiredResult): InputRequiredResult {
    const { requestState: own, ...rest } = result;
    const requestState = this.#sealed(typeof own === 'string' ? own : undefined);
    return requestState === undefined ? rest : { ...rest, requestState };
  }

  /**
   * @returns `undefined` when there is nothing to remember
   * @throws ProtocolError -32603 when there is too much to remember, -32602 when what the client has sent has no text
   */
  #sealed(own: string | undefined): string | undefined {
    const { states, report } = this.parts;
    try {
      const payload = this.#remembered.toPayload(own);
      return payload === undefined ? undefined : states.seal(payload, this.#binding);
    } catch (error) {
      // The stack has no room for parameters, or answers, that are nested too deeply.
      if (error instanceof RangeError) {
        throw new ProtocolError(ProtocolErrorCode.InvalidParams, questionMessages.nestedTooDeeply());
      }
      if (!(error instanceof RequestStateTooLargeError)) throw error;
      const { method, target } = this.#binding;
      report(questionMessages.stateTooLarge(method, target, error.bytes, error.maxBytes));
      throw new ProtocolError(ProtocolErrorCode.InternalError, questionMessages.cannotContinue());
    }
  }

  get #remembered(): RunMemory {
    return (this.#memory ??= RunMemory.fresh(this.inputResponses));
  }

  get #binding(): StateBinding {
    return { principal: this.call.principal, method: this.sdk.mcpReq.method, ...this.request! };
  }
}

/** As of `Promise.allSettled()`, which makes four promises of one. */
function fulfilled<T>(value: T): PromiseFulfilledResult<T> {
  return { status: 'fulfilled', value };
}

function rejected(reason: unknown): PromiseRejectedResult {
  return { status: 'rejected', reason };
}

interface Asked {
  readonly question: Question;
  readonly answer: Promise<unknown>;
  times: number;
}
