import { deviations } from './deviations.js';
import { percent, table } from './report.js';
import type { Results } from './results.js';

/** Whether runs say the same, as text and as a verdict. */

/** How far a ratio of a run may be from the median of all runs. */
const TOLERATED = 0.15;
const SHOWN = 15;

export interface Run extends Pick<Results, 'node' | 'results'> {
  readonly file: string;
}

export interface Comparison {
  readonly text: string;
  /** Whether each ratio of each run is near the median of that ratio. */
  readonly stable: boolean;
}

/** @throws when there is nothing to compare, or when another Node.js has measured one of the runs */
export function compared(runs: readonly Run[]): Comparison {
  if (runs.length < 2) throw new Error(`Two runs at least are needed to compare them; there are ${runs.length}.`);
  if (new Set(runs.map(({ node }) => node)).size > 1) {
    const measured = runs.map(({ file, node }) => `${file}: Node.js ${node}`);
    throw new Error(
      `Runs of different versions of Node.js are not compared; name the files of one version.\n${measured.join('\n')}`,
    );
  }
  const found = deviations(runs.map(({ results }) => results));
  if (found.length === 0) throw new Error('These runs have nothing in common.');
  const rows = found
    .slice(0, SHOWN)
    .map(({ label, ratios, stray, range }) => [
      label,
      percent(stray),
      percent(range),
      ...ratios.map((ratio) => ratio.toFixed(2)),
    ]);
  const columns = ['ratio', 'from the median', 'smallest to largest', ...runs.map((_, index) => `run ${index + 1}`)];
  const nearMedian = found.filter(({ stray }) => stray <= TOLERATED).length;
  const nearEachOther = found.filter(({ range }) => range <= TOLERATED).length;
  const parts = [
    `Node.js ${runs[0]!.node}\n${runs.map(({ file }) => file).join('\n')}`,
    table(columns, rows),
    `${nearMedian} of ${found.length} ratios are within ${percent(TOLERATED)} of the median of these runs, as all must be; ` +
      `${nearEachOther} are within ${percent(TOLERATED)} from the smallest to the largest.`,
  ];
  return { text: parts.join('\n\n'), stable: nearMedian === found.length };
}
