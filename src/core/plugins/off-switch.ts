import type { ListedKind } from './mcp-plugin.js';

/** Since when a handler is switched off, and why. */
export interface HandlerOff {
  readonly reason: string | undefined;
  /** Milliseconds since the epoch, by the clock of the node that switched it off. */
  readonly since: number;
}

/**
 * Switches handlers off and on, on all nodes. `McpRegistry`, which is public and belongs to the core, knows the plugin that does it by
 * this: what that returns from `attach()` extends it, and is found by `host.find()`.
 *
 * @internal
 */
export abstract class OffSwitch {
  /** @returns `undefined`: it is on, or there is no such handler */
  abstract get(kind: ListedKind, key: string): HandlerOff | undefined;
  /** Returns the keys of a kind that are off, also those without a handler. */
  abstract keys(kind: ListedKind): string[];
  /**
   * Takes effect on this node at once.
   *
   * @param off `undefined`: switches it on
   * @returns resolves when it is stored, and the other nodes were notified
   * @throws (rejects) McpStateError STORE_UNAVAILABLE
   */
  abstract set(kind: ListedKind, key: string, off: Pick<HandlerOff, 'reason'> | undefined): Promise<void>;
}
