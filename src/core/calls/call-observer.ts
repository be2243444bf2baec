import { Injectable } from '@nestjs/common';
import { type Observable, Subject } from 'rxjs';
import type { CallHooks } from './call-plugins.js';
import { infoOf } from './call-info.js';
import type { McpCall, McpSessionInfo } from './mcp-call.js';
import type {
  McpCallEnd,
  McpCallOutcome,
  McpQuestionInfo,
  McpQuestionOutcome,
  McpRefusal,
  McpSessionEnd,
} from './mcp-instrumentation.js';
import { McpServerRequestError } from './server-request.error.js';
import { REQUEST_TIMEOUT } from '../protocol/errors.js';
import type { JsonRpcRequest } from '../protocol/json-rpc.js';

/** The plugins of an endpoint that act on calls. @internal */
export interface CallPlugins {
  /** Whether there are any: without, a call pays one branch. */
  readonly active: boolean;
  hooksOf(call: McpCall): CallHooks;
}

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
  readonly #questions$ = new Subject<AskedQuestion>();
  /** Emits requests that were sent to the client of a session, in the async context of their sender. */
  readonly questions$: Observable<AskedQuestion> = this.#questions$.asObservable();

  /** The plugins of the endpoint. */
  plugins: CallPlugins | undefined;

  get active(): boolean {
    return this.#ended$.observed || this.plugins?.active === true;
  }

  /** Runs `serve`, which finds the target of a call and serves it, inside the plugins of the ring 'observe'. */
  around<T>(call: McpCall, serve: () => T): T {
    call.observedAt = performance.now();
    if (!this.plugins?.active) return serve();
    const hooks = (call.hooks = this.plugins.hooksOf(call));
    return hooks.observe(serve);
  }

  /** Notifies observers once the outcome of a call is certain. */
  ended(call: McpCall, outcome: McpCallOutcome, { result, error }: { result?: object; error?: unknown } = {}): void {
    const { observedAt } = call;
    if (observedAt === undefined) return;
    call.observedAt = undefined;
    const durationMs = performance.now() - observedAt;
    const end = endOf(call, outcome, { durationMs, result, error });
    call.hooks?.over(end, call.handle === undefined ? ANSWERED_AND_ENDED : ANSWERED);
    this.#ended$.next(end);
  }

  /**
   * Notifies observers of a request that was sent to the client of a session.
   *
   * @param answer settles as its sender sees it
   */
  asked({ method, id }: JsonRpcRequest, session: McpSessionInfo, answer: Promise<unknown>): void {
    if (!this.#questions$.observed) return;
    const { id: sessionId, principal, protocolVersion } = session;
    const question = { method, requestId: id, sessionId, principal, protocolVersion };
    const outcome = answer.then((): McpQuestionOutcome => 'ok', outcomeOfFailure);
    this.#questions$.next({ question, outcome });
  }

  /** Notifies observers of a session that has ended for good. */
  sessionEnded(end: McpSessionEnd): void {
    this.#sessionEnds$.next(end);
  }

  /** Notifies observers of a refused request. @param describe is called only if there are any */
  refused(describe: () => McpRefusal): void {
    if (this.#refusals$.observed) this.#refusals$.next(describe());
  }

  /** Completes the streams when the endpoint is closed. */
  close(): void {
    this.#ended$.complete();
    this.#sessionEnds$.complete();
    this.#refusals$.complete();
    this.#questions$.complete();
  }
}

/** A request of the server to the client of a session, and how it ends. */
export interface AskedQuestion {
  readonly question: McpQuestionInfo;
  /** Never rejects. */
  readonly outcome: Promise<McpQuestionOutcome>;
}

const ANSWERED = ['answered'] as const;
const ANSWERED_AND_ENDED = ['answered', 'ended'] as const;

/** Describes the end of a call. */
export function endOf(
  call: McpCall,
  outcome: McpCallOutcome,
  more: Pick<McpCallEnd, 'durationMs' | 'result' | 'error' | 'taskId'>,
): McpCallEnd {
  const { target } = call;
  return {
    call: infoOf(call),
    outcome,
    handled: target !== undefined || outcome === 'ok',
    source: target?.source,
    ...more,
  };
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
