import type { Clock } from '../common/clock.js';
import { check, namesOf } from '../common/option-checks.js';
import type { RetryPolicy } from '../common/retry.js';
import type { McpEventStore, ReaderRef } from './event-store.js';

/** Responses that may be attached to one stream at a time (behaviour G7). */
export const MAX_READERS = 4;
/** A further response ends the oldest at most once in this time (behaviour G7). */
export const READER_EVICTION_MS = 60_000;

/** Passing faults of the event store are ridden out for half a minute. */
export const DEFAULT_RETRY: RetryPolicy = { firstDelayMs: 50, maxDelayMs: 2_000, giveUpAfterMs: 30_000 };
/** Bytes that may wait for a failing event store, per stream. */
export const DEFAULT_MAX_QUEUED_BYTES = 8 * 1024 * 1024;

/** The way to the same stream on other nodes. Nothing here waits, fails, or is certain to arrive. */
export interface StreamPeers {
  /** There is more to read: the node of the reader looks into the log. */
  appended(session: string, stream: string, reader: ReaderRef): void;
  /** The reader has become the newest of its stream, or is no longer. */
  turned(session: string, stream: string, reader: ReaderRef, turn: ReaderTurn): void;
}

/** There is no other node. */
export const NO_STREAM_PEERS: StreamPeers = { appended: () => {}, turned: () => {} };

/**
 * - `muted`: a newer reader came, `by` name if it waits for the answer
 * - `yielded`: that answer: the older one is silent, after handing out what lies between its ends
 * - `promoted`: the newer one left, after handing out what lies between its ends
 * - `closed`: the application ends this response, and the older ones
 */
export type ReaderTurn =
  | { is: 'muted'; by?: ReaderRef }
  | { is: 'yielded' | 'promoted'; handedOut?: { after: number; upTo: number } }
  | { is: 'closed' };

/** What the streams of one endpoint share. */
export interface StreamEnvironment {
  readonly peers: StreamPeers;
  readonly store: McpEventStore;
  readonly clock: Clock;
  /** Of this process. */
  readonly nodeId: string;
  readonly retry: RetryPolicy;
  readonly maxQueuedBytes: number;
}

/** Bounds of the event log in memory; another event store has options of its own. @publicApi */
export interface EventLogOptions {
  /**
   * Events kept per session. What goes beyond is forgotten, oldest first; a client that comes back for it starts over.
   *
   * @default 1000
   */
  maxEvents?: number;
  /**
   * Bytes kept per session, as UTF-16.
   *
   * @default 8388608 (8 MiB)
   */
  maxBytes?: number;
  /**
   * Bytes kept for all sessions together. Raising it raises what an attacker can make this process hold.
   *
   * @default 268435456 (256 MiB)
   */
  maxTotalBytes?: number;
  /**
   * Milliseconds for which a finished stream can still be resumed.
   *
   * @default 300000 (5 min)
   */
  finishedStreamMs?: number;
}

/** The injection token of the resolved {@link EventLogOptions}. */
export const EVENT_LOG_OPTIONS = Symbol('nestjs-mcp-streamable:event-log-options');

const NAMES = namesOf<EventLogOptions>({
  maxEvents: true,
  maxBytes: true,
  maxTotalBytes: true,
  finishedStreamMs: true,
});

/** @throws McpOptionError */
export function resolveEventLogOptions(options: EventLogOptions = {}): Required<EventLogOptions> {
  const {
    maxEvents = 1_000,
    maxBytes = 8 * 1024 ** 2,
    maxTotalBytes = 256 * 1024 ** 2,
    finishedStreamMs = 300_000,
  } = check.group('eventLog', options, NAMES);
  return {
    maxEvents: check.count('eventLog.maxEvents', maxEvents),
    maxBytes: check.count('eventLog.maxBytes', maxBytes),
    maxTotalBytes: check.count('eventLog.maxTotalBytes', maxTotalBytes),
    finishedStreamMs: check.count('eventLog.finishedStreamMs', finishedStreamMs),
  };
}
