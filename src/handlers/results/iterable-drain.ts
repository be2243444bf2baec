import { deferred } from '../../common/promises.js';
import type { McpContext } from '../../context/mcp-context.js';
import type { Drain } from './drain.js';
import { HandlerCancelled } from './handler-signal.js';
import { SingleResult } from './single-result.js';
import { isToolEvent, sendToolEvent } from './tool-event.js';

/**
 * Drains a source that is asked for each value: only when the last report is sent, so nothing waits in memory. What a
 * generator returns counts as a value.
 */
export class IterableDrain implements Drain {
  readonly #settled = deferred<unknown>();
  readonly #iterator: AsyncIterator<unknown>;
  readonly #single: SingleResult;
  readonly #signal: AbortSignal;
  #over = false;

  constructor(
    source: AsyncIterable<unknown>,
    private readonly context: McpContext,
    origin: string,
  ) {
    this.#iterator = source[Symbol.asyncIterator]();
    this.#single = new SingleResult(origin);
    this.#signal = context.signal;
    if (this.#signal.aborted) {
      this.#aborted();
      return;
    }
    this.#signal.addEventListener('abort', this.#aborted);
    this.#walk().then(
      () => this.#leave() && this.#settled.resolve(this.#single.value),
      (error: unknown) => this.#fail(error),
    );
  }

  get result(): Promise<unknown> {
    return this.#settled.promise;
  }

  stop(reason?: unknown): void {
    this.#fail(new HandlerCancelled(reason));
  }

  /** Goes on by itself after the call is over when the source does not come back; `stop()` does not wait for it. */
  async #walk(): Promise<void> {
    while (!this.#over) {
      const step: IteratorResult<unknown, unknown> = await this.#iterator.next();
      const value: unknown = step.value;
      if (isToolEvent(value)) {
        if (!this.#over) await sendToolEvent(value, this.context);
      } else if (!step.done || value !== undefined) {
        this.#single.take(value);
      }
      if (step.done) return;
    }
  }

  #fail(reason: unknown): void {
    if (!this.#leave()) return;
    this.#settled.reject(reason);
    this.#return().catch(() => {});
  }

  /** A generator that waits for something takes note of it only then: nobody waits for this. */
  async #return(): Promise<void> {
    await this.#iterator.return?.();
  }

  readonly #aborted = (): void => this.stop(this.#signal.reason);

  /** @returns whether it was still running */
  #leave(): boolean {
    if (this.#over) return false;
    this.#over = true;
    this.#signal.removeEventListener('abort', this.#aborted);
    return true;
  }
}
