/** One object that stands for the same one of each node: what is called is called on all, what is read is the first's. */
export function onEach<T extends object>(all: readonly T[]): T {
  const [first] = all;
  if (all.length === 1) return first!;
  return new Proxy(first!, {
    get: (target, key) => {
      const value: unknown = Reflect.get(target, key);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]): unknown => {
        const results = all.map((one) => (Reflect.get(one, key) as (...args: unknown[]) => unknown).apply(one, args));
        if (results.every((result) => result instanceof Promise))
          return Promise.all(results).then(([result]) => result);
        return typeof results[0] === 'object' && results[0] !== null ? onEach(results as object[]) : results[0];
      };
    },
  });
}
