import type { McpCall, OutboundMessage } from './mcp-call.js';
import type { McpCallEnd } from './mcp-instrumentation.js';

/** `answered`: the outcome for the client is certain; `ended`: nothing runs for the caller any more. @internal */
export type CallPhase = 'answered' | 'ended';

/** What plugins do with one call. Its methods do not throw, but for what serves the call, and what refuses it. @internal */
export interface CallHooks {
  /** Runs `serve`, which finds the target and serves the call, inside the ring 'observe'. */
  observe<T>(serve: () => T): T;
  /** Serves the call inside the other rings, when its target is known. */
  serve<T>(request: () => T): T;
  notified(message: OutboundMessage): void;
  asked(question: OutboundMessage, answer: Promise<unknown>): void;
  /** Tells of phases of the end, each once, outside of the async context of the call. */
  over(end: McpCallEnd, phases: readonly CallPhase[]): void;
}

/** The plugins of an endpoint that act on calls. @internal */
export interface CallPlugins {
  /** Whether there are any: without, a call pays one branch. */
  readonly active: boolean;
  hooksOf(call: McpCall): CallHooks;
}
