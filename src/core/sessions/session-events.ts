import type { RequestId } from '../protocol/json-rpc.js';
import type { McpSessionInfo } from '../calls/mcp-call.js';

/**
 * The reason why a session ended.
 *
 * - `deleted`: the client sent DELETE
 * - `idle`: no activity for `idleTimeoutMs`, or nothing sent after `initialize`
 * - `terminated`: by the application, which may also have closed the session's server
 * - `initialize-failed`: `initialize` was answered with an error
 * - `shutdown`: this node stops; with a shared store the session continues on other nodes
 * - `ended-elsewhere`: another node ended it
 *
 * @publicApi
 */
export type McpSessionEndReason =
  'deleted' | 'idle' | 'terminated' | 'initialize-failed' | 'shutdown' | 'ended-elsewhere';

/** An event of a session on this node, for logs, metrics and tests. @publicApi */
export type McpSessionEvent = { readonly sessionId: string } & (
  | { readonly type: 'created'; readonly session: McpSessionInfo }
  /** A live copy was made from the session's record. */
  | { readonly type: 'rebuilt'; readonly session: McpSessionInfo }
  | { readonly type: 'closed'; readonly reason: McpSessionEndReason }
  | { readonly type: 'stream-attached' | 'stream-detached'; readonly streamId: string }
  /** A newer response, here or on another node, reads a stream: the one before ends at its next keep-alive (G7). */
  | { readonly type: 'reader-replaced'; readonly streamId: string }
  /** A message came after its request was over (P8). In the era without sessions the session id is empty. */
  | {
      readonly type: 'late-message';
      readonly method: string | undefined;
      readonly requestId: RequestId | undefined;
      readonly disposition: 'standalone' | 'dropped' | 'refused';
    }
  /** The client answered, or reported progress of, a request that does not wait for it. */
  | { readonly type: 'unknown-response'; readonly requestId: RequestId | undefined }
  /** A client resumed at events that the log has evicted; it continues with the oldest one kept (G6). */
  | { readonly type: 'events-evicted'; readonly streamId: string; readonly after: number; readonly oldest: number }
  /** A store failed; `fatal`: the stream is lost. */
  | { readonly type: 'store-fault'; readonly streamId: string; readonly fatal: boolean; readonly error: unknown }
  /** The roots of the client have changed: ask for them again. */
  | { readonly type: 'roots-changed' }
  /** A dispatcher, or a server of the application, failed in a way that no answer shows. */
  | { readonly type: 'protocol-error'; readonly error: unknown }
);
