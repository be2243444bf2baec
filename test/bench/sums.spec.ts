import { describe, expect, it } from 'vitest';
import { deviations } from '../../bench/harness/deviations.js';
import { judged } from '../../bench/harness/goals.js';
import { ratiosOf } from '../../bench/harness/ratios.js';
import { report } from '../../bench/harness/report.js';
import { stepped, timed, type WorkResult } from '../../bench/harness/work.js';
import { grownIn, type QuietPoint } from '../../bench/soak/verdict.js';

const CALLS: WorkResult = {
  work: 'call',
  title: 'tools/call',
  unit: 'µs',
  rounds: { 'bare-express': [100, 200, 100], 'ours-express': [130, 260, 130], 'sdk-v1': [300, 600, 300] },
};
const EVENTS: WorkResult = {
  work: 'progress',
  title: 'one event',
  unit: 'µs',
  rounds: { 'ours-express': [5, 6], 'sdk-v1': [50, 45] },
};
const grown = (size: number, ours: number): WorkResult => ({
  ...{ work: 'growth', title: 'tools/call', unit: 'µs', size },
  rounds: { 'ours-express': [ours] },
});

describe('the sums of the benchmark', () => {
  it('compares what was not disturbed, with the bare route, and with ours where there is no such route', () => {
    expect(ratiosOf([CALLS, EVENTS])).toEqual([
      { label: 'tools/call: ours-express / bare-express', ratio: 1.3 },
      { label: 'tools/call: sdk-v1 / bare-express', ratio: 3 },
      { label: 'one event: sdk-v1 / ours-express', ratio: 9 },
    ]);
  });

  it('compares many sessions with few, and nodes with the first of them', () => {
    const nodes: WorkResult = { ...CALLS, work: 'nodes', rounds: { memory: [100], redis: [300], 'two-nodes': [400] } };
    expect(ratiosOf([grown(10, 100), grown(1_000, 110), nodes])).toEqual([
      { label: 'tools/call: ours-express, 1000 / 10', ratio: 1.1 },
      { label: 'tools/call: redis / memory', ratio: 3 },
      { label: 'tools/call: two-nodes / memory', ratio: 4 },
    ]);
  });

  it('takes the half with more calls per second for the better one', () => {
    const work: WorkResult = {
      ...CALLS,
      work: 'nodes',
      unit: 'calls/s',
      rounds: { memory: [90, 10, 110], redis: [50] },
    };
    expect(ratiosOf([work])).toEqual([{ label: 'tools/call: redis / memory', ratio: 0.5 }]);
  });

  it('finds how far runs are apart, the widest first, and leaves out what not all have', () => {
    const other: WorkResult = { ...CALLS, rounds: { ...CALLS.rounds, 'sdk-v1': [390, 780, 390] } };
    const found = deviations([[CALLS, EVENTS], [other]]);
    expect(found.map(({ label, share }) => [label, share.toFixed(2)])).toEqual([
      ['tools/call: sdk-v1 / bare-express', '0.30'],
      ['tools/call: ours-express / bare-express', '0.00'],
    ]);
  });

  it('says of each goal whether it is met', () => {
    expect(judged([CALLS, { ...EVENTS, rounds: { 'ours-express': [6] } }])).toEqual([
      { title: 'tools/call, Express', measured: '1.30× the bare route', goal: '≤ 1.40× the bare route', met: true },
      { title: 'one event, Express', measured: '6.0 µs', goal: '≤ 5.0 µs', met: false },
    ]);
  });

  it('tells the ratio first, then what it is', () => {
    const machine = { date: '2026-11-21', node: 'v20', cpu: 'a core', cores: 2, memoryGiB: 1, versions: {} };
    const text = report({ ...machine, pinned: true, quick: false, rounds: 3 }, [CALLS, EVENTS]);
    expect(text).toContain('| work | bare route | ours | SDK v1 |');
    expect(text).toContain('| tools/call | 100 µs | 1.30× (130 µs) | 3.00× (300 µs) |');
    expect(text).toContain('| one event | – | 5.0 µs | 9.00× ours (45 µs) |');
  });

  it('gives each server the same time, whatever its units cost, in whole steps, once it is warm', async () => {
    const server = (key: string, cost: number, step = 10) => {
      let spent = 0;
      const counts: number[] = [];
      const load = async (count: number): Promise<void> => {
        counts.push(count);
        spent += cost * count;
      };
      return { key, counts, server: { cpu: async () => spent }, load, step, warmUp: 100 };
    };
    const [cheap, dear, bulky] = [server('cheap', 20), server('dear', 300), server('bulky', 20, 3_000)];
    const found = await timed([cheap, dear, bulky], { rounds: 2, warmMs: 0, windowMs: 60 });
    expect(found).toEqual({ cheap: [20, 20], dear: [300, 300], bulky: [20, 20] });
    // Four passes in each of two rounds, or one where a step takes the whole round.
    expect(cheap.counts.slice(2)).toEqual(Array.from({ length: 8 }, () => 750));
    expect(dear.counts.slice(2)).toEqual(Array.from({ length: 8 }, () => 50));
    expect(bulky.counts.slice(2)).toEqual(Array.from({ length: 2 }, () => 3_000));
    expect(stepped(3, 10)).toBe(10);
  });
});

/** Twenty quiet moments, each half a minute after the one before. */
function quiet(memory: (index: number) => number, handles: (index: number) => number = () => 3): QuietPoint[] {
  return Array.from({ length: 20 }, (_, index) => ({
    ...{ seconds: index * 30, visits: index * 1_000, memory: memory(index) },
    gauges: { handles: handles(index), sessions: 0 },
  }));
}

describe('the verdict of the soak test', () => {
  const MIB = 1024 ** 2;
  /** The same in each run, and without a trend. */
  const noise = (index: number): number => ((index * 7) % 5) * 0.1 * MIB;

  it('finds a leak that noise hides from the eye', () => {
    const leaking = quiet((index) => 40 * MIB + index * 0.2 * MIB + noise(index));
    expect(grownIn(leaking)).toEqual([expect.stringMatching(/^memory grew by \d+ KiB \(2\d\d\.\d bytes a visit\)$/)]);
  });

  it('lets noise, one outlier and one step pass', () => {
    expect(grownIn(quiet((index) => 40 * MIB + noise(index)))).toEqual([]);
    expect(grownIn(quiet((index) => 40 * MIB + (index === 19 ? 5 * MIB : noise(index))))).toEqual([]);
    expect(grownIn(quiet((index) => 40 * MIB + (index > 9 ? 3 * MIB : 0) + noise(index)))).toEqual([]);
  });

  it('finds handles that have become more, and lets one that comes and goes pass', () => {
    expect(grownIn(quiet(noise, (index) => 3 + Math.floor(index / 10)))).toEqual(['handles went from 3 to 4']);
    expect(grownIn(quiet(noise, (index) => (index === 19 ? 4 : 3)))).toEqual([]);
  });
});
