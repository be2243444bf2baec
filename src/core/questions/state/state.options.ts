import { count, type OptionTable, type Resolved } from '../../common/options.js';

/** Bounds the state that outlives a call. @internal */
export interface McpStateOptions {
  /**
   * Limits the number of states (`ctx.state()`, `ctx.principalState()`) per principal. A `patch` that would create one
   * more fails with `TOO_MANY_STATES`. The option has no effect on a `stateStore` without quotas, such as a plain Keyv.
   *
   * @default 100
   */
  maxStatesPerPrincipal?: number;
  /**
   * Limits the number of states of all anonymous callers together; otherwise it works like `maxStatesPerPrincipal`.
   * Anonymous callers can make the server store at most this number times `maxStateBytes`.
   *
   * @default 10000
   */
  maxAnonymousStates?: number;
  /**
   * Limits the data of one state, in bytes of JSON. A `patch` that would make it larger fails with `STATE_TOO_LARGE`.
   *
   * @default 65536 (64 KiB)
   */
  maxStateBytes?: number;
}

export const STATE_TABLE = {
  maxStatesPerPrincipal: count(100, { infinite: true }),
  maxAnonymousStates: count(10_000, { infinite: true }),
  maxStateBytes: count(65_536, { infinite: true }),
} satisfies OptionTable<McpStateOptions>;

export type ResolvedStateOptions = Resolved<typeof STATE_TABLE>;
