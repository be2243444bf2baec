import { describe, expect, it } from 'vitest';
import { deviations } from '../../bench/harness/deviations.js';
import { ratiosOf } from '../../bench/harness/ratios.js';
import { report } from '../../bench/harness/report.js';
import { cpuTimes, interleaved, stepped, timed, type WorkResult } from '../../bench/harness/work.js';
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
  work: 'growth',
  title: 'tools/call',
  unit: 'µs',
  size,
  rounds: { 'ours-express': [ours] },
});

describe('the sums of the benchmark', () => {
  it('the summary of the benchmark compares what was not disturbed, with the bare route, and with ours where there is no such route', () => {
    expect(ratiosOf([CALLS, EVENTS])).toEqual([
      { label: 'tools/call: ours-express / bare-express', ratio: 1.3 },
      { label: 'tools/call: sdk-v1 / bare-express', ratio: 3 },
      { label: 'one event: sdk-v1 / ours-express', ratio: 9 },
    ]);
  });

  it('the summary of the benchmark compares many sessions with few, and nodes with the first of them', () => {
    const nodes: WorkResult = { ...CALLS, work: 'nodes', rounds: { memory: [100], redis: [300], 'two-nodes': [400] } };
    expect(ratiosOf([grown(10, 100), grown(1_000, 110), nodes])).toEqual([
      { label: 'tools/call: ours-express, 1000 / 10', ratio: 1.1 },
      { label: 'tools/call: redis / memory', ratio: 3 },
      { label: 'tools/call: two-nodes / memory', ratio: 4 },
    ]);
  });

  it('the summary of the benchmark leaves out the rounds with fewer calls per second', () => {
    const work: WorkResult = {
      ...CALLS,
      work: 'nodes',
      unit: 'calls/s',
      rounds: { memory: [90, 10, 110], redis: [50] },
    };
    expect(ratiosOf([work])).toEqual([{ label: 'tools/call: redis / memory', ratio: 0.5 }]);
  });

  it('the summary of the benchmark finds how far runs are from each other, the widest first, and leaves out what not all have', () => {
    const other: WorkResult = { ...CALLS, rounds: { ...CALLS.rounds, 'sdk-v1': [390, 780, 390] } };
    const found = deviations([[CALLS, EVENTS], [CALLS], [other]]);
    expect(found.map(({ label, range }) => [label, range.toFixed(2)])).toEqual([
      ['tools/call: sdk-v1 / bare-express', '0.30'],
      ['tools/call: ours-express / bare-express', '0.00'],
    ]);
  });

  const machine = { date: '2026-11-21', node: 'v24.21.0', cpu: 'a core', cores: 2, memoryGiB: 1, versions: {} };
  const about = { ...machine, pinned: true, quick: false, rounds: 3 };

  it('the summary of the benchmark names the Node.js that measured, and says so where the goals are not for it', () => {
    const strange = 'The goals are for Node.js 24';
    expect(report(about, [CALLS])).toContain('Node.js v24.21.0, a core, 2 cores');
    expect(report(about, [CALLS])).not.toContain(strange);
    expect(report({ ...about, node: 'v20.20.2' }, [CALLS])).toContain(`${strange}; here Node.js v20.20.2 measured.`);
    expect(report({ ...about, node: 'v20.20.2' }, [EVENTS])).not.toContain(strange);
  });

  it('the summary of the benchmark tells the ratio first, then what it is', () => {
    const text = report(about, [CALLS, EVENTS]);
    expect(text).toContain('| work | bare route | ours | SDK v1 |');
    expect(text).toContain('| tools/call | 100 µs | 1.30× (130 µs) | 3.00× (300 µs) |');
    expect(text).toContain('| one event | – | 5.0 µs | 9.00× ours (45 µs) |');
    expect(text).toContain('| tools/call, Express | 1.30× the bare route | ≤ 1.05× the bare route | **no** |');
  });

  it('the summary of the benchmark tells what plugins add, and how warm the servers were', () => {
    const warm = { plain: 21_000, audit: 18_000 };
    const plugins: WorkResult = { ...CALLS, work: 'plugins', rounds: { plain: [20], audit: [21.5] }, warm };
    const text = report(about, [plugins]);
    expect(text).toContain('| tools/call | none | 20 µs | – |');
    expect(text).toContain('| tools/call | audit, required, with an empty sink | 1.07× (22 µs) | 1.5 µs |');
    expect(text).toContain('before its first round, to be warm: tools/call: 18,000 to 21,000.');
    expect(report(about, [CALLS])).not.toContain('to be warm');
  });

  it('the summary of the benchmark tells times of a start in milliseconds', () => {
    const imported: WorkResult = { ...CALLS, work: 'start', rounds: { bare: [90_000], ours: [135_000] } };
    expect(report(about, [imported])).toContain('| tools/call | 90 ms | 1.50× (135 ms) |');
  });

  /** Takes so many microseconds for a unit. */
  function server(key: string, cost: number, step = 10) {
    let spent = 0;
    const counts: number[] = [];
    const load = async (count: number): Promise<void> => {
      counts.push(count);
      spent += cost * count;
    };
    return { key, counts, servers: [{ cpu: async () => spent }], load, step, warmUp: 400 };
  }

  const times = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value);

  it('the summary of the benchmark gives each server the same time, whatever its units cost, once it is warm', async () => {
    const [cheap, dear] = [server('cheap', 20), server('dear', 300)];
    const found = await cpuTimes([cheap, dear], { rounds: 4, roundMs: 60, turnMs: 30, warmMs: 150 });
    expect(found.rounds).toEqual({ cheap: times(4, 20), dear: times(4, 300) });
    expect(found.warm).toEqual({ cheap: 7_500, dear: 500 });
    // Warm after 150 ms, and after four turns at least; then four rounds of two turns.
    expect(cheap.counts).toEqual([...times(75, 100), ...times(8, 1_500)]);
    expect(dear.counts).toEqual([...times(5, 100), ...times(8, 100)]);
  });

  it('the summary of the benchmark lets turns last as long as the largest step, and makes fewer rounds of them', async () => {
    const [cheap, bulky] = [server('cheap', 20), server('bulky', 20, 3_000)];
    const found = await cpuTimes([cheap, bulky], { rounds: 10, roundMs: 30, turnMs: 10, warmMs: 0 });
    expect(found.rounds).toEqual({ cheap: times(5, 20), bulky: times(5, 20) });
    expect(cheap.counts).toEqual([...times(4, 100), ...times(5, 3_000)]);
    expect(bulky.counts).toEqual([...times(4, 3_000), ...times(5, 3_000)]);
    const few = await cpuTimes([server('bulky', 20, 3_000)], { rounds: 10, roundMs: 1, turnMs: 1, warmMs: 0 });
    expect(few.rounds).toEqual({ bulky: times(3, 20) });
    expect(stepped(3, 10)).toBe(10);
  });

  it('the summary of the benchmark begins each pass with another one', async () => {
    const order: string[] = [];
    await interleaved(['a', 'b', 'c'], 3, async (one) => void order.push(one));
    expect(order.join('')).toBe('abcbcacab');
  });

  it('the summary of the benchmark adds up the servers of one deployment, and tells them from their Redis', async () => {
    let count = 0;
    const spending = (cost: number) => ({ cpu: async () => cost * count });
    const load = async (more: number): Promise<void> => void (count += more);
    const deployment = { key: 'two nodes', servers: [spending(30), spending(20)], redis: spending(7), load, warmUp: 8 };
    const found = await timed([deployment], { rounds: 1, roundMs: 1, turnMs: 1, warmMs: 0 });
    expect(found.spent).toEqual({ 'two nodes': [{ server: 50, redis: 7, wall: expect.any(Number) }] });
  });
});

/** Twenty quiet moments, each half a minute after the one before. */
function quiet(memory: (index: number) => number, handles: (index: number) => number = () => 3): QuietPoint[] {
  return Array.from({ length: 20 }, (_, index) => ({
    seconds: index * 30,
    visits: index * 1_000,
    memory: memory(index),
    gauges: { handles: handles(index), sessions: 0 },
  }));
}

describe('the verdict of the soak test', () => {
  const MIB = 1024 ** 2;
  /** The same in each run, and without a trend. */
  const noise = (index: number): number => ((index * 7) % 5) * 0.1 * MIB;

  it('the verdict of the soak test finds a leak that noise hides from the eye', () => {
    const leaking = quiet((index) => 40 * MIB + index * 0.2 * MIB + noise(index));
    expect(grownIn(leaking)).toEqual([expect.stringMatching(/^memory grew by \d+ KiB \(2\d\d\.\d bytes a visit\)$/)]);
  });

  it('the verdict of the soak test lets noise, one outlier and one step pass', () => {
    expect(grownIn(quiet((index) => 40 * MIB + noise(index)))).toEqual([]);
    expect(grownIn(quiet((index) => 40 * MIB + (index === 19 ? 5 * MIB : noise(index))))).toEqual([]);
    expect(grownIn(quiet((index) => 40 * MIB + (index > 9 ? 3 * MIB : 0) + noise(index)))).toEqual([]);
  });

  it('the verdict of the soak test finds handles that have become more, and lets one that comes and goes pass', () => {
    expect(grownIn(quiet(noise, (index) => 3 + Math.floor(index / 10)))).toEqual(['handles went from 3 to 4']);
    expect(grownIn(quiet(noise, (index) => (index === 19 ? 4 : 3)))).toEqual([]);
  });
});
