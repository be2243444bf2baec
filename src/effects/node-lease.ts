import type { ClockTimer, McpClock } from '../core/common/clock.js';
import type { ClaimStore } from './claim-store.js';

/** A lease expires when its node has not renewed it for so many milliseconds. */
const LEASE_MS = 20_000;
const RENEW_MS = LEASE_MS / 4;
/** It is remembered for so many milliseconds that a node has ended. */
const ENDED_MS = 600_000;

/**
 * # The sign that the claims of this node are of calls that run
 *
 * A claim names its node. While a node has claims, it keeps a value in the store that expires by itself: when that is missing for
 * longer than an outage of the store explains, the calls of the node have ended, however the process did. A node that leaves, and a
 * bus that sees it die, say so earlier.
 *
 * The lease is in the store before the first claim is, and there is one timer, while there are claims.
 */
export class NodeLease {
  #held = 0;
  #timer: ClockTimer | undefined;
  #renewed: { readonly at: number; readonly done: Promise<unknown>; isStored: boolean } | undefined;

  constructor(
    readonly node: string,
    private readonly store: ClaimStore,
    private readonly clock: McpClock,
    private readonly owner: string,
  ) {}

  /**
   * Begins a claim.
   *
   * @returns resolves when the lease is in the store; `undefined`: it is there
   * @throws (rejects) McpStateError; then nothing is held
   */
  hold(): Promise<unknown> | undefined {
    this.#held++;
    this.#timer ??= this.clock.setInterval(() => this.#renew(), RENEW_MS);
    if (!this.#renewed || this.clock.now() - this.#renewed.at >= RENEW_MS) this.#renew();
    const { isStored, done } = this.#renewed!;
    if (isStored) return undefined;
    return done.catch((error: unknown) => {
      this.#renewed = undefined;
      this.release();
      throw error;
    });
  }

  /** Ends a claim. The lease expires by itself. */
  release(): void {
    if (--this.#held > 0) return;
    this.clock.clear(this.#timer);
    this.#timer = undefined;
  }

  /** Says whether the calls of a node may run. @throws (rejects) McpStateError */
  async of(node: string): Promise<'held' | 'missing' | 'ended'> {
    if ((await this.store.get(this.#keyOf(node))) !== undefined) return 'held';
    return (await this.store.get(this.#endOf(node))) === undefined ? 'missing' : 'ended';
  }

  /** Ends the lease of a node that has died, or leaves. One that goes on after all renews it. @throws (rejects) McpStateError */
  async end(node: string): Promise<void> {
    await this.store.set(this.#endOf(node), true, ENDED_MS, { owner: this.owner, max: Infinity });
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
    const renewed = { at: this.clock.now(), done, isStored: false };
    this.#renewed = renewed;
    done.then(
      () => (renewed.isStored = true),
      // A lease that was not renewed is renewed at the next tick.
      () => {},
    );
  }

  #keyOf(node: string): string {
    return `${this.owner}:${node}`;
  }

  #endOf(node: string): string {
    return `${this.owner}:${node}.ended`;
  }
}
