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
