import { systemClock, type McpClock } from '../../common/clock.js';
import type {
  McpCreateOutcome,
  McpSessionRecord,
  McpSessionStore,
  McpNewSessionRecord,
  McpSessionCaps,
  McpSessionPatch,
} from './session-store.js';

/**
 * # The sessions in the memory of this process
 *
 * Each call runs to its end synchronously, which makes it atomic. Records are deeply frozen copies: a caller that changes its
 * own objects changes nothing here.
 *
 * Invariants:
 * - `#records` is in order of creation: a change puts another record in the same place;
 * - `#owned` counts the records of each principal that has any;
 * - `#unused` has the ids of the unused records, in order of creation.
 *
 * @publicApi
 */
export class InMemorySessionStore implements McpSessionStore {
  readonly scope = 'node';
  readonly #records = new Map<string, McpSessionRecord>();
  /** Counts the sessions of each owner; the key `undefined` stands for the anonymous callers. */
  readonly #owned = new Map<string | undefined, number>();
  readonly #unused = new Set<string>();

  constructor(private readonly clock: McpClock = systemClock) {}

  async create(record: McpNewSessionRecord, caps: McpSessionCaps): Promise<McpCreateOutcome> {
    const { id, principal, routeParams, protocolVersion, initialize, format } = record;
    const owned = this.#owned.get(principal) ?? 0;
    if (this.#records.has(id)) return 'taken';
    if (this.#records.size >= caps.total) return 'total-cap';
    if (owned >= caps.perPrincipal) return 'principal-cap';
    const now = this.clock.now();
    const stored: McpSessionRecord = {
      id,
      ...(principal !== undefined && { principal }),
      ...(routeParams && { routeParams: frozenCopy(routeParams) }),
      protocolVersion,
      initialize,
      ...(format !== undefined && { format }),
      subscriptions: NO_SUBSCRIPTIONS,
      used: false,
      createdAt: now,
      lastSeenAt: now,
    };
    this.#records.set(id, Object.freeze(stored));
    this.#owned.set(principal, owned + 1);
    this.#unused.add(id);
    return 'created';
  }

  async get(id: string): Promise<McpSessionRecord | undefined> {
    return this.#records.get(id);
  }

  async patch(id: string, patch: McpSessionPatch): Promise<boolean> {
    const record = this.#records.get(id);
    if (record) this.#change(record, changes(record, patch));
    return record !== undefined;
  }

  async touch(id: string): Promise<boolean> {
    const record = this.#records.get(id);
    if (record) this.#change(record, { used: true, lastSeenAt: this.clock.now() });
    this.#unused.delete(id);
    return record !== undefined;
  }

  async delete(id: string): Promise<McpSessionRecord | undefined> {
    const record = this.#records.get(id);
    return record && this.#remove(record);
  }

  async claimExpired(idleMs: number, limit: number, unusedMs = Infinity): Promise<McpSessionRecord[]> {
    const now = this.clock.now();
    const expired = new Set(this.#unusedSince(now - unusedMs, limit));
    if (idleMs !== Infinity) {
      for (const record of this.#records.values()) if (record.lastSeenAt <= now - idleMs) expired.add(record);
    }
    return [...expired]
      .toSorted((a, b) => a.lastSeenAt - b.lastSeenAt)
      .slice(0, limit)
      .map((record) => this.#remove(record));
  }

  *#unusedSince(time: number, limit: number): Iterable<McpSessionRecord> {
    let left = limit;
    for (const id of this.#unused) {
      const record = this.#records.get(id)!;
      if (record.createdAt > time || left-- === 0) return;
      yield record;
    }
  }

  async claimAnonymous(): Promise<McpSessionRecord | undefined> {
    if (!this.#owned.has(undefined)) return undefined;
    let longest: McpSessionRecord | undefined;
    for (const record of this.#records.values()) {
      if (record.principal === undefined && (!longest || record.lastSeenAt < longest.lastSeenAt)) longest = record;
    }
    return longest && this.#remove(longest);
  }

  async list({ principal }: { principal?: string | null } = {}): Promise<McpSessionRecord[]> {
    const records = [...this.#records.values()];
    return principal === undefined ? records : records.filter((record) => (record.principal ?? null) === principal);
  }

  async count(): Promise<number> {
    return this.#records.size;
  }

  /** Returns all records, for the journal of an app under development. @internal */
  dump(): McpSessionRecord[] {
    return [...this.#records.values()];
  }

  /** Continues with what {@link dump} returned. @internal */
  load(records: readonly McpSessionRecord[]): void {
    for (const record of records) {
      this.#records.set(record.id, deepFrozen(record));
      if (!record.used) this.#unused.add(record.id);
      this.#owned.set(record.principal, (this.#owned.get(record.principal) ?? 0) + 1);
    }
  }

  #change(record: McpSessionRecord, change: Partial<McpSessionRecord>): McpSessionRecord {
    const changed = Object.freeze({ ...record, ...change });
    this.#records.set(record.id, changed);
    return changed;
  }

  #remove(record: McpSessionRecord): McpSessionRecord {
    const { id, principal } = record;
    this.#records.delete(id);
    this.#unused.delete(id);
    const owned = this.#owned.get(principal)! - 1;
    if (owned > 0) this.#owned.set(principal, owned);
    else this.#owned.delete(principal);
    return record;
  }
}

const NO_SUBSCRIPTIONS: readonly string[] = Object.freeze([]);

function changes(record: McpSessionRecord, patch: McpSessionPatch): Partial<McpSessionRecord> {
  const { protocolVersion, logLevel, subscribe = [], unsubscribe = [] } = patch;
  const subscriptions = new Set(record.subscriptions);
  for (const uri of unsubscribe) subscriptions.delete(uri);
  for (const uri of subscribe) subscriptions.add(uri);
  return {
    ...(protocolVersion !== undefined && { protocolVersion }),
    ...(logLevel !== undefined && { logLevel }),
    subscriptions: subscriptions.size === 0 ? NO_SUBSCRIPTIONS : Object.freeze([...subscriptions]),
  };
}

/** Copies a value through JSON, with the same losses as a store on another machine. */
function frozenCopy<T>(value: T): T {
  return deepFrozen(JSON.parse(JSON.stringify(value)) as T);
}

/** Freezes a value without recursion, because values may be deep. */
function deepFrozen<T>(value: T): T {
  const left: unknown[] = [value];
  while (left.length > 0) {
    const next = left.pop();
    if (typeof next !== 'object' || next === null) continue;
    for (const inner of Object.values(next)) left.push(inner);
    Object.freeze(next);
  }
  return value;
}
