import type { McpClock } from '../common/clock.js';
import { count, type OptionTable, type Resolved } from '../common/options.js';
import type { RetryPolicy } from '../common/retry.js';
import { MCP_MIN_EVENTS, type McpEventStore, type McpReaderRef } from './event-store.js';

/** Passing faults of the event store are retried for half a minute, at least once a second. */
export const DEFAULT_RETRY: RetryPolicy = { firstDelayMs: 50, maxDelayMs: 1_000, giveUpAfterMs: 30_000 };
/** Bytes that may wait for a failing event store, per stream. */
export const DEFAULT_MAX_QUEUED_BYTES = 8 * 1024 * 1024;

/** Notifies other nodes that have the same stream. Nothing here waits or fails, and any message may be lost. */
export interface StreamNodes {
  /** Makes the node of the reader look into the log, because there is more to read. */
  appended(session: string, stream: string, reader: McpReaderRef): void;
  /**
   * Silences a reader on its node, because there is a newer one.
   *
   * @param upTo given, its response ends now; so far events were handed out
   */
  replaced(session: string, stream: string, reader: McpReaderRef, upTo?: number): void;
}

/** The parts that the streams of one endpoint share. */
export interface StreamEnvironment {
  readonly nodes: StreamNodes;
  readonly store: McpEventStore;
  readonly clock: McpClock;
  /** The id of this process. */
  readonly nodeId: string;
  readonly retry: RetryPolicy;
  readonly maxQueuedBytes: number;
  /** Milliseconds after which a client that has given up a response opens another one. */
  readonly comeBackMs: number;
}

/** Bounds of the event log in memory; another event store has options of its own. @publicApi */
export interface McpEventLogOptions {
  /**
   * Limits the number of events that a stream keeps; the value is at least 100. The oldest events are evicted first. A
   * client that resumes at an evicted event continues with the oldest event that is kept. With a higher value clients
   * may be disconnected for longer, and events use more memory.
   *
   * @default 1000
   */
  maxEvents?: number;
  /**
   * Limits the bytes of events that a session keeps, counted as UTF-16. Above the limit, the oldest events are evicted:
   * first those of finished streams, then those of open streams. The newest event of an open stream stays. With a
   * higher value clients may be disconnected for longer, and events use more memory.
   *
   * @default 8388608 (8 MiB)
   */
  maxBytes?: number;
  /**
   * Limits the bytes of events that all sessions keep together. Above the limit, events of the session with the most
   * bytes are evicted first. A higher value lets clients use more memory of this process.
   *
   * @default 268435456 (256 MiB)
   */
  maxTotalBytes?: number;
  /**
   * Sets the milliseconds for which a finished stream can still be resumed. With a higher value clients on bad
   * connections have more time, and each call that was answered as SSE uses memory for longer.
   *
   * @default 300000 (5 min)
   */
  finishedStreamMs?: number;
}

export const EVENT_LOG_TABLE = {
  maxEvents: count(1_000, { min: MCP_MIN_EVENTS }),
  maxBytes: count(8 * 1024 ** 2),
  maxTotalBytes: count(256 * 1024 ** 2),
  finishedStreamMs: count(300_000),
} satisfies OptionTable<McpEventLogOptions>;

export type ResolvedEventLogOptions = Resolved<typeof EVENT_LOG_TABLE>;
