/** Bytes that this process holds: heap and buffers. Garbage counts. */
export function memoryInUse(): number {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** Bytes that this process holds when the garbage is gone. */
export async function memoryAtRest(): Promise<number> {
  // What a collection finds may free more in its callbacks.
  for (let i = 0; i < 4; i++) {
    globalThis.gc!();
    await new Promise(setImmediate);
  }
  return memoryInUse();
}

export const MEBIBYTE = 1024 * 1024;
