import { systemClock, type McpClock } from '../../common/clock.js';
import type { McpStateStore, McpStateQuota } from './state-store.js';

/**
 * # State in the memory of this process
 *
 * Values are kept as JSON, so that callers share no object with the store, and a value that a store on another machine would
 * lose is lost here too. There is no timer: each call first removes the expired values.
 *
 * Invariants:
 * - `#entries` is in order of the last `set`. With one TTL, as an endpoint has, that is the order of expiry: the expired
 *   ones come first. A value with a shorter TTL than those before it is unreadable in time, and removed with them;
 * - `#owned` counts the entries of each owner that has any.
 *
 * @publicApi
 */
export class InMemoryStateStore implements McpStateStore {
  readonly #entries = new Map<string, Entry>();
  readonly #owned = new Map<string, number>();

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

  async set(key: string, value: unknown, ttlMs = Infinity, quota?: McpStateQuota): Promise<'full' | true> {
    const before = this.#current(key);
    const owner = quota?.owner ?? '';
    const owned = this.#owned.get(owner) ?? 0;
    if (!before && quota && owned >= quota.max) return 'full';
    const json = JSON.stringify(value);
    if (before) this.#remove(key, before);
    this.#entries.set(key, { owner, json, expiresAt: this.clock.now() + ttlMs });
    this.#owned.set(owner, (this.#owned.get(owner) ?? 0) + 1);
    return true;
  }

  async add(key: string, value: unknown, ttlMs?: number, quota?: McpStateQuota): Promise<'full' | boolean> {
    return this.#current(key) ? false : this.set(key, value, ttlMs, quota);
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
    for (const [key, entry] of dump) {
      this.#entries.set(key, entry);
      this.#owned.set(entry.owner, (this.#owned.get(entry.owner) ?? 0) + 1);
    }
  }

  #current(key: string): Entry | undefined {
    const now = this.#expire();
    const entry = this.#entries.get(key);
    if (!entry || entry.expiresAt > now) return entry;
    this.#remove(key, entry);
    return undefined;
  }

  /** Removes expired values. @returns the time */
  #expire(): number {
    const now = this.clock.now();
    for (const [key, entry] of this.#entries) {
      if (entry.expiresAt > now) break;
      this.#remove(key, entry);
    }
    return now;
  }

  #remove(key: string, { owner }: Entry): void {
    this.#entries.delete(key);
    const owned = this.#owned.get(owner)! - 1;
    if (owned > 0) this.#owned.set(owner, owned);
    else this.#owned.delete(owner);
  }
}

interface Entry {
  readonly owner: string;
  readonly json: string;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** {@link InMemoryStateStore.dump} returns values that the structured clone algorithm copies. */
export type StateDump = [key: string, entry: Entry][];
