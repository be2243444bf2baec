import { count, required, resolveGroup, timer } from '../../common/options.js';
import type { McpClock, ClockTimer } from '../../common/clock.js';
import { deferred, type Deferred, quiet } from '../../common/promises.js';
import type { HandlerTurn, McpContext } from '../../calls/mcp-context.js';
import type { McpHandlerKind } from '../../calls/mcp-execution-context.js';
import { shown } from '../../protocol/errors.js';
import { CONCURRENCY_TABLE, type HandlerConcurrency, type LimitedOptions } from '../decorators/handler-options.js';
import { HandlerCancelled } from '../../calls/handler-signals.js';
import { McpHandlerDefinitionError, McpHandlerTimeoutError } from '../handlers.errors.js';

/**
 * # How long a handler runs, and how many of its calls at a time (`timeoutMs`, `maxConcurrent`)
 *
 *     guarded ──method may run──▶ waiting ──its turn──▶ running ⇄ asking ──result complete──▶ ended
 *        │                          ├─────longer than `timeoutMs`─────┤   (error, the signal of the call aborts)
 *        └──denied, invalid─────────┴──cancelled, session ended, shutdown────────────────────▶ ended
 *
 * A run enters when the guards have accepted its caller and its arguments are valid, so callers that are refused take no
 * place; and when its task is stored, so clients of tasks wait for the task. It ends when the result is complete, also
 * that of an Observable, an async iterable or a file. A handler that ignores its signal may go on, without a place.
 *
 * Invariants: a run that has `ended` has no timer, no listener and no place; places are given in the order in which runs have
 * entered; the error of a timeout is the result of the run, whatever the handler, interceptors and filters make of the signal.
 */
export class HandlerLimits {
  constructor(
    private readonly limits: { readonly timeoutMs?: number | undefined; readonly places?: PlaceLimit | undefined },
    private readonly clock: McpClock,
    /** An entry that replaces another one shares its places. */
    private readonly places = new HandlerPlaces(),
  ) {}

  /** Begins a run. @param asked the name or the URI that the client sent */
  begin(kind: McpHandlerKind, asked: string, context: McpContext): LimitedRun {
    const handler = `The ${kind === 'template' ? 'resource' : kind} ${shown(asked)}`;
    return new LimitedRun(this.limits, this.places, this.clock, handler, context);
  }
}

/**
 * Returns the limits of a handler.
 *
 * @returns `undefined` without limits: calls of such a handler pay nothing
 * @throws McpHandlerDefinitionError
 */
export function limitsOf(
  { timeoutMs, maxConcurrent }: LimitedOptions,
  { origin, clock, places }: { readonly origin: string; readonly clock: McpClock; readonly places?: HandlerPlaces },
): HandlerLimits | undefined {
  if (timeoutMs === undefined && maxConcurrent === undefined) return undefined;
  try {
    timer(undefined)(timeoutMs, 'timeoutMs');
    const limit = maxConcurrent === undefined ? undefined : placeLimit(maxConcurrent);
    return new HandlerLimits({ timeoutMs, places: limit }, clock, places);
  } catch (error) {
    const wanted = `its "timeoutMs" must be a whole number of at least 1, and its "maxConcurrent" such a number or { max, per: 'principal' }`;
    throw new McpHandlerDefinitionError(origin, `${wanted}: ${(error as Error).message}`, { cause: error });
  }
}

/** Reads the option `maxConcurrent`. @throws McpOptionError */
function placeLimit(given: number | HandlerConcurrency): PlaceLimit {
  if (typeof given !== 'object') return { max: count(required)(given, 'maxConcurrent'), perPrincipal: false };
  return { max: resolveGroup(CONCURRENCY_TABLE, given, 'maxConcurrent').max, perPrincipal: true };
}

interface PlaceLimit {
  readonly max: number;
  readonly perPrincipal: boolean;
}

interface Queue {
  running: number;
  /** Calls wait in the order of their arrival. */
  readonly waiting: Set<{ readonly max: number; readonly begin: () => void }>;
}

/** Counts the places of a handler: of all its calls, or of each caller. A caller without calls takes no memory. */
export class HandlerPlaces {
  readonly #queues = new Map<string | undefined, Queue>();

  /** Counts the callers that have a place or wait for one. */
  get size(): number {
    return this.#queues.size;
  }

  /**
   * Takes a place now or in its turn; then `begin` is called.
   *
   * @returns whether there was one, and the function that gives it back or leaves the queue
   */
  take(
    key: string | undefined,
    max: number,
    begin: () => void,
  ): { readonly taken: boolean; readonly leave: () => void } {
    let queue = this.#queues.get(key);
    if (!queue) this.#queues.set(key, (queue = { running: 0, waiting: new Set() }));
    if (queue.running < max && queue.waiting.size === 0) {
      queue.running++;
      return { taken: true, leave: () => this.#free(key, queue) };
    }
    const waiting = { max, begin };
    queue.waiting.add(waiting);
    return { taken: false, leave: () => (queue.waiting.delete(waiting) ? undefined : this.#free(key, queue)) };
  }

  #free(key: string | undefined, queue: Queue): void {
    queue.running--;
    for (const next of queue.waiting) {
      if (queue.running >= next.max) break;
      queue.waiting.delete(next);
      queue.running++;
      next.begin();
    }
    if (queue.running === 0) this.#queues.delete(key);
  }
}

/** One run of a handler that has limits. */
export class LimitedRun implements HandlerTurn {
  /** The handler gets this context instead of that of its call. */
  readonly context: McpContext;
  readonly #timedOut = deferred<never>();
  #state: 'guarded' | 'waiting' | 'running' | 'ended' = 'guarded';
  #leave: (() => void) | undefined;
  #turn: Deferred<void> | undefined;
  #turned: Promise<void> | undefined;
  #timer: ClockTimer | undefined;
  #leftMs: number;
  #since = 0;
  /** Counts the questions without an answer. */
  #asking = 0;
  #entered = false;

  constructor(
    private readonly limits: HandlerLimits['limits'],
    private readonly places: HandlerPlaces,
    private readonly clock: McpClock,
    private readonly handler: string,
    context: McpContext,
  ) {
    this.context = context.inTurn(this);
    this.#leftMs = limits.timeoutMs ?? Infinity;
  }

  /**
   * Settles like the work.
   *
   * @returns what the work returns; rejects with McpHandlerTimeoutError when the time has passed
   */
  race<T>(work: PromiseLike<T>): Promise<T> {
    return Promise.race([work, this.#timedOut.promise]);
  }

  /** Takes a place. It is called again when an interceptor repeats the method: the run keeps its place and its time. */
  entering(): Promise<void> | undefined {
    if (this.#state === 'guarded') this.#enter();
    return this.#turned;
  }

  /** Stops the clock while the client is asked. */
  asking(answers: Promise<unknown>): void {
    this.#asking++;
    this.#adjust();
    const answered = (): void => {
      this.#asking--;
      this.#adjust();
    };
    answers.then(answered, answered);
  }

  /** Frees the place: the result is complete, or not needed. */
  end(reason?: unknown): void {
    if (this.#state === 'ended') return;
    this.#state = 'ended';
    this.clock.clear(this.#timer);
    this.#leave?.();
    // No effect on a run that has had its turn.
    this.#turn?.reject(new HandlerCancelled(reason));
    if (this.#entered) this.context.signal.removeEventListener('abort', this.#aborted);
  }

  #enter(): void {
    const { signal } = this.context;
    // The method will not run.
    if (signal.aborted) return;
    this.#entered = true;
    signal.addEventListener('abort', this.#aborted);
    const { places } = this.limits;
    if (!places || this.#takes(places)) {
      this.#state = 'running';
      this.#adjust();
      return;
    }
    this.#state = 'waiting';
    this.#turn = deferred();
    // The turn is awaited here, and not where the place became free, which is in the async context of another call.
    this.#turned = quiet(this.#turn.promise.then(() => this.#adjust()));
    const { timeoutMs } = this.limits;
    if (timeoutMs === undefined) return;
    const { max, perPrincipal } = places;
    const text = `${this.handler} was not started: at most ${max} of its calls run at a time${perPrincipal ? ' for each caller' : ''} ("maxConcurrent"), and this one waited ${timeoutMs} ms for its turn ("timeoutMs"). Try again in a moment.`;
    this.#timer = this.clock.setTimeout(() => this.#timeout(text), timeoutMs);
  }

  #takes({ max, perPrincipal }: PlaceLimit): boolean {
    const { principal, session } = this.context;
    // Callers are counted as for the calls of a node: the anonymous callers of a session are one, and so are all
    // without a session.
    const key = perPrincipal ? (principal ?? session?.id) : undefined;
    const { taken, leave } = this.places.take(key, max, () => this.#begin());
    this.#leave = leave;
    return taken;
  }

  #begin(): void {
    this.#state = 'running';
    this.clock.clear(this.#timer);
    this.#timer = undefined;
    this.#turn!.resolve();
  }

  /** Starts or stops the clock. */
  #adjust(): void {
    const { timeoutMs } = this.limits;
    const runs = this.#state === 'running' && this.#asking === 0;
    if (timeoutMs === undefined || runs === (this.#timer !== undefined) || this.#state !== 'running') return;
    if (runs) {
      const text = `${this.handler} did not finish within ${timeoutMs} ms ("timeoutMs") and was cancelled. Whether it had an effect is not known. Ask for less, or try again later.`;
      this.#since = this.clock.now();
      this.#timer = this.clock.setTimeout(() => this.#timeout(text), this.#leftMs);
    } else {
      this.clock.clear(this.#timer);
      this.#timer = undefined;
      // The clock of the system may be set back, or forth.
      this.#leftMs = Math.min(this.#leftMs, Math.max(1, this.#leftMs - (this.clock.now() - this.#since)));
    }
  }

  #timeout(text: string): void {
    const error = new McpHandlerTimeoutError(text);
    this.#timedOut.reject(error);
    this.context.mcpCall.expire(error);
  }

  readonly #aborted = (): void => this.end(this.context.signal.reason);
}
