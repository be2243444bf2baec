import { ratiosOf } from './ratios.js';
import { median } from './statistics.js';
import type { WorkResult } from './work.js';

/** How far runs are apart. */

export interface Deviation {
  readonly label: string;
  /** Run by run. */
  readonly ratios: readonly number[];
  /** How far the farthest is from the median of all, as a share of that: 0.1 is 10 %. */
  readonly stray: number;
  /** How much larger the largest is than the smallest: 0.1 is 10 %. */
  readonly range: number;
}

/** @returns every ratio that all runs have, the one farthest from its median first */
export function deviations(runs: readonly (readonly WorkResult[])[]): Deviation[] {
  const [first = [], ...others] = runs.map((results) => ratiosOf(results));
  const found = first.flatMap(({ label, ratio }) => {
    const same = others.map((ratios) => ratios.find((other) => other.label === label)?.ratio);
    if (same.includes(undefined)) return [];
    const ratios = [ratio, ...(same as number[])];
    const middle = median(ratios);
    const stray = Math.max(...ratios.map((ratio) => Math.abs(ratio / middle - 1)));
    return [{ label, ratios, stray, range: Math.max(...ratios) / Math.min(...ratios) - 1 }];
  });
  return found.toSorted((a, b) => b.stray - a.stray);
}
