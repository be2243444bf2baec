import { setImmediate } from 'node:timers';
import { type LoopLag, processLag } from '../common/loop-lag.js';
import type { McpCall } from '../context/mcp-call.js';
import { McpError } from '../wire/errors.js';

/** How many calls run at a time, and how late the process may be. */
export interface AdmissionLimits {
  readonly maxRunningCalls: number;
  readonly maxRunningCallsPerPrincipal: number;
  readonly maxLagMs: number;
}

/** While the event loop is later than this, calls wait for their turn; otherwise they begin at once. */
const LATE_MS = 4;
/** Calls that begin in one turn of the loop: fewer while turns take longer than this. */
const TURN_MS = 25;
const MOST_STARTS = 32;
/** Turns without a begin between two with one: Node accepts one connection per turn, and others wait to be accepted. */
const READING_TURNS = 32;
const RETRY_AFTER = { 'Retry-After': '1' };

/**
 * # Which calls begin, and when (E14)
 *
 * A call is refused while its caller or the node runs too many, or while the node is too late. In a process that is
 * late, accepted calls begin in turns: one caller after the other, a few for each turn of the event loop, so that
 * requests of other callers, cancellations and disconnects are read between two handlers.
 *
 *     entered ──the loop is in time──────────────▶ begun ──▶ left
 *        └──late──▶ waits for the turn of its caller ──▶ begun ──▶ left
 *                           └── cancelled, client gone ─────────▶ left
 *
 * Invariant: a caller is in `#callers` while it has calls, and in `#turns` while it has calls that wait.
 */
export class CallAdmission {
  readonly #callers = new Map<string | undefined, Caller>();
  /** Callers with waiting calls; the first has the next turn. */
  #turns: Caller[] = [];
  #running = 0;
  #starts = 1;
  #turnAt = 0;
  #tookMs = 0;
  #reading = 0;

  constructor(
    private readonly limits: AdmissionLimits,
    /** Begins a call that has waited. */
    private readonly begin: (call: McpCall) => void,
    private readonly lag: LoopLag = processLag,
  ) {}

  /** Whether a limit may be reached: without load, a request costs this question. */
  get strained(): boolean {
    const { maxRunningCalls, maxRunningCallsPerPrincipal, maxLagMs } = this.limits;
    return (
      this.#running >= Math.min(maxRunningCalls, maxRunningCallsPerPrincipal) ||
      this.#turns.length > 0 ||
      this.lag.lastingMs > maxLagMs
    );
  }

  /**
   * Why a caller may not begin another call now; `undefined`: it may.
   *
   * @param principal of the caller; `undefined`: anonymous
   * @param sessionId of an anonymous caller's session: calls of other sessions do not count
   */
  refusal(principal: string | undefined, sessionId: string | undefined): McpError | undefined {
    const { maxRunningCalls, maxRunningCallsPerPrincipal, maxLagMs } = this.limits;
    if (this.#running >= maxRunningCalls) {
      return tooBusy('UNAVAILABLE', `This server runs ${maxRunningCalls} calls, its maximum.`, 'maxRunningCalls');
    }
    if (this.lag.lastingMs > maxLagMs) return late();
    if (this.#running === 0) return undefined;
    const key = principal ?? sessionId;
    const caller = this.#callers.get(key);
    if (!caller) return undefined;
    // Anonymous callers without a session are many clients: only the limit of the node holds for them.
    if (key !== undefined && caller.calls >= maxRunningCallsPerPrincipal) {
      const text = `${maxRunningCallsPerPrincipal} calls of this caller are running, the maximum.`;
      return tooBusy('TOO_MANY_REQUESTS', text, 'maxRunningCallsPerPrincipal');
    }
    const [first] = caller.waiting;
    return first && this.lag.now() - first.at > maxLagMs ? late() : undefined;
  }

  /** A call was accepted. */
  enter(call: McpCall): void {
    const key = keyOf(call);
    this.#running++;
    const caller = this.#callers.get(key);
    if (caller) caller.calls++;
    else this.#callers.set(key, { key, calls: 1, waiting: [] });
  }

  /** A call is over, begun or not. */
  leave(call: McpCall): void {
    const caller = this.#callers.get(keyOf(call))!;
    this.#running--;
    caller.calls--;
    this.#forget(caller);
  }

  /** Whether a call must wait; then `begin` is called in its turn. */
  waits(call: McpCall): boolean {
    if (this.#turns.length === 0 && this.lag.recentMs <= LATE_MS) return false;
    const caller = this.#callers.get(keyOf(call))!;
    if (caller.waiting.push({ call, at: this.lag.now() }) > 1) return true;
    if (this.#turns.push(caller) === 1) setImmediate(this.#turn);
    return true;
  }

  #forget({ key, calls, waiting }: Caller): void {
    if (calls === 0 && waiting.length === 0) this.#callers.delete(key);
  }

  /** Begins a few calls. Their promises run on when this returns: what they cost is known in the next turn. */
  readonly #turn = (): void => {
    if (this.#reading > 0) {
      if (this.#reading-- === READING_TURNS) this.#tookMs = this.lag.now() - this.#turnAt;
      setImmediate(this.#turn);
      return;
    }
    this.#starts = this.#tookMs > TURN_MS ? Math.max(1, this.#starts >> 1) : Math.min(MOST_STARTS, this.#starts * 2);
    let left = this.#starts;
    this.#turnAt = this.lag.now();
    while (left > 0 && this.#turns.length > 0) {
      const caller = this.#turns.shift()!;
      const { call } = caller.waiting.shift()!;
      if (caller.waiting.length > 0) this.#turns.push(caller);
      else this.#forget(caller);
      if (call.state !== 'open') continue;
      left--;
      this.begin(call);
    }
    if (this.#turns.length === 0) return;
    this.#reading = READING_TURNS;
    setImmediate(this.#turn);
  };
}

interface Caller {
  readonly key: string | undefined;
  calls: number;
  /** In their order; `at`: since when, by the clock of the lag. */
  readonly waiting: { readonly call: McpCall; readonly at: number }[];
}

/** All anonymous callers of one session are one caller, and all without a session. */
function keyOf({ principal, session }: McpCall): string | undefined {
  return principal ?? session?.id;
}

function late(): McpError {
  return tooBusy('UNAVAILABLE', 'This server is overloaded, and calls would wait too long.', 'maxLagMs');
}

function tooBusy(code: 'UNAVAILABLE' | 'TOO_MANY_REQUESTS', text: string, option: string): McpError {
  return new McpError(code, `${text} Try again in a moment.`, { headers: RETRY_AFTER, option });
}
