import { from, isObservable, type Observable, Subject, takeUntil } from 'rxjs';
import { deferred, quiet } from '../../common/promises.js';
import type { McpContext } from '../../calls/mcp-context.js';
import { HandlerCancelled } from '../../calls/handler-signals.js';
import { McpHandlerResultError } from '../handlers.errors.js';
import { isProgress, isToolEvent, sendToolEvent, type ToolLog, type ToolProgress } from './tool-event.js';

/** So many reports wait before those of progress are merged: far more than a source emits in one go. */
const MAX_WAITING = 256;

/** Returns whether a value comes in parts. */
export function comesInParts(value: unknown): value is Observable<unknown> | AsyncIterable<unknown> {
  const iterate = (value as Partial<AsyncIterable<unknown>> | null | undefined)?.[Symbol.asyncIterator];
  return typeof iterate === 'function' || isObservable(value);
}

/**
 * # A handler's result that comes in parts
 *
 *     running ──completed──▶ its one value, once all reports are sent
 *        ├─────failed──────▶ its error, once all reports are sent
 *        ├─several results─▶ McpHandlerResultError
 *        └─call ended, or `stop()`──▶ HandlerCancelled; at once, the source unsubscribed
 *
 * The first of these ends it; the source is unsubscribed exactly once, and nothing is sent after that. Reports are sent
 * one after the other, the first at once.
 *
 * An async iterable is asked for its next value when the last report is sent, so nothing waits in memory. What a generator
 * returns counts as a value.
 *
 * An Observable cannot be paused. While many reports wait for a slow client, a report of progress replaces the one
 * before it: each includes the last. So a source that only reports progress holds a few hundred in memory. Log messages
 * are never dropped: a source that logs faster than its client reads should be an async iterable.
 */
export class Drain {
  readonly #settled = deferred<unknown>();
  readonly #signal: AbortSignal;
  #waiting: (ToolProgress | ToolLog)[] = [];
  #sending: Promise<void> | undefined;
  /** Holds the one value without a tag. */
  #value: { readonly value: unknown } | undefined;
  #leaveSource = (): void => {};
  #ended = false;

  /** @param origin names the handler in messages, such as `OrderTools.export` */
  constructor(
    source: Observable<unknown> | AsyncIterable<unknown>,
    private readonly context: McpContext,
    private readonly origin: string,
  ) {
    this.#signal = context.signal;
    if (this.#signal.aborted) {
      this.#aborted();
      return;
    }
    this.#signal.addEventListener('abort', this.#aborted);
    if (isObservable(source)) this.#subscribe(source);
    else void this.#walk(source);
  }

  get result(): Promise<unknown> {
    return this.#settled.promise;
  }

  /** Stops the drain, because the result is not needed. No effect when the result is available. */
  stop(reason?: unknown): void {
    this.#fail(new HandlerCancelled(reason));
  }

  #subscribe(source: Observable<unknown>): void {
    // This also ends a source that emits while it is being subscribed, and does not stop by itself.
    const left$ = new Subject<void>();
    this.#leaveSource = () => left$.next();
    const whenSent = (settle: () => void): void => {
      void (this.#sending ?? Promise.resolve()).then(settle);
    };
    from(source)
      .pipe(takeUntil(left$))
      .subscribe({
        next: (value) => this.#take(value),
        error: (error: unknown) => whenSent(() => this.#fail(error)),
        complete: () => whenSent(() => this.#complete()),
      });
  }

  /**
   * Walks the source. It may continue after the end of the call if the source does not return; `stop()` does not wait
   * for it.
   */
  async #walk(source: AsyncIterable<unknown>): Promise<void> {
    try {
      const iterator = source[Symbol.asyncIterator]();
      this.#leaveSource = () => void quiet(returned(iterator));
      for (let done: boolean | undefined = false; !done && !this.#ended;) {
        const step: IteratorResult<unknown, unknown> = await iterator.next();
        done = step.done;
        if (!done || step.value !== undefined) this.#take(step.value);
        await this.#sending;
      }
      this.#leaveSource = () => {};
      this.#complete();
    } catch (error) {
      this.#fail(error);
    }
  }

  #take(value: unknown): void {
    if (this.#ended) return;
    if (isToolEvent(value)) return this.#send(value);
    if (!this.#value) this.#value = { value };
    else {
      this.#fail(
        new McpHandlerResultError(
          `${this.origin} emitted more than one value that is neither toolProgress() nor toolLog(). Exactly one is the result: emit the others with a tag, or end with last(), toArray() or reduce().`,
        ),
      );
    }
  }

  #send(event: ToolProgress | ToolLog): void {
    const last = this.#waiting.length - 1;
    if (last + 1 >= MAX_WAITING && isProgress(event) && isProgress(this.#waiting[last]!)) this.#waiting[last] = event;
    else this.#waiting.push(event);
    this.#sending ??= this.#sendAll();
  }

  /**
   * Sends the waiting reports. It runs to its first `await` before `#send` returns: this sends the first report at
   * once.
   */
  async #sendAll(): Promise<void> {
    try {
      while (this.#waiting.length > 0) {
        const batch = this.#waiting;
        this.#waiting = [];
        for (const event of batch) if (!this.#ended) await sendToolEvent(event, this.context);
      }
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#sending = undefined;
    }
  }

  #complete(): void {
    if (this.#leave()) this.#settled.resolve(this.#value?.value);
  }

  #fail(error: unknown): void {
    if (this.#leave()) this.#settled.reject(error);
  }

  readonly #aborted = (): void => this.stop(this.#signal.reason);

  /** Leaves the state `running`. @returns whether it was still running */
  #leave(): boolean {
    if (this.#ended) return false;
    this.#ended = true;
    this.#waiting = [];
    this.#signal.removeEventListener('abort', this.#aborted);
    this.#leaveSource();
    return true;
  }
}

/** Ends a generator. One that waits for something notices this only then. */
async function returned(iterator: AsyncIterator<unknown>): Promise<void> {
  await iterator.return?.();
}
