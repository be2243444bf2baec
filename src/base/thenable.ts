/**
 * Whether a value must be waited for. To await one that is there already takes a turn and some promises, each of which pays for
 * the async context: on the path of every call that is a large part of what it costs.
 *
 * Not every promise is a `Promise`: queries of some libraries run when they are awaited.
 */
export function isThenable<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof (value as Partial<PromiseLike<T>> | null | undefined)?.then === 'function';
}
