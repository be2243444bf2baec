import type { ClockTimer, McpClock } from '../../common/clock.js';
import type { ClaimStore } from './claim-store.js';

/** Other nodes think that a node runs nothing more when it has not renewed its lease for so many milliseconds. */
const LEASE_MS = 30_000;
const RENEW_MS = LEASE_MS / 3;

/**
 * # The sign that the claims of this node are of calls that run
 *
 * A claim names its node. While a node has claims, it keeps a value in the store that expires by itself: when that is gone, the
 * calls of the node have ended, however the process did. A bus that sees the node die removes it earlier.
 *
 * The lease is in the store before the first claim is, and there is one timer, while there are claims.
 */
export class NodeLease {
  #held = 0;
  #timer: ClockTimer | undefined;
  #renewed: { readonly at: number; readonly done: Promise<unknown> } | undefined;

  constructor(
    readonly node: string,
    private readonly store: ClaimStore,
    private readonly clock: McpClock,
    private readonly owner: string,
  ) {}

  /** Begins a claim. Resolves when the lease is in the store. @throws (rejects) McpStateError; then nothing is held */
  async hold(): Promise<void> {
    this.#held++;
    this.#timer ??= this.clock.setInterval(() => this.#renew(), RENEW_MS);
    try {
      if (!this.#renewed || this.clock.now() - this.#renewed.at >= RENEW_MS) this.#renew();
      await this.#renewed!.done;
    } catch (error) {
      this.#renewed = undefined;
      this.release();
      throw error;
    }
  }

  /** Ends a claim. The lease expires by itself. */
  release(): void {
    if (--this.#held > 0) return;
    this.clock.clear(this.#timer);
    this.#timer = undefined;
  }

  /** Returns whether the calls of a node may run. @throws (rejects) McpStateError */
  async isAlive(node: string): Promise<boolean> {
    return (await this.store.get(this.#keyOf(node))) !== undefined;
  }

  /** Ends the lease of a node that has died, or leaves. @throws (rejects) McpStateError */
  async end(node: string): Promise<void> {
    await this.store.delete(this.#keyOf(node));
  }

  /** Renews no longer: this node stops. Its claims that are left are those of calls that have been cancelled. */
  async leave(): Promise<void> {
    this.clock.clear(this.#timer);
    this.#timer = undefined;
    if (this.#held > 0) await this.end(this.node).catch(() => {});
  }

  #renew(): void {
    const done = this.store.set(this.#keyOf(this.node), true, LEASE_MS, { owner: this.owner, max: Infinity });
    // A lease that was not renewed is renewed at the next tick.
    done.catch(() => {});
    this.#renewed = { at: this.clock.now(), done };
  }

  #keyOf(node: string): string {
    return `${this.owner}:${node}`;
  }
}
