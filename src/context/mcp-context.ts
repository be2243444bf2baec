import type {
  AuthInfo,
  CreateMessageRequestParams,
  CreateMessageResult,
  CreateMessageResultWithTools,
  ElicitResult,
  InputResponses,
  ListRootsResult,
  LoggingLevel,
} from '@modelcontextprotocol/server';
import { quiet } from '../common/promises.js';
import { extensionOf } from '../wire/extensions.js';
import type { RequestId } from '../wire/json-rpc.js';
import { authOf, type McpCall, type McpSessionInfo } from './mcp-call.js';
import type { McpAnswers, McpElicitation, McpQuestion } from './mcp-questions.js';
import type { McpPrincipalState, McpState, McpStatePort } from './mcp-state.js';

/**
 * How a handler speaks to its client while it runs. Each era has its own way; handlers do not know which.
 *
 * @internal
 */
export interface McpClientPort {
  /** Sends a notification that belongs to the request being handled. */
  notify(notification: { method: string; params?: Record<string, unknown> }): Promise<void>;
  /** Sends a log message if the client wants messages of that level. */
  log(level: LoggingLevel, data: unknown, logger?: string): Promise<void>;
  /** Asks side by side. The promise may be dropped. @returns the answers, under the keys of the questions */
  ask(questions: Readonly<Record<string, McpQuestion>>): Promise<Readonly<Record<string, unknown>>>;
  /** Runs `fn`, or gives what it returned before. The promise may be dropped. */
  once(key: string, fn: () => unknown): Promise<unknown>;
  readonly clientCapabilities: Readonly<Record<string, unknown>>;
  /** For handlers that return `inputRequired()` themselves: the answers in this request. */
  readonly inputResponses: InputResponses | undefined;
  /** The same: what the handler gave `inputRequired()` to keep. */
  readonly requestState: string | undefined;
}

/** What a handler reports of its progress. @publicApi */
export interface McpProgress {
  /** Grows with every report. */
  progress: number;
  total?: number;
  message?: string;
}

/**
 * The call that a handler serves: who calls, and the way back to the client while it runs. Injected with `@McpCtx()`.
 *
 * @publicApi
 */
export class McpContext {
  /** @internal */
  constructor(
    private readonly call: McpCall,
    private readonly port: McpClientPort,
    private readonly progressToken: string | number | undefined,
    private readonly states: McpStatePort,
  ) {}

  /** The session of the call; `undefined` in the era without sessions. */
  get session(): McpSessionInfo | undefined {
    return this.call.session;
  }
  /** Who calls, as the option `principal` says; `undefined`: anonymous. */
  get principal(): string | undefined {
    return this.call.principal;
  }
  /** The access token of the caller and what it allows; `undefined` without one. See the option `auth`. */
  get auth(): AuthInfo | undefined {
    return authOf(this.call.request);
  }
  /** Express' `Request` or Fastify's `FastifyRequest`, as the guards of the endpoint left it. */
  get request(): unknown {
    return this.call.request;
  }
  get requestId(): RequestId | undefined {
    return this.call.requestId;
  }
  get method(): string {
    return this.call.method;
  }
  /** Aborts when no client waits for the result any more. */
  get signal(): AbortSignal {
    return this.call.signal;
  }
  /** @internal */
  get aborted(): boolean {
    return this.call.aborted ?? this.call.signal.aborted;
  }
  /** The call itself. */
  get mcpCall(): McpCall {
    return this.call;
  }

  /**
   * Reports progress. Nothing is sent when the client did not ask for it.
   *
   * @see https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress
   */
  progress(progress: number | McpProgress, total?: number, message?: string): Promise<void> {
    const { progressToken } = this;
    if (progressToken === undefined) return Promise.resolve();
    // An undefined member is left out of the JSON.
    const report = typeof progress === 'object' ? progress : { progress, total, message };
    return this.notify('notifications/progress', { progressToken, ...report });
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

  /** What the client can do, and so can be asked. Look here when there is another way: a question that it cannot answer ends the call. */
  get clientCapabilities(): Readonly<Record<string, unknown>> {
    return this.port.clientCapabilities;
  }

  /**
   * What the client declared of an extension of the protocol: at `initialize`, or in revision 2026-07-28 with this request.
   *
   * ```ts
   * if (!ctx.clientSupports('io.modelcontextprotocol/ui')) return asText(forecast);
   * ```
   *
   * @param id such as `com.example/search`
   * @returns its settings, mostly `{}`; `undefined` when it did not declare the extension, and of clients of the legacy era
   *   without sessions, of which nothing is known
   * @see https://modelcontextprotocol.io/seps/2133-extensions
   */
  clientSupports(id: string): Readonly<Record<string, unknown>> | undefined {
    return extensionOf(this.clientCapabilities, id);
  }

  /**
   * Asks the user for input: by a form, whose `requestedSchema` is JSON Schema or a Standard Schema such as
   * `z.object({ … })`, or by a URL to visit.
   *
   * A client of revision 2026-07-28 answers by repeating its request: then the handler runs again, from its beginning, and
   * what the client has answered is there at once. See {@link once} for what must not be done again.
   *
   * @param key names the question within the handler: the same each time the handler runs, another one for each question
   * @returns what the user did
   * @throws ServerRequestError when the client cannot be asked
   * @throws HandlerSignal in revision 2026-07-28, when the client must answer first: let it pass
   * @see https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
   */
  elicit(key: string, params: McpElicitation): Promise<ElicitResult> {
    return this.#askOne(key, { method: 'elicitation/create', params });
  }

  /**
   * Asks the client's model.
   *
   * @param key names the question within the handler, as for {@link elicit}
   * @throws ServerRequestError when the client cannot be asked
   * @throws HandlerSignal as {@link elicit} does
   * @see https://modelcontextprotocol.io/specification/2026-07-28/client/sampling
   */
  sample(key: string, params: CreateMessageRequestParams): Promise<CreateMessageResult | CreateMessageResultWithTools> {
    return this.#askOne(key, { method: 'sampling/createMessage', params });
  }

  /**
   * Asks for the client's roots.
   *
   * @param key names the question within the handler, as for {@link elicit}
   * @throws ServerRequestError when the client cannot be asked
   * @throws HandlerSignal as {@link elicit} does
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
   * @throws ServerRequestError when the client cannot be asked
   * @throws HandlerSignal as {@link elicit} does
   * @see https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
   */
  ask<Questions extends Readonly<Record<string, McpQuestion>>>(questions: Questions): Promise<McpAnswers<Questions>> {
    return this.port.ask(questions) as Promise<McpAnswers<Questions>>;
  }

  /**
   * Does something once, however often the handler runs again because it asks: at the first run its result is kept, and
   * travels with the questions, sealed, to the client and back. Several calls with one key share it.
   *
   * It is done again when the call ends without questions and is repeated, or when the client loses what it was given: what
   * must never happen twice needs a key of its own at the place where it happens.
   *
   * @param key names the step of the handler
   * @param fn may be asynchronous; if it fails, nothing is kept
   * @returns a copy of what `fn` returned
   * @throws TypeError when that is not JSON; `undefined` is fine
   * @throws what `fn` throws
   */
  once<T>(key: string, fn: () => T | Promise<T>): Promise<T> {
    return this.port.once(key, fn) as Promise<T>;
  }

  /** The client's answers in this request, unchecked: for handlers that return `inputRequired()` of the SDK themselves. */
  get inputResponses(): InputResponses | undefined {
    return this.port.inputResponses;
  }

  /**
   * The `requestState` that the handler returned with `inputRequired()` the last time. It was sealed: only this endpoint can
   * have made it, for this caller and this request, and it has not expired.
   */
  get requestState(): string | undefined {
    return this.port.requestState;
  }

  /**
   * State that outlives the call, for callers with a session and without.
   *
   * ```ts
   * const cart = await ctx.state(args.cart);
   * await cart.patch({ [args.item]: args.count });
   * return `Pass on the cart ${cart.handle} with your next order.`;
   * ```
   *
   * @param handle as the client passed it on; without one, new state with a handle of its own, of which nothing is stored
   *   before the first `patch`
   * @throws UnknownStateError when there is no such state, or it is not of this principal; a tool that does not catch it
   *   reports it with what to do
   */
  state(handle?: string | null): Promise<McpState> {
    return this.states.open(handle);
  }

  /**
   * State of the caller: the same in all calls of the principal to this endpoint, without a handle.
   *
   * @throws McpStateError `NO_PRINCIPAL` when the caller is anonymous; a tool that does not catch it reports it
   */
  principalState(): Promise<McpPrincipalState> {
    return this.states.ofPrincipal();
  }

  /** Ends the connection, not the call: the client comes back for the result. @returns whether there was one to end */
  closeStream(): boolean {
    return this.call.closeStream();
  }

  #askOne<Answer>(key: string, question: McpQuestion): Promise<Answer> {
    const answers = this.port.ask({ [key]: question });
    return quiet(answers.then((byKey) => byKey[key] as Answer));
  }
}
