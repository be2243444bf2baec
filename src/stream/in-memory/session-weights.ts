import type { SessionLog } from './session-log.js';

/** Sessions lighter than this are all alike. */
const SMALLEST_CLASS_BYTES = 256;
/** Of sessions that hold nothing that could be evicted. */
const UNRANKED = 0;

/**
 * # Which session holds the most
 *
 * Bytes of all sessions together, and the sessions ranked by weight in classes that double: class 1 up to 256 bytes,
 * class 2 up to 512, and so on. A session moves when it leaves its class, so that an append usually costs one
 * comparison, and the heaviest session is found in O(1), right to a factor of two. Within a class, the one that came
 * first goes first.
 *
 * Invariant: a session is in `#classes[n]` exactly if its account says rank `n`, `n > 0`; rank 0 has nothing to evict.
 *
 * @internal
 */
export class SessionWeights {
  /** Bytes of all sessions. */
  total = 0;
  readonly #classes: Set<SessionLog>[] = [];

  /** To be told after each change of a session. */
  update(session: SessionLog): void {
    const { account, bytes } = session;
    this.total += bytes - account.bytes;
    account.bytes = bytes;
    this.#move(session, session.evictable ? 33 - Math.clz32(bytes / SMALLEST_CLASS_BYTES) : UNRANKED);
  }

  remove(session: SessionLog): void {
    this.total -= session.account.bytes;
    session.account.bytes = 0;
    this.#move(session, UNRANKED);
  }

  /** One of the heaviest sessions that may have something to evict. */
  heaviest(): SessionLog | undefined {
    for (let rank = this.#classes.length - 1; rank > UNRANKED; rank--) {
      for (const session of this.#classes[rank] ?? []) return session;
    }
    return undefined;
  }

  #move(session: SessionLog, rank: number): void {
    const { account } = session;
    if (account.rank === rank) return;
    if (account.rank !== UNRANKED) this.#classes[account.rank]!.delete(session);
    if (rank !== UNRANKED) this.#class(rank).add(session);
    account.rank = rank;
  }

  #class(rank: number): Set<SessionLog> {
    while (this.#classes.length <= rank) this.#classes.push(new Set());
    return this.#classes[rank]!;
  }
}
