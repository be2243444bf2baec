import { invocationMessages } from '../invocation.messages.js';
import { HandlerResultError } from './handler-result.error.js';

/** The one value without a tag. */
export class SingleResult {
  #taken = false;
  #value: unknown;

  constructor(private readonly origin: string) {}

  /** `undefined` until there is one. */
  get value(): unknown {
    return this.#value;
  }

  /** @throws HandlerResultError when there is one already */
  take(value: unknown): void {
    if (this.#taken) throw new HandlerResultError(invocationMessages.severalResults(this.origin));
    this.#taken = true;
    this.#value = value;
  }
}
