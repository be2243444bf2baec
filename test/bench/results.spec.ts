import { describe, expect, it } from 'vitest';
import { add } from '../../bench/harness/results.js';
import type { WorkResult } from '../../bench/harness/work.js';

const call: WorkResult = { work: 'call', title: 'a call', unit: 'µs', rounds: { ours: [1] }, warm: { ours: 20 } };

describe('the results of the benchmark', () => {
  it('the results of the benchmark join the rounds of one work, of which the coldest time counts', () => {
    const results = [call];
    add(results, { ...call, rounds: { ours: [2], bare: [3] }, warm: { ours: 10, bare: 30 } });
    expect(results).toEqual([{ ...call, rounds: { ours: [1, 2], bare: [3] }, warm: { ours: 10, bare: 30 } }]);
  });

  it('the results of the benchmark keep works apart that have one title, and sizes', () => {
    const results = [call];
    add(results, { ...call, work: 'plugins' });
    add(results, { ...call, size: 10 });
    expect(results).toHaveLength(3);
  });
});
