/** Whoever drops the promise does not crash the process by it; whoever awaits it learns of the failure as ever. */
export function quiet<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}
