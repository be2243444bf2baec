import type { Observable } from 'rxjs';

/**
 * # The message bus
 *
 * How the nodes of one deployment tell each other that something happened. The event log is the truth, a message only
 * the signal: messages may be lost while a connection is down (`reconnected$` says so afterwards, and readers then look
 * into the log), may come late, and are never stored.
 *
 * - `send` and `broadcast` do not wait for anybody to listen, and do not throw when nobody does.
 * - Messages between two nodes keep their order. Messages are plain JSON.
 * - `broadcast` reaches the sending node too.
 *
 * @publicApi
 */
export interface McpMessageBus<Message = unknown> {
  /** Of this process, fresh at each start; `[A-Za-z0-9]`. */
  readonly nodeId: string;
  /** What was sent to this node, or to all. Never errors. */
  readonly messages$: Observable<Message>;
  /** Emits when messages may have been lost. */
  readonly reconnected$: Observable<void>;
  /**
   * Nodes that have died: they gave no sign of life for so long that what they ran is to be ended by somebody else. Each is
   * emitted on one of the living nodes; when that one dies before it has said that it is done, on another.
   */
  readonly lost$: Observable<LostNode>;
  send(node: string, message: Message): void;
  broadcast(message: Message): void;
  /** Settles when what was said so far is on its way, or lost. Never rejects. Left out: it is so at once. */
  flushed?(): Promise<void>;
  /** Releases everything; the streams complete. */
  close(): Promise<void>;
}

/** A node that has died. @publicApi */
export interface LostNode {
  readonly node: string;
  /** Everything that it left behind is ended. Never rejects. */
  done(): Promise<void>;
}

/** The injection token of the {@link McpMessageBus}. @publicApi */
export const McpMessageBus = Symbol('nestjs-mcp-streamable:McpMessageBus');
