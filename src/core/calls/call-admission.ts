import { AsyncResource } from 'node:async_hooks';
import type { LoopLag } from '../common/loop-lag.js';
import type { CallPlace, McpCall } from './mcp-call.js';
import { type McpError, retryLater } from '../protocol/errors.js';

// Read when the module is loaded: tests that fake time would never begin a call.
const { setImmediate: nextTurn } = globalThis;

/** Bounds how many calls run at a time, and how late the process may be. */
export interface AdmissionLimits {
  readonly maxRunningCalls: number;
  readonly maxRunningCallsPerPrincipal: number;
  readonly maxLagMs: number;
}

/** Calls wait for their turn once the event loop has had nothing but work for this many milliseconds. */
const BUSY_MS = 50;
/** A turn of a busy event loop that lasts longer is followed by turns that only read. */
const LONG_TURN_MS = 4;
/** At most so many calls begin in one turn; fewer begin while turns are long. */
const MOST_STARTS = 32;
/**
 * After a long turn no call begins for so many turns. Node accepts one connection per turn: otherwise other clients
 * would wait, in the backlog of the system, for a handler of each client before them.
 */
const READING_TURNS = 16;
/** These turns end after so many milliseconds: in a process that others keep from running, each may take long. */
const READING_MS = 50;
/** The pace of a caller is roughly the mean over so many of its last begins. */
const PACE_OF = 8;

/**
 * # Which calls begin, and when (E14)
 *
 * A call is refused while its caller or the node runs too many, or while the node is too late. Handlers that keep the
 * processor busy would run one after the other, in the order of their requests. So in a busy process, after a long turn of
 * the event loop, calls begin in turns: one caller after the other, a few for each turn, and between them there are turns that only read
 * what other clients send: requests, cancellations, disconnects.
 *
 *     at once ──a turn with begins was long──▶ reading ──READING_TURNS──▶ calls wait? ──yes──▶ some begin ──▶ reading or
 *        ▲                                                                  │                                 beginning
 *        └──────────────────────────────────no──────────────────────────────┘
 *
 * Invariant: a caller is in `#callers` while it has calls, and in `#turns` while it has calls that wait.
 */
export class CallAdmission {
  readonly #callers = new Map<string | undefined, Caller>();
  /** Callers with waiting calls are in the order of their turns. */
  readonly #turns: Caller[] = [];
  #running = 0;
  /** Counts those of them whose callers are anonymous. */
  #anonymous = 0;
  /** Whether a caller with a principal has called this node. */
  #signedIn = false;
  #starts = 1;
  /** The time at which the first call of this turn began; `undefined` while none has. */
  #turnAt: number | undefined;
  /** The time since which the event loop did not wait for anything, and how long it had waited until then. */
  #busySince = -Infinity;
  #idleMs = 0;
  /** Counts the turns that remain without a begin, and the time at which the first of them began. */
  #reading = 0;
  #readingAt = 0;

  constructor(
    private readonly limits: AdmissionLimits,
    /** Begins a call that has waited. */
    private readonly begin: (call: McpCall) => void,
    private readonly lag: LoopLag,
  ) {}

  /** Returns whether a limit may be reached: without load, a request costs this question. */
  get strained(): boolean {
    const { maxRunningCalls, maxRunningCallsPerPrincipal, maxLagMs } = this.limits;
    return (
      this.#running >= Math.min(Math.ceil(maxRunningCalls / 2), maxRunningCallsPerPrincipal) ||
      this.#turns.length > 0 ||
      this.lag.lastingMs > maxLagMs
    );
  }

  /**
   * Returns why a caller may not begin another call now; `undefined`: it may.
   *
   * @param principal of the caller; `undefined`: anonymous
   * @param sessionId of an anonymous caller's session: calls of other sessions do not count
   */
  refusal(principal: string | undefined, sessionId: string | undefined): McpError | undefined {
    const { maxRunningCalls, maxRunningCallsPerPrincipal, maxLagMs } = this.limits;
    // One that is refused counts too: otherwise anonymous callers who came first would take each place that is free again.
    if (principal !== undefined) this.#signedIn = true;
    if (this.#running >= maxRunningCalls) {
      return tooBusy('UNAVAILABLE', `This server runs ${maxRunningCalls} calls, its maximum.`, 'maxRunningCalls');
    }
    // Anonymous callers are any number of clients: half of the places is left for those who sign in.
    if (principal === undefined && this.#signedIn && this.#anonymous >= Math.ceil(maxRunningCalls / 2)) {
      const text = `The anonymous callers of this server run ${this.#anonymous} calls, half of its maximum.`;
      return tooBusy('UNAVAILABLE', text, 'maxRunningCalls');
    }
    if (this.#isLate) return late();
    if (this.#running === 0) return undefined;
    const key = principal ?? sessionId;
    const caller = this.#callers.get(key);
    if (!caller) return undefined;
    // Anonymous callers without a session are many clients: only the limit of the node holds for them.
    if (key !== undefined && caller.calls >= maxRunningCallsPerPrincipal) {
      const text = `${maxRunningCallsPerPrincipal} calls of this caller are running, the maximum.`;
      return tooBusy('TOO_MANY_REQUESTS', text, 'maxRunningCallsPerPrincipal');
    }
    return waitMs(caller, this.lag.now()) > maxLagMs ? late() : undefined;
  }

  /**
   * Returns whether the node has more work than it can do. A late event loop alone does not say so: other processes may have had
   * the processor.
   */
  get #isLate(): boolean {
    const { lag, limits } = this;
    if (!(lag.lastingMs > limits.maxLagMs)) return false;
    const oldest = this.#turns[0]?.waiting[0];
    return lag.isOwn || (oldest !== undefined && lag.now() - oldest.at > limits.maxLagMs);
  }

  /** Counts a call that was accepted, until it releases its place. */
  enter(call: McpCall): void {
    // All anonymous callers of one session are one caller, and all without a session.
    const { principal } = call;
    const key = principal ?? call.session?.id;
    this.#running++;
    if (principal === undefined) this.#anonymous++;
    else this.#signedIn = true;
    let caller = this.#callers.get(key);
    if (!caller) {
      const isAnonymous = principal === undefined;
      const leave = (): void => this.#left(made);
      const made: Caller = { key, isAnonymous, calls: 0, waiting: [], paceMs: 0, begunAt: 0, leave };
      this.#callers.set(key, (caller = made));
    }
    caller.calls++;
    call.place = caller;
  }

  /** Stops counting a call of a caller, begun or not. */
  #left(caller: Caller): void {
    this.#running--;
    if (caller.isAnonymous) this.#anonymous--;
    caller.calls--;
    this.#release(caller);
  }

  /** Returns whether a call must wait; then `begin` is called in its turn. */
  waits(call: McpCall): boolean {
    const now = this.lag.now();
    if (this.#reading === 0 && this.#turns.length === 0) {
      if (this.#turnAt === undefined) {
        this.#turnAt = now;
        nextTurn(this.#turn);
        return false;
      }
      if (now - this.#turnAt < BUSY_MS) return false;
    }
    const caller = call.place as Caller;
    // Its turn comes in the async context of another request: what the app stored for this one must not be another tenant's.
    const begin = AsyncResource.bind(() => this.begin(call));
    if (caller.waiting.push({ call, at: now, begin }) === 1) {
      caller.begunAt = now;
      this.#turns.push(caller);
    }
    return true;
  }

  #release({ key, calls, waiting }: Caller): void {
    if (calls === 0 && waiting.length === 0) this.#callers.delete(key);
  }

  /**
   * Runs after a turn in which calls began or waited. What a call costs is known here: its promises have run on since.
   */
  readonly #turn = (): void => {
    if (this.#reading > 0) this.#reading = this.lag.now() - this.#readingAt < READING_MS ? this.#reading - 1 : 0;
    else if (this.#turnAt !== undefined) {
      const isLong = this.lag.now() - this.#turnAt >= LONG_TURN_MS;
      this.#starts = isLong ? Math.max(1, this.#starts >> 1) : Math.min(MOST_STARTS, this.#starts * 2);
      this.#reading = isLong && this.#busyMs(this.#turnAt) >= BUSY_MS ? READING_TURNS : 0;
      this.#readingAt = this.lag.now();
      this.#turnAt = undefined;
    }
    if (this.#reading === 0 && this.#turns.length > 0) this.#beginSome();
    if (this.#reading > 0 || this.#turnAt !== undefined) nextTurn(this.#turn);
  };

  /**
   * Returns how long the event loop had nothing but work. It costs a microsecond, and is called after long turns only.
   */
  #busyMs(turnAt: number): number {
    const { idleMs } = this.lag;
    if (idleMs > this.#idleMs) this.#busySince = turnAt;
    this.#idleMs = idleMs;
    return this.lag.now() - this.#busySince;
  }

  #beginSome(): void {
    for (let left = this.#starts; left > 0 && this.#turns.length > 0;) {
      const caller = this.#turns.shift()!;
      const { call, begin } = caller.waiting.shift()!;
      if (caller.waiting.length > 0) this.#turns.push(caller);
      else this.#release(caller);
      if (call.state !== 'open') continue;
      const now = this.lag.now();
      caller.paceMs += (now - caller.begunAt - caller.paceMs) / PACE_OF;
      caller.begunAt = now;
      this.#turnAt ??= now;
      left--;
      begin();
    }
  }
}

interface Caller extends CallPlace {
  readonly key: string | undefined;
  readonly isAnonymous: boolean;
  calls: number;
  /**
   * Waiting calls are in the order of their arrival; `at` is the time since which a call waits, by the clock of the
   * lag, and `begin` begins it in the async context of its request.
   */
  readonly waiting: { readonly call: McpCall; readonly at: number; readonly begin: () => void }[];
  /** Milliseconds pass from one begin of a waiting call to the next, on average. */
  paceMs: number;
  begunAt: number;
}

/**
 * Returns how long another call of a caller would wait: as long as the oldest has, or until those before it have begun.
 */
function waitMs({ waiting, paceMs }: Caller, now: number): number {
  const [first] = waiting;
  return first ? Math.max(now - first.at, paceMs * waiting.length) : 0;
}

function late(): McpError {
  return tooBusy('UNAVAILABLE', 'This server is overloaded, and calls would wait too long.', 'maxLagMs');
}

function tooBusy(code: 'UNAVAILABLE' | 'TOO_MANY_REQUESTS', text: string, option: string): McpError {
  return retryLater(code, `${text} Try again in a moment.`, 1, { option });
}
