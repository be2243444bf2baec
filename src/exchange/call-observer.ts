import { type Observable, Subject } from 'rxjs';
import type { McpCall } from '../context/mcp-call.js';
import type { McpCallEnd, McpCallInfo, McpCallOutcome, McpInstrumentation } from '../context/mcp-instrumentation.js';

/** Lets calls be observed. While there is no one to observe them, it costs one branch. */
export class CallObserver {
  readonly #ended$ = new Subject<McpCallEnd>();
  /** One event per ended call; nothing is made of it without a subscriber. */
  readonly calls$: Observable<McpCallEnd> = this.#ended$.asObservable();
  /** Calls whose begin was seen. */
  readonly #begun = new WeakMap<McpCall, { readonly info: McpCallInfo; readonly at: number }>();

  constructor(
    private readonly instrumentations: readonly McpInstrumentation[],
    /** Tells the operator. */
    private readonly report: (error: unknown) => void,
  ) {}

  get active(): boolean {
    return this.instrumentations.length > 0 || this.#ended$.observed;
  }

  /** Runs what serves a call, inside of all instrumentations. */
  around<T>(call: McpCall, serve: () => T): T {
    const info = infoOf(call);
    this.#begun.set(call, { info, at: performance.now() });
    return this.instrumentations.reduceRight<() => T>(
      (inner, instrumentation) => () => instrumentation.call(info, inner),
      serve,
    )();
  }

  /** The outcome of a call is certain. */
  ended(call: McpCall, outcome: McpCallOutcome): void {
    const begun = this.#begun.get(call);
    if (!begun || !this.#begun.delete(call)) return;
    const end: McpCallEnd = { call: begun.info, outcome, durationMs: performance.now() - begun.at };
    for (const instrumentation of this.instrumentations) {
      try {
        instrumentation.ended?.(end);
      } catch (error) {
        this.report(error);
      }
    }
    this.#ended$.next(end);
  }

  /** The endpoint is closed. */
  close(): void {
    this.#ended$.complete();
  }
}

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
