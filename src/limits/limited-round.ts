import type { ClockTimer, McpClock } from '../core/common/clock.js';
import { deferred, type Deferred, isThenable, lastly, type MaybePromise, quiet } from '../core/common/promises.js';
import { HandlerCancelled } from '../core/calls/handler-signals.js';
import { McpHandlerTimeoutError } from '../core/handlers/handlers.errors.js';
import type { McpRun, McpRunHooks } from '../core/plugins/mcp-plugin.js';
import { shown } from '../core/protocol/errors.js';
import type { EndpointPlaces } from './places.js';

export interface PlaceLimit {
  readonly max: number;
  readonly perPrincipal: boolean;
}

export interface RunLimits {
  readonly timeoutMs: number | undefined;
  readonly places: PlaceLimit | undefined;
}

interface LimitParts {
  readonly limits: RunLimits;
  readonly clock: McpClock;
  readonly places: EndpointPlaces;
  /** The same text for the handlers that share places. */
  readonly handler: string;
}

/**
 * # How long a handler runs, and how many of its calls at a time (`timeoutMs`, `maxConcurrent`)
 *
 *     guarded ──method may run──▶ waiting ──its turn──▶ running ⇄ asking ──result complete──▶ ended
 *        │                          ├─────longer than `timeoutMs`─────┤   (error, the signal of the call aborts)
 *        └──denied, invalid─────────┴──cancelled, session ended, shutdown────────────────────▶ ended
 *
 * A round enters when the guards have accepted its caller and its arguments are valid, so callers that are refused take no
 * place; and when its task is stored, so clients of tasks wait for the task. It ends when the result is complete, also
 * that of an Observable, an async iterable or a file. A handler that ignores its signal may go on, without a place.
 *
 * Invariants: a round that has `ended` has no timer, no listener and no place; places are given in the order in which rounds have
 * entered; the error of a timeout is the result of the round, whatever the handler, interceptors and filters make of the signal.
 */
export class LimitedRound implements McpRunHooks {
  /** Fails the round, whatever the handler does. */
  #fail: ((error: Error) => void) | undefined;
  #state: 'guarded' | 'waiting' | 'running' | 'ended' = 'guarded';
  #leave: (() => void) | undefined;
  #turn: Deferred<void> | undefined;
  #timer: ClockTimer | undefined;
  #leftMs: number;
  #since = 0;
  /** Counts the questions without an answer. */
  #asking = 0;

  constructor(
    private readonly run: McpRun,
    private readonly parts: LimitParts,
  ) {
    this.#leftMs = parts.limits.timeoutMs ?? Infinity;
  }

  enclose<T>(inside: () => MaybePromise<T>): MaybePromise<T> {
    const value = lastly(inside, () => this.#end());
    if (!isThenable(value) || this.#leftMs === Infinity) return value;
    return new Promise((resolve, reject) => {
      this.#fail = reject;
      value.then(resolve, reject);
    });
  }

  /** Takes a place. */
  entering(): Promise<void> | undefined {
    const { call } = this.run;
    // The method will not run.
    if (call.aborted || this.#state === 'ended') return undefined;
    call.whenAborted.add(this.#aborted);
    const { places, timeoutMs } = this.parts.limits;
    if (!places || this.#takes(places)) {
      this.#state = 'running';
      this.#adjust();
      return undefined;
    }
    this.#state = 'waiting';
    this.#turn = deferred();
    if (timeoutMs !== undefined) {
      const { max, perPrincipal } = places;
      const why = `was not started: at most ${max} of its calls run at a time${perPrincipal ? ' for each caller' : ''} ("maxConcurrent"), and this one waited ${timeoutMs} ms for its turn ("timeoutMs"). Try again in a moment.`;
      this.#timer = this.parts.clock.setTimeout(() => this.#timeout(why), timeoutMs);
    }
    // The turn is awaited here, and not where the place became free, which is in the async context of another call.
    return quiet(this.#turn.promise.then(() => this.#adjust()));
  }

  /** Stops the clock while the client is asked. */
  asking(answered: Promise<void>): void {
    this.#asking++;
    this.#adjust();
    void answered.then(() => {
      this.#asking--;
      this.#adjust();
    });
  }

  get #handler(): string {
    const { target, sent } = this.run;
    const { kind, key } = target;
    const isResource = kind === 'template' || kind === 'feature';
    return `The ${isResource ? 'resource' : kind} ${shown(kind === 'template' ? String(sent['uri']) : key)}`;
  }

  #takes({ max, perPrincipal }: PlaceLimit): boolean {
    const { principal, session } = this.run.call;
    // Callers are counted as for the calls of a node: the anonymous callers of a session are one, and so are all
    // without a session.
    const caller = perPrincipal ? (principal ?? session?.id) : undefined;
    const { places, handler } = this.parts;
    // The text of the handler ends with a bracket, before the caller begins.
    const name = caller === undefined ? handler : handler + caller;
    const { taken, leave } = places.take(name, max, () => this.#begin());
    this.#leave = leave;
    return taken;
  }

  #begin(): void {
    this.#state = 'running';
    this.parts.clock.clear(this.#timer);
    this.#timer = undefined;
    this.#turn!.resolve();
  }

  /** Starts or stops the clock. */
  #adjust(): void {
    const { limits, clock } = this.parts;
    const { timeoutMs } = limits;
    const runs = this.#state === 'running' && this.#asking === 0;
    if (timeoutMs === undefined || runs === (this.#timer !== undefined) || this.#state !== 'running') return;
    if (runs) {
      const why = `did not finish within ${timeoutMs} ms ("timeoutMs") and was cancelled. Whether it had an effect is not known. Ask for less, or try again later.`;
      this.#since = clock.now();
      this.#timer = clock.setTimeout(() => this.#timeout(why), this.#leftMs);
    } else {
      clock.clear(this.#timer);
      this.#timer = undefined;
      // The clock of the system may be set back, or forth.
      this.#leftMs = Math.min(this.#leftMs, Math.max(1, this.#leftMs - (clock.now() - this.#since)));
    }
  }

  #timeout(why: string): void {
    const error = new McpHandlerTimeoutError(`${this.#handler} ${why}`);
    this.#fail?.(error);
    this.run.call.expire(error);
  }

  /** Frees the place: the result is complete, or not needed. */
  #end(reason?: unknown): void {
    if (this.#state === 'ended') return;
    this.#state = 'ended';
    this.parts.clock.clear(this.#timer);
    this.#leave?.();
    // No effect on a round that has had its turn.
    this.#turn?.reject(new HandlerCancelled(reason));
    this.run.call.whenAborted.delete(this.#aborted);
  }

  readonly #aborted = (reason: unknown): void => this.#end(reason);
}
