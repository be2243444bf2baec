/**
 * # The formats of what nodes store, and send to each other
 *
 * During an upgrade two versions of this package work with the same stores. Each kind of data has a number, which changes when
 * the other version could not read the data, or would read them wrongly. A new optional field changes no number.
 *
 * - **Sessions** live for hours. A node neither reads nor writes sessions of another number: it answers their clients with 404, so
 *   that they begin anew. A change is this number.
 * - **All others outlive an upgrade**: a lost key is a second payment. A version writes one number and reads several, and a value
 *   whose number it does not read is refused like that of a store that is away, never taken for absent. So a change is made in two
 *   versions: the first one reads the new number, the second one writes it.
 *
 * Data without a number have the number 1. See "How to change a format" in CONTRIBUTING.md.
 */
export const FORMATS: Formats = {
  /**
   * Records of sessions; their logs and inboxes; which calls a node has open; messages between nodes that name a session. The keys
   * in Redis have the number, and the records in all stores.
   */
  sessions: 2,
  /** Messages between nodes about all else: what was switched, what has changed, tasks. */
  signals: { writes: 1, reads: [1] },
  /** Results and keys of `idempotency`, used answers and pages of `confirm`, leases of nodes: the keys, the digests and the values. */
  once: { writes: 1, reads: [1] },
  /** Which handlers are switched off. */
  switches: { writes: 1, reads: [1] },
  /** Data of `ctx.state()` and `ctx.principalState()`: the keys and the values. */
  states: { writes: 1, reads: [1] },
  /** Tasks with their questions and answers. */
  tasks: { writes: 1, reads: [1] },
  /** What a client holds while it answers questions (`requestState`): the number is the first byte. */
  requestState: { writes: 1, reads: [1] },
};

interface Formats extends Readonly<Record<LastingKind, LastingFormat>> {
  readonly sessions: number;
}

interface LastingFormat {
  readonly writes: number;
  readonly reads: readonly number[];
}

/** Kinds of data that outlive an upgrade. */
export type LastingKind = 'signals' | 'once' | 'switches' | 'states' | 'tasks' | 'requestState';

/** Says that a value has a number that this version does not read. */
class UnknownFormatError extends Error {
  override readonly name = 'UnknownFormatError';

  constructor(kind: LastingKind, number: unknown) {
    super(
      `A stored value ("${kind}") has the format ${String(number)}, and this version of nestjs-mcp-streamable reads ${FORMATS[kind].reads.join(', ')}. A later version has written it. Finish the upgrade, or go back to no version before the last one that reads it: see docs/several-nodes.md, "Upgrades".`,
    );
  }
}

/** Returns a value as it is stored or sent, with the number of its format; a value of format 1 is as it is. */
export function toStored(kind: LastingKind, value: unknown): unknown {
  const { writes } = FORMATS[kind];
  return writes === 1 ? value : { format: writes, value };
}

/**
 * Returns a value that {@link toStored} made, here or in another version. A value of the last format is converted here.
 *
 * @throws UnknownFormatError
 */
export function fromStored(kind: LastingKind, stored: unknown): unknown {
  const numbered = typeof stored === 'object' && stored !== null && 'format' in stored;
  assertReadable(kind, numbered ? stored.format : 1);
  return numbered ? (stored as { readonly value?: unknown }).value : stored;
}

/** @throws UnknownFormatError */
export function assertReadable(kind: LastingKind, number: unknown): void {
  if (!(FORMATS[kind].reads as readonly unknown[]).includes(number)) throw new UnknownFormatError(kind, number);
}
