import { check, namesOf } from '../common/option-checks.js';

/** Bounds of state that outlives a call. @publicApi */
export interface McpStateOptions {
  /**
   * Maximum number of states (`ctx.state()`, `ctx.principalState()`) per principal. A `patch` that would create one
   * more fails with `TOO_MANY_STATES`. No effect on a `stateStore` without quotas, such as a plain Keyv.
   *
   * @default 100
   */
  maxStatesPerPrincipal?: number;
  /**
   * Maximum number of states of all anonymous callers together; otherwise like `maxStatesPerPrincipal`. Anonymous
   * callers can make the server store at most this number times `maxStateBytes`.
   *
   * @default 10000
   */
  maxAnonymousStates?: number;
  /**
   * Maximum size in bytes of the data of one state, as JSON. A `patch` that would make it larger fails with
   * `STATE_TOO_LARGE`.
   *
   * @default 65536 (64 KiB)
   */
  maxStateBytes?: number;
}

export const STATE_NAMES = namesOf<McpStateOptions>({
  ...{ maxStatesPerPrincipal: true, maxAnonymousStates: true, maxStateBytes: true },
});

export type ResolvedStateOptions = Required<McpStateOptions>;

/** The injection token of the {@link ResolvedStateOptions}. */
export const STATE_OPTIONS = Symbol('nestjs-mcp-streamable:state-options');

/** @throws McpOptionError */
export function resolveStateOptions(options: McpStateOptions = {}): ResolvedStateOptions {
  const { maxStatesPerPrincipal = 100, maxAnonymousStates = 10_000, maxStateBytes = 65_536 } = options;
  return {
    maxStatesPerPrincipal: check.count('maxStatesPerPrincipal', maxStatesPerPrincipal, { infinite: true }),
    maxAnonymousStates: check.count('maxAnonymousStates', maxAnonymousStates, { infinite: true }),
    maxStateBytes: check.count('maxStateBytes', maxStateBytes, { infinite: true }),
  };
}
