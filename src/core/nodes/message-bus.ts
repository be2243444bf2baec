import type { Observable } from 'rxjs';

/**
 * # The message bus
 *
 * How the nodes of one deployment notify each other. The event log is authoritative, a message is only a signal:
 * messages may be lost while a connection is down (`reconnected$` emits afterwards, and readers then read the log), may
 * arrive late, and are never stored.
 *
 * - `send` and `broadcast` do not wait for delivery, and do not throw when the receiving node is unknown or has ended.
 * - Messages between two nodes keep their order. Messages are plain JSON.
 * - `broadcast` reaches the sending node too.
 *
 * @publicApi
 */
export interface McpMessageBus<Message = unknown> {
  /** The id of this process, which is new at each start and consists of `[A-Za-z0-9]`. */
  readonly nodeId: string;
  /** Emits the messages to this node, or to all nodes. Never errors. */
  readonly messages$: Observable<Message>;
  /** Emits when messages may have been lost. */
  readonly reconnected$: Observable<void>;
  /**
   * Emits nodes whose heartbeat has stopped for so long that another node has to end what they ran. Each is emitted on
   * one of the living nodes; when that node dies before it has called `done`, on another.
   */
  readonly lost$: Observable<McpLostNode>;
  send(node: string, message: Message): void;
  broadcast(message: Message): void;
  /** Settles when the messages so far were sent, or are lost. Never rejects. Absent: `send` is immediate. */
  flushed?(): Promise<void>;
  /**
   * Checks whether messages arrive, for health checks.
   *
   * @throws (rejects) while this node does not receive messages of the others. Absent: that cannot happen.
   */
  ping?(): Promise<void>;
  /**
   * Returns the ids of the nodes that are alive, this one included, for operators. Absent: this one is the only one.
   */
  nodes?(): Promise<string[]>;
  /** Releases everything; the streams complete. */
  close(): Promise<void>;
}

/** @publicApi */
export interface McpLostNode {
  readonly node: string;
  /** Confirms that the calls and tasks of the dead node were ended. Never rejects. */
  done(): Promise<void>;
}

/** The injection token of the {@link McpMessageBus}. @publicApi */
export const McpMessageBus = Symbol('nestjs-mcp-streamable:McpMessageBus');

/** The methods that an {@link McpMessageBus} of an app must have. */
export const MESSAGE_BUS_METHODS = ['send', 'broadcast', 'close'] as const;
