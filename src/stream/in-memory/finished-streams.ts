import type { Clock, ClockTimer } from '../../base/clock.js';
import type { SessionLog } from './session-log.js';
import type { StreamLog } from './stream-log.js';

/** What a timer can be set to. */
const LONGEST_DELAY_MS = 2 ** 31 - 1;

/**
 * # Streams that have ended, waiting to be forgotten
 *
 * All wait equally long, so the order of ending is the order of forgetting, and one timer for the first one is enough.
 *
 *     resting ──add──▶ armed ──last one deleted──▶ resting
 *                       └─timer─▶ forgets what is due; armed again while something waits
 *
 * Invariant: the timer is armed exactly while something waits.
 *
 * @internal
 */
export class FinishedStreams {
  readonly #waiting = new Map<StreamLog, SessionLog>();
  #timer: ClockTimer | undefined;

  constructor(
    private readonly clock: Clock,
    private readonly keepMs: number,
    private readonly forget: (session: SessionLog, stream: StreamLog) => void,
  ) {}

  add(session: SessionLog, stream: StreamLog): void {
    this.#waiting.set(stream, session);
    if (this.#timer === undefined) this.#arm(this.keepMs);
  }

  delete(stream: StreamLog): void {
    if (this.#waiting.delete(stream) && this.#waiting.size === 0) this.#disarm();
  }

  clear(): void {
    this.#waiting.clear();
    this.#disarm();
  }

  #arm(delayMs: number): void {
    this.#timer = this.clock.setTimeout(() => this.#sweep(), Math.min(delayMs, LONGEST_DELAY_MS));
  }

  #disarm(): void {
    this.clock.clear(this.#timer);
    this.#timer = undefined;
  }

  #sweep(): void {
    this.#timer = undefined;
    const now = this.clock.now();
    for (const [stream, session] of this.#waiting) {
      const left = stream.endedAt! + this.keepMs - now;
      // A clock that was set back must not make it wait longer than from the beginning.
      if (left > 0) return this.#arm(Math.min(left, this.keepMs));
      this.#waiting.delete(stream);
      this.forget(session, stream);
    }
  }
}
