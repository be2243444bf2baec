import type { RequestId } from '../protocol/json-rpc.js';
import type { McpAppendOptions, McpAppendResult, McpReaderRef, McpStoredEvent, McpStreamHead } from './event-store.js';

/** So many writers are remembered per stream: a live copy of a stream is one writer, and few exist at a time. */
const WRITERS_REMEMBERED = 32;

/**
 * Keeps the log of one stream: the event with the index `i` lies in slot `(i - 1) % most` of the ring, which grows as
 * it is filled.
 */
export class StreamLog {
  last = 0;
  oldest = 1;
  delivered = 0;
  ended = false;
  /** The time at which a stream that has ended is forgotten, in milliseconds since the epoch. */
  forgetAt = Infinity;
  /** The stream of the session that ended after it. */
  endedNext: StreamLog | undefined;
  bytes = 0;
  reader: McpReaderRef | undefined;
  node: string | undefined;
  unsettled: Set<RequestId> | undefined;
  /** The events; the array is made with the first one, because most streams `0` are never written. */
  #ring: string[] | undefined;
  #writers: WriterMark[] | undefined;

  constructor(
    readonly id: string,
    private readonly most: number,
  ) {}

  get size(): number {
    return this.last - this.oldest + 1;
  }

  /** @returns the bytes by which the stream has grown */
  push(data: string): number {
    const evicted = this.size >= this.most ? this.evictOldest() : 0;
    (this.#ring ??= [])[this.#slot(++this.last)] = data;
    this.bytes += bytesOf(data);
    return bytesOf(data) - evicted;
  }

  /**
   * Goes on behind events that were lost, without those before them.
   *
   * @returns the bytes by which the stream has grown
   */
  skipTo(last: number): number {
    let evicted = 0;
    while (last > this.last && this.size > 0) evicted += this.evictOldest();
    if (last > this.last) [this.last, this.oldest] = [last, last + 1];
    return -evicted;
  }

  /** @returns its bytes */
  evictOldest(): number {
    const slot = this.#slot(this.oldest++);
    const bytes = bytesOf(this.#ring![slot]!);
    this.#ring![slot] = '';
    this.bytes -= bytes;
    return bytes;
  }

  /** @param mark of its writer */
  note({ writer, seq, opens, settles }: McpAppendOptions, first: number, mark: WriterMark | undefined): void {
    if (mark) {
      mark.seq = seq;
      mark.first = first;
    } else if ((this.#writers ??= []).push({ writer, seq, first }) > WRITERS_REMEMBERED) this.#writers.shift();
    if (opens && this.node === undefined) {
      this.node = opens.node;
      this.unsettled = new Set(opens.requests);
    }
    if (settles) for (const id of settles) this.unsettled?.delete(id);
  }

  end(forgetAt: number): void {
    this.ended = true;
    this.forgetAt = forgetAt;
    this.unsettled = undefined;
  }

  acknowledge(index: number): void {
    // A cursor past the end does not acknowledge events to come.
    this.delivered = Math.max(this.delivered, Math.min(index, this.last));
  }

  eventsAfter(after: number, limit: number): McpStoredEvent[] {
    const events: McpStoredEvent[] = [];
    const from = Math.max(after + 1, this.oldest);
    const to = Math.min(this.last, from + limit - 1);
    for (let index = from; index <= to; index++) events.push({ index, data: this.#ring![this.#slot(index)]! });
    return events;
  }

  head(): McpStreamHead {
    const { last, oldest, delivered, ended } = this;
    return { last, oldest, delivered, ended };
  }

  dump(): StreamDump {
    const { id, forgetAt, node, unsettled } = this;
    const events = this.eventsAfter(0, Infinity).map(({ data }) => data);
    return { id, ...this.head(), forgetAt, node, unsettled, events };
  }

  load({ events, oldest, delivered, ended, forgetAt, node, unsettled }: StreamDump): void {
    this.oldest = oldest;
    this.last = oldest - 1;
    for (const data of events) this.push(data);
    Object.assign(this, { delivered, ended, forgetAt, node, unsettled });
  }

  mark(writer: string): WriterMark | undefined {
    for (const mark of this.#writers ?? []) if (mark.writer === writer) return mark;
    return undefined;
  }

  #slot(index: number): number {
    return index % this.most;
  }
}

export interface StreamDump extends McpStreamHead, Pick<StreamLog, 'id' | 'forgetAt' | 'node' | 'unsettled'> {
  readonly events: readonly string[];
}

type WriterMark = Pick<McpAppendOptions, 'writer' | 'seq'> & Pick<McpAppendResult, 'first'>;

/** Counts the bytes of a text as UTF-16. */
export const bytesOf = (data: string): number => data.length * 2;
