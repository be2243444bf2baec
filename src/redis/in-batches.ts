/** Enough to keep the connection busy, few enough not to fill it. */
const BATCH = 64;

/** Does something with each, many at a time. @returns the results, in order */
export async function inBatches<T, R>(items: readonly T[], each: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (let at = 0; at < items.length; at += BATCH) {
    results.push(...(await Promise.all(items.slice(at, at + BATCH).map(each))));
  }
  return results;
}
