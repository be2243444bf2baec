import { createHash } from 'node:crypto';
import type {
  McpCreateOutcome,
  McpSessionRecord,
  McpSessionStore,
  McpNewSessionRecord,
  McpNewcomer,
  McpSessionCaps,
  McpSessionPatch,
} from '../../core/sessions/store/session-store.js';
import { inBatches, type RedisConnection } from '../connection/redis-connection.js';
import type { RedisScript } from '../connection/redis-connection.js';
import { decoded, encoded } from '../redis-keys.js';
import * as scripts from './session.scripts.js';

/** The node that claimed an expired session has this time to end it, before others try. */
const CLAIM_LEASE_MS = 60_000;
/** A session stays in Redis for this multiple of the idle timeout when no node is left to end it. */
const IDLE_TIMEOUTS_KEPT = 3;

/**
 * # The sessions in Redis
 *
 * A record is a hash in the slot of its session; an index in a slot of its own has all sessions and their owners. With
 * `sessionSlots` there are several: the sessions of a principal are in one of them, so that their cap is exact, and
 * anonymous ones in that of their id. Each has its part of the other caps.
 * Scripts change each of the two in one step. A call that changes both takes two steps, in an order in which it may be
 * interrupted: the record is authoritative (see session.scripts.ts).
 *
 * Exactly one caller gets a deleted record, because only one script can remove its key. If the answer to that caller is
 * lost, the session has ended nevertheless, and its log expires when it was not used for `expireAfterMs`.
 *
 * @publicApi
 */
export class RedisSessionStore implements McpSessionStore {
  readonly scope = 'shared';
  /** The longest idle timeout by which this node has ended sessions. */
  #idleMs = 0;
  /** The index that the last claim has begun with. */
  #first = 0;

  constructor(private readonly connection: RedisConnection) {}

  async create(record: McpNewSessionRecord, caps: McpSessionCaps): Promise<McpCreateOutcome> {
    const { id, principal } = record;
    const at = this.#indexOf(record);
    const ofOwner = principal === undefined ? this.#partOf(caps.perPrincipal, at) : caps.perPrincipal;
    const limits = [this.#partOf(caps.total, at), ofOwner].map((cap) => (Number.isFinite(cap) ? cap : -1));
    const outcome = await this.#index(at, scripts.enter, encoded(id), ownerOf(principal), ...limits);
    if (outcome !== 'created') return outcome as McpCreateOutcome;
    const fields = [...fieldsOf(record), ...(this.#indexes > 1 ? ['index', at] : [])];
    const created = await this.connection.run(scripts.createRecord, this.#key(id), this.#lifeMs, ...fields);
    return created === 1 ? 'created' : 'taken';
  }

  async get(id: string): Promise<McpSessionRecord | undefined> {
    const fields = await this.connection.command('get', (client) => client.hgetall(this.#key(id)));
    return recordOf(id, Object.entries(fields));
  }

  async patch(id: string, patch: McpSessionPatch): Promise<boolean> {
    return (await this.connection.run(scripts.patchRecord, this.#key(id), ...changesOf(patch))) === 1;
  }

  async touch(id: string): Promise<boolean> {
    const touched = await this.connection.run(scripts.touchRecord, this.#key(id), this.#lifeMs);
    if (touched === null) return false;
    const [at, index] = touched as [string, string | null];
    await this.#index(Number(index), scripts.seen, encoded(id), at);
    return true;
  }

  async delete(id: string): Promise<McpSessionRecord | undefined> {
    const removed = await this.connection.run(scripts.removeRecord, this.#key(id), '', '');
    const fields = removed === null ? undefined : pairs(removed as string[]);
    // Also without a record: an index may have an entry.
    const indexes = fields ? [indexIn(fields)] : this.#all();
    await inBatches(indexes, (at) => this.#leaveIndex(at, id));
    return fields && recordOf(id, fields);
  }

  async claimExpired(
    idleMs: number,
    limit: number,
    unusedMs = Infinity,
    newcomer?: McpNewcomer,
  ): Promise<McpSessionRecord[]> {
    if (Number.isFinite(idleMs)) this.#idleMs = Math.max(this.#idleMs, idleMs);
    const [idle, unused] = [idleMs, unusedMs].map((ms) => (Number.isFinite(ms) ? ms : -1)) as [number, number];
    const claimed: McpSessionRecord[] = [];
    for (const at of this.#indexesFor(newcomer)) {
      const left = limit - claimed.length;
      if (left === 0) break;
      let answer: unknown;
      try {
        answer = await this.#index(at, scripts.claim, idle, unused, left, CLAIM_LEASE_MS);
      } catch (error) {
        if (claimed.length === 0) throw error;
        // The claim returns the sessions that it has ended before; the next claim begins with another index.
        break;
      }
      const [idleBy, unusedBy, ...codes] = answer as [string, string, ...string[]];
      const records = await inBatches(codes, (code) => this.#end(at, decoded(code), idleBy, unusedBy));
      claimed.push(...records.filter((record) => record !== undefined));
    }
    return claimed;
  }

  async claimAnonymous(newcomer?: McpNewcomer): Promise<McpSessionRecord | undefined> {
    for (const at of this.#indexesFor(newcomer)) {
      for (;;) {
        const code = await this.#index(at, scripts.claimOf, ownerOf(undefined), CLAIM_LEASE_MS);
        if (code === null) break;
        const record = await this.delete(decoded(code as string));
        // An entry without a record is gone now.
        if (record) return record;
      }
    }
    return undefined;
  }

  async list({ principal }: { principal?: string | null } = {}): Promise<McpSessionRecord[]> {
    const isOfOne = typeof principal === 'string';
    const codes = await inBatches(isOfOne ? [this.#indexOf({ id: '', principal })] : this.#all(), (at) =>
      this.connection.command('list', (client) =>
        principal === undefined
          ? client.zrange(`${this.#base(at)}seen`, '0', '-1')
          : client.smembers(`${this.#base(at)}of:${ownerOf(principal ?? undefined)}`),
      ),
    );
    const records = await inBatches(codes.flat(), (code) => this.get(decoded(code)));
    return records.filter((record) => record !== undefined).toSorted((a, b) => a.createdAt - b.createdAt);
  }

  async count(): Promise<number> {
    const counts = await inBatches(this.#all(), (at) =>
      this.connection.command('count', (client) => client.zcard(`${this.#base(at)}seen`)),
    );
    return counts.reduce((sum, count) => sum + count, 0);
  }

  get #indexes(): number {
    return this.connection.options.sessionSlots;
  }

  /** Returns the numbers of all indexes. */
  #all(from = 0): number[] {
    return Array.from({ length: this.#indexes }, (_, n) => (from + n) % this.#indexes);
  }

  /** Returns where a session may give way: beside the newcomer, or anywhere, each time from another index on, since there is a limit. */
  #indexesFor(newcomer: McpNewcomer | undefined): number[] {
    if (newcomer) return [this.#indexOf(newcomer)];
    this.#first = (this.#first + 1) % this.#indexes;
    return this.#all(this.#first);
  }

  /** Returns the number of the index that has a session. */
  #indexOf({ id, principal }: McpNewcomer): number {
    if (this.#indexes === 1) return 0;
    const hash = createHash('sha1').update(principal === undefined ? id : ownerOf(principal));
    return hash.digest().readUInt32BE() % this.#indexes;
  }

  /** Returns the part of a cap that an index has; the parts of all are the cap. */
  #partOf(cap: number, at: number): number {
    if (!Number.isFinite(cap)) return cap;
    return Math.floor(cap / this.#indexes) + (at < cap % this.#indexes ? 1 : 0);
  }

  #base(at: number): string {
    return this.connection.keys.index(at, this.#indexes);
  }

  get #lifeMs(): number {
    return Math.max(this.connection.options.expireAfterMs, this.#idleMs * IDLE_TIMEOUTS_KEPT);
  }

  #key(id: string): string {
    return this.connection.keys.record(id);
  }

  #index(at: number, script: RedisScript, ...args: (string | number)[]): Promise<unknown> {
    return this.connection.run(script, this.#base(at), this.#lifeMs, ...args);
  }

  /**
   * Ends a claimed session.
   *
   * @returns its record; `undefined` if it was touched or removed meanwhile, or Redis is unavailable
   */
  async #end(at: number, id: string, idleBy: string, unusedBy: string): Promise<McpSessionRecord | undefined> {
    try {
      const removed = await this.connection.run(scripts.removeRecord, this.#key(id), idleBy, unusedBy);
      const fields = (removed ?? []) as string[];
      if (fields.length === 2) {
        await this.#index(at, scripts.unclaim, encoded(id), ...fields);
        return undefined;
      }
      await this.#leaveIndex(at, id);
      return recordOf(id, pairs(fields));
    } catch {
      // Another node claims it after the lease; the sessions that were ended before it must be returned.
      return undefined;
    }
  }

  /**
   * Removes a session from the index. An entry without a record has no effect, and is removed when it is claimed as
   * expired.
   */
  async #leaveIndex(at: number, id: string): Promise<void> {
    await this.#index(at, scripts.leave, encoded(id)).catch(() => {});
  }
}

/** Returns the name of an owner in the index. No principal has that of the anonymous callers. */
function ownerOf(principal: string | undefined): string {
  return principal === undefined ? '-' : `p:${encoded(principal)}`;
}

/**
 * # A record as the fields of a hash
 *
 *     fixed      what never changes: principal, routeParams, initialize, format
 *     created    when it was made
 *     seen       the last activity
 *     used       there if it was touched
 *     revision   the protocol version
 *     level      the log level
 *     u:<uri>    a subscription
 *     index      where the session is listed; absent: in the only index
 *
 * URIs are written as JSON, which keeps lone surrogates distinct.
 */
type Fixed = Pick<McpSessionRecord, 'principal' | 'routeParams' | 'initialize' | 'format'>;

/** Returns fields and values in turn; the script that creates the record adds the times. */
function fieldsOf({ protocolVersion, principal, routeParams, initialize, format }: McpNewSessionRecord): string[] {
  return ['fixed', JSON.stringify({ principal, routeParams, initialize, format }), 'revision', protocolVersion];
}

/** Makes the arguments of the patch script, which describes them. */
function changesOf({ protocolVersion, logLevel, unsubscribe = [], subscribe = [] }: McpSessionPatch): string[] {
  return [
    ...(protocolVersion === undefined ? [] : ['revision', protocolVersion]),
    ...(logLevel === undefined ? [] : ['level', logLevel]),
    ...unsubscribe.flatMap((uri) => ['-', subscriptionField(uri)]),
    ...subscribe.flatMap((uri) => [subscriptionField(uri), '']),
  ];
}

/** @returns `undefined` when there are no fields */
function recordOf(id: string, fields: readonly (readonly [string, string])[]): McpSessionRecord | undefined {
  const plain = new Map<string, string>();
  const subscriptions: string[] = [];
  for (const [field, value] of fields) {
    if (field.startsWith('u:')) subscriptions.push(JSON.parse(field.slice(2)) as string);
    else plain.set(field, value);
  }
  const text = plain.get('fixed');
  if (text === undefined) return undefined;
  const { initialize, ...owner } = JSON.parse(text) as Fixed;
  const logLevel = plain.get('level');
  return {
    id,
    ...owner,
    protocolVersion: plain.get('revision')!,
    initialize,
    ...(logLevel !== undefined && { logLevel }),
    subscriptions,
    used: plain.has('used'),
    createdAt: Number(plain.get('created')),
    lastSeenAt: Number(plain.get('seen')),
  };
}

/** Returns the number of the index that is among the fields. */
function indexIn(fields: readonly (readonly [string, string])[]): number {
  return Number(fields.find(([field]) => field === 'index')?.[1] ?? 0);
}

/** Pairs the fields and values that a script returns in turn. */
function pairs(flat: readonly string[]): [string, string][] {
  return Array.from({ length: flat.length / 2 }, (_, n) => [flat[2 * n]!, flat[2 * n + 1]!]);
}

function subscriptionField(uri: string): string {
  return `u:${JSON.stringify(uri)}`;
}
