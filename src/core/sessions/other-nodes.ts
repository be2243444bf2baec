import type { Observable } from 'rxjs';
import type { StreamEnvironment, StreamNodes } from '../log/stream.options.js';
import type { JsonRpcMessage, JsonRpcNotification, JsonRpcResponse } from '../protocol/json-rpc.js';
import type { McpChange } from '../protocol/notifications.js';
import type { McpSessionEndReason, McpSessionEvent } from './session-events.js';
import type { McpSessionPatch } from './store/session-store.js';

/**
 * Speaks to the other nodes of this deployment for the sessions here. All but the inbox are hints that may be lost: a
 * node that misses one finds the same in the stores.
 */
export interface OtherNodes extends StreamNodes {
  readonly nodeId: string;
  /** Completes when this node has left. */
  readonly left$: Observable<never>;
  /** Counts the subscribers to changes on this node. */
  readonly listeners: number;

  /** Emits the signals of all nodes, this one included, beside other messages between nodes. */
  readonly signals$: Observable<unknown>;
  /** Emits when signals may have been lost. */
  readonly missed$: Observable<void>;

  /** Sends a signal to all nodes. It may be lost. */
  signal(message: object): void;
  /** Tells all nodes that something has changed that clients list or read. */
  changed(change: McpChange): void;
  /** Tells the other nodes that a session has ended here. */
  ended(session: string, reason: McpSessionEndReason): void;
  /**
   * Tells the other nodes that a client has changed its session, so that their live copies follow.
   *
   * @returns settles when the message was sent, or is lost
   */
  patched(session: string, patch: McpSessionPatch): Promise<void>;
  /** Makes the inbox of a session: for messages that its client sends to one node and another waits for. */
  inboxOf(session: InboxOwner, runtime: InboxRuntime): SessionInbox;
}

/** The injection token of {@link OtherNodes}. */
export const OTHER_NODES = Symbol('nestjs-mcp-streamable:other-nodes');

/** An inbox uses this part of its live session. */
export interface InboxOwner {
  readonly sessionId: string;
  /** Tells whether a request runs here. */
  isRunning(id: unknown): boolean;
  /** Takes a message that its client has sent to another node. */
  take(message: FromClient): void;
}

/** An inbox uses this part of the runtime of its session. */
export interface InboxRuntime extends Pick<StreamEnvironment, 'store' | 'clock' | 'retry' | 'nodeId'> {
  ask<T>(sessionId: string, call: () => Promise<T>): Promise<T>;
  event(event: McpSessionEvent): void;
  storeFault(sessionId: string, error: unknown, streamId?: string): void;
  suspect(sessionId: string): void;
}

/** A message that one node takes from a client for another. */
export type FromClient = JsonRpcResponse | JsonRpcNotification;

export interface SessionInbox {
  /** Tells whether a POST has messages for other nodes. */
  concerns(messages: readonly JsonRpcMessage[]): boolean;
  /** Tells whether another node waits for the answer to this id of a request. */
  isAwaitedElsewhere(id: unknown): boolean;
  /**
   * Puts the messages for other nodes into the log.
   *
   * @throws McpError (rejects) UNAVAILABLE while the log is unavailable, SESSION_NOT_FOUND when the session has ended
   */
  put(messages: readonly JsonRpcMessage[]): Promise<void>;
  /** Skips the entries that are older than this copy of the session. */
  skip(): void;
  /** Reads the entries that another node has announced; retries while the log is unavailable. */
  look(): void;
  /** Reads once, in case an announcement was lost. @returns settles when it was read, or cannot be */
  lookOnce(): Promise<void> | undefined;
  /** Looks for messages that were put here, and puts those again that the log has lost. @param missed it may just have lost some */
  confirm(missed: boolean): void;
  end(): void;
}
