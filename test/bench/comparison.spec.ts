import { describe, expect, it } from 'vitest';
import { compared, type Run } from '../../bench/harness/comparison.js';

/** A run in which ours is so many times the bare route. */
const run = (ratio: number, node = 'v24.21.0', file = `${ratio}.json`): Run => ({
  file,
  node,
  results: [
    { work: 'call', title: 'tools/call', unit: 'µs', rounds: { 'bare-express': [100], 'ours-express': [100 * ratio] } },
  ],
});

describe('the comparison of runs', () => {
  it('the comparison of runs tells how far the smallest and the largest of a ratio are apart', () => {
    const { text, stable } = compared([run(2), run(2.1), run(2.18)]);
    expect(stable).toBe(true);
    expect(text).toContain('| ratio | smallest to largest | run 1 | run 2 | run 3 |');
    expect(text).toContain('| tools/call: ours-express / bare-express | 9 % | 2.00 | 2.10 | 2.18 |');
    expect(text).toContain('1 of 1 ratios differ by 10 % at most, as all must.');
  });

  it('the comparison of runs finds runs unstable as soon as one ratio differs by more', () => {
    expect(compared([run(2), run(2), run(2.22)]).stable).toBe(false);
    expect(compared([run(1.8), run(2)]).stable).toBe(false);
  });

  it('the comparison of runs names the runs, and the Node.js that measured them', () => {
    expect(compared([run(1), run(1.1)]).text).toContain('Node.js v24.21.0\n1.json\n1.1.json\n');
  });

  it('the comparison of runs refuses runs of different versions of Node.js, and says which is which', () => {
    expect(() => compared([run(1), run(1.1, 'v20.20.2'), run(1.2)])).toThrow(
      'Runs of different versions of Node.js are not compared; name the files of one version.\n' +
        '1.json: Node.js v24.21.0\n1.1.json: Node.js v20.20.2\n1.2.json: Node.js v24.21.0',
    );
  });

  it('the comparison of runs refuses a run alone, and runs that have nothing in common', () => {
    expect(() => compared([run(1)])).toThrow('Two runs at least are needed to compare them; there are 1.');
    expect(() => compared([run(1), { ...run(1), results: [] }])).toThrow('These runs have nothing in common.');
  });
});
