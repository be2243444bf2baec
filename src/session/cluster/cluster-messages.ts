import type { McpMessageBus } from '../../bus/message-bus.js';
import type { McpAppendedMessage, McpReaderRef } from '../../stream/event-store.js';
import type { StreamPeers } from '../../stream/stream.options.js';
import { ALL_NODES } from './inbox.js';
import type { McpSessionEndReason } from '../session-events.js';
import type { McpSessionPatch } from '../store/session-store.js';

/**
 * The messages between nodes about sessions. They are hints only: a node that misses one finds the same in the stores later.
 *
 * - `session-ended`: its record was removed, and the reason
 * - `appended`: there is more to read on a stream
 * - `replaced`: a reader is not the newest of its stream any more; with `upTo` its response is to end now
 * - `inbox`: the client sent a message to another node than the one that waits for it, or a message for all copies
 * - `patched`: the client changed the record of a session, and other live copies follow
 */
export type ClusterMessage =
  | {
      readonly type: 'session-ended';
      readonly session: string;
      readonly node: string;
      readonly reason?: McpSessionEndReason;
    }
  | Readonly<McpAppendedMessage>
  | {
      readonly type: 'replaced';
      readonly session: string;
      readonly stream: string;
      readonly reader: string;
      readonly upTo?: number;
    }
  | { readonly type: 'inbox'; readonly session: string; readonly node: string }
  | { readonly type: 'patched'; readonly session: string; readonly node: string; readonly patch: McpSessionPatch };

const TYPES: readonly unknown[] = ['session-ended', 'appended', 'replaced', 'inbox', 'patched'];

/** The bus carries other messages too, and other nodes may run another version: those are ignored. */
export function clusterMessage(message: unknown): ClusterMessage | undefined {
  const { type, session } = (message ?? {}) as { type?: unknown; session?: unknown };
  return TYPES.includes(type) && typeof session === 'string' ? (message as ClusterMessage) : undefined;
}

/** Sends messages about sessions and their streams to the other nodes. */
export class ClusterPeers implements StreamPeers {
  constructor(private readonly bus: Pick<McpMessageBus<ClusterMessage>, 'nodeId' | 'send' | 'broadcast'>) {}

  appended(session: string, stream: string, { node }: McpReaderRef): void {
    this.bus.send(node, { type: 'appended', session, stream });
  }

  replaced(session: string, stream: string, { node, reader }: McpReaderRef, upTo?: number): void {
    this.bus.send(node, { type: 'replaced', session, stream, reader, ...(upTo !== undefined && { upTo }) });
  }

  /** Something was put into the inbox of a session. @param to a node, or `*` for all */
  delivered(session: string, to: string): void {
    const message: ClusterMessage = { type: 'inbox', session, node: this.bus.nodeId };
    if (to === ALL_NODES) this.bus.broadcast(message);
    else this.bus.send(to, message);
  }

  patched(session: string, patch: McpSessionPatch): void {
    this.bus.broadcast({ type: 'patched', session, node: this.bus.nodeId, patch });
  }

  ended(session: string, reason: McpSessionEndReason): void {
    this.bus.broadcast({ type: 'session-ended', session, node: this.bus.nodeId, reason });
  }
}
