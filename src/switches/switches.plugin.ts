import type { McpHandlerTarget } from '../core/calls/mcp-target.js';
import {
  type ListedKind,
  type McpEndpointHost,
  type McpEndpointPlugin,
  type McpHandlerHooks,
  McpPlugin,
  type McpRun,
  type Passed,
} from '../core/plugins/mcp-plugin.js';
import { retryLater } from '../core/protocol/errors.js';
import { sdk } from '../core/protocol/spec.js';
import type { EndpointSwitches } from './endpoint-switches.js';

/**
 * Refuses calls of handlers that are switched off, and hides these from lists. While this node does not know what is off, every call of a
 * handler waits for the next attempt to read it.
 *
 * A handler that is on has no hooks: the endpoint asks again after each change.
 */
export class SwitchesPlugin extends McpPlugin {
  readonly ring = 'switch';

  constructor(private readonly switches: EndpointSwitches) {
    super();
  }

  attach(endpoint: McpEndpointHost): McpEndpointPlugin {
    this.switches.changes$.subscribe((kind) => endpoint.refresh(kind));
    return { handler: (target) => this.#hooksOf(target) };
  }

  #hooksOf({ kind, key }: McpHandlerTarget): McpHandlerHooks | undefined {
    if (!isListed(kind)) return undefined;
    const hidden = this.switches.get(kind, key) !== undefined;
    if (!hidden && this.switches.isKnown) return undefined;
    return { hidden, run: (run) => ({ around: (next) => this.#around(kind, run, next) }) };
  }

  /** What it throws is thrown behind the guards (D31), as its answer is. */
  async #around(kind: ListedKind, run: McpRun, next: () => Promise<Passed>): Promise<Passed> {
    const { switches } = this;
    if (!switches.isKnown) await this.#learn(run);
    const off = switches.get(kind, run.target.key);
    if (!off) return next();
    const what = kind === 'template' ? 'resource template' : kind;
    const text = `The ${what} "${run.target.key}" is switched off${off.reason === undefined ? '.' : `: ${off.reason}`}`;
    if (kind === 'tool') return run.answer({ content: [{ type: 'text', text }], isError: true });
    throw new sdk.ProtocolError(sdk.ProtocolErrorCode.InternalError, text);
  }

  /** @throws (rejects) McpError UNAVAILABLE; first what the guards throw, also for the time that a caller waits (D31) */
  async #learn(run: McpRun): Promise<void> {
    await run.assertAdmitted();
    await this.switches.read().catch((cause: unknown) => {
      // It was read, and what the store lacked could not be written.
      if (this.switches.isKnown) return;
      const text = 'This server does not know yet which of its handlers are switched off. Try again soon.';
      throw retryLater('UNAVAILABLE', text, 1, { cause });
    });
  }
}

function isListed(kind: McpHandlerTarget['kind']): kind is ListedKind {
  return kind !== 'skill' && kind !== 'method' && kind !== 'completion';
}
