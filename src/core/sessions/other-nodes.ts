import type { Observable } from 'rxjs';
import type { StreamPeers } from '../log/stream.options.js';
import type { JsonRpcMessage, JsonRpcNotification, JsonRpcResponse } from '../protocol/json-rpc.js';
import type { McpChange } from '../protocol/notifications.js';
import type { SessionRuntime } from './live/session-runtime.js';
import type { McpSessionEndReason } from './session-events.js';
import type { McpSessionPatch } from './store/session-store.js';

/**
 * The other nodes of this deployment, as the sessions here speak to them. All but the inbox are hints that may be lost: a node
 * that misses one finds the same in the stores.
 */
export interface OtherNodes extends StreamPeers {
  /** The id of this node. */
  readonly nodeId: string;
  /** Completes when this node has left. */
  readonly left$: Observable<never>;
  /** Subscribers to changes on this node. */
  readonly listeners: number;

  /** Something that clients list or read has changed. */
  changed(change: McpChange): void;
  /** A session has ended here. */
  ended(session: string, reason: McpSessionEndReason): void;
  /**
   * A client has changed its session: live copies on other nodes follow.
   *
   * @returns settles when they were told, or cannot be
   */
  patched(session: string, patch: McpSessionPatch): Promise<void>;
  /** The messages that the client of a session sends to one node and another waits for. */
  inboxOf(session: InboxOwner, runtime: SessionRuntime): SessionInbox;
}

/** The injection token of {@link OtherNodes}. */
export const OTHER_NODES = Symbol('nestjs-mcp-streamable:other-nodes');

/** The live copy of a session that has an inbox. */
export interface InboxOwner {
  readonly sessionId: string;
  /** Whether a request runs here. */
  isRunning(id: unknown): boolean;
  /** Takes a message that its client has sent to another node. */
  take(message: FromClient): void;
}

/** A message that one node takes from a client for another. */
export type FromClient = JsonRpcResponse | JsonRpcNotification;

export interface SessionInbox {
  /** Whether a POST has messages for other nodes. */
  concerns(messages: readonly JsonRpcMessage[]): boolean;
  /** Whether another node waits for the answer to this id of a request. */
  isAwaitedElsewhere(id: unknown): boolean;
  /**
   * Puts the messages for other nodes into the log.
   *
   * @throws McpError (rejects) UNAVAILABLE while the log is unavailable, SESSION_NOT_FOUND when the session has ended
   */
  put(messages: readonly JsonRpcMessage[]): Promise<void>;
  /** Skips what is older than this copy of the session. */
  skip(): void;
  /** Reads what another node has announced; retries while the log is unavailable. */
  look(): void;
  /** Reads once, in case an announcement was lost. @returns settles when it was read, or cannot be */
  lookOnce(): Promise<void> | undefined;
  close(): void;
}
