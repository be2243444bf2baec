/**
 * # The state store
 *
 * Keeps what outlives a call: `ctx.state()`, `ctx.principalState()`, and what tools with `idempotency` or `confirm` remember. It
 * needs the operations of any key-value store: an instance of Keyv is a state store.
 *
 * For implementers of a store:
 *
 * - **Keys** have the form `<owner>:<id>`: letters, digits and `.-_%:`. The owner names the endpoint and the principal, the
 *   principal as a hash.
 * - **Values** are plain JSON. Changes to an object that was passed or returned have no effect in the store.
 * - **Time**: a value expires `ttlMs` after it was last set. No other call extends that.
 * - **Caps** are optional. A store that ignores `quota`, as Keyv does, has no limit.
 * - Calls run concurrently, from several nodes; each of them is atomic. The later of two `set` wins.
 *
 * The contract test is exported by `nestjs-mcp-streamable/testing`.
 *
 * @publicApi
 */
export interface McpStateStore {
  /** Reads a value. @returns the value; `undefined` if there is none, or it has expired */
  get(key: string): Promise<unknown>;

  /**
   * Sets a value, replacing an existing one.
   *
   * @param ttlMs milliseconds; `undefined`: it does not expire
   * @param quota given for every value; a value that takes the place of another one is kept, whatever the quota
   * @returns `'full'`: refused, the owner has `quota.max` other values already; `false`: not kept, as Keyv says when its
   *   storage has failed. Anything else: kept
   */
  set(key: string, value: unknown, ttlMs?: number, quota?: McpStateQuota): Promise<'full' | boolean | void>;

  /** Deletes a value. @returns whether there was one */
  delete(key: string): Promise<boolean>;

  /**
   * Sets a value if there is none, in one step for all nodes: of many callers at the same moment exactly one sets its own.
   * Optional; without it, `idempotency` and confirmations of tools hold within each process alone.
   *
   * @param ttlMs as of {@link set}
   * @param quota as of {@link set}
   * @returns `true`: set; `false`: there is a value already; `'full'`: refused, as {@link set} does
   */
  add?(key: string, value: unknown, ttlMs?: number, quota?: McpStateQuota): Promise<'full' | boolean>;

  /**
   * Sets a value if the current one is still `expected`, in one step for all nodes. Values are compared as JSON. Optional;
   * without it, of two nodes that switch handlers off at the same moment one may undo the switch of the other in the store,
   * until the next sweep of the sessions.
   *
   * @param expected a value that {@link get} returned; `undefined`: there is none
   * @param ttlMs as of {@link set}
   * @param quota as of {@link set}
   * @returns `true`: set; `false`: the current value is another one; `'full'`: refused, as {@link set} does
   */
  compareAndSet?(
    key: string,
    expected: unknown,
    value: unknown,
    ttlMs?: number,
    quota?: McpStateQuota,
  ): Promise<'full' | boolean>;
}

/** The injection token of the {@link McpStateStore}. @publicApi */
export const McpStateStore = Symbol('nestjs-mcp-streamable:McpStateStore');

/** A {@link McpStateStore} of an app must have these methods. */
export const STATE_STORE_METHODS = ['get', 'set', 'delete'] as const;

/** Bounds how many values one owner may have. @publicApi */
export interface McpStateQuota {
  /** The part of the key before the last colon. */
  readonly owner: string;
  /** `Infinity`: no cap. */
  readonly max: number;
}
