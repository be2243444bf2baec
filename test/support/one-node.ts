import { TestRunner } from 'vitest';
import type { TestAppOptions } from './app.js';

/**
 * # What is not run with requests spread over two nodes
 *
 * All else must pass there (`npm run test:nodes`). By what a test gives its app, or by its file and title.
 */
export const ONE_NODE_OPTIONS: readonly (readonly [option: keyof TestAppOptions, reason: string])[] = [
  ['sessionStore', 'its session store is a double of its own'],
  ['eventStore', 'its event store is a double of its own'],
  ['messageBus', 'its bus is a double of its own'],
  ['backend', 'its backend is its own'],
];

/** The file, below `test/`, the title, and why. */
export const ONE_NODE_TESTS: readonly (readonly [file: RegExp, title: RegExp, reason: string])[] = [];

/** Skips the test that runs if it gives its app what only one node can have. */
export function skipForOptions(options: TestAppOptions): void {
  const found = ONE_NODE_OPTIONS.find(([option]) => options[option] !== undefined);
  if (found) TestRunner.getCurrentTest()?.context.skip(found[1]);
}

/** Why the test of this name is not run on two nodes. */
export function reasonFor(file: string, title: string): string | undefined {
  return ONE_NODE_TESTS.find(([files, titles]) => files.test(file) && titles.test(title))?.[2];
}
