import type { ClockTimer, McpClock } from '../core/common/clock.js';
import type { McpAuditRecord } from './audit-record.js';

/** The part of the record of a refused request that comes from the request. */
export type RefusedRequest = Pick<
  McpAuditRecord,
  'method' | 'kind' | 'name' | 'principal' | 'ip' | 'status' | 'reason' | 'option'
>;

/** Refusals of one kind are counted for so many milliseconds. */
const WINDOW_MS = 1_000;
/** So many kinds are known at a time; of further ones the address is not told apart. */
const MOST_KINDS = 100;

interface Kind {
  /** The time of the last record. */
  at: number;
  /** Counts the requests since then. */
  count: number;
  /** What they have in common. */
  common: RefusedRequest | undefined;
}

/**
 * # Refused requests, of which any client can send any number
 *
 *     first of its kind ──▶ recorded at once ──further ones within a second──▶ counted ──1 s──▶ one record for all of them
 *
 * A kind is status, reason and address. The record of several requests has what they have in common.
 *
 * Invariants: each kind is recorded at most once a second, after its first record; each request is in one record, unless
 * the sink fails.
 */
export class RefusalCounts {
  readonly #kinds = new Map<string, Kind>();
  #timer: ClockTimer | undefined;

  /** @param record returns whether it was possible: otherwise the requests are counted on */
  constructor(
    private readonly record: (request: RefusedRequest, count: number) => boolean,
    private readonly clock: McpClock,
  ) {}

  add(request: RefusedRequest): void {
    const now = this.clock.now();
    const kind = this.#kindOf(request, now);
    if (kind.count === 0 && now - kind.at >= WINDOW_MS && this.record(request, 1)) {
      kind.at = now;
      return;
    }
    kind.count++;
    kind.common = kind.common ? sharedBy(kind.common, request) : request;
    this.#timer ??= this.clock.setTimeout(() => this.#recordAll(), WINDOW_MS);
  }

  /** Records what was counted. @param record takes each record, also while many are being written */
  close(record: (request: RefusedRequest, count: number) => void): void {
    this.clock.clear(this.#timer);
    for (const { common, count } of this.#kinds.values()) if (common) record(common, count);
    this.#kinds.clear();
  }

  #recordAll(): void {
    const now = this.clock.now();
    this.#timer = undefined;
    for (const kind of this.#kinds.values()) {
      const { common, count } = kind;
      if (common && this.record(common, count)) Object.assign(kind, { at: now, count: 0, common: undefined });
    }
    this.#forget(now);
    if ([...this.#kinds.values()].some(({ count }) => count > 0)) {
      this.#timer = this.clock.setTimeout(() => this.#recordAll(), WINDOW_MS);
    }
  }

  #kindOf({ status, reason, ip }: RefusedRequest, now: number): Kind {
    let key = JSON.stringify([status, reason, ip]);
    if (!this.#kinds.has(key) && this.#kinds.size >= MOST_KINDS) {
      this.#forget(now);
      if (this.#kinds.size >= MOST_KINDS) key = JSON.stringify([status, reason]);
    }
    let kind = this.#kinds.get(key);
    if (!kind) this.#kinds.set(key, (kind = { at: -Infinity, count: 0, common: undefined }));
    return kind;
  }

  /** Forgets the kinds whose next request is recorded at once. */
  #forget(now: number): void {
    for (const [key, { at, count }] of this.#kinds) if (count === 0 && now - at >= WINDOW_MS) this.#kinds.delete(key);
  }
}

function sharedBy(one: RefusedRequest, other: RefusedRequest): RefusedRequest {
  const shared = Object.entries(one).filter(([name, value]) => other[name as keyof RefusedRequest] === value);
  return Object.fromEntries(shared);
}
