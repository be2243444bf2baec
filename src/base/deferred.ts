/** A promise that is settled from outside, and that nobody has to await. */
export interface Deferred<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (reason: unknown) => void;
}

export function deferred<T = void>(): Deferred<T> {
  let resolve!: (value: T) => void;
  let reject!: (reason: unknown) => void;
  const promise = new Promise<T>((onResolve, onReject) => {
    resolve = onResolve;
    reject = (reason) => {
      promise.catch(() => {});
      onReject(reason);
    };
  });
  return { promise, resolve, reject };
}
