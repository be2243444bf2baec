import { fromStored, toStored } from '../core/common/formats.js';
import { promiseOf, Turns } from '../core/common/promises.js';
import { McpStateError } from '../core/calls/mcp-state.js';
import type { McpEndpointHost } from '../core/plugins/mcp-plugin.js';
import type { McpStateQuota, McpStateStore } from '../core/questions/state/state-store.js';

/**
 * A state store, for what at most one caller may begin. Over a store without `add`, that holds in this process alone.
 */
export class ClaimStore {
  readonly #turns = new Turns();

  constructor(
    private readonly store: McpStateStore,
    private readonly fault: McpEndpointHost['storeFault'],
  ) {}

  /** Returns whether exactly one caller of all nodes succeeds in {@link add}. */
  get isAtomic(): boolean {
    return typeof this.store.add === 'function';
  }

  /** Sets a value if there is none. @throws (rejects) McpStateError, as the other methods do */
  add(key: string, value: unknown, ttlMs: number, quota: McpStateQuota): Promise<'full' | boolean> {
    const { store } = this;
    if (store.add) return this.#asking(() => store.add!(key, toStored('once', value), ttlMs, quota));
    return this.#turns.run(key, async () => {
      if ((await this.get(key)) !== undefined) return false;
      return (await this.set(key, value, ttlMs, quota)) === 'full' ? 'full' : true;
    });
  }

  get(key: string): Promise<unknown> {
    return this.#asking(async () => fromStored('once', await this.store.get(key)));
  }

  set(key: string, value: unknown, ttlMs: number, quota: McpStateQuota): Promise<unknown> {
    return this.#asking(async () => {
      const outcome = await this.store.set(key, toStored('once', value), ttlMs, quota);
      if (outcome === false) throw new Error('The state store did not keep a value: set() returned false.');
      return outcome;
    });
  }

  delete(key: string): Promise<boolean> {
    return this.#asking(() => this.store.delete(key));
  }

  /**
   * Reports a value with which no call can be decided.
   *
   * @param what is wrong with it, for operators
   * @returns the error for the caller
   */
  unreadable(what: string): McpStateError {
    const cause = new Error(`The state store cannot be used: ${what}.`);
    this.fault(cause);
    const message =
      'The storage of this server has an entry for this call that the server cannot read, so it is not known whether this call has run before. The tool did not run.';
    return new McpStateError('STORE_UNAVAILABLE', message, { cause });
  }

  #asking<T>(ask: () => Promise<T>): Promise<T> {
    return promiseOf(ask).catch((error: unknown) => {
      this.fault(error);
      const message =
        'The storage of this server is unavailable, so it is not known whether this call has run before. Try again soon.';
      throw new McpStateError('STORE_UNAVAILABLE', message, { cause: error });
    });
  }
}
