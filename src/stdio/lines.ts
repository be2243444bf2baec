const NEWLINE = 0x0a;

/** Stands for a line above the limit, which was discarded. */
export const TOO_LONG = Symbol('too long');

/** Splits bytes into lines. Buffers at most `maxBytes` of an incomplete line; a longer one is discarded. */
export class Lines {
  #parts: Buffer[] = [];
  #size = 0;

  constructor(private readonly maxBytes: number) {}

  /** @returns the lines that end in this chunk, without their ends */
  push(chunk: Buffer): (Buffer | typeof TOO_LONG)[] {
    const lines: (Buffer | typeof TOO_LONG)[] = [];
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      this.#add(chunk.subarray(start, end));
      lines.push(this.#take());
      start = end + 1;
    }
    this.#add(chunk.subarray(start));
    return lines;
  }

  /** Returns the bytes behind the last line end. */
  rest(): Buffer | typeof TOO_LONG {
    return this.#take();
  }

  #add(part: Buffer): void {
    this.#size += part.length;
    if (this.#size > this.maxBytes) this.#parts = [];
    else if (part.length > 0) this.#parts.push(part);
  }

  #take(): Buffer | typeof TOO_LONG {
    const [parts, size] = [this.#parts, this.#size];
    this.#parts = [];
    this.#size = 0;
    if (size > this.maxBytes) return TOO_LONG;
    return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
  }
}
