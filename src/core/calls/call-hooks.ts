import type { McpCall, OutboundMessage } from './mcp-call.js';
import type { McpCallOutcome } from './mcp-instrumentation.js';
import type { McpTarget } from './mcp-target.js';

/** The end of a call, as plugins hear of it. @internal */
export interface McpCallHooksEnd {
  readonly outcome: McpCallOutcome;
  /** Milliseconds since the call was dispatched; of a task since it was made. */
  readonly durationMs: number;
  readonly target: McpTarget | undefined;
  readonly result?: object | undefined;
  readonly error?: unknown;
  /** Of a task. */
  readonly taskId?: string;
}

/** What plugins do with one call. Its methods do not throw, but for what serves the call, and what refuses it. @internal */
export interface CallHooks {
  /** Finds the target and serves the call inside the ring 'observe'. */
  observe<T>(serve: () => T): T;
  /** Serves the call inside the other rings, when its target is known. */
  serve<T>(request: () => T): T;
  notified(message: OutboundMessage): void;
  asked(question: OutboundMessage, answer: Promise<unknown>): void;
  answered(end: McpCallHooksEnd): void;
  ended(end: McpCallHooksEnd): void;
}

/** The plugins of an endpoint that act on calls. @internal */
export interface CallPlugins {
  /** Whether there are any: without, a call pays one branch. */
  readonly active: boolean;
  hooksOf(call: McpCall): CallHooks;
}
