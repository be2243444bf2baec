import { describe, it } from 'vitest';

/**
 * A block of tests that need something of the machine. Without it the block is skipped, and the run says once why; in CI it fails.
 *
 * @param missing what is not there, and what to install; nothing if it is there
 */
export function describeWith(missing: string | undefined, name: string, body: () => void): void {
  if (missing !== undefined && process.env['CI']) throw new Error(`${name}: ${missing}`);
  describe(name, () => {
    if (missing === undefined) body();
    else it('has what it needs', ({ skip }) => skip(missing));
  });
}
