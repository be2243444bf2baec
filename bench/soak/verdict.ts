import { median, trend } from '../harness/statistics.js';

/** What was left at one quiet moment. */
export interface QuietPoint {
  /** Since the beginning. */
  readonly seconds: number;
  readonly visits: number;
  /** Bytes of heap and buffers, after a collection. */
  readonly memory: number;
  readonly gauges: Readonly<Record<string, number>>;
}

/** What V8 and Node.js do by themselves may look like this much growth over the run, however long it is. */
const TOLERATED_BYTES = 1024 ** 2;
/** How many of the first points are not looked at: until then code is still being compiled, and pools are filled. */
const WARM_UP_SHARE = 0.25;
/** Settled points without which a line says nothing. */
const FEWEST = 6;

/** @returns what has grown, in words; nothing is as it should be */
export function grownIn(points: readonly QuietPoint[]): string[] {
  return [...(enough(points) ? memoryGrowth(settledOf(points)) : []), ...gaugeGrowth(points)];
}

/** Whether there are points enough to judge the memory. */
export function enough(points: readonly QuietPoint[]): boolean {
  return settledOf(points).length >= FEWEST;
}

function settledOf(points: readonly QuietPoint[]): readonly QuietPoint[] {
  return points.slice(Math.floor(points.length * WARM_UP_SHARE));
}

/**
 * A leak rises all the time; a table that doubled, or code that was compiled late, is a step. So a line through all points
 * must rise by more than chance and tolerance, and the second half alone must go on rising at least half as fast.
 */
function memoryGrowth(points: readonly QuietPoint[]): string[] {
  const { slope, error } = trend(points.map(({ seconds, memory }) => ({ x: seconds, y: memory })));
  const duration = points.at(-1)!.seconds - points[0]!.seconds;
  const visits = points.at(-1)!.visits - points[0]!.visits;
  const certain = (slope - 2 * error) * duration;
  const goesOn = typicalSlope(points.slice(points.length >> 1)) > slope / 2;
  if (certain <= TOLERATED_BYTES || !goesOn) return [];
  const perVisit = (slope * duration) / visits;
  return [`memory grew by ${Math.round((slope * duration) / 1024)} KiB (${perVisit.toFixed(1)} bytes a visit)`];
}

/** The median of the slopes between any two points: one that is off changes nothing. */
function typicalSlope(points: readonly QuietPoint[]): number {
  const slopes = points.flatMap((from, index) =>
    points.slice(index + 1).map((to) => (to.memory - from.memory) / Math.max(1, to.seconds - from.seconds)),
  );
  return median(slopes);
}

/** Handles and listeners come and go a little: there are more when all of the last quarter are above all of the first. */
function gaugeGrowth(points: readonly QuietPoint[]): string[] {
  const quarter = Math.max(1, points.length >> 2);
  const [first, last] = [points.slice(0, quarter), points.slice(-quarter)];
  return Object.keys(points[0]!.gauges).flatMap((name) => {
    const before = Math.max(...first.map(({ gauges }) => gauges[name]!));
    const after = Math.min(...last.map(({ gauges }) => gauges[name]!));
    return after > before ? [`${name} went from ${before} to ${after}`] : [];
  });
}
