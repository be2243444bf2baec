import { retryLater } from '../protocol/errors.js';

/**
 * # Bytes of the bodies that one endpoint holds on this node (E15)
 *
 * A body counts from its first byte, while it is read, until its response has closed and the last call in it has ended: until
 * then its text or its arguments are in memory.
 */
export class HeldBytes {
  /** Counts the bytes; the bodies write it. */
  count = 0;

  constructor(readonly max: number) {}
}

/**
 * The bytes of one body, which its request and its calls use, count while it has users. Its request is the first.
 *
 * @internal
 */
export class HeldBody {
  #bytes = 0;
  #users = 1;

  constructor(private readonly held: HeldBytes) {}

  /** Counts bytes that have arrived. @throws McpError UNAVAILABLE */
  take(bytes: number): void {
    const { count, max } = this.held;
    if (count + bytes > max) {
      const text = `This server holds ${count} bytes of requests, and its maximum is ${max}. Try again in a moment.`;
      throw retryLater('UNAVAILABLE', text, 1, { option: 'maxHeldBytes' });
    }
    this.#bytes += bytes;
    // The client may have left before the last chunk is read.
    if (this.#users > 0) this.held.count += bytes;
  }

  share(): void {
    if (this.#users++ === 0) this.held.count += this.#bytes;
  }

  /** Called once by each user. */
  release(): void {
    if (--this.#users === 0) this.held.count -= this.#bytes;
  }
}
