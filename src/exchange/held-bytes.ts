import { McpError } from '../wire/errors.js';

/**
 * # Bytes of the bodies that one endpoint holds on this node (E15)
 *
 * A body counts from its first byte, while it is read, until its response is over and the last call in it has ended: until
 * then its text or its arguments are in memory.
 */
export class HeldBytes {
  #count = 0;

  constructor(private readonly max: number) {}

  get count(): number {
    return this.#count;
  }

  /** A body that will arrive, and whose request is its first user. */
  open(): HeldBody {
    return new HeldBody(this);
  }

  /** @throws McpError UNAVAILABLE */
  assertRoom(bytes: number): void {
    if (this.#count + bytes <= this.max) return;
    const text = `This server holds ${this.#count} bytes of requests, and its maximum is ${this.max}. Try again in a moment.`;
    throw new McpError('UNAVAILABLE', text, { headers: { 'Retry-After': '1' }, option: 'maxHeldBytes' });
  }

  add(bytes: number): void {
    this.#count += bytes;
  }
}

/**
 * The bytes of one body, which its request and its calls use. They count while it has users.
 *
 * @internal
 */
export class HeldBody {
  #bytes = 0;
  #users = 1;

  constructor(private readonly budget: HeldBytes) {}

  /** More of it has arrived. @throws McpError UNAVAILABLE */
  take(bytes: number): void {
    this.budget.assertRoom(bytes);
    this.#bytes += bytes;
    // The client may have left before the last chunk is read.
    if (this.#users > 0) this.budget.add(bytes);
  }

  share(): void {
    if (this.#users++ === 0) this.budget.add(this.#bytes);
  }

  /** Once for each user. */
  release(): void {
    if (--this.#users === 0) this.budget.add(-this.#bytes);
  }
}
