import type { McpHandlerTarget } from '../core/calls/mcp-target.js';
import type { ListedKind, McpHandlerHooks, McpRun, Passed } from '../core/plugins/mcp-plugin.js';
import { retryLater } from '../core/protocol/errors.js';
import { sdk } from '../core/protocol/spec.js';

/** What this node knows of what is off. */
export interface KnownOff {
  readonly isKnown: boolean;
  /** @throws (rejects) what the store throws, or that it did not answer in time */
  read(): Promise<void>;
  get(kind: ListedKind, key: string): { readonly reason: string | undefined } | undefined;
}

/**
 * Returns hooks that refuse calls of a handler that is switched off, and hide it from lists. While this node does not know what is off,
 * every call of a handler waits for the next attempt to read it.
 *
 * A handler that is on has no hooks: the endpoint asks again after each change.
 */
export function offHooks({ kind, key }: McpHandlerTarget, known: KnownOff): McpHandlerHooks | undefined {
  if (!isListed(kind)) return undefined;
  const hidden = known.get(kind, key) !== undefined;
  if (!hidden && known.isKnown) return undefined;
  return { hidden, run: (run) => ({ around: (next) => around(kind, run, next, known) }) };
}

/** What it throws is thrown behind the guards (D31), as its answer is. */
async function around(kind: ListedKind, run: McpRun, next: () => Promise<Passed>, known: KnownOff): Promise<Passed> {
  if (!known.isKnown) await learn(run, known);
  const off = known.get(kind, run.target.key);
  if (!off) return next();
  const what = kind === 'template' ? 'resource template' : kind;
  const text = `The ${what} "${run.target.key}" is switched off${off.reason === undefined ? '.' : `: ${off.reason}`}`;
  if (kind === 'tool') return run.answer({ content: [{ type: 'text', text }], isError: true });
  throw new sdk.ProtocolError(sdk.ProtocolErrorCode.InternalError, text);
}

/** @throws (rejects) McpError UNAVAILABLE; first what the guards throw, also for the time that a caller waits (D31) */
async function learn(run: McpRun, known: KnownOff): Promise<void> {
  await run.assertAdmitted();
  await known.read().catch((cause: unknown) => {
    // It was read, and what the store lacked could not be written.
    if (known.isKnown) return;
    const text = 'This server does not know yet which of its handlers are switched off. Try again soon.';
    throw retryLater('UNAVAILABLE', text, 1, { cause });
  });
}

function isListed(kind: McpHandlerTarget['kind']): kind is ListedKind {
  return kind !== 'feature' && kind !== 'method' && kind !== 'completion';
}
