import type { CompleteResult } from '@modelcontextprotocol/server';
import type { Completion } from '../handler-entry.js';
import { handlerMessages } from '../handlers.messages.js';
import { isDense } from '../results/content.js';
import { toReadFailure } from '../results/handler-failure.js';
import { reportOf, type RanHandler } from '../results/handler-outcome.js';

/** The most proposals that one answer may have, says the specification. */
const MAX_VALUES = 100;

/** Makes the proposals; whatever it returns is looked at here. */
export type CompletionSource = (...args: Parameters<Completion>) => unknown;

/**
 * A completion in the form of the protocol.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/completion
 */
export function completionOf(
  source: CompletionSource,
  { name, origin, failures }: Pick<RanHandler, 'name' | 'origin' | 'failures'>,
): Completion {
  return async (value, others, context) => {
    try {
      return limited(await source(value, others, context));
    } catch (error) {
      throw toReadFailure(error, { kind: 'prompt', name, failures, report: reportOf({ origin, context }) });
    }
  };
}

/** @throws TypeError for what is no list of texts */
function limited(returned: unknown): CompleteResult['completion'] {
  const list = Array.isArray(returned) ? { values: returned as unknown[] } : (returned as Partial<Proposals> | null);
  const { values, total, hasMore } = list ?? {};
  if (!isTexts(values) || !isOptional(total, Number.isSafeInteger) || !isOptional(hasMore, isBoolean)) {
    throw new TypeError(handlerMessages.notCompletions(returned));
  }
  const all = Array.isArray(returned) ? values.length : (total ?? undefined);
  const more = values.length > MAX_VALUES || (hasMore ?? (all !== undefined && all > values.length));
  return { values: values.slice(0, MAX_VALUES), ...(all !== undefined && { total: all }), hasMore: more };
}

interface Proposals {
  readonly values: unknown;
  readonly total?: number | null;
  readonly hasMore?: boolean | null;
}

function isTexts(values: unknown): values is string[] {
  return Array.isArray(values) && isDense(values) && values.every((value) => typeof value === 'string');
}

function isOptional(value: unknown, fits: (value: unknown) => boolean): boolean {
  return value === undefined || value === null || fits(value);
}

function isBoolean(value: unknown): value is boolean {
  return typeof value === 'boolean';
}
