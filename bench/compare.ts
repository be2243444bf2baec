import { deviations } from './harness/deviations.js';
import { percent, table } from './harness/report.js';
import { lastKept, read } from './harness/results.js';

/** `npm run bench -- --compare [files]`: whether runs say the same. Without files, the last three. */

/** How far ratios of runs may be apart, from the smallest to the largest. */
const TOLERATED = 0.15;
const SHOWN = 15;

const given = process.argv.slice(2).filter((argument) => argument !== '--compare');
const files = given.length > 0 ? given : lastKept(3);
if (files.length < 2) throw new Error(`Two runs at least are needed to compare them; there are ${files.length}.`);
const found = deviations(files.map((file) => read(file).results));
if (found.length === 0) throw new Error('These runs have nothing in common.');
const rows = found
  .slice(0, SHOWN)
  .map(({ label, ratios, stray, range }) => [
    label,
    percent(range),
    percent(stray),
    ...ratios.map((ratio) => ratio.toFixed(2)),
  ]);
const runs = files.map((_, index) => `run ${index + 1}`);
console.log(`${files.join('\n')}\n\n${table(['ratio', 'smallest to largest', 'from the median', ...runs], rows)}\n`);
const stable = found.filter(({ range }) => range <= TOLERATED);
const nearMedian = found.filter(({ stray }) => stray <= TOLERATED);
console.log(
  `${stable.length} of ${found.length} ratios are within ${percent(TOLERATED)} from the smallest to the largest; ` +
    `${nearMedian.length} are within ${percent(TOLERATED)} of the median of these runs.`,
);
if (stable.length < found.length) process.exitCode = 1;
