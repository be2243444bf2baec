import { keyOf } from './uri-template.js';

/** What can be switched off: a handler that lists show. */
export type SwitchedKind = 'tool' | 'resource' | 'template' | 'prompt';

/** Says why and since when a handler is switched off. */
export interface HandlerOff {
  /** The text that callers read; `undefined`: none was given. */
  readonly reason: string | undefined;
  /** Milliseconds since the epoch, by the clock of the node that switched it off. */
  readonly since: number;
}

/**
 * # The handlers that are switched off on this node
 *
 * They stay in the table: lists omit them, and calls are refused. Names without a handler may be here, too: a plugin may register
 * one later.
 *
 *     unknown ──the state store was read──▶ known
 *
 * Unknown is the state of a node that could not read the store since its start. A call waits for the next attempt then, and is
 * refused if that fails: it could run a handler that was switched off.
 */
export class DisabledHandlers {
  readonly #off = new Map<string, HandlerOff>();
  #learn: (() => Promise<void>) | undefined;
  /** Whether calls have to ask at all. */
  active = false;

  constructor(private readonly changed: (kind: SwitchedKind) => void) {}

  /** Reads the store; present while it is not known what is switched off. */
  get learn(): (() => Promise<void>) | undefined {
    return this.#learn;
  }
  set learn(learn: (() => Promise<void>) | undefined) {
    this.#learn = learn;
    this.#adjust();
  }

  get(kind: SwitchedKind, key: string): HandlerOff | undefined {
    return this.#off.get(idOf(kind, key));
  }

  #adjust(): void {
    this.active = this.#off.size > 0 || this.#learn !== undefined;
  }

  /** Returns the keys of a kind, also those without a handler. */
  keys(kind: SwitchedKind): string[] {
    const prefix = idOf(kind, '');
    return [...this.#off.keys()].filter((id) => id.startsWith(prefix)).map((id) => id.slice(prefix.length));
  }

  /** @param off `undefined`: it is on */
  set(kind: SwitchedKind, key: string, off: HandlerOff | undefined): void {
    const id = idOf(kind, key);
    const before = this.#off.get(id);
    if (off) this.#off.set(id, off);
    else this.#off.delete(id);
    this.#adjust();
    if ((before === undefined) !== (off === undefined)) this.changed(kind);
  }
}

/** Switches handlers off and on, on all nodes. */
export abstract class HandlerSwitch {
  /**
   * Takes effect on this node at once.
   *
   * @param off `undefined`: switches it on
   * @returns resolves when it is stored, and the other nodes were told
   * @throws (rejects) McpStateError STORE_UNAVAILABLE
   */
  abstract set(
    kind: SwitchedKind,
    key: string,
    off: { readonly reason: string | undefined } | undefined,
  ): Promise<void>;
}

/** Identifies a handler: no kind has a space. */
function idOf(kind: SwitchedKind, key: string): string {
  return `${kind} ${keyOf(kind, key)}`;
}
