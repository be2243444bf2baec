/**
 * # The session store
 *
 * The records of sessions: plain JSON from which any node can rebuild a live session.
 *
 * Written for the implementer of a store:
 *
 * - **Calls run concurrently**, from several nodes. Each call is atomic; two patches of one record both take effect.
 * - **Caps.** `create` counts records, in total and per principal, and refuses new ones above the caps. It never
 *   evicts.
 * - **Time** is the store's own, so that clocks of nodes need not agree: `create` and `touch` stamp `lastSeenAt`.
 * - **Use.** A record is unused until the first `touch`: its client has sent nothing after `initialize`.
 * - **Ends.** `delete` and `claimExpired` give a record to exactly one caller, which then cleans up the rest.
 * - Keys come from clients: `constructor` and `__proto__` are ids like any other.
 *
 * A record is made before `initialize` is answered, and deleted if that fails. If its node dies in between, the record is
 * idle, and expires.
 *
 * The contract test is exported by `nestjs-mcp-streamable/testing`.
 *
 * @publicApi
 */
export interface McpSessionStore {
  /** `node`: records live and die with this process. `shared`: other nodes see them too, and shutdown leaves them. */
  readonly scope: 'node' | 'shared';

  /**
   * Creates a record, if its id is unused and the caps allow it; otherwise changes nothing.
   *
   * @param caps for the principal of the record; without one: for the anonymous callers, which count together
   */
  create(record: McpNewSessionRecord, caps: McpSessionCaps): Promise<McpCreateOutcome>;

  get(id: string): Promise<McpSessionRecord | undefined>;

  /** Changes a record in one step. @returns whether the session still exists; the record itself may be large */
  patch(id: string, patch: McpSessionPatch): Promise<boolean>;

  /** Records activity: the session is used from now on. @returns whether the session still exists */
  touch(id: string): Promise<boolean>;

  /** Removes a record. @returns the record, to exactly one caller; `undefined` to all others */
  delete(id: string): Promise<McpSessionRecord | undefined>;

  /**
   * Removes the sessions without activity for `idleMs`, and those that were created `unusedMs` ago and are unused; at most
   * `limit` of them, the longest without activity first. At the total cap one is removed for each newcomer: the oldest unused
   * record should be found without reading all of them.
   *
   * @param idleMs `Infinity`: none is idle
   * @param unusedMs absent: being unused is no reason
   * @param newcomer gets the place: a store that divides the cap among several places looks in that of the newcomer
   * @returns the removed records; each goes to exactly one caller
   */
  claimExpired(idleMs: number, limit: number, unusedMs?: number, newcomer?: McpNewcomer): Promise<McpSessionRecord[]>;

  /**
   * Removes the anonymous record that was without activity for longest. At the total cap, a caller with a principal gets its place.
   * Optional; without it, such a caller is refused while anonymous callers have all places.
   *
   * @param newcomer that caller, as for `claimExpired`
   * @returns the record, to exactly one caller; `undefined`: there was none
   */
  claimAnonymous?(newcomer?: McpNewcomer): Promise<McpSessionRecord | undefined>;

  /** Returns all records, oldest first, or those of one principal; `null` selects the anonymous ones. */
  list(filter?: { principal?: string | null }): Promise<McpSessionRecord[]>;

  /** Counts the records. */
  count(): Promise<number>;
}

/** The injection token of the {@link McpSessionStore}. @publicApi */
export const McpSessionStore = Symbol('nestjs-mcp-streamable:McpSessionStore');

/** The methods that an {@link McpSessionStore} of an app must have. */
export const SESSION_STORE_METHODS = [
  'create',
  'get',
  'patch',
  'touch',
  'delete',
  'claimExpired',
  'list',
  'count',
] as const;

/** Limits the number of records. @publicApi */
export interface McpSessionCaps {
  /** The cap for all sessions together; `Infinity`: no cap. */
  total: number;
  /** The cap for the principal of the new record; `Infinity`: only the total cap applies. */
  perPrincipal: number;
}

/** `taken`: the id already has a record, so the id generator is defective. @publicApi */
export type McpCreateOutcome = 'created' | 'total-cap' | 'principal-cap' | 'taken';

/** @publicApi */
export interface McpSessionRecord {
  id: string;
  /** The principal that owns the session; absent for an anonymous one. */
  principal?: string;
  /** The parameters of the path that the session began at; absent without any. */
  routeParams?: Readonly<Record<string, unknown>>;
  /** The negotiated revision. */
  protocolVersion: string;
  /** The parameters of `initialize`, as JSON. Parsed, hostile ones would take twenty times the memory. */
  initialize: string;
  /** The level that `logging/setLevel` has set. */
  logLevel?: string;
  /**
   * The format of the session, its log and its messages. Sessions of another format exist for other versions of this package
   * only. Absent: the store does not keep it, or has the sessions of one version only.
   */
  format?: number;
  /** The URIs that `resources/subscribe` has named, each in the last spelling of the client. */
  subscriptions: readonly string[];
  /** Says whether it was touched since `create`: its client has sent something after `initialize`. */
  used: boolean;
  /** The time of `create` in milliseconds since the epoch, by the store's clock. */
  createdAt: number;
  /**
   * The time of the last activity in milliseconds since the epoch, by the store's clock; it may lag behind by a tenth
   * of the idle timeout.
   */
  lastSeenAt: number;
}

/** `create` takes it: a record without its times, which the store sets. @publicApi */
export type McpNewSessionRecord = Pick<
  McpSessionRecord,
  'id' | 'principal' | 'routeParams' | 'protocolVersion' | 'initialize' | 'format'
>;

/** A session for which another one gives way. @publicApi */
export type McpNewcomer = Pick<McpSessionRecord, 'id' | 'principal'>;

/** @publicApi */
export interface McpSessionPatch {
  /** Is set when a server of the application negotiated another revision than was recorded. */
  protocolVersion?: string;
  logLevel?: string;
  /** URIs to add to `subscriptions`, once each. */
  subscribe?: readonly string[];
  /** URIs to remove from `subscriptions`. */
  unsubscribe?: readonly string[];
}
