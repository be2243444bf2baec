import type { RequestId } from '../wire/json-rpc.js';

/**
 * # The event log
 *
 * What was sent on a stream and may have to be sent again. One log per (session, stream); a stream is either `0`, the
 * standalone one, or an unguessable id of 22 characters that belongs to one POST, or `inbox`: what the client sent to one
 * node and another waits for. No client can read that one.
 *
 * Written for the implementer of a store:
 *
 * - **Calls run concurrently**, for any number of sessions and streams, and from several nodes. Each call is atomic.
 * - **Order.** Indices of a stream are dense and start at 1. `append` assigns them; events of one call are adjacent.
 * - **Idempotence.** `append` is identified by (session, stream, `writer`, `seq`). A call that was carried out already is
 *   answered with the result of the first time and changes nothing: the caller retries after an unknown outcome.
 *   A writer has one append in flight, so remembering its last `seq` is enough.
 * - **Fencing.** After `drop(session)`, and after `end`, every append is refused, also one of a node that was paused
 *   meanwhile: a running handler must not bring a deleted session back. A stream that is forgotten is not begun anew
 *   by a writer that has written to it: unknown stream other than `0` and `seq` above 1 means `StreamEndedError`.
 * - **Requests.** A request that is open on another node is not opened again: of two appends that `opens` the same id of a
 *   session, by two nodes, one is refused, though they come at the same moment. A node sees to its own requests itself.
 * - **Bounds.** Count, bytes and age are bounded by the implementation's own options. What is evicted is the oldest.
 *   Never evicted: the newest event of a stream that has not ended, and an answer that nobody has read (its index is
 *   above `delivered`). When such events alone reach a bound, `append` throws `EventLogFullError`; otherwise it is
 *   accepted, whatever its size, so that a session holds its bounds and one append at most. An append without events is
 *   never refused for want of room.
 * - **Who cleans up.** `drop(session)` leaves nothing behind. Finished streams are forgotten by the store itself after
 *   its own time. Nobody else deletes anything.
 * - **Errors** of {@link EventStoreError} are final. Any other error is taken for a passing fault and retried.
 *
 * The contract test is exported by `nestjs-mcp-streamable/testing`.
 *
 * @publicApi
 */
export interface McpEventStore {
  /** `node`: the log lives and dies with this process. `shared`: other nodes read it too. */
  readonly scope: 'node' | 'shared';

  /** Makes the log of a session. Idempotent. Only an opened session accepts events. */
  open(session: string): Promise<void>;

  /**
   * Appends events to a stream; the stream begins to exist with the first append, which may be empty.
   *
   * @param events JSON texts without line breaks, one message each; may be empty
   * @returns the index of the first of `events`, or of the next event if there are none
   * @throws SessionGoneError the session was never opened, or was dropped
   * @throws StreamEndedError an earlier append ended the stream
   * @throws DuplicateRequestError a request of `opens` is open in this session on another node; nothing is appended
   * @throws EventLogFullError the bounds leave no room
   */
  append(session: string, stream: string, events: readonly string[], options: AppendOptions): Promise<AppendResult>;

  /**
   * The events after the cursor, in order and without gaps: up to the first one that is missing.
   *
   * @param after index of the last event that is known; 0 is the cursor before the first
   * @param limit at most so many events
   * @throws SessionGoneError the session was never opened, or was dropped
   * @throws StreamNotFoundError no such stream (stream `0` of an open session always exists)
   * @throws EventsEvictedError the event right after the cursor is gone; its `oldest` says where to go on
   */
  read(session: string, stream: string, after: number, limit: number): Promise<ReadResult>;

  /** What is known of a stream, or `undefined` if it never was or is forgotten. Stream `0` of an open session always exists. */
  describe(session: string, stream: string): Promise<StreamHead | undefined>;

  /**
   * Makes a reader the newest of its stream. A repeated call is answered as the first time.
   *
   * @returns the newest of the other readers, for its node to be told, or `undefined`
   * @throws SessionGoneError the session was never opened, or was dropped
   * @throws StreamNotFoundError no such stream
   */
  attach(session: string, stream: string, reader: ReaderRef): Promise<ReaderRef | undefined>;

  /**
   * Takes a reader away. Idempotent.
   *
   * @returns the reader that is now the newest because this one was, or `undefined`
   */
  detach(session: string, stream: string, reader: ReaderRef): Promise<ReaderRef | undefined>;

  /** Notes that the events up to `index`, or to the last one, were handed to a reader. Never moves backwards. A stream that is gone is ignored. */
  delivered(session: string, stream: string, index: number): Promise<void>;

  /** The requests that were opened by an append and settled neither by it nor by a later one; the end of a stream settles all of it. */
  openRequests(of: { session: string } | { node: string }): Promise<OpenRequest[]>;

  /**
   * Takes away all readers of a node that is gone. Idempotent.
   *
   * @returns the readers that are the newest of their stream now, for their nodes to be told
   */
  detachNode(node: string): Promise<StreamReaderRef[]>;

  /** Forgets the session with everything in it. Idempotent. */
  drop(session: string): Promise<void>;

  /** What is held, for tests, metrics and health checks. */
  stats(): Promise<EventStoreStats>;
}

/** The stream of what nodes hand on to each other. It begins and is bounded like any other, and goes with its session. @publicApi */
export const INBOX_STREAM = 'inbox';

/** The injection token of the {@link McpEventStore}. @publicApi */
export const McpEventStore = Symbol('nestjs-mcp-streamable:McpEventStore');

/** @publicApi */
export interface AppendOptions {
  /** Who appends: unique per live copy of a stream. */
  writer: string;
  /** Counts the appends of this writer, from 1. A refused append was none: it may be repeated with its number. */
  seq: number;
  /** The requests whose messages this stream carries, and the node that runs them. Given with a stream's first append. */
  opens?: { node: string; requests: readonly RequestId[] };
  /** Requests that are settled by this append. */
  settles?: readonly SettledRequest[];
  /** Nothing will follow on this stream. */
  end?: boolean;
}

/** @publicApi */
export interface SettledRequest {
  id: RequestId;
  /** Position of its answer within `events`; absent when the request ended without an answer (it was cancelled). */
  answer?: number;
}

/** @publicApi */
export interface AppendResult {
  /** Index of the first appended event. */
  first: number;
  /**
   * The newest reader, for its node to be told that there is more to read; absent when there is none. A store that can tell
   * the node in the same step, by the {@link AppendedMessage} on the bus, does so, and leaves it out.
   */
  reader?: ReaderRef;
}

/** Said to the node of the newest reader when something was appended to its stream. @publicApi */
export interface AppendedMessage {
  type: 'appended';
  session: string;
  stream: string;
}

/** @publicApi */
export interface ReadResult {
  events: readonly StoredEvent[];
  /** There are events after the last of `events`. */
  more: boolean;
  /** The stream has ended (what is `more` still comes). */
  ended: boolean;
}

/** @publicApi */
export interface StoredEvent {
  index: number;
  /** The message as JSON, on one line. */
  data: string;
}

/** @publicApi */
export interface StreamHead {
  /** Index of the newest event; 0 if there never was one. */
  last: number;
  /** Index of the oldest event that is kept; `last + 1` if none is. */
  oldest: number;
  /** Index up to which events were handed to a reader. */
  delivered: number;
  ended: boolean;
  /** Readers attached on any node. */
  readers: number;
  /** The newest of them: the one that messages go to. */
  newest?: ReaderRef;
}

/** A reader of a stream, on one of the nodes. @publicApi */
export interface ReaderRef {
  node: string;
  /** Unique among all readers of all nodes. */
  reader: string;
}

/** A reader, and what it reads. @publicApi */
export interface StreamReaderRef extends ReaderRef {
  session: string;
  stream: string;
}

/** @publicApi */
export interface OpenRequest {
  session: string;
  stream: string;
  id: RequestId;
  node: string;
}

/** @publicApi */
export interface EventStoreStats {
  sessions: number;
  /** Stream `0` counts when something was written to it, or somebody reads it. */
  streams: number;
  events: number;
  /** UTF-16 code units of the kept events, times two. */
  bytes: number;
}
