import type { AppendedMessage, McpEventStore, ReaderRef } from '../stream/event-store.js';
import { NO_STREAM_PEERS, type ReaderTurn, type StreamPeers } from '../stream/stream.options.js';
import {
  isResponse,
  type JsonRpcMessage,
  type JsonRpcNotification,
  type JsonRpcResponse,
  type RequestId,
} from '../wire/json-rpc.js';
import type { InFlightCalls } from './in-flight-calls.js';
import { issuerOf } from './outbound-requests.js';
import type { SessionPatch } from './session-store.js';

/**
 * What nodes tell each other of sessions. Signals only: whoever misses one finds the same in the stores, later.
 *
 * - `session-began`: there is a record, which may expire; or a node stops, and leaves its records to the others
 * - `session-ended`: its record is gone
 * - `calls-answered`: so is what ran of it here, and said so
 * - `appended`: there is more to read on a stream
 * - `turned`: a reader has become the newest of its stream, or is no longer
 * - `from-client`: the client sent something to another node than the one that waits for it, or that all copies must know
 * - `patched`: the client changed what a session is, and other live copies are to follow
 */
export type ClusterMessage =
  | {
      readonly type: 'session-began' | 'session-ended' | 'calls-answered';
      readonly session: string;
      readonly node: string;
    }
  | Readonly<AppendedMessage>
  | {
      readonly type: 'turned';
      readonly session: string;
      readonly stream: string;
      readonly reader: string;
      readonly turn: ReaderTurn;
    }
  | {
      readonly type: 'from-client';
      readonly session: string;
      readonly node: string;
      readonly message: JsonRpcResponse | JsonRpcNotification;
    }
  | { readonly type: 'patched'; readonly session: string; readonly node: string; readonly patch: SessionPatch };

const TYPES: readonly unknown[] = [
  ...['session-began', 'session-ended', 'calls-answered', 'appended', 'turned', 'from-client', 'patched'],
];

/** Other nodes may be of another version, and the bus carries more than this: what is not understood is nobody's. */
export function clusterMessage(message: unknown): ClusterMessage | undefined {
  const { type, session } = (message ?? {}) as { type?: unknown; session?: unknown };
  return TYPES.includes(type) && typeof session === 'string' ? (message as ClusterMessage) : undefined;
}

/**
 * Whether other nodes have to hear of a message of the client: one of them waits for it, or may, or all copies must know it.
 *
 * @param calls what is in flight here
 */
export function concernsPeers(message: JsonRpcMessage, nodeId: string, calls: Pick<InFlightCalls, 'has'>): boolean {
  const elsewhere = (wireId: unknown): boolean => {
    const issuer = issuerOf(wireId as RequestId | undefined);
    return issuer !== undefined && issuer !== nodeId;
  };
  if (isResponse(message)) return elsewhere(message.id);
  const { method, params } = message;
  switch (method) {
    case 'notifications/cancelled':
      return !calls.has(params?.['requestId'] as RequestId);
    case 'notifications/progress':
      return elsewhere(params?.['progressToken']);
    default:
      return method === 'notifications/roots/list_changed';
  }
}

/** The way from a live session to what else there is of it on other nodes. */
export interface SessionPeers {
  /** Hands on what the client sent, to the node that waits for it. */
  forward(session: string, message: JsonRpcResponse | JsonRpcNotification, node: string): void;
  /** Hands on what every live copy must know. */
  forwardToAll(session: string, message: JsonRpcNotification): void;
}

/** There is no other node. */
export const NO_PEERS: SessionPeers & StreamPeers = { ...NO_STREAM_PEERS, forward: () => {}, forwardToAll: () => {} };

/** A bus, as far as sessions speak by it. */
export interface ClusterBus {
  readonly nodeId: string;
  send(node: string, message: ClusterMessage): void;
  broadcast(message: ClusterMessage): void;
}

/** Speaks to the other nodes about sessions and their streams. */
export class ClusterPeers implements SessionPeers {
  constructor(private readonly bus: ClusterBus) {}

  appended(session: string, stream: string, { node }: ReaderRef): void {
    this.bus.send(node, { type: 'appended', session, stream });
  }

  turned(session: string, stream: string, { node, reader }: ReaderRef, turn: ReaderTurn): void {
    this.bus.send(node, { type: 'turned', session, stream, reader, turn });
  }

  /** Takes the readers of a node out of the log, and tells the nodes of those whose turn it is now. */
  async readersGone(node: string, store: McpEventStore): Promise<void> {
    for (const { session, stream, ...reader } of await store.detachNode(node)) {
      this.turned(session, stream, reader, { is: 'promoted' });
    }
  }

  forward(session: string, message: JsonRpcResponse | JsonRpcNotification, node: string): void {
    this.bus.send(node, { type: 'from-client', session, node: this.bus.nodeId, message });
  }

  forwardToAll(session: string, message: JsonRpcNotification): void {
    this.bus.broadcast({ type: 'from-client', session, node: this.bus.nodeId, message });
  }

  patched(session: string, patch: SessionPatch): void {
    this.bus.broadcast({ type: 'patched', session, node: this.bus.nodeId, patch });
  }

  began(session: string): void {
    this.bus.broadcast({ type: 'session-began', session, node: this.bus.nodeId });
  }

  ended(session: string): void {
    this.bus.broadcast({ type: 'session-ended', session, node: this.bus.nodeId });
  }
}
