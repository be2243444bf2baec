import { ratiosOf } from './ratios.js';
import type { WorkResult } from './work.js';

/** How far runs are apart. */

export interface Deviation {
  readonly label: string;
  /** Run by run. */
  readonly ratios: readonly number[];
  /** How much larger the largest is than the smallest: 0.1 is 10 %. */
  readonly range: number;
}

/** @returns every ratio that all runs have, the one whose values are farthest apart first */
export function deviations(runs: readonly (readonly WorkResult[])[]): Deviation[] {
  const [first = [], ...others] = runs.map((results) => ratiosOf(results));
  const found = first.flatMap(({ label, ratio }) => {
    const same = others.map((ratios) => ratios.find((other) => other.label === label)?.ratio);
    if (same.includes(undefined)) return [];
    const ratios = [ratio, ...(same as number[])];
    return [{ label, ratios, range: Math.max(...ratios) / Math.min(...ratios) - 1 }];
  });
  return found.toSorted((a, b) => b.range - a.range);
}
