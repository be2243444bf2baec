import { from, type Observable, Subject, takeUntil } from 'rxjs';
import { deferred } from '../../common/promises.js';
import type { McpContext } from '../../context/mcp-context.js';
import type { Drain } from './drain.js';
import { EventQueue } from './event-queue.js';
import { HandlerCancelled } from './handler-signal.js';
import { SingleResult } from './single-result.js';
import { isToolEvent, sendToolEvent } from './tool-event.js';

/** Drains a source that emits when it likes. */
export class ObservableDrain implements Drain {
  readonly #settled = deferred<unknown>();
  /** Also ends a source that emits while it is being subscribed, and does not stop by itself. */
  readonly #left$ = new Subject<void>();
  readonly #events: EventQueue;
  readonly #single: SingleResult;
  readonly #signal: AbortSignal;
  #over = false;

  constructor(source: Observable<unknown>, context: McpContext, origin: string) {
    this.#events = new EventQueue((event) => sendToolEvent(event, context), this.#fail);
    this.#single = new SingleResult(origin);
    this.#signal = context.signal;
    if (this.#signal.aborted) {
      this.#aborted();
      return;
    }
    this.#signal.addEventListener('abort', this.#aborted);
    from(source)
      .pipe(takeUntil(this.#left$))
      .subscribe({ next: (value) => this.#next(value), error: this.#failLate, complete: () => this.#complete() });
  }

  get result(): Promise<unknown> {
    return this.#settled.promise;
  }

  stop(reason?: unknown): void {
    this.#fail(new HandlerCancelled(reason));
  }

  #next(value: unknown): void {
    if (isToolEvent(value)) return this.#events.push(value);
    try {
      this.#single.take(value);
    } catch (error) {
      this.#fail(error);
    }
  }

  #complete(): void {
    if (this.#over) return;
    void this.#events.flushed().then(() => {
      if (this.#leave()) this.#settled.resolve(this.#single.value);
    });
  }

  /** What was reported before the error is sent before it. */
  readonly #failLate = (reason: unknown): void => {
    void this.#events.flushed().then(() => this.#fail(reason));
  };

  readonly #fail = (error: unknown): void => {
    if (this.#leave()) this.#settled.reject(error);
  };

  readonly #aborted = (): void => this.stop(this.#signal.reason);

  /** @returns whether it was still running */
  #leave(): boolean {
    if (this.#over) return false;
    this.#over = true;
    this.#signal.removeEventListener('abort', this.#aborted);
    this.#events.end();
    this.#left$.next();
    this.#left$.complete();
    return true;
  }
}
