import type {
  AuthInfo,
  CreateMessageRequestParams,
  CreateMessageResult,
  CreateMessageResultWithTools,
  ElicitResult,
  InputResponses,
  ListRootsResult,
  LoggingLevel,
  RequestMeta,
} from '@modelcontextprotocol/server';
import { type MaybePromise, quiet } from '../common/promises.js';
import { withoutEnvelope } from '../protocol/era.js';
import { extensionOf } from '../protocol/extensions.js';
import type { RequestId } from '../protocol/json-rpc.js';
import { authOf, type McpCall, type McpProgress, type McpSessionInfo } from './mcp-call.js';
import type {
  McpAnswers,
  McpElicitAnswer,
  McpElicitation,
  McpForm,
  McpFormContent,
  McpQuestion,
} from './mcp-questions.js';
import type { McpPrincipalState, McpState } from './mcp-state.js';
import type { McpTask } from './mcp-task.js';

/** Serves one run of a handler for its context: the messages to its client, and what outlives the run. @internal */
export interface McpClientPort {
  /** Sends a notification that belongs to the request being handled. */
  notify(notification: { method: string; params?: Record<string, unknown> }): Promise<void>;
  /** Sends a log message if the client wants messages of that level. */
  log(level: LoggingLevel, data: unknown, logger?: string): Promise<void>;
  /**
   * Asks all questions at the same time. The promise may be ignored.
   *
   * @returns the answers, under the keys of the questions
   */
  ask(questions: Readonly<Record<string, McpQuestion>>): Promise<Readonly<Record<string, unknown>>>;
  /** Runs `fn`, or returns its earlier result. The promise may be ignored. */
  once(key: string, fn: () => unknown): Promise<unknown>;
  readonly clientCapabilities: Readonly<Record<string, unknown>>;
  /** The answers in this request, for handlers that return `inputRequired()` themselves. */
  readonly inputResponses: InputResponses | undefined;
  /** The state that a handler gave to `inputRequired()` itself. */
  readonly requestState: string | undefined;
  /** The task that the call has become. */
  readonly task: McpTask | undefined;
  startTask(): Promise<McpTask | undefined>;
  /** Sends a report of progress, if the client asked for reports. */
  progress(report: McpProgress): Promise<void>;
  /** Opens a state by its handle, or a new one. @throws (rejects) McpUnknownStateError */
  state(handle: string | null | undefined): Promise<McpState>;
  /** Opens the state of the caller. @throws (rejects) McpStateError `NO_PRINCIPAL` */
  principalState(): Promise<McpPrincipalState>;
}

/** What plugins do in one round of a handler. @internal */
export interface HandlerRound {
  /** The result in place of that of the method. */
  readonly answer: object | undefined;
  /** Makes the value of the handler inside the plugins that limit it. */
  valueOf<T>(produce: () => MaybePromise<T>): MaybePromise<T>;
  /**
   * Resolves when the method may run; `undefined`: at once.
   *
   * @throws (rejects) McpHandlerSignal when the round is answered without the method
   */
  enter(entering: McpEntering): Promise<void> | undefined;
  /** The method is about to run. */
  entered(): void;
  /** The method has settled. */
  returned(): void;
  /** The handler asks its client: the time of an answer is not the handler's. */
  asking(answers: Promise<unknown>): void;
  /** The round has its result. */
  end(): void;
}

/** A round of a handler whose caller the guards have accepted, and whose method is about to run. @experimental */
export interface McpEntering {
  /** The arguments as the schema makes them, or a promise of them, which rejects if they are not valid. */
  readonly validArguments: unknown;
  /** What the method gets. */
  readonly context: McpContext;
}

/**
 * The call that a handler serves: its caller, and the messages to its client while it runs. `@McpCtx()` injects it.
 *
 * ```ts
 * list(@McpCtx() ctx: McpContext<Request>) {
 *   return this.orders.of(ctx.request.user);
 * }
 * ```
 *
 * @typeParam HttpRequest the type of `request`, as the adapter and the guards make it; it is not checked
 * @publicApi
 */
export class McpContext<HttpRequest = unknown> {
  /** The call itself. */
  readonly mcpCall: McpCall;
  #request: HttpRequest;

  /** @internal */
  constructor(
    call: McpCall,
    private readonly port: McpClientPort,
    /** @internal */
    readonly round?: HandlerRound,
  ) {
    this.mcpCall = call;
    this.#request = call.request as HttpRequest;
  }

  /** Returns the same call with another object in place of its request. @internal */
  seeing(request: unknown, round = this.round): McpContext {
    const context = new McpContext(this.mcpCall, this.port, round);
    context.#request = request;
    return context;
  }

  /** Returns the same call for a round that plugins act on. @internal */
  within(round: HandlerRound): McpContext {
    return this.seeing(this.request, round);
  }

  /**
   * Express' `Request` or Fastify's `FastifyRequest`, after the guards of the endpoint have run. In a method that is a
   * route too it is a view of it, which shows the request of the route: its URL, its method, and the arguments in
   * `params`, `query` and `body`.
   */
  get request(): HttpRequest {
    return this.#request;
  }
  /** The session of the call; `undefined` in the era without sessions. */
  get session(): McpSessionInfo | undefined {
    return this.mcpCall.session;
  }
  /** The caller, as returned by the option `principal`; `undefined`: anonymous. */
  get principal(): string | undefined {
    return this.mcpCall.principal;
  }
  /** The access token of the caller with its scopes; `undefined` without one. See the option `auth`. */
  get auth(): AuthInfo | undefined {
    return authOf(this.request);
  }
  get requestId(): RequestId | undefined {
    return this.mcpCall.requestId;
  }
  get method(): string {
    return this.mcpCall.method;
  }
  /**
   * The `_meta` of the request: what its client sends beside the arguments, such as `traceparent` or `openai/locale`. It
   * is empty if the client sent none. Values are unchecked, except for `progressToken`. Keys of the protocol, such as the
   * capabilities of the client, are left out: other properties of the context have them.
   *
   * ```ts
   * const locale = ctx.meta['openai/locale'];
   * ```
   *
   * @see https://modelcontextprotocol.io/specification/2026-07-28/basic#_meta
   */
  get meta(): Readonly<RequestMeta> {
    return withoutEnvelope(this.mcpCall.message.params?._meta);
  }
  /** Aborts when the result is no longer needed: see `McpCall.signal`. */
  get signal(): AbortSignal {
    return this.mcpCall.signal;
  }
  /** @internal */
  get aborted(): boolean {
    return this.mcpCall.aborted;
  }

  /** The task that the call has become; `undefined` of an ordinary call. */
  get task(): McpTask | undefined {
    return this.port.task;
  }

  /**
   * Turns the call into a task now, if its tool has the option `task` and the client declared the extension. The client
   * receives the task as the result, and the handler continues. Questions before it are ordinary rounds.
   *
   * @returns the task; `undefined` when the call stays an ordinary one
   * @throws McpError when the task could not be stored, or there are too many
   * @see https://modelcontextprotocol.io/extensions/tasks
   */
  startTask(): Promise<McpTask | undefined> {
    return quiet(this.port.startTask());
  }

  /** Resolves when the method of the handler may run; `undefined`: at once. @internal */
  entering(entering: McpEntering): Promise<void> | undefined {
    return this.round?.enter(entering);
  }

  /**
   * Reports progress. Nothing is sent when the client did not ask for it. The message becomes the status message of a task.
   * The promise resolves when there is room for the next report. It does not wait for a log in Redis: if that fails, the call does.
   *
   * Progress of a call is a finite number that grows, as the specification demands: any other report is not sent. Count
   * one step more for each new message.
   *
   * @param progress how much is done, in any unit, or a report with the names of these parameters
   * @param total how much there is to do, in the same unit; it is not sent unless it is finite
   * @param message for users
   * @see https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress
   */
  progress(progress: number | McpProgress, total?: number, message?: string): Promise<void> {
    // An undefined member is left out of the JSON.
    const report = typeof progress === 'object' ? progress : ({ progress, total, message } as McpProgress);
    return quiet(this.port.progress(report));
  }

  /**
   * Sends a log message, if the client wants messages of that level.
   *
   * @see https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging
   */
  log(level: LoggingLevel, data: unknown, logger?: string): Promise<void> {
    return quiet(this.port.log(level, data, logger));
  }

  /** Sends a notification that belongs to this call. */
  notify(method: string, params?: Record<string, unknown>): Promise<void> {
    return quiet(this.port.notify(params ? { method, params } : { method }));
  }

  /**
   * The capabilities of the client, which decide what it can be asked. Check them if the handler can do without a
   * question: a question that the client cannot answer ends the call.
   */
  get clientCapabilities(): Readonly<Record<string, unknown>> {
    return this.port.clientCapabilities;
  }

  /**
   * The settings that the client declared for an extension of the protocol: at `initialize`, or in revision 2026-07-28
   * with this request.
   *
   * ```ts
   * if (!ctx.clientSupports('io.modelcontextprotocol/ui')) return asText(forecast);
   * ```
   *
   * @param id such as `com.example/search`
   * @returns its settings, mostly `{}`; `undefined` when it did not declare the extension, and for clients of the
   *   legacy era without sessions, whose capabilities are not known
   * @see https://modelcontextprotocol.io/seps/2133-extensions
   */
  clientSupports(id: string): Readonly<Record<string, unknown>> | undefined {
    return extensionOf(this.clientCapabilities, id);
  }

  /**
   * Asks the user for input: by a form, whose `requestedSchema` is JSON Schema or a Standard Schema such as
   * `z.object({ … })`, or by a URL to visit.
   *
   * A client of revision 2026-07-28 answers by repeating its request: then the handler runs again, from its beginning,
   * and this method returns the answer at once. Use {@link once} for steps that must not be repeated.
   *
   * @param key identifies the question within the handler: the same each time the handler runs, and different for each
   *   question
   * @returns the action of the user, with the content of the form
   * @throws McpServerRequestError when the client cannot be asked
   * @throws McpHandlerSignal in revision 2026-07-28, when the client must answer first: rethrow it
   * @see https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
   */
  elicit<const Schema extends McpForm['requestedSchema']>(
    key: string,
    form: McpForm<Schema>,
  ): Promise<McpElicitAnswer<McpFormContent<Schema>>>;
  /** Asks for something else than a form of a known schema, such as a visit of a URL. */
  elicit(key: string, params: McpElicitation): Promise<ElicitResult>;
  elicit(key: string, params: McpElicitation): Promise<ElicitResult> {
    return this.#askOne(key, { method: 'elicitation/create', params });
  }

  /**
   * Asks the client's model.
   *
   * @param key names the question within the handler, as for {@link elicit}
   * @throws McpServerRequestError when the client cannot be asked
   * @throws McpHandlerSignal as {@link elicit} does
   * @see https://modelcontextprotocol.io/specification/2026-07-28/client/sampling
   */
  sample(key: string, params: CreateMessageRequestParams): Promise<CreateMessageResult | CreateMessageResultWithTools> {
    return this.#askOne(key, { method: 'sampling/createMessage', params });
  }

  /**
   * Asks for the client's roots.
   *
   * @param key names the question within the handler, as for {@link elicit}
   * @throws McpServerRequestError when the client cannot be asked
   * @throws McpHandlerSignal as {@link elicit} does
   * @see https://modelcontextprotocol.io/specification/2026-07-28/client/roots
   */
  roots(key: string): Promise<ListRootsResult> {
    return this.#askOne(key, { method: 'roots/list' });
  }

  /**
   * Asks several questions at once: a client of revision 2026-07-28 then repeats its request once for all of them.
   *
   * ```ts
   * const { size, roots } = await ctx.ask({
   *   size: { method: 'elicitation/create', params: { message: 'Which size?', requestedSchema: Size } },
   *   roots: { method: 'roots/list' },
   * });
   * ```
   *
   * @param questions each under its key, as for {@link elicit}
   * @returns the answers, each under the key of its question
   * @throws McpServerRequestError when the client cannot be asked
   * @throws McpHandlerSignal as {@link elicit} does
   * @see https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
   */
  ask<const Questions extends Readonly<Record<string, McpQuestion>>>(
    questions: Questions,
  ): Promise<McpAnswers<Questions>> {
    return this.#ask(questions) as Promise<McpAnswers<Questions>>;
  }

  /**
   * Runs a step once, even if the handler runs again because it asks: the result of the first run is kept in the
   * encrypted request state, which the client returns with its answers. Several calls with one key share the result.
   *
   * The step runs again when the client repeats a call that ended without questions, or loses the state: an effect that
   * must never happen twice needs its own idempotency key.
   *
   * @param key identifies the step within the handler
   * @param fn may be asynchronous; if it fails, nothing is kept
   * @returns a copy of what `fn` returned
   * @throws TypeError when that is not JSON; `undefined` is fine
   * @throws what `fn` throws
   */
  once<T>(key: string, fn: () => T | Promise<T>): Promise<T> {
    return this.port.once(key, fn) as Promise<T>;
  }

  /**
   * The client's answers in this request are unchecked. Handlers that return `inputRequired()` of the SDK themselves
   * use them.
   */
  get inputResponses(): InputResponses | undefined {
    return this.port.inputResponses;
  }

  /**
   * The `requestState` that the handler returned with `inputRequired()` the last time. It was encrypted: only this
   * endpoint can have created it, for this caller and this request, and it has not expired.
   */
  get requestState(): string | undefined {
    return this.port.requestState;
  }

  /**
   * Opens state that outlives the call, for callers with a session and without.
   *
   * ```ts
   * const cart = await ctx.state(args.cart);
   * await cart.patch({ [args.item]: args.count });
   * return `Pass on the cart ${cart.handle} with your next order.`;
   * ```
   *
   * @param handle the handle that the client passed; without one, a new state, which is not stored before its first
   *   `patch`
   * @throws McpUnknownStateError when the state does not exist, or belongs to another principal; if a tool does not catch
   *   it, the model gets its text with advice
   */
  state(handle?: string | null): Promise<McpState> {
    return this.port.state(handle);
  }

  /**
   * Opens the state of the caller: the same in all calls of the principal to this endpoint, without a handle.
   *
   * @throws McpStateError `NO_PRINCIPAL` when the caller is anonymous; a tool that does not catch it reports it
   */
  principalState(): Promise<McpPrincipalState> {
    return this.port.principalState();
  }

  /**
   * Closes the connection and leaves the call running: the client reconnects for the result.
   *
   * @returns whether there was a connection to close
   */
  closeStream(): boolean {
    return this.mcpCall.closeStream();
  }

  #askOne<Answer>(key: string, question: McpQuestion): Promise<Answer> {
    const answers = this.#ask({ [key]: question });
    return quiet(answers.then((byKey) => byKey[key] as Answer));
  }

  #ask(questions: Readonly<Record<string, McpQuestion>>): Promise<Record<string, unknown>> {
    const answers = this.port.ask(questions);
    this.round?.asking(answers);
    return answers;
  }
}
