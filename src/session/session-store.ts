/**
 * # The session store
 *
 * What a session *is*, as opposed to what it does: plain JSON from which any node can rebuild a live session. And state that
 * outlives a call, for callers without a session: a record of the kind `state`, which begins, ends and counts as one of a
 * session does, and is none.
 *
 * Written for the implementer of a store:
 *
 * - **Calls run concurrently**, from several nodes. Each call is atomic; two patches of one record both take effect.
 * - **Caps.** `reserve` counts records and reservations together, in total and per principal, and refuses newcomers.
 *   It never evicts. A reservation that is neither created nor released expires by itself within a minute or so.
 * - **Time** is the store's own, so that clocks of nodes need not agree: `create` and `touch` stamp `lastSeenAt`.
 * - **Ends.** `delete` and `claimExpired` give a record to exactly one caller, who then cleans up the rest.
 * - **Kinds.** A store knows them only to keep `kind`, and to list and count by it: caps and expiry make no difference.
 * - Keys come from outside: `constructor` and `__proto__` are ids like any other.
 *
 * The contract test is exported by `nestjs-mcp-streamable/testing`.
 *
 * @publicApi
 */
export interface McpSessionStore {
  /** `node`: records live and die with this process. `shared`: other nodes see them too, and shutdown leaves them. */
  readonly scope: 'node' | 'shared';

  /**
   * Claims a place for a session that is about to be.
   *
   * @param principal whose it will be; `undefined`: the anonymous callers, who count together
   * @param caps for this principal
   */
  reserve(id: string, principal: string | undefined, caps: SessionCaps): Promise<ReserveOutcome>;

  /**
   * Turns a reservation into a record. One that has expired meanwhile is no obstacle, as long as the id is free.
   *
   * @throws the id has a record
   */
  create(record: NewSessionRecord): Promise<McpSessionRecord>;

  /** Gives a reservation back. Idempotent. */
  release(id: string): Promise<void>;

  get(id: string): Promise<McpSessionRecord | undefined>;

  /** Changes a record in one step. @returns the record after the change, or `undefined` if it is gone */
  patch(id: string, patch: SessionPatch): Promise<McpSessionRecord | undefined>;

  /** Notes a sign of life. @returns whether the session still exists */
  touch(id: string): Promise<boolean>;

  /** Removes a record. @returns the record, to exactly one caller; `undefined` to all others */
  delete(id: string): Promise<McpSessionRecord | undefined>;

  /**
   * Removes the sessions that gave no sign of life for `idleMs`, at most `limit` of them.
   *
   * @returns the removed records; each goes to exactly one caller
   */
  claimExpired(idleMs: number, limit: number): Promise<McpSessionRecord[]>;

  /** All records, oldest first, or those that a filter picks. */
  list(filter?: RecordFilter): Promise<McpSessionRecord[]>;

  /** How many records there are, of one kind or of all; reservations not counted. */
  count(kind?: RecordKind): Promise<number>;
}

/** The injection token of the {@link McpSessionStore}. @publicApi */
export const McpSessionStore = Symbol('nestjs-mcp-streamable:McpSessionStore');

/** @publicApi */
export interface SessionCaps {
  /** Records and reservations in all; `Infinity`: no cap. */
  total: number;
  /** Records and reservations of the principal that is asked for; `Infinity`: no cap but that of all. */
  perPrincipal: number;
}

/** `taken`: the id is in use, so the id generator is broken. @publicApi */
export type ReserveOutcome = 'reserved' | 'total-cap' | 'principal-cap' | 'taken';

/** What the client said in `initialize`. @publicApi */
export interface InitializeParams {
  protocolVersion: string;
  capabilities: Record<string, unknown>;
  clientInfo: { name: string; version: string; [key: string]: unknown };
  [key: string]: unknown;
}

/** What a record is of: a session has no `kind` in its record. @publicApi */
export type RecordKind = 'session' | 'state';

/** Picks records: all that are given must fit. @publicApi */
export interface RecordFilter {
  /** Whose they are; `null`: the anonymous ones. */
  principal?: string | null;
  kind?: RecordKind;
}

/** @publicApi */
export interface McpSessionRecord {
  id: string;
  /** Absent: a session. `state`: state that outlives a call. */
  kind?: 'state';
  /** Who owns the session, or the state; absent: anonymous. */
  principal?: string;
  /** The parameters of the path that the session began at; absent without any. */
  routeParams?: Readonly<Record<string, unknown>>;
  /** The negotiated revision. */
  protocolVersion: string;
  /**
   * The parameters of `initialize`: replayed into a fresh server when the session is rebuilt. Of a state: the same of the
   * client in whose call it began.
   */
  initialize: InitializeParams;
  /** Set by `logging/setLevel`. */
  logLevel?: string;
  /** URIs of `resources/subscribe`. */
  subscriptions: readonly string[];
  /** Milliseconds since the epoch, by the store's clock. */
  createdAt: number;
  /** Milliseconds since the epoch, by the store's clock; may lag behind by a tenth of the idle timeout. */
  lastSeenAt: number;
  /** The application's own; plain JSON. */
  data: Record<string, unknown>;
}

/** What `create` is given; the store stamps the times. @publicApi */
export type NewSessionRecord = Pick<McpSessionRecord, 'id' | 'principal' | 'protocolVersion' | 'initialize'> &
  Partial<Pick<McpSessionRecord, 'data' | 'kind' | 'routeParams'>>;

/** @publicApi */
export interface SessionPatch {
  logLevel?: string;
  /** Added to `subscriptions`, once each. */
  subscribe?: readonly string[];
  /** Removed from `subscriptions`. */
  unsubscribe?: readonly string[];
  /** Merged into `data`, key by key; `null` removes a key. */
  data?: Record<string, unknown>;
}
