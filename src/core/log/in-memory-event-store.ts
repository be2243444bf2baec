import type { MaybePromise } from '../common/promises.js';
import { systemClock, type McpClock } from '../common/clock.js';
import { resolveGroup } from '../common/options.js';
import { errorResponse } from '../protocol/errors.js';
import { STANDALONE_STREAM } from '../protocol/events.js';
import {
  McpEventLogFullError,
  McpSessionGoneError,
  McpStreamEndedError,
  McpStreamNotFoundError,
} from './event-store.errors.js';
import {
  MCP_DROPPED_SESSION_MS,
  MCP_INBOX_STREAM,
  MCP_MIN_EVENTS,
  type McpAppendOptions,
  type McpAppendResult,
  type McpClaimResult,
  type McpEventStoreStats,
  type McpLastError,
  type McpSharedEventStore,
  type McpReadResult,
  type McpReaderRef,
  type McpUnfinishedStream,
} from './event-store.js';
import { bytesOf, type StreamDump, StreamLog } from './stream-ring.js';
import { EVENT_LOG_TABLE, type McpEventLogOptions, type ResolvedEventLogOptions } from './stream.options.js';

/** Minimum time that the inbox keeps an event: nodes read it at every keep-alive tick. */
const INBOX_KEPT_MS = 60_000;

/**
 * # The event log in the memory of this process
 *
 * Sessions, their streams, a ring each. A call runs to its end synchronously, which makes it atomic. There are no timers: due
 * streams are forgotten when their session is used, and those of all sessions when some stream ends.
 *
 * **Bounds.** When a session has more than `maxBytes`, the oldest events of its finished streams are evicted, of the
 * one that ended first before the others; then those of its largest open stream; all but the newest of each. Then
 * finished streams are removed. When all sessions together have more than `maxTotalBytes`, the largest session is
 * reduced in the same way.
 *
 * @publicApi
 */
export class InMemoryEventStore implements Omit<McpSharedEventStore, 'scope'> {
  readonly #limits: ResolvedEventLogOptions;
  readonly #sessions = new Map<string, SessionLog>();
  /** The sessions that were dropped and are kept for readers on other nodes, in the order of dropping. */
  readonly #dropped = new Map<string, number>();
  #total = 0;
  /** Eviction runs again at this sum of bytes, which is above `maxTotalBytes` if nothing more could be evicted. */
  #alarm: number;
  #sweptAt = 0;

  /** @param scope `shared`: several nodes of one process share it, as tests do; a dropped session stays readable for a while */
  constructor(
    options: McpEventLogOptions = {},
    private readonly clock: McpClock = systemClock,
    readonly scope: 'node' | 'shared' = 'node',
  ) {
    this.#limits = resolveGroup(EVENT_LOG_TABLE, options, 'eventLog');
    this.#alarm = this.#limits.maxTotalBytes;
  }

  async open(session: string): Promise<void> {
    this.#forgetDropped();
    if (!this.#sessions.has(session)) this.#sessions.set(session, new SessionLog(this.#limits.maxEvents));
  }

  append(
    session: string,
    stream: string,
    events: readonly string[],
    options: McpAppendOptions,
  ): MaybePromise<McpAppendResult> {
    const log = this.#sessions.get(session);
    if (!log || log.dropped) throw new McpSessionGoneError(session);
    let target = log.streams.get(stream);
    if (!target || target.ended) {
      this.#forgetFinished(log);
      target = log.streams.get(stream);
    }
    const mark = target?.mark(options.writer);
    // For an older append, a late copy, any result will do: it changes nothing.
    if (mark && options.seq <= mark.seq) return resultOf(target!, mark.first);
    // A writer that has written before: the stream ended, and was forgotten.
    const forgotten = !target && options.seq > 1 && stream !== STANDALONE_STREAM;
    if (target?.ended || forgotten) throw new McpStreamEndedError(stream);
    if (stream === MCP_INBOX_STREAM && events.length > 0) this.#makeRoomInInbox(log, events);
    target ??= log.begin(stream);
    const lost = (options.newest ?? 0) > target.last;
    const first = Math.max(target.last, options.newest ?? 0) + 1;
    this.#account(log, target.skipTo(first - 1));
    for (const data of events) this.#push(log, target, data);
    target.note(options, first, mark);
    if (options.end) this.#end(log, target);
    this.#keepBounds(log);
    return lost ? { ...resultOf(target, first), lost } : resultOf(target, first);
  }

  appendNow(session: string, stream: string, event: string, writer: string, seq: number, newest: number): number {
    // An app may have replaced `append`, to observe or to change what is logged.
    if (this.append !== InMemoryEventStore.prototype.append) return 0;
    const log = this.#sessions.get(session);
    const target = log?.streams.get(stream);
    if (!target || log!.dropped || target.ended || target.reader || stream === MCP_INBOX_STREAM) return 0;
    const mark = target.mark(writer);
    if (!mark || seq <= mark.seq || newest > target.last) return 0;
    this.#push(log!, target, event);
    mark.seq = seq;
    mark.first = target.last;
    this.#keepBounds(log!);
    return target.last;
  }

  read(session: string, stream: string, after: number, limit: number, delivered = 0): MaybePromise<McpReadResult> {
    const found = this.#find(session, stream);
    found.acknowledge(delivered);
    const events = found.eventsAfter(after, limit);
    const more = found.last > (events.at(-1)?.index ?? after);
    return { events, more, ...found.head(), ...(found.reader && { reader: found.reader }) };
  }

  async claim(session: string, stream: string, reader: McpReaderRef, first = false): Promise<McpClaimResult> {
    let found = this.#find(session, stream);
    if (found === BLANK) found = this.#sessions.get(session)!.begin(stream);
    const before = found.reader;
    if (before?.reader === reader.reader) return found.head();
    if (!first || !before) found.reader = reader;
    return { ...found.head(), ...(before && { before }) };
  }

  async release(session: string, stream: string, { reader }: McpReaderRef, delivered = 0): Promise<void> {
    const found = this.#sessions.get(session)?.streams.get(stream);
    found?.acknowledge(delivered);
    if (found?.reader?.reader === reader) found.reader = undefined;
  }

  async unfinished(node: string): Promise<McpUnfinishedStream[]> {
    const found: McpUnfinishedStream[] = [];
    for (const [session, log] of this.#sessions) {
      for (const { id: stream, node: by, unsettled } of log.streams.values()) {
        if (by === node && unsettled?.size) found.push({ session, stream, requests: [...unsettled] });
      }
    }
    return found;
  }

  async drop(session: string, lastError?: McpLastError): Promise<void> {
    this.#forgetDropped();
    const log = this.#sessions.get(session);
    if (!log || log.dropped) return;
    if (this.scope === 'node') return this.#forget(session, log);
    // It exists, also if it was never used.
    if (!log.streams.has(STANDALONE_STREAM)) log.begin(STANDALONE_STREAM);
    for (const stream of log.streams.values()) {
      if (stream.ended) continue;
      if (lastError) this.#answerUnsettled(log, stream, lastError);
      stream.end(0);
    }
    log.dropped = true;
    this.#dropped.set(session, this.clock.now() + MCP_DROPPED_SESSION_MS);
  }

  async stats(): Promise<McpEventStoreStats> {
    this.#sweep(this.clock.now());
    const stats = { sessions: 0, streams: 0, events: 0, bytes: 0 };
    for (const { dropped, streams, bytes } of this.#sessions.values()) {
      if (dropped) continue;
      stats.sessions++;
      stats.streams += streams.size;
      stats.bytes += bytes;
      for (const stream of streams.values()) stats.events += stream.size;
    }
    return stats;
  }

  sizeOf(session: string): number {
    return this.#sessions.get(session)?.bytes ?? 0;
  }

  /** Returns everything that is logged, for the journal of an app under development. @internal */
  dump(): EventLogDump {
    return [...this.#sessions].map(([session, { streams }]) => ({
      session,
      streams: [...streams.values()].map((stream) => stream.dump()),
    }));
  }

  /** Continues from what {@link dump} returned. @internal */
  load(dump: EventLogDump): void {
    for (const { session, streams } of dump) {
      const log = new SessionLog(this.#limits.maxEvents);
      this.#sessions.set(session, log);
      // Finished streams are kept in the order of their ends.
      for (const dumped of streams.toSorted((a, b) => a.forgetAt - b.forgetAt)) {
        const stream = log.begin(dumped.id);
        stream.load(dumped);
        log.bytes += stream.bytes;
        this.#total += stream.bytes;
        if (stream.ended) log.keepFinished(stream);
      }
    }
  }

  /** Answers all calls that are not settled with an error, and ends their streams. @internal */
  endCalls(lastError: McpLastError): void {
    for (const log of this.#sessions.values()) {
      for (const stream of log.streams.values()) {
        if (!stream.unsettled?.size) continue;
        this.#answerUnsettled(log, stream, lastError);
        this.#end(log, stream);
      }
    }
  }

  #answerUnsettled(log: SessionLog, stream: StreamLog, { code, message }: McpLastError): void {
    for (const id of stream.unsettled ?? []) this.#push(log, stream, JSON.stringify(errorResponse(id, code, message)));
  }

  #push(log: SessionLog, stream: StreamLog, data: string): void {
    this.#account(log, stream.push(data));
  }

  /** @param grown bytes; negative when events were evicted */
  #account(log: SessionLog, grown: number): void {
    log.bytes += grown;
    this.#total += grown;
  }

  #find(session: string, stream: string): StreamLog {
    this.#forgetDropped();
    const log = this.#sessions.get(session);
    if (!log) throw new McpSessionGoneError(session);
    this.#forgetFinished(log);
    const found = log.streams.get(stream) ?? (stream === STANDALONE_STREAM ? BLANK : undefined);
    if (!found) throw new McpStreamNotFoundError(stream);
    return found;
  }

  #end(log: SessionLog, stream: StreamLog): void {
    const now = this.clock.now();
    stream.end(now + this.#limits.finishedStreamMs);
    if (stream.id === STANDALONE_STREAM) return;
    log.keepFinished(stream);
    // Finished streams without bytes could still be many.
    if (log.finished > this.#limits.maxEvents) this.#forgetFirstFinished(log);
    if (now - this.#sweptAt > this.#limits.finishedStreamMs / 4) this.#sweep(now);
  }

  /** Removes events of the inbox that are a minute old. @throws McpEventLogFullError */
  #makeRoomInInbox(log: SessionLog, events: readonly string[]): void {
    const inbox = log.streams.get(MCP_INBOX_STREAM) ?? log.begin(MCP_INBOX_STREAM);
    const now = this.clock.now();
    const mark = (log.inboxMark ??= { at: now, index: 0 });
    if (now - mark.at >= INBOX_KEPT_MS) {
      while (inbox.oldest <= mark.index) this.#evictOldest(log, inbox);
      [mark.at, mark.index] = [now, inbox.last];
    }
    if (inbox.size + events.length > this.#limits.maxEvents)
      throw new McpEventLogFullError(inbox.id, 'eventLog.maxEvents');
    if (events.reduce((sum, data) => sum + bytesOf(data), inbox.bytes) > this.#limits.maxBytes)
      throw new McpEventLogFullError(inbox.id, 'eventLog.maxBytes');
  }

  #keepBounds(log: SessionLog): void {
    if (log.bytes > this.#limits.maxBytes) this.#shrink(log, this.#limits.maxBytes);
    if (this.#total > this.#alarm) this.#relieveAll();
  }

  /** Evicts a little more than necessary, because each run scans all sessions. */
  #relieveAll(): void {
    const slack = this.#limits.maxTotalBytes / 64;
    const sessions = new Set(this.#sessions.values());
    const target = this.#limits.maxTotalBytes - slack;
    while (this.#total > target && sessions.size > 0) {
      const heaviest = [...sessions].reduce((one, other) => (other.bytes > one.bytes ? other : one));
      const most = Math.max(heaviest.bytes / 2, heaviest.bytes - (this.#total - target));
      // No more events of this session can be evicted.
      if (!this.#shrink(heaviest, most)) sessions.delete(heaviest);
    }
    this.#alarm = Math.max(this.#limits.maxTotalBytes, this.#total + slack);
  }

  /** @returns `false` when nothing is left that may go */
  #shrink(log: SessionLog, most: number): boolean {
    while (log.bytes > most) {
      const stream = log.largest();
      if (stream) this.#evictOldest(log, stream);
      else if (!this.#forgetFirstFinished(log)) return false;
    }
    return true;
  }

  #evictOldest(log: SessionLog, stream: StreamLog): void {
    this.#account(log, -stream.evictOldest());
  }

  /** @returns whether there was one */
  #forgetFirstFinished(log: SessionLog): boolean {
    const first = log.forgetFirstFinished();
    if (first) this.#account(log, -first.bytes);
    return first !== undefined;
  }

  #forgetFinished(log: SessionLog): void {
    if (!log.firstFinished) return;
    const now = this.clock.now();
    while (log.firstFinished && log.firstFinished.forgetAt <= now) this.#forgetFirstFinished(log);
  }

  #forgetDropped(): void {
    if (this.#dropped.size === 0) return;
    const now = this.clock.now();
    for (const [session, forgetAt] of this.#dropped) {
      if (forgetAt > now) return;
      this.#dropped.delete(session);
      this.#forget(session, this.#sessions.get(session)!);
    }
  }

  #forget(session: string, { bytes }: SessionLog): void {
    this.#sessions.delete(session);
    this.#total -= bytes;
    if (this.#total <= this.#limits.maxTotalBytes) this.#alarm = this.#limits.maxTotalBytes;
  }

  #sweep(now: number): void {
    this.#sweptAt = now;
    this.#forgetDropped();
    for (const log of this.#sessions.values()) this.#forgetFinished(log);
  }
}

class SessionLog {
  readonly streams = new Map<string, StreamLog>();
  bytes = 0;
  dropped = false;
  /** Counts the streams that have ended, except stream `0`: a chain from the first that ended to the last. */
  finished = 0;
  firstFinished: StreamLog | undefined;
  #lastFinished: StreamLog | undefined;
  /** The finished streams before it have only their newest event left. */
  #spare: StreamLog | undefined;
  /**
   * Remembers the newest entry of the inbox at a time, so that a minute later all entries up to it are known to be old.
   */
  inboxMark: { at: number; index: number } | undefined;

  constructor(private readonly maxEvents: number) {}

  begin(id: string): StreamLog {
    const stream = new StreamLog(id, this.maxEvents);
    this.streams.set(id, stream);
    return stream;
  }

  keepFinished(stream: StreamLog): void {
    this.finished++;
    if (this.#lastFinished) this.#lastFinished.endedNext = stream;
    else this.firstFinished = stream;
    this.#lastFinished = stream;
    this.#spare ??= stream;
  }

  /** @returns the stream, if there was one */
  forgetFirstFinished(): StreamLog | undefined {
    const first = this.firstFinished;
    if (!first) return undefined;
    this.finished--;
    this.firstFinished = first.endedNext;
    if (this.#lastFinished === first) this.#lastFinished = undefined;
    if (this.#spare === first) this.#spare = first.endedNext;
    this.streams.delete(first.id);
    return first;
  }

  /**
   * Finds the stream whose oldest event is evicted next: one that has ended, otherwise the largest that has more than
   * its newest.
   */
  largest(): StreamLog | undefined {
    while (this.#spare && this.#spare.size <= 1) this.#spare = this.#spare.endedNext;
    if (this.#spare) return this.#spare;
    let largest: StreamLog | undefined;
    for (const stream of this.streams.values()) {
      if (stream.size > 1 && stream.id !== MCP_INBOX_STREAM && stream.bytes > (largest?.bytes ?? -1)) largest = stream;
    }
    return largest;
  }
}

/** {@link InMemoryEventStore.dump} returns it: values that the structured clone algorithm copies. */
export type EventLogDump = { readonly session: string; readonly streams: StreamDump[] }[];

/** Stands for stream `0` of each session that never used it, and is never written to. */
const BLANK = new StreamLog(STANDALONE_STREAM, MCP_MIN_EVENTS);

function resultOf({ reader }: StreamLog, first: number): McpAppendResult {
  return reader ? { first, reader } : { first };
}
