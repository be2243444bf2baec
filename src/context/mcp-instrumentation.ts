import { type Observable, Subject } from 'rxjs';
import { isThenable } from '../base/thenable.js';
import { rpcErrorOf } from '../wire/errors.js';
import type { RequestId } from '../wire/json-rpc.js';
import type { Era } from '../wire/era.js';
import type { McpDispatchedSession, McpDispatcher, McpSaid } from './mcp-dispatcher.js';
import type { McpCall } from './mcp-call.js';

/** A request of a client that is being served. One object for as long as the call lasts. @publicApi */
export interface McpCallInfo {
  readonly era: Era;
  readonly method: string;
  /** Of the tool or prompt, as the client sent it: there may be no such tool. */
  readonly name: string | undefined;
  /** Of the resource, as the client sent it. */
  readonly uri: string | undefined;
  readonly requestId: RequestId | undefined;
  /** `undefined` without sessions. */
  readonly sessionId: string | undefined;
  /** Who calls; `undefined`: anonymous. */
  readonly principal: string | undefined;
  readonly protocolVersion: string;
  /** `_meta` of the parameters, as the client sent it; trace context, for example (SEP-414). */
  readonly meta: Readonly<Record<string, unknown>> | undefined;
}

/**
 * How a call ended: with a result, with the result of a tool that says `isError`, refused by a guard, cancelled (by the
 * client, by a disconnect, by a limit of time, or with its session or node), or with an error of this JSON-RPC code.
 *
 * @publicApi
 */
export type McpCallOutcome = 'ok' | 'tool_error' | 'denied' | 'cancelled' | number;

/** The end of a call. @publicApi */
export interface McpCallEnd {
  readonly call: McpCallInfo;
  readonly outcome: McpCallOutcome;
  /** Milliseconds from the dispatch to the outcome, with fractions. */
  readonly durationMs: number;
}

/**
 * Observes calls: for telemetry, audit logs and the like. Given by the option `instrumentation`.
 *
 * ```ts
 * const audit: McpInstrumentation = {
 *   call: (info, run) => store.run({ caller: info.principal }, run),
 *   ended: ({ call, outcome, durationMs }) => logger.log(`${call.method} ${outcome} ${durationMs} ms`),
 * };
 * ```
 *
 * @publicApi
 */
export interface McpInstrumentation {
  /**
   * Runs around each request that is served: around guards, the handler, and the subscription of an Observable.
   *
   * @param run serves the request; call it once, synchronously
   * @returns what `run` returns
   */
  call<T>(info: McpCallInfo, run: () => T): T;
  /** Called once per call, when its outcome is certain. What it throws is reported, and changes nothing. */
  ended?(end: McpCallEnd): void;
}

/**
 * A dispatcher that lets calls be observed. While there is no one to observe them, it costs one branch.
 *
 * @internal
 */
export class ObservedDispatcher<Inner extends McpDispatcher = McpDispatcher> implements McpDispatcher {
  readonly #ended$ = new Subject<McpCallEnd>();
  /** One event per ended call; nothing is made of it without a subscriber. */
  readonly calls$: Observable<McpCallEnd> = this.#ended$.asObservable();

  constructor(
    readonly inner: Inner,
    private readonly instrumentations: readonly McpInstrumentation[],
    /** Tells the operator. */
    private readonly report: (error: unknown) => void,
  ) {}

  request(call: McpCall): object | Promise<object> {
    const observed = this.instrumentations.length > 0 || this.#ended$.observed;
    return observed ? this.#observed(call) : this.inner.request(call);
  }

  notification(call: McpCall): void {
    this.inner.notification(call);
  }

  sessionEnded(session: McpDispatchedSession): void {
    this.inner.sessionEnded(session);
  }

  sessionRebuilt(session: McpDispatchedSession, said: McpSaid): void {
    this.inner.sessionRebuilt?.(session, said);
  }

  sessionChanged(session: McpDispatchedSession, said: McpSaid): void {
    this.inner.sessionChanged?.(session, said);
  }

  /** The endpoint is closed. */
  close(): void {
    this.#ended$.complete();
  }

  #observed(call: McpCall): object | Promise<object> {
    const info = infoOf(call);
    const began = performance.now();
    let over = false;
    const end = (outcome: McpCallOutcome): void => {
      if (over) return;
      over = true;
      this.#tell({ call: info, outcome, durationMs: performance.now() - began });
    };
    call.signal.addEventListener('abort', () => end('cancelled'), { once: true });
    const run = this.instrumentations.reduceRight<() => object | Promise<object>>(
      (inner, instrumentation) => () => instrumentation.call(info, inner),
      () => this.inner.request(call),
    );
    try {
      const outcome = run();
      if (isThenable(outcome)) {
        outcome.then(
          (result) => end(outcomeOf(result, call)),
          (error: unknown) => end(failureOf(error, call)),
        );
      } else end(outcomeOf(outcome, call));
      return outcome;
    } catch (error) {
      end(failureOf(error, call));
      throw error;
    }
  }

  #tell(ended: McpCallEnd): void {
    for (const instrumentation of this.instrumentations) {
      try {
        instrumentation.ended?.(ended);
      } catch (error) {
        this.report(error);
      }
    }
    this.#ended$.next(ended);
  }
}

const INTERNAL_ERROR = -32603;

function infoOf({ era, method, message, requestId, session, principal, client }: McpCall): McpCallInfo {
  const { name, uri, _meta: meta } = (message.params ?? {}) as { name?: unknown; uri?: unknown; _meta?: unknown };
  return {
    ...{ era, method, requestId, principal },
    name: typeof name === 'string' ? name : undefined,
    uri: typeof uri === 'string' ? uri : undefined,
    sessionId: session?.id,
    protocolVersion: client.protocolVersion,
    meta: meta as McpCallInfo['meta'],
  };
}

function outcomeOf(result: object, call: McpCall): McpCallOutcome {
  if (call.denied) return 'denied';
  const failed = call.method === 'tools/call' && (result as { isError?: unknown }).isError === true;
  return failed ? 'tool_error' : 'ok';
}

function failureOf(error: unknown, call: McpCall): McpCallOutcome {
  return call.denied ? 'denied' : (rpcErrorOf(error)?.code ?? INTERNAL_ERROR);
}
