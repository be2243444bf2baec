import { systemClock, type Clock } from '../common/clock.js';
import { OrderOfSigns, type Signed } from './in-memory/order-of-signs.js';
import { mergedData } from './merged-data.js';
import type {
  McpSessionRecord,
  McpSessionStore,
  NewSessionRecord,
  RecordFilter,
  RecordKind,
  ReserveOutcome,
  SessionCaps,
  SessionPatch,
} from './session-store.js';
import { sessionStoreMessages } from './session-store.messages.js';

/** What `initialize` may take at most. */
const RESERVATION_MS = 60_000;

/**
 * # The sessions in the memory of this process
 *
 *     (nothing) ──reserve──▶ reserved ──create──▶ recorded ──delete, claimExpired──▶ (nothing)
 *                               └──release, a minute──▶ (nothing)
 *
 * Each call runs to its end synchronously, which makes it atomic. Records are frozen through and through, and made of
 * copies: what a caller does to a record, or to what it gave us, changes nothing here.
 *
 * Invariants:
 * - `#records` is in order of creation, `#bySign` in order of the last sign of life, `#reservations` in order of expiry:
 *   each question about the oldest looks at the first ones only;
 * - an owner is listed exactly while it has a record or a reservation.
 *
 * A reservation that has expired is found out at the next `reserve`: no timer. `create` does without one, provided that
 * the id is free: whoever was let in and took longer than a minute is not turned away at the last step.
 *
 * @publicApi
 */
export class InMemorySessionStore implements McpSessionStore {
  readonly scope = 'node';
  readonly #records = new Map<string, Entry>();
  readonly #bySign = new OrderOfSigns<Entry>();
  readonly #reservations = new Map<string, Reservation>();
  /** The key `undefined` is the anonymous owner. */
  readonly #owners = new Map<string | undefined, Owner>();
  /** How many of the records are of the kind `state`. */
  #states = 0;

  constructor(private readonly clock: Clock = systemClock) {}

  async reserve(id: string, principal: string | undefined, caps: SessionCaps): Promise<ReserveOutcome> {
    this.#expireReservations();
    if (this.#records.has(id) || this.#reservations.has(id)) return 'taken';
    if (this.#records.size + this.#reservations.size >= caps.total) return 'total-cap';
    const owner = this.#owners.get(principal);
    if ((owner ? owner.entries.size + owner.reservations : 0) >= caps.perPrincipal) return 'principal-cap';
    this.#owner(principal).reservations++;
    this.#reservations.set(id, { principal, expiresAt: this.clock.now() + RESERVATION_MS });
    return 'reserved';
  }

  async create(record: NewSessionRecord): Promise<McpSessionRecord> {
    if (this.#records.has(record.id)) throw new Error(sessionStoreMessages.exists(record.id));
    const { id, kind, principal, routeParams, protocolVersion, initialize, data = {} } = record;
    const now = this.clock.now();
    const stored: McpSessionRecord = frozenCopy({
      ...{ id, kind, principal, protocolVersion, initialize, subscriptions: [], data },
      ...(routeParams && { routeParams }),
      ...{ createdAt: now, lastSeenAt: now },
    });
    this.#unreserve(id);
    const entry: Entry = { record: stored, seenAt: now, earlier: undefined, later: undefined };
    this.#records.set(id, entry);
    this.#bySign.append(entry);
    this.#owner(principal).entries.add(entry);
    if (kind === 'state') this.#states++;
    return stored;
  }

  async release(id: string): Promise<void> {
    this.#unreserve(id);
  }

  async get(id: string): Promise<McpSessionRecord | undefined> {
    const entry = this.#records.get(id);
    return entry && upToDate(entry);
  }

  async patch(id: string, patch: SessionPatch): Promise<McpSessionRecord | undefined> {
    const entry = this.#records.get(id);
    if (!entry) return undefined;
    entry.record = patched(upToDate(entry), patch);
    return entry.record;
  }

  async touch(id: string): Promise<boolean> {
    const entry = this.#records.get(id);
    if (!entry) return false;
    const now = this.clock.now();
    if (entry.seenAt !== now) {
      entry.seenAt = now;
      this.#bySign.remove(entry);
      this.#bySign.append(entry);
    }
    return true;
  }

  async delete(id: string): Promise<McpSessionRecord | undefined> {
    const entry = this.#records.get(id);
    return entry && this.#remove(entry);
  }

  async claimExpired(idleMs: number, limit: number): Promise<McpSessionRecord[]> {
    const seenBefore = this.clock.now() - idleMs;
    const claimed: McpSessionRecord[] = [];
    while (claimed.length < limit) {
      const silent = this.#bySign.first;
      if (!silent || silent.seenAt > seenBefore) break;
      claimed.push(this.#remove(silent));
    }
    return claimed;
  }

  async list({ principal, kind }: RecordFilter = {}): Promise<McpSessionRecord[]> {
    const entries =
      principal === undefined ? this.#records.values() : (this.#owners.get(principal ?? undefined)?.entries ?? []);
    const records = Array.from(entries, upToDate);
    return kind === undefined ? records : records.filter((record) => (record.kind ?? 'session') === kind);
  }

  async count(kind?: RecordKind): Promise<number> {
    if (kind === undefined) return this.#records.size;
    return kind === 'state' ? this.#states : this.#records.size - this.#states;
  }

  #remove(entry: Entry): McpSessionRecord {
    const { id, kind, principal } = entry.record;
    this.#records.delete(id);
    if (kind === 'state') this.#states--;
    this.#bySign.remove(entry);
    this.#owners.get(principal)!.entries.delete(entry);
    this.#forgetIdleOwner(principal);
    return upToDate(entry);
  }

  #unreserve(id: string): void {
    const reservation = this.#reservations.get(id);
    if (!reservation) return;
    this.#reservations.delete(id);
    this.#owners.get(reservation.principal)!.reservations--;
    this.#forgetIdleOwner(reservation.principal);
  }

  #expireReservations(): void {
    const now = this.clock.now();
    for (const [id, { expiresAt }] of this.#reservations) {
      if (expiresAt > now) return;
      this.#unreserve(id);
    }
  }

  #owner(principal: string | undefined): Owner {
    let owner = this.#owners.get(principal);
    if (!owner) this.#owners.set(principal, (owner = { entries: new Set(), reservations: 0 }));
    return owner;
  }

  #forgetIdleOwner(principal: string | undefined): void {
    const owner = this.#owners.get(principal)!;
    if (owner.entries.size === 0 && owner.reservations === 0) this.#owners.delete(principal);
  }
}

interface Entry extends Signed {
  record: McpSessionRecord;
  /** The last sign of life: `record.lastSeenAt` follows when somebody asks, so that `touch` copies nothing. */
  seenAt: number;
}

interface Reservation {
  readonly principal: string | undefined;
  readonly expiresAt: number;
}

interface Owner {
  /** In order of creation. */
  readonly entries: Set<Entry>;
  reservations: number;
}

function upToDate(entry: Entry): McpSessionRecord {
  if (entry.record.lastSeenAt !== entry.seenAt) {
    entry.record = Object.freeze({ ...entry.record, lastSeenAt: entry.seenAt });
  }
  return entry.record;
}

function patched(record: McpSessionRecord, patch: SessionPatch): McpSessionRecord {
  const { logLevel, subscribe = [], unsubscribe = [], data } = patch;
  const next: McpSessionRecord = { ...record };
  if (logLevel !== undefined) next.logLevel = logLevel;
  if (subscribe.length > 0 || unsubscribe.length > 0) {
    const subscriptions = new Set(record.subscriptions);
    for (const uri of unsubscribe) subscriptions.delete(uri);
    for (const uri of subscribe) subscriptions.add(uri);
    next.subscriptions = Object.freeze([...subscriptions]);
  }
  if (data) next.data = Object.freeze(mergedData(record.data, frozenCopy(data)));
  return Object.freeze(next);
}

/** By way of JSON, so that nothing is kept here which a store on another machine would lose. */
function frozenCopy<T>(value: T): T {
  const copy = JSON.parse(JSON.stringify(value)) as T;
  const left: unknown[] = [copy];
  while (left.length > 0) {
    const next = left.pop();
    if (typeof next !== 'object' || next === null) continue;
    for (const inner of Object.values(next)) left.push(inner);
    Object.freeze(next);
  }
  return copy;
}
