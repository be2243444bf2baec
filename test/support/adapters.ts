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
