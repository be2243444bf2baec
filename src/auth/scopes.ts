/** Defines which scopes include others. @publicApi */
export type McpScopeImplication =
  | Readonly<Record<string, readonly string[]>>
  /** Decides one pair. @returns whether the scope `granted` includes `needed` */
  | ((granted: string, needed: string) => boolean);

const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]+$/;

/**
 * Returns whether a text is a scope.
 *
 * @see https://www.rfc-editor.org/rfc/rfc6749#section-3.3
 */
export function isScope(text: unknown): boolean {
  return typeof text === 'string' && SCOPE.test(text);
}

/**
 * Decides whether the scopes of a token are sufficient (A7, A8). A broad scope includes the narrow ones that it
 * implies.
 */
export class ScopeRules {
  readonly #implied: Readonly<Record<string, readonly string[]>>;
  readonly #implies: ((granted: string, needed: string) => boolean) | undefined;

  constructor(
    /** Every request needs these scopes. */
    readonly required: readonly string[],
    implication: McpScopeImplication = {},
  ) {
    this.#implied = typeof implication === 'function' ? {} : implication;
    this.#implies = typeof implication === 'function' ? implication : undefined;
  }

  /** Returns whether scopes that were granted, with those that they imply, are all that is needed. */
  cover(granted: readonly string[], needed: readonly string[]): boolean {
    // Guards of apps may set a string, and `includes` would find "notes:read" in "notes:readonly".
    const held = Array.isArray(granted) ? (granted as readonly string[]).filter((scope) => isScope(scope)) : [];
    return needed.every((scope) => held.includes(scope) || this.#isImplied(held, scope));
  }

  /** Returns all scopes that an operation needs: what its token has, or a client that replaces it, must keep. */
  all(needed: readonly string[]): readonly string[] {
    return [...new Set([...this.required, ...needed])];
  }

  #isImplied(granted: readonly string[], needed: string): boolean {
    if (this.#implies) return granted.some((scope) => this.#implies!(scope, needed));
    const seen = new Set(granted);
    for (const scope of seen) {
      // A scope that is named "constructor" implies nothing.
      const implied = Object.hasOwn(this.#implied, scope) ? this.#implied[scope]! : [];
      if (implied.includes(needed)) return true;
      // Iterating a set includes the elements that are added meanwhile.
      for (const each of implied) seen.add(each);
    }
    return false;
  }
}
