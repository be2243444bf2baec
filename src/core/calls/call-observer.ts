import { Inject, Injectable } from '@nestjs/common';
import { type Observable, Subject } from 'rxjs';
import { isThenable } from '../common/promises.js';
import { logError } from './operator-log.js';
import { MCP_OPTIONS } from '../common/options.js';
import type { CallPlugins } from './call-hooks.js';
import { assertOpen, authOf, type McpCall, type McpSessionInfo } from './mcp-call.js';
import type {
  McpCallEnd,
  McpCallInfo,
  McpCallOutcome,
  McpInstrumentation,
  McpQuestionOutcome,
  McpRefusal,
  McpSessionEnd,
} from './mcp-instrumentation.js';
import { McpServerRequestError } from './server-request.error.js';
import { REQUEST_TIMEOUT } from '../protocol/errors.js';
import { isObject, type JsonRpcRequest } from '../protocol/json-rpc.js';

/** Notifies observers of calls. Without an observer it costs one branch. */
@Injectable()
export class CallObserver {
  readonly #ended$ = new Subject<McpCallEnd>();
  /** Emits one event per ended call; none is created without a subscriber. */
  readonly calls$: Observable<McpCallEnd> = this.#ended$.asObservable();
  readonly #sessionEnds$ = new Subject<McpSessionEnd>();
  /** Emits one event per session that this node has ended for good. */
  readonly sessionEnds$: Observable<McpSessionEnd> = this.#sessionEnds$.asObservable();
  readonly #refusals$ = new Subject<McpRefusal>();
  /** Emits requests that were refused before a call was created. */
  readonly refusals$: Observable<McpRefusal> = this.#refusals$.asObservable();
  /** Holds the calls whose begin was observed, and whose end was not. */
  readonly #begun = new Map<McpCall, RunningCall>();
  #count = 0;

  /** Called with each observed call when its target is known, before it is served; set while a page shows what happens in calls. */
  onBegin: ((running: RunningCall) => void) | undefined;

  /** The plugins of the endpoint. */
  plugins: CallPlugins | undefined;

  readonly #instrumentations: McpInstrumentation[];
  /** They record what a call is for, and may have it wait. */
  readonly #recorders = new Map<McpInstrumentation, CallGate | undefined>();

  constructor(@Inject(MCP_OPTIONS) { instrumentation = [] }: Instrumented = {}) {
    this.#instrumentations = [...instrumentation];
  }

  /**
   * Adds an instrumentation inside all others, where the target of a call is known: a span of theirs is active when it is called.
   *
   * @param gate decides, before guards and handler, whether a call is served
   */
  add(instrumentation: McpInstrumentation, gate?: CallGate): void {
    this.#recorders.set(instrumentation, gate);
  }

  get active(): boolean {
    return (
      this.#instrumentations.length > 0 ||
      this.#recorders.size > 0 ||
      this.#ended$.observed ||
      this.plugins?.active === true
    );
  }

  /**
   * Runs `serve` inside all instrumentations. Only calls wait whose result may be a promise.
   *
   * @param serve finds the target of the call, and runs what serves it inside `record`
   */
  around<T>(call: McpCall, serve: (record: Recorded) => T): T {
    const info = new ObservedCall(call);
    const running = { call, info, at: performance.now(), number: ++this.#count };
    this.#begun.set(call, running);
    const hooks = (call.hooks = this.plugins?.active ? this.plugins.hooksOf(call) : undefined);
    const record: Recorded = (request) => {
      this.onBegin?.(running);
      const inPlugins = hooks ? () => hooks.serve(request) : request;
      return [...this.#recorders].reduceRight<typeof request>((inner, [instrumentation, gate]) => {
        const run = gate ? () => admitted(gate, info, call, inner) : inner;
        return () => observed(instrumentation, info, run);
      }, inPlugins)();
    };
    return this.#instrumentations.reduceRight<() => T>(
      (run, instrumentation) => () => observed(instrumentation, info, run),
      () => (hooks ? hooks.observe(() => serve(record)) : serve(record)),
    )();
  }

  /** Returns the calls that run, listens among them, if their begin was observed; the oldest first. */
  running(): Iterable<RunningCall> {
    return this.#begun.values();
  }

  /** Notifies observers once the outcome of a call is certain. */
  ended(call: McpCall, outcome: McpCallOutcome, { result, error }: { result?: object; error?: unknown } = {}): void {
    const begun = this.#begun.get(call);
    if (!begun || !this.#begun.delete(call)) return;
    const durationMs = performance.now() - begun.at;
    const { target } = call;
    const handled = target !== undefined || outcome === 'ok';
    const source = target?.source;
    const end: McpCallEnd = { call: begun.info, outcome, durationMs, handled, source, result };
    this.#notify((instrumentation) => instrumentation.ended?.(end));
    this.#ended$.next(end);
    const { hooks } = call;
    if (!hooks) return;
    const heard = { outcome, durationMs, target, result, error };
    hooks.answered(heard);
    if (!call.isTakenOver) hooks.ended(heard);
  }

  /**
   * Notifies observers of a request that was sent to the client of a session.
   *
   * @param answer settles as its sender sees it
   */
  asked({ method, id }: JsonRpcRequest, session: McpSessionInfo, answer: Promise<unknown>): void {
    if (![...this.#instrumentations, ...this.#recorders.keys()].some((one) => 'question' in one)) return;
    const { id: sessionId, principal, protocolVersion } = session;
    const question = { method, requestId: id, sessionId, principal, protocolVersion };
    const outcome = answer.then((): McpQuestionOutcome => 'ok', outcomeOfFailure);
    this.#notify((instrumentation) => instrumentation.question?.(question, outcome));
  }

  /** Notifies observers of a session that has ended for good. */
  sessionEnded(end: McpSessionEnd): void {
    this.#notify((instrumentation) => instrumentation.sessionEnded?.(end));
    this.#sessionEnds$.next(end);
  }

  /** Notifies observers of a refused request. @param describe is called only if there are any */
  refused(describe: () => McpRefusal): void {
    if (this.#refusals$.observed) this.#refusals$.next(describe());
  }

  /** Notifies the instrumentations; their errors and rejections are logged. */
  #notify(call: (instrumentation: McpInstrumentation) => unknown): void {
    for (const instrumentation of [...this.#instrumentations, ...this.#recorders.keys()]) {
      try {
        const returned = call(instrumentation);
        if (isThenable(returned)) returned.then(undefined, logError);
      } catch (error) {
        logError(error);
      }
    }
  }

  /** Completes the streams when the endpoint is closed. */
  close(): void {
    this.#ended$.complete();
    this.#sessionEnds$.complete();
    this.#refusals$.complete();
  }
}

/**
 * Serves a call inside an instrumentation: once, and with the outcome of the call, even if the instrumentation fails.
 */
function observed<T>(instrumentation: McpInstrumentation, info: McpCallInfo, serve: () => T): T {
  let served: Served<T> | undefined;
  const run = (): T => {
    served ??= attempt(serve);
    if ('error' in served) throw served.error;
    return served.value;
  };
  let returned: T;
  try {
    returned = instrumentation.call(info, run);
  } catch (error) {
    if (!served || !('error' in served) || served.error !== error) logError(error);
    return run();
  }
  // An async function may run it later: then its promise is that of the call.
  if (!served) return returned;
  if (isThenable(returned)) void reportRejection(returned, served);
  return run();
}

/** What serving a call gave, or threw. */
export type Served<T> = { readonly value: T } | { readonly error: unknown };

export function attempt<T>(serve: () => T): Served<T> {
  try {
    return { value: serve() };
  } catch (error) {
    return { error };
  }
}

/** Reports what an async instrumentation throws, unless it only passes on that the call was rejected. */
export async function reportRejection(returned: PromiseLike<unknown>, served: Served<unknown>): Promise<void> {
  if ('value' in served && served.value === returned) return;
  const outcome = 'value' in served ? served.value : Promise.reject(served.error);
  const [own, call] = await Promise.allSettled([returned, outcome]);
  if (own.status === 'rejected' && call.status === 'fulfilled') logError(own.reason);
}

/** Runs what serves a call inside what records it, when its target is known. */
export type Recorded = <T>(request: () => T) => T;

/** A running call that is observed. */
export interface RunningCall {
  readonly call: McpCall;
  readonly info: McpCallInfo;
  /** The time of its dispatch, by `performance.now()`. */
  readonly at: number;
  /** Numbers the observed calls of this node, from 1. */
  readonly number: number;
}

/**
 * Decides whether a call is served.
 *
 * @returns a promise if the call has to wait; `undefined`: it is served at once
 * @throws (rejects) the error that the call is refused with
 */
export type CallGate = (info: McpCallInfo) => Promise<void> | undefined;

interface Instrumented {
  readonly instrumentation?: readonly McpInstrumentation[];
}

const OVER: ReadonlySet<unknown> = new Set(['CANCELLED', 'CALL_OVER', 'SESSION_OVER']);

/** Returns the outcome of a request to a client that has no result. */
function outcomeOfFailure(failure: unknown): McpQuestionOutcome {
  const answered = failure instanceof McpServerRequestError && failure.code === 'CLIENT_ERROR';
  const error = answered ? failure.cause : failure;
  if (error instanceof McpServerRequestError) return OVER.has(error.code) ? 'cancelled' : 'unsent';
  const { code } = error as { code?: unknown };
  if (typeof code !== 'number') return 'unsent';
  return code === REQUEST_TIMEOUT ? 'timeout' : code;
}

/** Describes a call. Its getters read the call, so that a description costs no copies of what only some observers need. */
class ObservedCall implements McpCallInfo {
  readonly era: McpCallInfo['era'];
  readonly method: string;
  readonly requestId: McpCallInfo['requestId'];
  readonly principal: string | undefined;
  readonly name: string | undefined;
  readonly uri: string | undefined;
  readonly sessionId: string | undefined;
  readonly protocolVersion: string;
  readonly meta: McpCallInfo['meta'];
  readonly #call: McpCall;

  constructor(call: McpCall) {
    const { name, uri, _meta: meta } = (call.message.params ?? {}) as Params;
    this.era = call.era;
    this.method = call.method;
    this.requestId = call.requestId;
    this.principal = call.principal;
    this.name = typeof name === 'string' ? name : undefined;
    this.uri = typeof uri === 'string' ? uri : undefined;
    this.sessionId = call.session?.id;
    this.protocolVersion = call.client.protocolVersion;
    this.meta = meta as McpCallInfo['meta'];
    this.#call = call;
  }

  get arguments(): McpCallInfo['arguments'] {
    const { arguments: args } = (this.#call.message.params ?? {}) as Params;
    return isObject(args) ? args : undefined;
  }

  get clientInfo(): McpCallInfo['clientInfo'] {
    return this.#call.client.clientInfo;
  }

  get scopes(): McpCallInfo['scopes'] {
    return authOf(this.#call.request)?.scopes;
  }
}

type Params = Readonly<Partial<Record<'name' | 'uri' | '_meta' | 'arguments', unknown>>>;

/** Serves a call when the gate has admitted it, unless it has ended meanwhile. */
function admitted<T>(gate: CallGate, info: McpCallInfo, call: McpCall, serve: () => T): T {
  const admitting = gate(info);
  if (!admitting) return serve();
  return admitting.then(() => {
    assertOpen(call);
    return serve();
  }) as T;
}
