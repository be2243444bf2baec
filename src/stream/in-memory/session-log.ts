import { STANDALONE_STREAM } from '../../wire/sse.js';
import type { RequestId } from '../../wire/json-rpc.js';
import type { AppendOptions, OpenRequest } from '../event-store.js';
import { Ring } from './ring.js';
import { StreamLog } from './stream-log.js';

/** Runs of streams that are forgotten may be as many before they are cleared away. */
const STALE_RUNS = 16;

/**
 * # The log of one session: its streams, and the order in which they were written
 *
 * The order is a queue of *runs*: so many events of one stream, appended one after the other. Eviction takes from its
 * head; a flood on one stream is a single run.
 *
 * Invariants:
 * - the runs of a stream add up to its `recent` events; an event that is set aside is in no run until it is released,
 *   and then in one of its own at the head, since everything behind it is younger;
 * - an empty queue means that only pinned events are held;
 * - `events` and `bytes` are the sums over the streams.
 *
 * A session that was opened and never written to is one small object: everything else is made when it is needed.
 *
 * @internal
 */
export class SessionLog {
  events = 0;
  /** UTF-16 code units times two. */
  bytes = 0;
  /** The account that {@link SessionWeights} keeps here. */
  readonly account = { bytes: 0, rank: 0 };
  #streams: Map<string, StreamLog> | undefined;
  #queue: Ring<Run> | undefined;
  /** Streams that have ended and of which no event is left, in the order in which that happened. */
  #spent: Ring<StreamLog> | undefined;
  /** Streams with requests that are not settled. */
  #busy: Set<StreamLog> | undefined;

  /** Whether there may be something to evict. */
  get evictable(): boolean {
    return this.#queue !== undefined && this.#queue.length > 0;
  }

  get streams(): Iterable<StreamLog> {
    return this.#streams?.values() ?? [];
  }

  get streamCount(): number {
    return this.#streams?.size ?? 0;
  }

  find(id: string): StreamLog | undefined {
    return this.#streams?.get(id);
  }

  begin(id: string): StreamLog {
    const stream = new StreamLog(id);
    (this.#streams ??= new Map()).set(id, stream);
    return stream;
  }

  /** @returns the index of the first event, or of the next one if there are none */
  append(stream: StreamLog, events: readonly string[], options: AppendOptions, now: number): number {
    const newest = stream.last;
    const first = stream.append(events, options);
    if (options.end) stream.end(now);
    if (events.length > 0) this.#enqueue(stream, events);
    if (stream.isReleased(newest)) this.#release(stream, [newest]);
    if (options.opens || options.settles || options.end) this.#noteBusy(stream);
    this.#noteSpent(stream);
    return first;
  }

  deliver(stream: StreamLog, index: number): void {
    this.#release(stream, stream.deliver(index));
  }

  /** Evicts the oldest event that may go. Amortised O(1). @returns `false` when all that is left is pinned */
  evictOldest(): boolean {
    for (let run = this.#queue?.at(0); run; run = this.#queue!.at(0)) {
      const data = run.stream.forgotten ? undefined : evictFrom(run);
      if (run.events === 0 || run.stream.forgotten) this.#queue!.shift();
      if (data === undefined) continue;
      this.#discount(1, data.length);
      this.#noteSpent(run.stream);
      return true;
    }
    return false;
  }

  /** Of more than so many spent streams, the first. They cost little, but calls may end faster than time passes. */
  surplus(mostSpent: number): StreamLog | undefined {
    while (this.#spent && this.#spent.length > mostSpent) {
      const stream = this.#spent.shift()!;
      if (!stream.forgotten) return stream;
    }
    return undefined;
  }

  /** @param stream has ended */
  forget(stream: StreamLog): void {
    const { events, units } = stream.forget();
    this.#discount(events, units);
    this.#streams!.delete(stream.id);
    // A run holds at least one event, so the surplus is of forgotten streams. Clearing it away is paid for by its making.
    if (this.#queue && this.#queue.length > 2 * this.events + STALE_RUNS) {
      this.#queue.retain((run) => !run.stream.forgotten);
    }
  }

  /** @returns a request that is open on another node */
  openElsewhere({ node, requests }: NonNullable<AppendOptions['opens']>): RequestId | undefined {
    for (const stream of this.#busy ?? []) {
      const open = stream.openRequests();
      const duplicate = requests.find((id) => open?.has(id) && open.get(id) !== node);
      if (duplicate !== undefined) return duplicate;
    }
    return undefined;
  }

  openRequests(session: string): OpenRequest[] {
    const found: OpenRequest[] = [];
    for (const stream of this.#busy ?? []) {
      for (const [id, node] of stream.openRequests() ?? []) found.push({ session, stream: stream.id, id, node });
    }
    return found;
  }

  #enqueue(stream: StreamLog, events: readonly string[]): void {
    this.events += events.length;
    for (const data of events) this.bytes += data.length * 2;
    const queue = (this.#queue ??= new Ring());
    const last = queue.at(queue.length - 1);
    if (last?.stream === stream && last.aside === NOT_ASIDE) last.events += events.length;
    else queue.push({ stream, aside: NOT_ASIDE, events: events.length });
  }

  /** Puts events that eviction has passed at the head, the oldest first. */
  #release(stream: StreamLog, indices: readonly number[]): void {
    for (const aside of indices.toReversed()) this.#queue!.unshift({ stream, aside, events: 1 });
  }

  #discount(events: number, units: number): void {
    this.events -= events;
    this.bytes -= units * 2;
  }

  #noteSpent(stream: StreamLog): void {
    // Stream 0 exists as long as its session.
    if (stream.spent && stream.id !== STANDALONE_STREAM) (this.#spent ??= new Ring()).push(stream);
  }

  #noteBusy(stream: StreamLog): void {
    if (stream.openRequests()?.size) (this.#busy ??= new Set()).add(stream);
    else this.#busy?.delete(stream);
  }
}

const NOT_ASIDE = 0;

/** Events of one stream that were appended one after the other. */
interface Run {
  readonly stream: StreamLog;
  /** Index of the one event, which was set aside and is released; {@link NOT_ASIDE}: the oldest `recent` ones. */
  readonly aside: number;
  events: number;
}

/** @returns the evicted event, or `undefined` if it was set aside */
function evictFrom(run: Run): string | undefined {
  run.events--;
  return run.aside === NOT_ASIDE ? run.stream.evictRecent() : run.stream.evictAside(run.aside);
}
