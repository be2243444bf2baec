import { deviations } from './deviations.js';
import { percent, table } from './report.js';
import type { Results } from './results.js';

/** Whether runs say the same, as text and as a verdict. */

/** How much larger the largest of a ratio may be than the smallest. */
const TOLERATED = 0.1;
const SHOWN = 15;

export interface Run extends Pick<Results, 'node' | 'results'> {
  readonly file: string;
}

export interface Comparison {
  readonly text: string;
  /** Whether all runs have nearly the same ratios. */
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
    .map(({ label, ratios, range }) => [label, percent(range), ...ratios.map((ratio) => ratio.toFixed(2))]);
  const columns = ['ratio', 'smallest to largest', ...runs.map((_, index) => `run ${index + 1}`)];
  const near = found.filter(({ range }) => range <= TOLERATED).length;
  const parts = [
    `Node.js ${runs[0]!.node}\n${runs.map(({ file }) => file).join('\n')}`,
    table(columns, rows),
    `${near} of ${found.length} ratios differ by ${percent(TOLERATED)} at most, as all must.`,
  ];
  return { text: parts.join('\n\n'), stable: near === found.length };
}
