// Prints `N passed, N failed` (and `, N skipped`) from the results that vitest's JSON reporter wrote, all files together, as the
// last line of a CI run. A test file that failed to load has no tests of its own and counts as one failure.
import { readFileSync } from 'node:fs';

let [passed, failed, skipped] = [0, 0, 0];
for (const path of process.argv.slice(2)) {
  const results = JSON.parse(readFileSync(path, 'utf8'));
  const unloadable = results.testResults.filter(
    ({ status, assertionResults }) => status === 'failed' && !assertionResults.length,
  );
  passed += results.numPassedTests;
  failed += results.numFailedTests + unloadable.length;
  skipped += results.numPendingTests + results.numTodoTests;
}
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
