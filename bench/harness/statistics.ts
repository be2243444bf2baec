/** @param values at least one */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** @param values at least one */
export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/**
 * What is found where little disturbs: the mean without the worst quarter of the values (at least one is left). Whatever
 * disturbs a round (code that is still being compiled, a neighbour on the machine) makes it worse, and never better.
 *
 * @param better what is `more` is better than what is `less`, or the other way round
 */
export function undisturbed(values: readonly number[], better: 'less' | 'more' = 'less'): number {
  const sorted = values.toSorted((a, b) => (better === 'less' ? a - b : b - a));
  return mean(sorted.slice(0, Math.max(1, Math.floor(0.75 * sorted.length))));
}

/** How far the values lie apart, as a share of their median. */
export function spread(values: readonly number[]): number {
  return (Math.max(...values) - Math.min(...values)) / median(values);
}

/** The straight line through points, by least squares. */
export function trend(points: readonly { x: number; y: number }[]): { slope: number; error: number } {
  const count = points.length;
  const meanX = points.reduce((sum, { x }) => sum + x, 0) / count;
  const meanY = points.reduce((sum, { y }) => sum + y, 0) / count;
  const spreadX = points.reduce((sum, { x }) => sum + (x - meanX) ** 2, 0);
  const slope = points.reduce((sum, { x, y }) => sum + (x - meanX) * (y - meanY), 0) / spreadX;
  const residue = points.reduce((sum, { x, y }) => sum + (y - meanY - slope * (x - meanX)) ** 2, 0);
  // The standard error of the slope: how much of it may be chance.
  return { slope, error: Math.sqrt(residue / Math.max(1, count - 2) / spreadX) };
}
