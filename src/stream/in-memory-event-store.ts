import { systemClock, type Clock } from '../common/clock.js';
import { STANDALONE_STREAM } from '../wire/sse.js';
import {
  DuplicateRequestError,
  EventLogFullError,
  SessionGoneError,
  StreamEndedError,
  StreamNotFoundError,
} from './event-store.errors.js';
import type {
  AppendOptions,
  AppendResult,
  EventStoreStats,
  McpEventStore,
  OpenRequest,
  ReadResult,
  ReaderRef,
  StreamReaderRef,
  StreamHead,
} from './event-store.js';
import { FinishedStreams } from './in-memory/finished-streams.js';
import { SessionLog } from './in-memory/session-log.js';
import { SessionWeights } from './in-memory/session-weights.js';
import { StreamLog } from './in-memory/stream-log.js';

/**
 * # The event log in the memory of this process
 *
 *     InMemoryEventStore ─▶ SessionLog (order of writing) ─▶ StreamLog (events, answers, readers, writers)
 *       ├─ SessionWeights   who holds the most
 *       └─ FinishedStreams  what is to be forgotten when
 *
 * Each call runs to its end synchronously, which makes it atomic.
 *
 * **Bounds.** An append is refused only if what must not be evicted reaches a bound already; otherwise it is accepted
 * whatever its size, and then what is too much is evicted. So a session never holds more than its bounds and one append.
 * Of finished streams whose events are all gone it remembers `maxEvents` at most: they say nothing but "ended".
 * An append without events adds nothing and is never refused for want of room: a full log can always be ended.
 *
 * **Fairness.** Within a session the oldest event goes first. When all sessions together hold too much, it is the oldest
 * event of the session that holds the most (to a factor of two): who floods the log loses their own events first.
 *
 * @publicApi
 */
export class InMemoryEventStore implements McpEventStore {
  readonly scope = 'node';
  readonly #bounds: Required<InMemoryEventStoreOptions>;
  readonly #sessions = new Map<string, SessionLog>();
  readonly #weights = new SessionWeights();
  readonly #finished: FinishedStreams;

  constructor(
    options: InMemoryEventStoreOptions = {},
    private readonly clock: Clock = systemClock,
  ) {
    this.#bounds = {
      maxEvents: options.maxEvents ?? DEFAULT_BOUNDS.maxEvents,
      maxBytes: options.maxBytes ?? DEFAULT_BOUNDS.maxBytes,
      maxTotalBytes: options.maxTotalBytes ?? DEFAULT_BOUNDS.maxTotalBytes,
      finishedStreamMs: options.finishedStreamMs ?? DEFAULT_BOUNDS.finishedStreamMs,
    };
    this.#finished = new FinishedStreams(clock, this.#bounds.finishedStreamMs, (session, stream) => {
      session.forget(stream);
      this.#settle(session);
    });
  }

  async open(session: string): Promise<void> {
    if (!this.#sessions.has(session)) this.#sessions.set(session, new SessionLog());
  }

  async append(
    session: string,
    stream: string,
    events: readonly string[],
    options: AppendOptions,
  ): Promise<AppendResult> {
    const log = this.#session(session);
    const found = log.find(stream);
    const repeated = found?.repeated(options.writer, options.seq);
    if (repeated !== undefined) return resultOf(found!, repeated);
    if (found ? found.ended : wasForgotten(stream, options)) throw new StreamEndedError(stream);
    const duplicate = options.opens && log.openElsewhere(options.opens);
    if (duplicate !== undefined) throw new DuplicateRequestError(stream, duplicate);
    if (events.length > 0) this.#makeRoom(log, stream);
    const target = found ?? log.begin(stream);
    const first = log.append(target, events, options, this.clock.now());
    if (options.end && stream !== STANDALONE_STREAM) this.#finished.add(log, target);
    this.#evict(log, 0);
    return resultOf(target, first);
  }

  async read(session: string, stream: string, after: number, limit: number): Promise<ReadResult> {
    return this.#stream(session, stream).read(after, limit);
  }

  async describe(session: string, stream: string): Promise<StreamHead | undefined> {
    const log = this.#sessions.get(session);
    return log && findOrBlank(log, stream)?.head();
  }

  async attach(session: string, stream: string, reader: ReaderRef): Promise<ReaderRef | undefined> {
    const found = this.#stream(session, stream);
    return (found === BLANK ? this.#session(session).begin(stream) : found).attach(reader);
  }

  async detach(session: string, stream: string, reader: ReaderRef): Promise<ReaderRef | undefined> {
    return this.#sessions.get(session)?.find(stream)?.detach(reader);
  }

  async delivered(session: string, stream: string, index: number): Promise<void> {
    const log = this.#sessions.get(session);
    const found = log?.find(stream);
    if (!found) return;
    log!.deliver(found, index);
    // What was accepted beyond the bounds, because unread answers were in the way, can go now.
    this.#evict(log!, 0);
  }

  async openRequests(of: { session: string } | { node: string }): Promise<OpenRequest[]> {
    if ('session' in of) return this.#sessions.get(of.session)?.openRequests(of.session) ?? [];
    return [...this.#sessions].flatMap(([id, log]) => log.openRequests(id)).filter(({ node }) => node === of.node);
  }

  async detachNode(node: string): Promise<StreamReaderRef[]> {
    const promoted: StreamReaderRef[] = [];
    for (const [session, log] of this.#sessions) {
      for (const stream of log.streams) {
        const newest = stream.detachNode(node);
        if (newest) promoted.push({ session, stream: stream.id, ...newest });
      }
    }
    return promoted;
  }

  async drop(session: string): Promise<void> {
    const log = this.#sessions.get(session);
    if (!log) return;
    this.#sessions.delete(session);
    this.#weights.remove(log);
    for (const stream of log.streams) this.#finished.delete(stream);
  }

  async stats(): Promise<EventStoreStats> {
    const stats = { sessions: this.#sessions.size, streams: 0, events: 0, bytes: this.#weights.total };
    for (const log of this.#sessions.values()) {
      stats.streams += log.streamCount;
      stats.events += log.events;
    }
    return stats;
  }

  /** The process is ending: forgets everything and leaves no timer behind. */
  close(): void {
    for (const log of this.#sessions.values()) this.#weights.remove(log);
    this.#sessions.clear();
    this.#finished.clear();
  }

  #session(session: string): SessionLog {
    const log = this.#sessions.get(session);
    if (!log) throw new SessionGoneError(session);
    return log;
  }

  #stream(session: string, stream: string): StreamLog {
    const found = findOrBlank(this.#session(session), stream);
    if (!found) throw new StreamNotFoundError(stream);
    return found;
  }

  #makeRoom(log: SessionLog, stream: string): void {
    const limit = this.#evict(log, 1);
    if (limit) throw new EventLogFullError(stream, limit);
  }

  /**
   * Evicts until everything is within the bounds.
   *
   * @param room what is to be free besides
   * @returns the bound that is not met because only pinned events are left
   */
  #evict(log: SessionLog, room: number): string | undefined {
    let limit = this.#exceeded(log, room);
    while (limit && log.evictOldest()) limit = this.#exceeded(log, room);
    this.#settle(log);
    return this.#evictOverall(room) ?? limit;
  }

  #evictOverall(room: number): string | undefined {
    while (this.#weights.total + room > this.#bounds.maxTotalBytes) {
      const heaviest = this.#weights.heaviest();
      if (!heaviest) return 'eventLog.maxTotalBytes';
      heaviest.evictOldest();
      this.#settle(heaviest);
    }
    return undefined;
  }

  /** After each change of a session. */
  #settle(log: SessionLog): void {
    for (let spent = log.surplus(this.#bounds.maxEvents); spent; spent = log.surplus(this.#bounds.maxEvents)) {
      this.#finished.delete(spent);
      log.forget(spent);
    }
    this.#weights.update(log);
  }

  #exceeded(log: SessionLog, room: number): string | undefined {
    if (log.events + room > this.#bounds.maxEvents) return 'eventLog.maxEvents';
    if (log.bytes + room > this.#bounds.maxBytes) return 'eventLog.maxBytes';
    return undefined;
  }
}

/** Bounds of the log in memory. @publicApi */
export interface InMemoryEventStoreOptions {
  /**
   * Events that a session keeps, over all its streams. The oldest go first; unread answers and the newest event of an
   * open stream stay. More of them let a client be away for longer, and cost memory.
   *
   * @default 1000
   */
  maxEvents?: number;
  /**
   * Bytes of events that a session keeps, counted as UTF-16 code units times two.
   *
   * @default 8388608 (8 MiB)
   */
  maxBytes?: number;
  /**
   * Bytes of events that all sessions keep together. When they are reached, the session that holds the most loses its
   * oldest events. Keep it well below the memory of the process.
   *
   * @default 268435456 (256 MiB)
   */
  maxTotalBytes?: number;
  /**
   * Milliseconds for which a finished stream can still be resumed. Longer helps clients on bad connections, and costs
   * memory for each call that was answered as SSE.
   *
   * @default 300000 (5 minutes)
   */
  finishedStreamMs?: number;
}

const MEBIBYTE = 1024 * 1024;
const DEFAULT_BOUNDS: Required<InMemoryEventStoreOptions> = {
  maxEvents: 1000,
  maxBytes: 8 * MEBIBYTE,
  maxTotalBytes: 256 * MEBIBYTE,
  finishedStreamMs: 5 * 60_000,
};

/** Stream `0` of a session that never used it. Never written to. */
const BLANK = new StreamLog(STANDALONE_STREAM);

function findOrBlank(log: SessionLog, stream: string): StreamLog | undefined {
  return log.find(stream) ?? (stream === STANDALONE_STREAM ? BLANK : undefined);
}

function resultOf({ newest }: StreamLog, first: number): AppendResult {
  return newest ? { first, reader: newest } : { first };
}

/** A writer that has written before finds no stream: it ended, and its time is over. It must not begin anew. */
function wasForgotten(stream: string, { seq }: AppendOptions): boolean {
  return seq > 1 && stream !== STANDALONE_STREAM;
}
