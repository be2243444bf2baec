import type { McpClock } from '../core/common/clock.js';
import { type Deferred, deferred, within } from '../core/common/promises.js';
import { randomToken } from '../core/common/random-token.js';
import { Retry } from '../core/common/retry.js';
import { shown } from '../core/protocol/errors.js';
import { isObject } from '../core/protocol/json-rpc.js';
import { HandlerCancelled } from '../core/calls/handler-signals.js';
import type { ToolIdempotency } from './checked-options.js';
import type { McpStateQuota } from '../core/questions/state/state-store.js';
import type { ClaimStore } from './claim-store.js';
import type { NodeLease } from './node-lease.js';

/** A repeat looks after so many milliseconds whether the call on another node has ended, at most after a second. */
const FIRST_LOOK_MS = 100;
const LAST_LOOK_MS = 1_000;
/** A result that cannot be stored is tried again after so many milliseconds, until the store has it or this node stops. */
const PATIENCE = { firstDelayMs: 100, maxDelayMs: 5_000, giveUpAfterMs: Infinity };
/**
 * The lease of a node must be missing for so many milliseconds: after an outage of the store, a node that lives renews its lease, and
 * stores its results, within five seconds.
 */
const MISSING_MS = 8_000;
/** A caller learns that its store contradicts itself after so many keys that were taken and were not there. */
const MAX_VANISHED = 10;

/** A call holds its key for so many milliseconds at least, though its result is kept for less: it may run for long. */
const RUNNING_MS = 86_400_000;

/** It is remembered for so many milliseconds that a key was freed: longer than a node takes between two commands. */
const FREED_MS = 600_000;

/** What the store has under a key. `args` is a digest of the arguments, `run` names the call that has claimed the key. */
type StoredCall = { readonly args: string; readonly run: string } & (
  | { readonly state: 'running'; readonly node: string }
  | { readonly state: 'done'; readonly result: object }
  | { readonly state: 'large'; readonly bytes: number }
  | { readonly state: 'unknown' }
);

/** How a call with a key has ended. */
export type CallEnd =
  /** Its result is kept for repeats. */
  | { readonly kind: 'result'; readonly result: object }
  /** Those that wait get its result, later ones run. */
  | { readonly kind: 'passing'; readonly result: object }
  /** It had no effect: a repeat runs. */
  | { readonly kind: 'free'; readonly vanished?: boolean }
  /** It may have had an effect: the next repeat learns that, and the one after it runs. */
  | { readonly kind: 'unknown' };

/** How a flight ends: what the repeats that wait for it learn. */
type FlightEnd =
  | CallEnd
  | { readonly kind: 'large'; readonly bytes: number }
  | { readonly kind: 'other arguments' }
  | { readonly kind: 'full'; readonly max: number };

/** Names a key in the store. */
export interface KeyPlace {
  readonly key: string;
  readonly quota: McpStateQuota;
  /** Counts the key for the address of an anonymous caller, whose keys are those of all such callers. */
  readonly share?: KeyShare | undefined;
  /** Digest of the arguments. */
  readonly args: string;
  readonly options: Pick<ToolIdempotency, 'ttlMs' | 'maxBytes'>;
}

interface KeyShare {
  readonly key: string;
  readonly quota: McpStateQuota;
}

/** The call that this node runs, or watches, under a key. */
interface Flight {
  readonly args: string;
  /** Resolves when the key is known to belong to these arguments, or the flight has ended. */
  readonly held: Deferred<void>;
  readonly end: Deferred<FlightEnd>;
  /** Counts the callers that wait, and the one that has begun the flight. */
  waiting: number;
  /** Ends the pause between two looks. */
  wake: (() => void) | undefined;
  /** The time since when the lease of the node that runs the call is missing. */
  missingSince: number | undefined;
}

/**
 * # Repeats of a call run once (`idempotency`)
 *
 *     (nothing) ──add──▶ running ──result──▶ done ──ttlMs──▶ (nothing)
 *         ▲                 ├──cancelled, failed without a result, its node has died──▶ unknown ──a repeat learns it──▶ (nothing)
 *         └─────────────────┴──not begun, or it asks its client
 *
 * The store decides which call is the first (`add`). On each node there is one flight for a key, which runs the call or looks
 * after the one of another node; repeats wait for the flight, and take nothing else.
 *
 * Invariants:
 * - a key is claimed before the method runs, and its result is stored before it is answered, unless the store is away; then it is
 *   stored when the store is back, and repeats on this node get it meanwhile
 * - a flight leaves `#flights` when the store has its end; a free key leaves at once, and those that wait try again
 * - without callers that wait, no look is planned
 */
export class IdempotentCalls {
  readonly #flights = new Map<string, Flight>();
  /** The ends of calls that the store does not have yet. */
  readonly #late = new Set<Promise<void>>();
  readonly #retry: Retry;

  constructor(
    private readonly store: ClaimStore,
    private readonly lease: NodeLease,
    private readonly clock: McpClock,
    private readonly report: (text: string) => void,
  ) {
    this.#retry = new Retry(PATIENCE, clock, () => false);
  }

  /**
   * Enters a call.
   *
   * @param caller whose signal ends the wait
   * @returns the claim, if it is the first; else the result for the repeat
   * @throws (rejects) McpStateError; HandlerCancelled
   */
  async enter(place: KeyPlace, caller: { readonly signal: AbortSignal }): Promise<Claim | object> {
    for (let vanished = 0; ;) {
      let flight = this.#flights.get(place.key);
      if (!flight) {
        flight = newFlight(place.args);
        this.#flights.set(place.key, flight);
        const claim = await this.#begin(place, flight);
        if (claim) return claim;
      } else if (flight.args !== place.args) {
        await flight.held.promise;
        if (this.#flights.get(place.key) === flight) return resultOf({ kind: 'other arguments' });
        continue;
      } else {
        flight.waiting++;
      }
      const ended = await this.#waitFor(flight, caller.signal);
      if (ended.kind !== 'free') return resultOf(ended);
      if (ended.vanished && ++vanished >= MAX_VANISHED)
        throw this.store.unreadable(`it refuses to add a value under "${place.key}", and has none there`);
    }
  }

  /** Waits until the store has the ends of all calls, for `limitMs` at most. */
  async drain(limitMs: number): Promise<void> {
    if (this.#late.size > 0 && limitMs > 0) await within(Promise.all(this.#late), limitMs, this.clock);
  }

  /** Stops trying to store the ends of calls: this node stops. */
  close(): void {
    if (this.#late.size > 0)
      this.report(
        `The state store does not answer, so this node stops without having stored the ends of its last idempotent calls (${this.#late.size}). When the store is back, the next call with one of their keys learns that the end is not known, and the one after that runs the tool again.`,
      );
    this.#retry.cancel();
  }

  /** @returns the claim, or a refusal; `undefined`: another call has the key, and the flight looks after that one */
  async #begin(place: KeyPlace, flight: Flight): Promise<Claim | object | undefined> {
    const { key, args, quota, options } = place;
    const run = randomToken();
    try {
      const held = this.lease.hold();
      if (held) await held;
      const record: StoredCall = { state: 'running', args, run, node: this.lease.node };
      const heldMs = Math.max(RUNNING_MS, options.ttlMs);
      let added: 'full' | boolean;
      try {
        added = await this.store.add(key, record, heldMs, quota);
      } catch (error) {
        this.#fail(key, flight, error);
        // The store may have taken the key, and only its answer was lost: no repeat may wait for this call.
        void this.#end(place, flight, run, { kind: 'free' });
        throw error;
      }
      if (added === true) {
        if (place.share && (await this.#exceedsShare(place.share, options))) {
          await this.#end(place, flight, run, { kind: 'free' });
          return resultOf({ kind: 'full', max: place.share.quota.max });
        }
        flight.held.resolve();
        return new Claim((end) => this.#end(place, flight, run, end));
      }
      this.lease.release();
      if (added === 'full') this.#settle(key, flight, { kind: 'full', max: quota.max });
      else void this.#watch(place, flight);
      return undefined;
    } catch (error) {
      this.#fail(key, flight, error);
      throw error;
    }
  }

  /** Counts a key that was claimed. A store that is away now does not keep the call from running: the key is claimed. */
  async #exceedsShare(share: KeyShare, options: KeyPlace['options']): Promise<boolean> {
    return (await this.store.add(share.key, true, options.ttlMs, share.quota).catch(() => true)) === 'full';
  }

  async #waitFor(flight: Flight, signal: AbortSignal): Promise<FlightEnd> {
    const gone = deferred<never>();
    const leave = (): void => gone.reject(new HandlerCancelled(signal.reason));
    if (signal.aborted) leave();
    signal.addEventListener('abort', leave);
    try {
      return await Promise.race([flight.end.promise, gone.promise]);
    } finally {
      signal.removeEventListener('abort', leave);
      if (--flight.waiting === 0) flight.wake?.();
    }
  }

  // ---- the call that runs here -------------------------------------------------------------------------------------

  /** Stores how the call has ended. A store that is away is tried again, and the call is answered meanwhile. */
  async #end(place: KeyPlace, flight: Flight, run: string, end: CallEnd): Promise<void> {
    const { key } = place;
    const ended = bounded(end, place.options);
    try {
      await this.#write(place, run, ended);
    } catch {
      if (ended.kind === 'free') this.#settle(key, flight, ended);
      flight.end.resolve(ended);
      const endedAt = this.clock.now();
      // It fails when this node stops, which close() has reported.
      const late = this.#retry.run(() => this.#write(place, run, ended, endedAt)).catch(() => {});
      const stored = late.then(() => {
        this.#late.delete(stored);
        this.#left(key, flight, ended);
      });
      this.#late.add(stored);
      return;
    }
    this.#left(key, flight, ended);
  }

  #left(key: string, flight: Flight, ended: FlightEnd): void {
    this.lease.release();
    this.#settle(key, flight, ended);
  }

  /** @param endedAt of a call whose end the store did not take at once */
  async #write(
    { key, args, quota, share, options }: KeyPlace,
    run: string,
    ended: FlightEnd,
    endedAt?: number,
  ): Promise<void> {
    const ageMs = endedAt === undefined ? 0 : this.clock.now() - endedAt;
    // What the store would no longer have frees the key.
    const record = ageMs < options.ttlMs ? recordOf(ended, { args, run }) : undefined;
    const hasResult = record !== undefined && record.state !== 'unknown';
    if (!hasResult || endedAt !== undefined) {
      // A node that seemed dead may have lost its key to another call, whose result repeats get.
      const now = await this.store.get(key);
      if (now === undefined ? !hasResult : !(isStoredCall(now) && now.run === run)) return;
    }
    if (record) return void (await this.store.set(key, record, options.ttlMs - ageMs, quota));
    await this.store.delete(key);
    if (share) await this.store.delete(share.key);
  }

  // ---- the call that runs elsewhere, or has run --------------------------------------------------------------------

  /** Looks after a call that has the key: until its end, or until no one waits. */
  async #watch(place: KeyPlace, flight: Flight): Promise<void> {
    const { key } = place;
    try {
      this.#settle(key, flight, await this.#endOf(place, flight));
    } catch (error) {
      this.#fail(key, flight, error);
    }
  }

  async #endOf(place: KeyPlace, flight: Flight): Promise<FlightEnd> {
    let run: string | undefined;
    for (let delayMs = FIRST_LOOK_MS; ; delayMs = Math.min(2 * delayMs, LAST_LOOK_MS)) {
      const found = await this.#look(place, flight);
      // Another call may have claimed the key meanwhile: those that wait look after that one, unless its end is unknown.
      if (!found || (run !== undefined && found.run !== run)) {
        const wasUnknown = run !== undefined && (await this.store.get(freedKey(place, run))) !== undefined;
        return wasUnknown ? { kind: 'unknown' } : { kind: 'free', vanished: run === undefined };
      }
      if (found.args !== flight.args) return { kind: 'other arguments' };
      flight.held.resolve();
      if (found.state === 'unknown') await this.#free(place, found.run);
      if (found.state !== 'running') return endIn(found);
      run = found.run;
      if (flight.waiting > 0) await this.#pause(flight, delayMs);
      if (flight.waiting === 0) return { kind: 'free' };
    }
  }

  /** Reads what the store has. A call whose node has gone has an unknown end. */
  async #look(place: KeyPlace, flight: Flight): Promise<StoredCall | undefined> {
    const found = await this.#read(place);
    if (found?.state !== 'running') return found;
    const node = await this.lease.of(found.node);
    flight.missingSince = node === 'missing' ? (flight.missingSince ?? this.clock.now()) : undefined;
    if (node !== 'ended' && this.clock.now() - (flight.missingSince ?? Infinity) < MISSING_MS) return found;
    // It may have ended just before the lease did.
    const again = await this.#read(place);
    return again?.state === 'running' && again.run === found.run ? { ...again, state: 'unknown' } : again;
  }

  /** @throws (rejects) McpStateError also for what is no record of a call: the tool must not run, and the key stays as it is */
  async #read({ key }: KeyPlace): Promise<StoredCall | undefined> {
    const value = await this.store.get(key);
    if (value === undefined || isStoredCall(value)) return value;
    throw this.store.unreadable(`what it has under "${key}" is no record of a call: ${shown(value)}`);
  }

  /** Frees the key of a call, once: a second one could free it for a call that has begun since. */
  async #free(place: KeyPlace, run: string): Promise<void> {
    const quota = { owner: place.quota.owner, max: Infinity };
    if ((await this.store.add(freedKey(place, run), true, FREED_MS, quota)) === true)
      await this.store.delete(place.key);
  }

  #pause(flight: Flight, delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      const over = (): void => {
        flight.wake = undefined;
        this.clock.clear(timer);
        resolve();
      };
      const timer = this.clock.setTimeout(over, delayMs);
      flight.wake = over;
    });
  }

  #settle(key: string, flight: Flight, ended: FlightEnd): void {
    if (this.#flights.get(key) === flight) this.#flights.delete(key);
    flight.held.resolve();
    flight.end.resolve(ended);
  }

  #fail(key: string, flight: Flight, error: unknown): void {
    if (this.#flights.get(key) === flight) this.#flights.delete(key);
    flight.held.resolve();
    flight.end.reject(error);
  }
}

/** The right of a call to run, until it has ended. */
export class Claim {
  constructor(private readonly finish: (end: CallEnd) => Promise<void>) {}

  /** Ends the call; called once. Resolves when the store has it, or is away. */
  end(end: CallEnd): Promise<void> {
    return this.finish(end);
  }
}

function newFlight(args: string): Flight {
  return { args, held: deferred(), end: deferred(), waiting: 1, wake: undefined, missingSince: undefined };
}

/** Another version, or another program, may have written what is under a key. */
function isStoredCall(value: unknown): value is StoredCall {
  if (!isObject(value) || typeof value['args'] !== 'string' || typeof value['run'] !== 'string') return false;
  switch (value['state']) {
    case 'running':
      return typeof value['node'] === 'string';
    case 'done':
      return isObject(value['result']);
    case 'large':
      return typeof value['bytes'] === 'number';
    default:
      return value['state'] === 'unknown';
  }
}

/** The store has this key when the key of a call was freed whose end is unknown. */
function freedKey({ quota }: KeyPlace, run: string): string {
  return `${quota.owner}:f.${run}`;
}

/** Replaces a result that is too large to be kept, or cannot be. */
function bounded(end: CallEnd, { maxBytes }: KeyPlace['options']): FlightEnd {
  if (end.kind !== 'result') return end;
  try {
    const bytes = Buffer.byteLength(JSON.stringify(end.result));
    return bytes > maxBytes ? { kind: 'large', bytes } : end;
  } catch {
    return { kind: 'unknown' };
  }
}

/** @returns `undefined` for an end that frees the key */
function recordOf(ended: FlightEnd, about: { args: string; run: string }): StoredCall | undefined {
  switch (ended.kind) {
    case 'result':
      return { ...about, state: 'done', result: ended.result };
    case 'large':
      return { ...about, state: 'large', bytes: ended.bytes };
    case 'unknown':
      return { ...about, state: 'unknown' };
    default:
      return undefined;
  }
}

function endIn(found: Exclude<StoredCall, { state: 'running' }>): FlightEnd {
  if (found.state === 'done') return { kind: 'result', result: found.result };
  return found.state === 'large' ? { kind: 'large', bytes: found.bytes } : { kind: 'unknown' };
}

function resultOf(ended: Exclude<FlightEnd, { kind: 'free' }>): object {
  return 'result' in ended ? ended.result : failure(textOf(ended));
}

function textOf(ended: Exclude<FlightEnd, { kind: 'free' | 'result' | 'passing' }>): string {
  switch (ended.kind) {
    case 'large':
      return `This call has run before, with the same idempotency key, and was not run again. Its result is not kept: it has ${ended.bytes} bytes. Read what you need in another way.`;
    case 'other arguments':
      return 'This idempotency key was used before, with other arguments. The tool did not run. Use another key for another call, or repeat the call with the same arguments.';
    case 'full':
      return `The tool did not run: the caller has used ${ended.max} idempotency keys, which is the maximum ("maxKeys"). A key can be used again when it expires.`;
    case 'unknown':
      return 'An earlier call with this idempotency key was interrupted, and whether it had an effect is not known. This call did not run. Check first: the next call with this key runs the tool again.';
  }
}

/** Makes the result of a call that is refused. */
export function failure(text: string): object {
  return { content: [{ type: 'text', text }], isError: true };
}
