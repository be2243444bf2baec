import { type McpError, retryLater } from '../protocol/errors.js';

/** Bodies of up to so many bytes are not counted. Node takes as much of headers, for each connection. */
export const SMALL_BODY_BYTES = 16 * 1024;

/** Bounds the bytes of bodies, in all and for one caller. */
export interface HeldBytesLimits {
  readonly max: number;
  readonly maxPerCaller: number;
}

/**
 * # Bytes of the bodies that one endpoint holds on this node (E15)
 *
 * A body above {@link SMALL_BODY_BYTES} counts from its first byte, while it is read, until its response has closed and the last
 * call in it has ended: until then its text or its arguments are in memory. Smaller bodies are never refused, whatever others hold.
 *
 * Invariant: `#ofCallers` has the callers that hold bytes, and `count` is their sum.
 */
export class HeldBytes {
  readonly #ofCallers = new Map<string, number>();
  #count = 0;

  constructor(private readonly limits: HeldBytesLimits) {}

  get count(): number {
    return this.#count;
  }

  /** Returns why a caller may not hold so many bytes more; `undefined`: it may. */
  refusal(caller: string, bytes: number): McpError | undefined {
    const { max, maxPerCaller } = this.limits;
    const own = this.#ofCallers.get(caller) ?? 0;
    if (own + bytes > maxPerCaller) {
      const text = `The requests of this caller that are arriving or running have ${own} bytes, and the maximum is ${maxPerCaller}. Try again in a moment.`;
      return retryLater('TOO_MANY_REQUESTS', text, 1, { option: 'maxHeldBytesPerPrincipal' });
    }
    if (this.#count + bytes <= max) return undefined;
    const text = `This server holds ${this.#count} bytes of requests, and its maximum is ${max}. Try again in a moment.`;
    return retryLater('UNAVAILABLE', text, 1, { option: 'maxHeldBytes' });
  }

  /** @param bytes negative: the caller holds them no longer */
  add(caller: string, bytes: number): void {
    this.#count += bytes;
    const own = (this.#ofCallers.get(caller) ?? 0) + bytes;
    if (own === 0) this.#ofCallers.delete(caller);
    else this.#ofCallers.set(caller, own);
  }
}

/**
 * The bytes of one body, which its request and its calls use, count while it has users. Its request is the first.
 *
 * @internal
 */
export class HeldBody {
  #arrived = 0;
  /** None until the body is no longer small, then all that have arrived. */
  #counted = 0;
  #users = 1;

  /** @param caller the principal or the address that sends the body */
  constructor(
    private readonly held: HeldBytes,
    private readonly caller: string,
  ) {}

  /** Counts bytes that have arrived. @throws McpError TOO_MANY_REQUESTS, UNAVAILABLE */
  take(bytes: number): void {
    const arrived = this.#arrived + bytes;
    if (arrived > SMALL_BODY_BYTES) {
      const more = arrived - this.#counted;
      const refusal = this.held.refusal(this.caller, more);
      if (refusal) throw refusal;
      this.#counted = arrived;
      // The client may have left before the last chunk is read.
      if (this.#users > 0) this.held.add(this.caller, more);
    }
    this.#arrived = arrived;
  }

  share(): void {
    if (this.#users++ === 0) this.held.add(this.caller, this.#counted);
  }

  /** Called once by each user. */
  release(): void {
    if (--this.#users === 0) this.held.add(this.caller, -this.#counted);
  }
}
