import type { MaybePromise } from '../common/promises.js';
import type { RequestId } from '../protocol/json-rpc.js';

/**
 * # The event log
 *
 * The messages that were sent on a stream, for clients that resume it. One log per (session, stream); a stream is
 * either `0`, the standalone one, or an unguessable id of 22 characters that belongs to one POST, or `inbox`: messages
 * that the client sent to one node and another waits for. No client can read that one.
 *
 *     open ──append … append──▶ ended (`end`) ──its time──▶ forgotten
 *       └────────drop(session)─────┴──▶ ended, refusing ──30 s──▶ forgotten
 *
 * Written for the implementer of a store:
 *
 * - **Calls run concurrently**, for any number of sessions and streams, and from several nodes. Each call is atomic.
 *   `append` and `read` may return their result without a promise: then nothing is awaited, which makes a log in memory
 *   fast.
 * - **Order.** Indices of a stream start at 1 and grow. `append` assigns them; events of one call are adjacent. An index is
 *   never used again: an append that names a newer one than the log has (`newest`) goes on behind that. Only then there is a
 *   gap, which tells readers that the log has lost events, as one does that fails over to a replica.
 * - **Idempotence.** `append` is identified by (session, stream, `writer`, `seq`). A call that was carried out already is
 *   answered with the result of the first time and changes nothing: the caller retries after an unknown outcome.
 *   A writer has one append in flight, so remembering its last `seq` is enough.
 * - **Fencing.** After `drop(session)`, and after `end`, every append is refused, also one of a node that was paused
 *   meanwhile: a running handler must not bring a deleted session back. A writer that has written to a stream does not
 *   create it again after it was removed: unknown stream other than `0` and `seq` above 1 means `McpStreamEndedError`.
 * - **Bounds.** A stream is a ring: it keeps its newest events, as many as an option of the implementation allows (100
 *   or more), and its newest event always. Where bytes are bounded too, finished streams go first, the one that ended
 *   first before the others. An append is never refused for lack of space, except to the inbox: that keeps each event
 *   for at least a minute, and throws `McpEventLogFullError` when it is full.
 * - **Cleaning up.** Finished streams are forgotten by the store itself after its own time; stream `0` and the inbox go
 *   with their session. A dropped session is forgotten 30 s later; a store of scope `node` may forget it at once.
 * - **Errors** of {@link McpEventStoreError} are final. Any other error counts as a transient fault and is retried.
 *
 * The contract test is exported by `nestjs-mcp-streamable/testing`.
 *
 * @publicApi
 */
export interface McpEventStore {
  /** `node`: the log lives and dies with this process. `shared`: other nodes read it too. */
  readonly scope: 'node' | 'shared';

  /** Creates the log of a session. Idempotent; a session that was dropped, and is not forgotten yet, stays dropped. */
  open(session: string): Promise<void>;

  /**
   * Appends events to a stream; the stream begins to exist with the first append, which may be empty.
   *
   * @param events JSON texts without line breaks, one message each; may be empty
   * @throws McpSessionGoneError the session was never opened, or was dropped
   * @throws McpStreamEndedError an earlier append ended the stream
   * @throws McpEventLogFullError the inbox is full
   */
  append(
    session: string,
    stream: string,
    events: readonly string[],
    options: McpAppendOptions,
  ): MaybePromise<McpAppendResult>;

  /**
   * Appends one event as `append` does, and without the objects of its parameters and its result: most messages are appended alone,
   * to a log in memory. Optional.
   *
   * @param newest as in `McpAppendOptions`; 0: it is not given
   * @returns the index of the event; 0: nothing was done, and the writer calls `append`. So it does at its first append to a
   *   stream, when the newest reader has to be named, and when the append would be refused or has lost events
   */
  appendNow?(session: string, stream: string, event: string, writer: string, seq: number, newest: number): number;

  /**
   * Returns the events after the cursor, in order and without gaps. When the one right after it was evicted, the oldest
   * that is kept comes first.
   *
   * @param after index of the last event that is known; 0 is the cursor before the first
   * @param limit maximum number of events; 0 reads the state of the stream only
   * @param delivered acknowledges the events up to this index: they were handed to the reader. Never moves backwards
   * @throws McpSessionGoneError the session was never opened, or is forgotten
   * @throws McpStreamNotFoundError no such stream (stream `0` of an open session always exists)
   */
  read(session: string, stream: string, after: number, limit: number, delivered?: number): MaybePromise<McpReadResult>;

  /**
   * Ends the session: appends an error for each request that is not settled to its stream, ends every stream, and refuses all
   * further appends. Its events can be read for 30 s more, so that readers on all nodes find the end. Idempotent.
   *
   * @param lastError the answer to unsettled requests; absent: they get none
   */
  drop(session: string, lastError?: McpLastError): Promise<void>;

  /**
   * Counts sessions, streams and bytes for tests, metrics and health checks. Dropped sessions do not count. Optional.
   */
  stats?(): Promise<McpEventStoreStats>;

  /**
   * Returns the bytes of the log of one session, as `stats` counts them, for operators. Optional: omit it if it needs a
   * request.
   */
  sizeOf?(session: string): number;
}

/**
 * # An event log that several nodes share
 *
 * Of the readers that have claimed a stream the newest is its reader, until it is released: only that one hands out events
 * (rule G7). The other nodes also have to know what a node has left unanswered when it died.
 *
 * @publicApi
 */
export interface McpSharedEventStore extends McpEventStore {
  readonly scope: 'shared';

  /**
   * Makes a reader the newest of its stream. A repeated call changes nothing.
   *
   * @param first it is the response with which the stream began, the oldest of all: it does not replace another reader
   * @throws McpSessionGoneError the session was never opened, or is forgotten
   * @throws McpStreamNotFoundError no such stream
   */
  claim(session: string, stream: string, reader: McpReaderRef, first?: boolean): Promise<McpClaimResult>;

  /**
   * Releases a reader, if it is still the newest. Idempotent; unknown sessions and streams are ignored.
   *
   * @param delivered as for `read`
   */
  release(session: string, stream: string, reader: McpReaderRef, delivered?: number): Promise<void>;

  /**
   * Returns the streams with requests that a node has opened and that are not settled, for other nodes to answer when
   * it has died.
   */
  unfinished(node: string): Promise<McpUnfinishedStream[]>;
}

/** Tells whether other nodes have the same log. */
export const isShared = (store: McpEventStore): store is McpSharedEventStore => store.scope === 'shared';

/**
 * The stream of messages that nodes forward to each other. It is created like any other, and removed with its session.
 *
 * @publicApi
 */
export const MCP_INBOX_STREAM = 'inbox';

/**
 * Minimum number of events that a stream keeps: fewer would not cover the time in which a client reconnects (G6).
 *
 * @publicApi
 */
export const MCP_MIN_EVENTS = 100;

/** Milliseconds for which a shared store keeps a dropped session, so that readers on all nodes find the end. @publicApi */
export const MCP_DROPPED_SESSION_MS = 30_000;

/** The injection token of the {@link McpEventStore}. @publicApi */
export const McpEventStore = Symbol('nestjs-mcp-streamable:McpEventStore');

/** The methods that an {@link McpEventStore} of an app must have. */
export const EVENT_STORE_METHODS = ['open', 'append', 'read', 'drop'] as const;
/** The methods that an event store of scope `shared` must have, too. */
export const SHARED_EVENT_STORE_METHODS = ['claim', 'release', 'unfinished'] as const;

/** @publicApi */
export interface McpAppendOptions {
  /** The id of the appending object, unique per live copy of a stream. */
  writer: string;
  /** Counts the appends of this writer, from 1. A refused append does not count: it may be repeated with its number. */
  seq: number;
  /**
   * Index of the newest event that the writer knows. Given by the writer that has opened the stream, and writes it alone. If it
   * is larger than what the log has, the log has lost events.
   */
  newest?: number;
  /**
   * The requests whose messages this stream carries, and the node that runs them. Given with a stream's first append; and later,
   * in case the log has lost the stream: if it has not, that changes nothing.
   */
  opens?: { node: string; requests: readonly RequestId[] };
  /** Requests that are settled by this append, with an answer among `events` or without one. */
  settles?: readonly RequestId[];
  /** Ends the stream with this append, which settles all its requests. */
  end?: boolean;
}

/** @publicApi */
export interface McpAppendResult {
  /** Index of the first appended event, or of the next one if there were none. */
  first: number;
  /** The log has lost events: the writer named a newer one than it has. */
  lost?: true;
  /**
   * A shared store names the newest reader, whose node has to be notified that there is more to read; absent when there
   * is none. A store that notifies the node in the same step, by the {@link McpAppendedMessage} on the bus, leaves it
   * out for readers on other nodes.
   */
  reader?: McpReaderRef;
}

/** A shared store may send it to the node of the newest reader after an append to its stream. @publicApi */
export interface McpAppendedMessage {
  type: 'appended';
  session: string;
  stream: string;
}

/** @publicApi */
export interface McpStreamHead {
  /** Index of the newest event; 0 if there never was one. */
  last: number;
  /** Index of the oldest event that is kept; `last + 1` if none is. */
  oldest: number;
  /** Index up to which events were handed to a reader. */
  delivered: number;
  ended: boolean;
}

/** @publicApi */
export interface McpReadResult extends McpStreamHead {
  events: readonly McpStoredEvent[];
  /** Says that there are events after the last of `events`, or after the cursor if `events` is empty. */
  more: boolean;
  /** A shared store names the newest reader. */
  reader?: McpReaderRef;
}

/** @publicApi */
export interface McpClaimResult extends McpStreamHead {
  /** The reader that this one replaces, whose node has to be notified; of a first one, the newer reader that stays. */
  before?: McpReaderRef;
}

/** @publicApi */
export interface McpStoredEvent {
  index: number;
  /** The message as JSON, on one line. */
  data: string;
}

/** @publicApi */
export interface McpReaderRef {
  node: string;
  /** The id of the reader, unique among all readers of all nodes. */
  reader: string;
}

/** @publicApi */
export interface McpUnfinishedStream {
  session: string;
  stream: string;
  /** The ids of the requests that are not settled. */
  requests: RequestId[];
}

/** The error of a JSON-RPC response. @publicApi */
export interface McpLastError {
  code: number;
  message: string;
}

/** @publicApi */
export interface McpEventStoreStats {
  sessions: number;
  /** Stream `0` counts when something was written to it, or it was claimed. */
  streams: number;
  events: number;
  /** The bytes of the kept events: their UTF-16 code units, times two. */
  bytes: number;
}
