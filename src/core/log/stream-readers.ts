import type { MaybePromise } from '../common/promises.js';
import type { McpReaderRef } from './event-store.js';
import type { ReadableLog, StreamReader } from './stream-reader.js';

/**
 * # The readers of one stream on this node
 *
 * A stream has one reader: the newest (rule G7).
 *
 *     added ──a newer one is added, here or on another node──▶ silent ──▶ ended
 *
 * A silent reader hands out nothing more. Its response ends at the next keep-alive tick, so that two readers of one client do
 * not evict each other in a loop; or when the newest leaves.
 *
 * There are two implementations: {@link LocalReaders} where no other process has the log, and `SharedReaders`.
 */
export interface StreamReaders {
  /** Counts the responses that are open here. */
  readonly size: number;
  /** The newest reader has handed out events up to this index; it is 0 if that reader is not here. */
  readonly cursor: number;
  /**
   * Makes a response the newest reader; the one before becomes silent.
   *
   * @param first the stream begins here and had no reader yet, so that no other node can know it
   */
  add(reader: StreamReader, first: boolean): void;
  /** Removes a reader whose response has closed. */
  remove(reader: StreamReader): void;
  /**
   * Takes note of an append that is in the log.
   *
   * @param reader the newest one, as the log has it
   * @returns whether the reader here is the newest, so that it gets the events at once
   */
  appended(reader: McpReaderRef | undefined): boolean;
  /** Takes note that the newest reader has handed out all events up to this index. */
  caughtUp(cursor: number): void;
  /**
   * Silences a reader here, because another node has a newer one.
   *
   * @param upTo given, the response ends now: so far the newer one handed out events
   */
  replaced(reader: string, upTo?: number): void;
  /** Ends silent readers, at each keep-alive tick. */
  refresh(): void;
  /** Settles when the newest reader has handed out what is in the log, or cannot. */
  rested(): Promise<void> | undefined;
  /** Ends the responses, wherever they are. @returns whether there was one here */
  disconnect(): boolean;
  /** Tells whether there is a reader, on any node. */
  exist(): MaybePromise<boolean>;
  /** Ends the responses here. */
  complete(): void;
  fail(error: unknown): void;
}

/** Readers use this part of their stream. */
export interface ReadStream extends ReadableLog {
  /** Is called when a reader became silent. */
  replacedHere(): void;
  /** Runs a command that no message waits for. */
  inBackground(command: () => MaybePromise<unknown>): void;
}

const NONE: readonly never[] = [];

/** Keeps the readers of a stream that no other process reads: who is the newest is known here, without asking the log. */
export class LocalReaders<S extends ReadStream = ReadStream> implements StreamReaders {
  protected newest: StreamReader | undefined;
  protected silent: readonly StreamReader[] = NONE;
  /** The events up to this index are acknowledged in the log. */
  protected acknowledged = 0;

  constructor(protected readonly stream: S) {}

  get size(): number {
    return this.silent.length + (this.newest ? 1 : 0);
  }
  get cursor(): number {
    return this.newest?.cursor ?? 0;
  }

  add(reader: StreamReader, _first: boolean): void {
    this.silence();
    this.newest = reader;
  }

  remove(reader: StreamReader): void {
    if (reader !== this.newest) {
      this.silent = this.silent.filter((other) => other !== reader);
      return;
    }
    this.newest = undefined;
    this.endSilent(reader.cursor);
    this.acknowledge(reader.cursor);
  }

  appended(_reader: McpReaderRef | undefined): boolean {
    return true;
  }

  caughtUp(_cursor: number): void {}

  replaced(_reader: string, _upTo?: number): void {}

  refresh(): void {
    this.endSilent(this.cursor);
    this.acknowledge(this.cursor);
  }

  rested(): Promise<void> | undefined {
    return this.newest?.rested();
  }

  disconnect(): boolean {
    const { size } = this;
    this.complete();
    return size > 0;
  }

  exist(): MaybePromise<boolean> {
    return this.newest !== undefined;
  }

  complete(): void {
    for (const reader of this.all) reader.complete();
  }

  fail(error: unknown): void {
    for (const reader of this.all) reader.error(error);
  }

  protected get all(): readonly StreamReader[] {
    return this.newest ? [...this.silent, this.newest] : this.silent;
  }

  /** Silences the newest reader of this node. */
  protected silence(): void {
    const before = this.newest;
    if (!before) return;
    this.newest = undefined;
    before.silence();
    this.silent = [...this.silent, before];
    this.stream.replacedHere();
  }

  /** @param upTo index up to which the newest reader has handed out events */
  protected endSilent(upTo: number): void {
    for (const reader of this.silent) reader.end(upTo);
  }

  /** Acknowledges events: a GET without a cursor begins after them (G1). */
  protected acknowledge(cursor: number): void {
    if (cursor <= this.acknowledged) return;
    this.acknowledged = cursor;
    this.stream.inBackground(() => this.stream.read(cursor, 0));
  }
}
