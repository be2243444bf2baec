import { trend } from '../harness/statistics.js';

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

/** @returns what has grown, in words; nothing is as it should be */
export function grownIn(points: readonly QuietPoint[]): string[] {
  const settled = points.slice(Math.floor(points.length * WARM_UP_SHARE));
  return [...memoryGrowth(settled), ...gaugeGrowth(points)];
}

function memoryGrowth(points: readonly QuietPoint[]): string[] {
  if (points.length < 3) return [];
  const { slope, error } = trend(points.map(({ seconds, memory }) => ({ x: seconds, y: memory })));
  const duration = points.at(-1)!.seconds - points[0]!.seconds;
  const visits = points.at(-1)!.visits - points[0]!.visits;
  // What is certainly no chance.
  const growth = (slope - 2 * error) * duration;
  if (growth <= TOLERATED_BYTES) return [];
  const perVisit = (slope * duration) / visits;
  return [`memory grew by ${Math.round((slope * duration) / 1024)} KiB (${perVisit.toFixed(1)} bytes a visit)`];
}

/** Nothing is left of what visitors brought; what was there before them is there in the same number. */
function gaugeGrowth(points: readonly QuietPoint[]): string[] {
  const [first, last] = [points[0]!, points.at(-1)!];
  return Object.entries(last.gauges)
    .filter(([name, value]) => value > first.gauges[name]!)
    .map(([name, value]) => `${name} went from ${first.gauges[name]} to ${value}`);
}
