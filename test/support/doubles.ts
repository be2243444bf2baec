/**
 * A part that behaves as another one but for what is given here. Methods are called on the other one itself, so that its
 * private fields work.
 */
export function double<T extends object>(target: T, overrides: Partial<T>): T {
  return new Proxy(target, {
    get(_, key) {
      if (Object.hasOwn(overrides, key)) return overrides[key as keyof T];
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/** A store in memory that several apps of one test use, as nodes would use one over the network. */
export function shared<T extends { readonly scope: 'node' | 'shared' }>(store: T): T {
  return double(store, { scope: 'shared' } as Partial<T>);
}
