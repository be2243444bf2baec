export type Adapter = 'express' | 'fastify';

/**
 * For tests of what the adapters do differently: the edge, guards, how a response is written and ends, the module, shutdown.
 * Both, or the one of `ADAPTER` in the environment.
 */
export const ADAPTERS: readonly Adapter[] = (['express', 'fastify'] as const).filter((adapter) => {
  const { ADAPTER = adapter } = process.env;
  return ADAPTER === adapter;
});

/** For all other tests, of what lies behind the adapter: Fastify, or the one of `ADAPTER`. */
export const ONE_ADAPTER: readonly Adapter[] = ADAPTERS.slice(-1);

/** Whether this is `npm test`, which leaves volume to `npm run test:all`: `it.skipIf(QUICK)`. */
export const QUICK = process.env['QUICK'] === '1';

/**
 * Of the rows of a table those of this run: `npm test` takes one of each four, `npm run test:all` all of them. For tables in which
 * each row is an app, and a handful shows the rule.
 */
export function sampled<T extends unknown[] | [unknown]>(rows: readonly T[]): readonly T[] {
  return QUICK ? rows.filter((_, at) => at % 4 === 0) : rows;
}
