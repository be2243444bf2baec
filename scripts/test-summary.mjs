// Prints `N passed, N failed` (and `, N skipped`) from the results that vitest's JSON reporter wrote, as the last line of
// a CI run. A file that failed to load has no tests of its own and counts as one failure.
import { readFileSync } from 'node:fs';

const [path] = process.argv.slice(2);
const { testResults, numPassedTests, numFailedTests, numPendingTests, numTodoTests } = JSON.parse(
  readFileSync(path, 'utf8'),
);
const unloadable = testResults.filter(
  ({ status, assertionResults }) => status === 'failed' && !assertionResults.length,
);
const failed = numFailedTests + unloadable.length;
const skipped = numPendingTests + numTodoTests;

console.log(`${numPassedTests} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
