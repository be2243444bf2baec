import type { Clock, ClockTimer } from '../../common/clock.js';
import { Ring } from './ring.js';
import type { SessionLog } from './session-log.js';
import type { StreamLog } from './stream-log.js';

/** What a timer can be set to. */
const LONGEST_DELAY_MS = 2 ** 31 - 1;
/** Streams that wait no more may be as many before they are cleared away. */
const STALE_STREAMS = 16;

/**
 * # Streams that have ended, waiting to be forgotten
 *
 * All wait equally long, so the order of ending is the order of forgetting, and one timer for the first one is enough.
 *
 *     resting ──add──▶ armed ──last one deleted──▶ resting
 *                       └─timer─▶ forgets what is due; armed again while something waits
 *
 * Invariants: the timer is armed exactly while something waits; `#order` holds all that waits, and at most as much again
 * that does not any more. (The order of a `Map` would do, but for stepping over all that was deleted before its first key.)
 *
 * @internal
 */
export class FinishedStreams {
  readonly #waiting = new Map<StreamLog, SessionLog>();
  readonly #order = new Ring<StreamLog>();
  #timer: ClockTimer | undefined;

  constructor(
    private readonly clock: Clock,
    private readonly keepMs: number,
    private readonly forget: (session: SessionLog, stream: StreamLog) => void,
  ) {}

  add(session: SessionLog, stream: StreamLog): void {
    this.#waiting.set(stream, session);
    this.#order.push(stream);
    if (this.#timer === undefined) this.#arm(this.keepMs);
  }

  delete(stream: StreamLog): void {
    if (!this.#waiting.delete(stream)) return;
    if (this.#waiting.size === 0) this.clear();
    else if (this.#order.length > 2 * this.#waiting.size + STALE_STREAMS) {
      this.#order.retain((other) => this.#waiting.has(other));
    }
  }

  clear(): void {
    this.#waiting.clear();
    this.#order.clear();
    this.clock.clear(this.#timer);
    this.#timer = undefined;
  }

  #arm(delayMs: number): void {
    this.#timer = this.clock.setTimeout(() => this.#sweep(), Math.min(delayMs, LONGEST_DELAY_MS));
  }

  #sweep(): void {
    this.#timer = undefined;
    const now = this.clock.now();
    for (let stream = this.#order.at(0); stream; stream = this.#order.at(0)) {
      const session = this.#waiting.get(stream);
      const left = session ? stream.endedAt! + this.keepMs - now : 0;
      // A clock that was set back must not make it wait longer than from the beginning.
      if (left > 0) return this.#arm(Math.min(left, this.keepMs));
      this.#order.shift();
      this.#waiting.delete(stream);
      if (session) this.forget(session, stream);
    }
  }
}
