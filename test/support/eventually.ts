import { vi } from 'vitest';

/** Ends only what hangs: a machine with other work takes long for anything. That of a test is longer (`vitest.config.ts`). */
export const LIMIT_MS = 60_000;

/** Waits until an assertion holds. */
export function eventually<T>(assertion: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(assertion, { timeout: LIMIT_MS, interval: 5 });
}
