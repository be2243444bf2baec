import type { RequestId } from '../../wire/json-rpc.js';
import { EventsEvictedError } from '../event-store.errors.js';
import type { AppendOptions, ReadResult, ReaderRef, StoredEvent, StreamHead } from '../event-store.js';
import { Ring } from './ring.js';

/** A live copy of a stream is a writer; more than a few are never alive at once. */
const WRITERS_REMEMBERED = 32;

/**
 * # The log of one stream
 *
 *     index   1 ─────────────── oldest of recent ───────────── last
 *             evicted, but for         the ring `recent`,
 *             the few in `aside`       without a hole
 *
 * An event is **pinned**, that is, must not be evicted, while it is the newest of a stream that has not ended, or an
 * answer that nobody has read. Once unpinned it is never pinned again. When eviction comes to a pinned event it sets it
 * `aside` and goes on behind it: so `recent` has no holes, an unread answer does not keep everything after it in memory,
 * and no eviction looks at a pinned event twice.
 *
 *     recent ──evicted──▶ gone
 *       └─────pinned────▶ aside ──unpinned: handed back to be evicted next──▶ gone
 *
 * States: open ──append with `end`──▶ ended ──after its time, or dropped with its session──▶ forgotten.
 *
 * @internal
 */
export class StreamLog {
  /** Index of the newest event. */
  last = 0;
  delivered = 0;
  /** When the stream ended, by the clock; `undefined` while it is open. */
  endedAt: number | undefined;
  /** Nothing is left of the stream; whoever still points to it lets go. */
  forgotten = false;
  readonly #recent = new Ring<string>();
  /** Pinned events that eviction has passed, and those that it has been handed back; by index, ascending. */
  #aside: Map<number, string> | undefined;
  /** Indices of answers above `delivered`, ascending. */
  #unread: Set<number> | undefined;
  /** Requests that are not settled, and the node that runs them. */
  #open: Map<RequestId, string> | undefined;
  /** Attached readers, the newest last. */
  #readers: ReaderRef[] | undefined;
  readonly #writers: WriterMark[] = [];

  constructor(readonly id: string) {}

  get ended(): boolean {
    return this.endedAt !== undefined;
  }

  /** Ended, and no event is left: what remains is to say so. */
  get spent(): boolean {
    return this.ended && this.#recent.length === 0 && !this.#aside?.size;
  }

  /** Index of the oldest event of `recent`; `last + 1` if it is empty. */
  get #oldestRecent(): number {
    return this.last - this.#recent.length + 1;
  }

  /** What the append (writer, seq) returned, if it was carried out. */
  repeated(writer: string, seq: number): number | undefined {
    const mark = this.#mark(writer);
    // An older `seq` is a late copy of a call that nobody waits for any more: only that it changes nothing matters.
    return mark && seq <= mark.seq ? mark.first : undefined;
  }

  /** @returns the index of the first event, or of the next one if there are none */
  append(events: readonly string[], { writer, seq, opens, settles }: AppendOptions): number {
    const first = this.last + 1;
    for (const data of events) this.#recent.push(data);
    this.last += events.length;
    this.#remember(writer, seq, first);
    if (opens) this.#opens(opens.requests, opens.node);
    for (const { id, answer } of settles ?? []) {
      this.#open?.delete(id);
      if (answer !== undefined && events[answer] !== undefined) (this.#unread ??= new Set()).add(first + answer);
    }
    return first;
  }

  /** Nothing can follow, so nothing can be settled any more either. */
  end(now: number): void {
    this.endedAt = now;
    this.#open = undefined;
  }

  /** Whether the event was set aside, and nothing pins it any more. */
  isReleased(index: number): boolean {
    return this.#aside !== undefined && this.#aside.has(index) && !this.#isPinned(index);
  }

  /** Takes the oldest of `recent` away. @returns the event, or `undefined` if it is pinned and was set aside */
  evictRecent(): string | undefined {
    const index = this.#oldestRecent;
    const data = this.#recent.shift()!;
    if (!this.#isPinned(index)) return data;
    (this.#aside ??= new Map()).set(index, data);
    return undefined;
  }

  /** Takes away an event that was set aside and then released. */
  evictAside(index: number): string {
    const data = this.#aside!.get(index)!;
    this.#aside!.delete(index);
    return data;
  }

  /** Moves `delivered`. @returns indices of the events that were set aside for being unread and are released now */
  deliver(index: number): number[] {
    // A cursor past the end says nothing about events to come.
    this.delivered = Math.max(this.delivered, Math.min(index, this.last));
    const released: number[] = [];
    for (const answer of this.#unread ?? []) {
      if (answer > this.delivered) break;
      this.#unread!.delete(answer);
      if (this.isReleased(answer)) released.push(answer);
    }
    return released;
  }

  /** The events after the cursor up to the first that is missing. O(limit). */
  read(after: number, limit: number): ReadResult {
    const events: StoredEvent[] = [];
    const end = Math.min(this.last, after + limit);
    for (let index = after + 1; index <= end; index++) {
      const data = this.#at(index);
      if (data === undefined) break;
      events.push({ index, data });
    }
    if (events.length === 0 && after < end) throw new EventsEvictedError(this.id, after, this.#oldest(after));
    return { events, more: after + events.length < this.last, ended: this.ended };
  }

  head(): StreamHead {
    const { last, delivered, ended } = this;
    const head = { last, oldest: this.#oldest(0), delivered, ended, readers: this.#readers?.length ?? 0 };
    return this.newest ? { ...head, newest: this.newest } : head;
  }

  /** Makes `reader` the newest. @returns the newest of the others: a repeated call tells the same */
  attach(reader: ReaderRef): ReaderRef | undefined {
    const others = (this.#readers ?? []).filter((other) => other.reader !== reader.reader);
    this.#readers = [...others, { node: reader.node, reader: reader.reader }];
    return others.at(-1);
  }

  /** @returns the newest reader, if `reader` was it until now */
  detach(reader: ReaderRef): ReaderRef | undefined {
    const position = this.#readers?.findIndex((other) => other.reader === reader.reader) ?? -1;
    if (position < 0) return undefined;
    this.#readers!.splice(position, 1);
    return position === this.#readers!.length ? this.#readers!.at(-1) : undefined;
  }

  /** The reader that messages go to. */
  get newest(): ReaderRef | undefined {
    return this.#readers?.at(-1);
  }

  /** Takes the readers of a node away. @returns the newest reader, if one of them was it until now */
  detachNode(node: string): ReaderRef | undefined {
    const before = this.newest;
    this.#readers = this.#readers?.filter((reader) => reader.node !== node);
    return this.newest === before ? undefined : this.newest;
  }

  /** Requests that are not settled, each with its node. */
  openRequests(): ReadonlyMap<RequestId, string> | undefined {
    return this.#open;
  }

  /** Lets go of everything. @returns the events that were held */
  forget(): { events: number; units: number } {
    const held = this.size();
    this.forgotten = true;
    this.#recent.clear();
    this.#aside = this.#unread = this.#open = this.#readers = undefined;
    return held;
  }

  /** What is held, in events and UTF-16 code units. O(events). */
  size(): { events: number; units: number } {
    let units = 0;
    for (let position = 0; position < this.#recent.length; position++) units += this.#recent.at(position)!.length;
    for (const data of this.#aside?.values() ?? []) units += data.length;
    return { events: this.#recent.length + (this.#aside?.size ?? 0), units };
  }

  #isPinned(index: number): boolean {
    return (index === this.last && !this.ended) || (this.#unread !== undefined && this.#unread.has(index));
  }

  #at(index: number): string | undefined {
    const oldestRecent = this.#oldestRecent;
    return index >= oldestRecent ? this.#recent.at(index - oldestRecent) : this.#aside?.get(index);
  }

  /** Index of the oldest event that is kept after the cursor; `last + 1` if none is. */
  #oldest(after: number): number {
    for (const index of this.#aside?.keys() ?? []) if (index > after) return index;
    return this.#oldestRecent;
  }

  #mark(writer: string): WriterMark | undefined {
    // Nearly always there is one; a function for `find` would be made twice for each event.
    for (const mark of this.#writers) if (mark.writer === writer) return mark;
    return undefined;
  }

  #remember(writer: string, seq: number, first: number): void {
    const mark = this.#mark(writer);
    if (mark) {
      mark.seq = seq;
      mark.first = first;
      return;
    }
    if (this.#writers.length === WRITERS_REMEMBERED) this.#writers.shift();
    this.#writers.push({ writer, seq, first });
  }

  #opens(requests: readonly RequestId[], node: string): void {
    this.#open ??= new Map();
    for (const id of requests) this.#open.set(id, node);
  }
}

/** The last append of a writer. */
interface WriterMark {
  readonly writer: string;
  seq: number;
  first: number;
}
