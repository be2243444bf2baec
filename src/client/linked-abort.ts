import { setMaxListeners } from 'node:events';
import type { Clock, ClockTimer } from '../common/clock.js';
import { ClientTransportError } from './client.errors.js';
import { clientMessages } from './client.messages.js';

/** A signal of its own that is also aborted with another one. `release` it, or the other one remembers it for ever. */
export class LinkedAbort {
  readonly #controller = new AbortController();
  readonly #follow = (): void => this.abort(this.parent?.reason as Error);
  #timer: ClockTimer | undefined;

  constructor(
    private readonly parent: AbortSignal | undefined,
    private readonly clock?: Clock,
  ) {
    // As many as there are requests at a time; each takes its own away.
    setMaxListeners(0, this.#controller.signal);
    if (parent?.aborted) this.#follow();
    else parent?.addEventListener('abort', this.#follow, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  abort(reason: Error): void {
    this.inTime();
    this.#controller.abort(reason);
  }

  /** Aborts after a time, unless `inTime` is called before. */
  within(ms: number): this {
    if (this.signal.aborted) return this;
    this.#timer = this.clock?.setTimeout(() => {
      this.abort(new ClientTransportError('TIMEOUT', clientMessages.notOpened(ms)));
    }, ms);
    return this;
  }

  inTime(): void {
    this.clock?.clear(this.#timer);
    this.#timer = undefined;
  }

  release(): void {
    this.inTime();
    this.parent?.removeEventListener('abort', this.#follow);
  }
}
