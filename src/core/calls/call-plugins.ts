import type { McpCallEnd } from './mcp-instrumentation.js';
import type { OutboundMessage } from './reply.js';

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
