import { DEAD_AFTER_MS, KEEP_ALIVE_MS, RETRY_MS } from './node.js';

/** What docs/several-nodes.md promises: no client waits longer than this and the faults themselves. */
const PROMISED_MS = KEEP_ALIVE_MS + RETRY_MS + DEAD_AFTER_MS;

/**
 * A wait beyond it is a fault. On a busy machine the processes of Redis are late for seconds, which nothing here can tell from a wait of
 * the package: so it is the promise only where the machine is said to be quiet (`npm run x -- kill`), and else what never ends.
 */
export const MOST_MS = process.env['QUIET_MACHINE'] === undefined ? 60_000 : PROMISED_MS;

const LAG_STEP_MS = 10;
const BUSY_MS = 50;
let lag = 0;

/** Measures for how long this process did nothing that it had to do: all nodes and clients of all worlds share it. */
export function watchLag(): () => void {
  let last = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    const late = now - last - LAG_STEP_MS;
    // Less than that a process is late all the time, and in no one's way.
    if (late > BUSY_MS) lag += late;
    last = now;
  }, LAG_STEP_MS);
  return () => clearInterval(timer);
}

/**
 * # What clients wait for, and how long
 *
 * A wait begins anew whenever its client has heard something, and with each further fault: the node that dies may just have been
 * about to answer for another one. Not counted is what lies in a fault that lasts (Redis away, a node that is cut off), and by how
 * much this process was late.
 */
export class Waits {
  readonly #open = new Set<OpenWait>();
  readonly #watch: NodeJS.Timeout;
  /** Faults that last, at the moment. */
  #faults = 0;
  #faultyMs = 0;
  #faultySince = 0;
  longestMs = 0;

  constructor(private readonly late: (what: string, ms: number) => void) {
    this.#watch = setInterval(() => {
      for (const wait of this.#open) wait.check();
    }, 100);
  }

  /** @param idleMs for which there is nothing to be heard, by itself */
  begin(what: string, idleMs: number): Wait {
    const wait = new OpenWait(this, what, idleMs, () => this.#open.delete(wait));
    this.#open.add(wait);
    return wait;
  }

  /** A fault that is over in no time. */
  struck(): void {
    for (const wait of this.#open) wait.heard();
  }

  /** Something lasts that keeps clients waiting. @returns it is over */
  fault(): () => void {
    this.struck();
    if (this.#faults++ === 0) this.#faultySince = performance.now();
    return () => {
      if (--this.#faults === 0) this.#faultyMs += performance.now() - this.#faultySince;
    };
  }

  /** Milliseconds until now that count. */
  get counted(): number {
    const now = performance.now();
    const faulty = this.#faultyMs + (this.#faults > 0 ? now - this.#faultySince : 0);
    return now - faulty - lag;
  }

  waited(what: string, ms: number, isLate: boolean): void {
    this.longestMs = Math.max(this.longestMs, ms);
    if (isLate) this.late(what, ms);
  }

  close(): void {
    clearInterval(this.#watch);
  }
}

export interface Wait {
  heard(): void;
  end(): void;
}

class OpenWait implements Wait {
  #since: number;
  #late = false;

  constructor(
    private readonly waits: Waits,
    private readonly what: string,
    private readonly idleMs: number,
    private readonly over: () => void,
  ) {
    this.#since = waits.counted;
  }

  heard(): void {
    this.check();
    this.#since = this.waits.counted;
    this.#late = false;
  }

  check(): void {
    const ms = this.waits.counted - this.#since - this.idleMs;
    const isLate = ms > MOST_MS && !this.#late;
    this.#late ||= isLate;
    this.waits.waited(this.what, ms, isLate);
  }

  end(): void {
    this.check();
    this.over();
  }
}
