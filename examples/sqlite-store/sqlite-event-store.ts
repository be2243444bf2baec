import {
  type McpAppendOptions,
  type McpAppendResult,
  type McpClaimResult,
  MCP_DROPPED_SESSION_MS,
  McpEventLogFullError,
  MCP_INBOX_STREAM,
  type McpLastError,
  type McpSharedEventStore,
  type McpReaderRef,
  type McpReadResult,
  McpSessionGoneError,
  type McpStoredEvent,
  McpStreamEndedError,
  type McpStreamHead,
  McpStreamNotFoundError,
  type McpUnfinishedStream,
} from 'nestjs-mcp-streamable/stores';
import type { Database } from './database.js';

/** A row goes at `forgetAt`, milliseconds since the epoch; `state` is JSON. */
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS stream (
    key INTEGER PRIMARY KEY, session TEXT NOT NULL, id TEXT NOT NULL, forgetAt INTEGER, state TEXT NOT NULL,
    UNIQUE (session, id)
  ) STRICT;
  CREATE INDEX IF NOT EXISTS stream_forget_at ON stream (forgetAt);
  CREATE TABLE IF NOT EXISTS event (
    stream INTEGER NOT NULL REFERENCES stream ON DELETE CASCADE, n INTEGER NOT NULL, at INTEGER NOT NULL,
    data TEXT NOT NULL, PRIMARY KEY (stream, n)
  ) STRICT, WITHOUT ROWID`;

/** The stream that each session has, from `open` on. */
const STANDALONE = '0';
/** A live copy of a stream is a writer; more than a few are never alive at once. */
const MAX_WRITERS = 32;

/** A row, its state taken apart. */
interface Stream {
  readonly key: number;
  readonly session: string;
  readonly id: string;
  /** Of stream 0: set when the session is dropped. */
  forgetAt: number | null;
  last: number;
  delivered: number;
  ended: boolean;
  /** `first`: what the last append of the writer was answered with. */
  writers: { writer: string; seq: number; first: number }[];
  reader?: McpReaderRef | undefined;
  /** Runs what is unsettled. */
  node?: string;
  unsettled: (string | number)[];
}

/**
 * What was sent: streams and their events, a row each. A session is there as long as its stream 0 is. There are no timers:
 * each call begins with forgetting what is due.
 *
 * For one process at a time: readers of the process before are gone with it.
 */
export class SqliteEventStore implements McpSharedEventStore {
  /** The next process reads it. */
  readonly scope = 'shared';

  /** @param limits events that a stream keeps, and milliseconds for which a finished one can still be resumed */
  constructor(
    private readonly db: Database,
    private readonly limits = { maxEvents: 1_000, finishedStreamMs: 300_000 },
    private readonly now: () => number = Date.now,
  ) {
    db.exec(SCHEMA);
    db.exec(`UPDATE stream SET state = json_remove(state, '$.reader') WHERE state ->> 'reader' IS NOT NULL`);
  }

  async open(session: string): Promise<void> {
    this.#atomically(() => this.#begin(session, STANDALONE));
  }

  async append(session: string, id: string, data: readonly string[], opts: McpAppendOptions): Promise<McpAppendResult> {
    const { writer, seq, newest = 0, opens, settles = [], end = false } = opts;
    return this.#atomically(() => {
      if (this.#find(session, STANDALONE).forgetAt !== null) throw new McpSessionGoneError(session);
      const known = this.#stream(session, id);
      const said = known?.writers.find((one) => one.writer === writer);
      if (known && said && seq <= said.seq) return { first: said.first, ...readerOf(known) };
      if (known ? known.ended : seq > 1) throw new McpStreamEndedError(id);
      const stream = known ?? this.#begin(session, id);
      if (id === MCP_INBOX_STREAM) this.#makeRoomInInbox(stream, data.length);
      const lost = newest > stream.last;
      stream.last = Math.max(stream.last, newest);
      const first = stream.last + 1;
      this.#push(stream, data);
      stream.writers = [{ writer, seq, first }, ...stream.writers.filter((one) => one !== said)].slice(0, MAX_WRITERS);
      if (opens && stream.node === undefined) [stream.node, stream.unsettled] = [opens.node, [...opens.requests]];
      stream.unsettled = stream.unsettled.filter((request) => !settles.includes(request));
      if (end) this.#end(stream);
      this.#save(stream);
      return { first, ...(lost && { lost }), ...readerOf(stream) };
    });
  }

  async read(session: string, id: string, after: number, limit: number, delivered = 0): Promise<McpReadResult> {
    return this.#atomically(() => {
      const stream = this.#find(session, id);
      this.#acknowledge(stream, delivered);
      const sql = 'SELECT n AS "index", data FROM event WHERE stream = ? AND n > ? ORDER BY n LIMIT ?';
      const events = this.db.rows<McpStoredEvent>(sql, stream.key, after, limit).map((event) => ({ ...event }));
      const more = stream.last > (events.at(-1)?.index ?? after);
      return { events, more, ...this.#head(stream), ...readerOf(stream) };
    });
  }

  async claim(session: string, id: string, { node, reader }: McpReaderRef, first = false): Promise<McpClaimResult> {
    return this.#atomically(() => {
      const stream = this.#find(session, id);
      const before = stream.reader;
      if (before?.reader === reader) return this.#head(stream);
      if (!first || !before) this.#save(Object.assign(stream, { reader: { node, reader } }));
      return { ...this.#head(stream), ...(before && { before }) };
    });
  }

  async release(session: string, id: string, { reader }: McpReaderRef, delivered = 0): Promise<void> {
    this.#atomically(() => {
      const stream = this.#stream(session, id);
      if (!stream) return;
      if (stream.reader?.reader === reader) stream.reader = undefined;
      this.#acknowledge(stream, delivered);
      this.#save(stream);
    });
  }

  async unfinished(node: string): Promise<McpUnfinishedStream[]> {
    const streams = this.#streams(`state ->> 'node' = ? AND state ->> 'unsettled' <> '[]'`, node);
    return streams.map(({ session, id, unsettled }) => ({ session, stream: id, requests: unsettled }));
  }

  /** Those that have left something unfinished. Not of the contract: for the bus, which tells of nodes that have died. */
  nodes(): string[] {
    return [...new Set(this.#streams(`state ->> 'unsettled' <> '[]'`).map(({ node }) => node!))];
  }

  async drop(session: string, error?: McpLastError): Promise<void> {
    this.#atomically(() => {
      if (this.#stream(session, STANDALONE)?.forgetAt !== null) return;
      for (const stream of this.#streams('session = ?', session)) {
        const answers = stream.unsettled.map((id) => JSON.stringify({ jsonrpc: '2.0', id, error }));
        if (error) this.#push(stream, answers);
        this.#end(stream);
        stream.forgetAt = this.now() + MCP_DROPPED_SESSION_MS;
        this.#save(stream);
      }
    });
  }

  #atomically<T>(work: () => T): T {
    return this.db.atomically(() => {
      this.db.rows('DELETE FROM stream WHERE forgetAt <= ?', this.now());
      return work();
    });
  }

  /** @throws McpSessionGoneError, McpStreamNotFoundError */
  #find(session: string, id: string): Stream {
    const stream = this.#stream(session, id);
    if (stream) return stream;
    throw this.#stream(session, STANDALONE) ? new McpStreamNotFoundError(id) : new McpSessionGoneError(session);
  }

  #stream(session: string, id: string): Stream | undefined {
    return this.#streams('session = ? AND id = ?', session, id)[0];
  }

  #streams(condition: string, ...values: string[]): Stream[] {
    const rows = this.db.rows<Stream & { state: string }>(`SELECT * FROM stream WHERE ${condition}`, ...values);
    return rows.map(({ state, ...row }) => ({ ...row, ...(JSON.parse(state) as Stream) }));
  }

  #begin(session: string, id: string): Stream {
    const state = JSON.stringify({ last: 0, delivered: 0, ended: false, writers: [], unsettled: [] });
    this.db.rows('INSERT OR IGNORE INTO stream (session, id, state) VALUES (?, ?, ?)', session, id, state);
    return this.#stream(session, id)!;
  }

  #save({ key, session: _session, id: _id, forgetAt, ...state }: Stream): void {
    this.db.rows('UPDATE stream SET forgetAt = ?, state = ? WHERE key = ?', forgetAt, JSON.stringify(state), key);
  }

  /** To be saved, as the changes below. */
  #end(stream: Stream): void {
    stream.ended = true;
    stream.unsettled = [];
    if (stream.id !== STANDALONE) stream.forgetAt = this.now() + this.limits.finishedStreamMs;
  }

  #push(stream: Stream, events: readonly string[]): void {
    const sql = 'INSERT INTO event (stream, n, at, data) VALUES (?, ?, ?, ?)';
    for (const data of events) this.db.rows(sql, stream.key, ++stream.last, this.now(), data);
    this.db.rows('DELETE FROM event WHERE stream = ? AND n <= ?', stream.key, stream.last - this.limits.maxEvents);
  }

  /** A cursor past the end says nothing about events to come. */
  #acknowledge(stream: Stream, index: number): void {
    if (index <= stream.delivered) return;
    stream.delivered = Math.min(index, stream.last);
    this.#save(stream);
  }

  /** What has been there for a minute may go. */
  #makeRoomInInbox(stream: Stream, more: number): void {
    this.db.rows('DELETE FROM event WHERE stream = ? AND at <= ?', stream.key, this.now() - 60_000);
    const { last, oldest } = this.#head(stream);
    if (last + 1 - oldest + more > this.limits.maxEvents) throw new McpEventLogFullError(MCP_INBOX_STREAM, 'maxEvents');
  }

  #head({ key, last, delivered, ended }: Stream): McpStreamHead {
    const [kept] = this.db.rows<{ oldest: number | null }>('SELECT min(n) AS oldest FROM event WHERE stream = ?', key);
    return { last, oldest: kept!.oldest ?? last + 1, delivered, ended };
  }
}

function readerOf({ reader }: Stream): Pick<McpAppendResult, 'reader'> {
  return reader ? { reader } : {};
}
