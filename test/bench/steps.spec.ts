import { describe, expect, it } from 'vitest';
import { inWords, Steps } from '../../bench/harness/steps.js';

describe('what the benchmark says while it runs', () => {
  it('what the benchmark says while it runs is how many steps are done, and how long the others will take if they are as slow as those before', async () => {
    const lines: string[] = [];
    let now = 0;
    const takes = (ms: number) => () => Promise.resolve(void (now += ms));
    const all = [
      { title: 'call', seconds: 10 },
      { title: 'notify', seconds: 20 },
      { title: 'nodes', seconds: 60 },
    ];
    const steps = new Steps(
      all,
      (line) => lines.push(line),
      () => now,
    );
    expect(steps.seconds).toBe(90);
    for (const ms of [20_000, 40_000, 30_000]) await steps.next(takes(ms));
    expect(lines).toEqual([
      '[1/3] call: 20 s; 20 s so far, about 2 min 40 s left',
      '[2/3] notify: 40 s; 1 min 0 s so far, about 2 min 0 s left',
      '[3/3] nodes: 30 s; 1 min 30 s so far',
    ]);
  });

  it.each([
    [0, '0 s'],
    [-5, '0 s'],
    [59.4, '59 s'],
    [59.6, '1 min 0 s'],
    [3_725, '62 min 5 s'],
  ])('%d seconds are %s', (seconds, words) => expect(inWords(seconds)).toBe(words));
});
