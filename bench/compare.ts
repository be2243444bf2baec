import { deviations } from './harness/deviations.js';
import { percent, table } from './harness/report.js';
import { lastKept, read } from './harness/results.js';

/** `npm run bench -- --compare [files]`: whether runs say the same. Without files, the last three. */

/** How far ratios of runs may be apart. */
const TOLERATED = 0.15;
const SHOWN = 15;

const given = process.argv.slice(2).filter((argument) => argument !== '--compare');
const files = given.length > 0 ? given : lastKept(3);
if (files.length < 2) throw new Error(`Two runs at least are needed to compare them; there are ${files.length}.`);
const found = deviations(files.map((file) => read(file).results));
if (found.length === 0) throw new Error('These runs have nothing in common.');
const rows = found
  .slice(0, SHOWN)
  .map(({ label, ratios, share }) => [label, percent(share), ...ratios.map((ratio) => ratio.toFixed(2))]);
const runs = files.map((_, index) => `run ${index + 1}`);
console.log(`${files.join('\n')}\n\n${table(['ratio', 'apart', ...runs], rows)}\n`);
const unstable = found.filter(({ share }) => share > TOLERATED);
console.log(`${found.length - unstable.length} of ${found.length} ratios are within ${percent(TOLERATED)}.`);
if (unstable.length > 0) process.exitCode = 1;
