import { isObservable, type Observable } from 'rxjs';
import type { McpContext } from '../../context/mcp-context.js';
import { IterableDrain } from './iterable-drain.js';
import { ObservableDrain } from './observable-drain.js';

/**
 * # A handler's result that comes in parts
 *
 *     running ──completed──▶ its one value, once all reports are sent
 *        ├─────failed──────▶ its error, once all reports are sent
 *        ├─several results─▶ HandlerResultError
 *        └─call over, or `stop()`──▶ HandlerCancelled; at once, the source unsubscribed
 *
 * Whichever comes first; the source is left exactly once, and nothing is sent after that.
 */
export interface Drain {
  readonly result: Promise<unknown>;
  /** Nobody waits any more. Does nothing when it is over. */
  stop(reason?: unknown): void;
}

/** Whether a value comes in parts. */
export function comesInParts(value: unknown): value is Observable<unknown> | AsyncIterable<unknown> {
  return isObservable(value) || isAsyncIterable(value);
}

/** @param origin for messages: `OrderTools.export` */
export function drain(
  source: Observable<unknown> | AsyncIterable<unknown>,
  context: McpContext,
  origin: string,
): Drain {
  return isObservable(source)
    ? new ObservableDrain(source, context, origin)
    : new IterableDrain(source, context, origin);
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof (value as Partial<AsyncIterable<unknown>> | null | undefined)?.[Symbol.asyncIterator] === 'function';
}
