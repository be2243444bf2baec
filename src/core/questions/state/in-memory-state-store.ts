import { systemClock, type McpClock } from '../../common/clock.js';
import type { McpStateStore, McpStateQuota } from './state-store.js';

/**
 * # State in the memory of this process
 *
 * Values are kept as JSON, so that callers share no object with the store, and a value that a store on another machine would
 * lose is lost here too. There is no timer: each call first removes the expired values.
 *
 * Invariants:
 * - `#queues` has the entries of each TTL in order of the last `set`, which is the order of their expiry: the expired ones come
 *   first. An endpoint has a handful of TTLs: one for states, and those that tools choose for what runs once;
 * - `#owned` counts the entries of each owner that has any;
 * - nothing expires before `#due`: to find the oldest entry, a queue passes over the places of all that were removed before it.
 *
 * @publicApi
 */
export class InMemoryStateStore implements McpStateStore {
  readonly #entries = new Map<string, Entry>();
  readonly #queues = new Map<number, Map<string, Entry>>();
  readonly #owned = new Map<string, number>();
  #due = Infinity;

  constructor(private readonly clock: McpClock = systemClock) {}

  /** Counts the values. */
  get size(): number {
    this.#expire();
    return this.#entries.size;
  }

  /** Counts the values of `ctx.state()`, without those of calls that run once. @internal */
  get stateCount(): number {
    return this.size === 0 ? 0 : [...this.#entries.keys()].filter((key) => !key.startsWith('once.')).length;
  }

  async get(key: string): Promise<unknown> {
    const entry = this.#current(key);
    return entry && (JSON.parse(entry.json) as unknown);
  }

  async set(key: string, value: unknown, ttlMs?: number, quota?: McpStateQuota): Promise<'full' | true> {
    return this.#set(key, value, ttlMs, quota);
  }

  #set(key: string, value: unknown, ttlMs = Infinity, quota?: McpStateQuota): 'full' | true {
    const before = this.#current(key);
    const owner = quota?.owner ?? '';
    const owned = this.#owned.get(owner) ?? 0;
    if (!before && quota && owned >= quota.max) return 'full';
    const json = JSON.stringify(value);
    if (before) this.#remove(key, before);
    this.#add(key, { owner, json, ttlMs, expiresAt: this.clock.now() + ttlMs });
    return true;
  }

  async add(key: string, value: unknown, ttlMs?: number, quota?: McpStateQuota): Promise<'full' | boolean> {
    return this.#current(key) ? false : this.#set(key, value, ttlMs, quota);
  }

  async compareAndSet(
    key: string,
    expected: unknown,
    value: unknown,
    ttlMs?: number,
    quota?: McpStateQuota,
  ): Promise<'full' | boolean> {
    return this.#current(key)?.json === JSON.stringify(expected) ? this.#set(key, value, ttlMs, quota) : false;
  }

  async delete(key: string): Promise<boolean> {
    const entry = this.#current(key);
    if (entry) this.#remove(key, entry);
    return entry !== undefined;
  }

  /** Returns all values, for the journal of an app under development. @internal */
  dump(): StateDump {
    return [...this.#entries];
  }

  /** Continues with what {@link dump} returned. @internal */
  load(dump: StateDump): void {
    for (const [key, entry] of dump) this.#add(key, entry);
  }

  #current(key: string): Entry | undefined {
    this.#expire();
    return this.#entries.get(key);
  }

  #expire(): void {
    const now = this.clock.now();
    if (now < this.#due) return;
    this.#due = Infinity;
    for (const queue of this.#queues.values()) {
      for (const [key, entry] of queue) {
        if (entry.expiresAt > now) {
          this.#due = Math.min(this.#due, entry.expiresAt);
          break;
        }
        this.#remove(key, entry);
      }
    }
  }

  #add(key: string, entry: Entry): void {
    this.#entries.set(key, entry);
    let queue = this.#queues.get(entry.ttlMs);
    if (!queue) this.#queues.set(entry.ttlMs, (queue = new Map<string, Entry>()));
    queue.set(key, entry);
    this.#due = Math.min(this.#due, entry.expiresAt);
    this.#owned.set(entry.owner, (this.#owned.get(entry.owner) ?? 0) + 1);
  }

  #remove(key: string, { owner, ttlMs }: Entry): void {
    this.#entries.delete(key);
    const queue = this.#queues.get(ttlMs)!;
    queue.delete(key);
    if (queue.size === 0) this.#queues.delete(ttlMs);
    const owned = this.#owned.get(owner)! - 1;
    if (owned > 0) this.#owned.set(owner, owned);
    else this.#owned.delete(owner);
  }
}

interface Entry {
  readonly owner: string;
  readonly json: string;
  readonly ttlMs: number;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** {@link InMemoryStateStore.dump} returns values that the structured clone algorithm copies. */
export type StateDump = [key: string, entry: Entry][];
