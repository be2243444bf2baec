import type { McpCall, OutboundMessage } from './mcp-call.js';
import type { McpCallEnd } from './mcp-instrumentation.js';

/** What plugins do with one call. Its methods do not throw, but for what serves the call, and what refuses it. @internal */
export interface CallHooks {
  /** Finds the target and serves the call inside the ring 'observe'. */
  observe<T>(serve: () => T): T;
  /** Serves the call inside the other rings, when its target is known. */
  serve<T>(request: () => T): T;
  notified(message: OutboundMessage): void;
  asked(question: OutboundMessage, answer: Promise<unknown>): void;
  /** Tells that the outcome for the client is certain, that nothing runs for the caller any more, or both; each once. */
  over(end: McpCallEnd, which: { readonly answered: boolean; readonly ended: boolean }): void;
}

/** The plugins of an endpoint that act on calls. @internal */
export interface CallPlugins {
  /** Whether there are any: without, a call pays one branch. */
  readonly active: boolean;
  hooksOf(call: McpCall): CallHooks;
}
