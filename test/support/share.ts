/** Set by `npm run test:long`, which runs the worlds alone, all of them. */
export const LONG = process.env['LONG'] === '1';

/**
 * Of the runs of a test with random worlds, those of this run: all with `npm run test:long`, otherwise a twentieth. A number in the
 * environment, such as `WORLDS=1`, is taken as it is.
 */
export function share(all: number, wanted?: string): number {
  if (wanted !== undefined) return Number(wanted);
  return LONG ? all : Math.ceil(all / 20);
}

/**
 * Numbers in [0, 1) that are the same for the same seed (mulberry32): a schedule that failed can be run again.
 */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
