import type { Clock } from './clock.js';

/** Waits for `task`, but not longer than `limitMs`. @returns whether it was done in time */
export async function within(task: Promise<unknown>, limitMs: number, clock: Clock): Promise<boolean> {
  let over!: () => void;
  const late = new Promise<void>((resolve) => (over = resolve));
  const timer = clock.setTimeout(over, limitMs);
  try {
    return await Promise.race([task.then(() => true), late.then(() => false)]);
  } finally {
    clock.clear(timer);
  }
}
