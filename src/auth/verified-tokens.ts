import type { AuthInfo, OAuthTokenVerifier } from '@modelcontextprotocol/server';
import type { McpClock } from '../core/common/clock.js';
import { keep, keyOf, RefusedTokens } from './refused-tokens.js';
import { refusalBy, TokenRefusedError } from './token.errors.js';
import { MOST_AT_ONCE, tooManyVerifications } from './verification-slots.js';
import { longer, TokenSource } from './token-source.js';

/** An `OAuthTokenVerifier`, as apps write it. */
export interface TokenVerifier {
  verifyAccessToken(token: string): Promise<AuthInfo | undefined>;
  /** Called once all providers exist. @throws McpOptionError when there is nothing to verify with */
  prepare?(): void;
}

/**
 * # Tokens that a verifier of the app has verified
 *
 * A verifier usually calls the authorization server, which takes longer than the call. So its result is cached for some
 * time, and concurrent requests with one token share one verification.
 *
 * Invariants: tokens are kept as their SHA-256 alone; refused tokens are kept apart, so that invalid ones evict no others;
 * at most 10,000 of each are kept; cached claims are frozen; at most {@link MOST_AT_ONCE} verifications run.
 */
export class VerifiedTokens implements TokenVerifier {
  readonly #verified = new Map<string, { readonly info: AuthInfo; readonly until: number }>();
  readonly #refused: RefusedTokens;
  readonly #asked = new Map<string, Promise<AuthInfo>>();
  readonly #source: TokenSource;
  #running = 0;

  constructor(
    private readonly verifier: () => OAuthTokenVerifier,
    private readonly keepMs: number,
    private readonly clock: McpClock,
  ) {
    this.#refused = new RefusedTokens(clock);
    this.#source = new TokenSource('The verifier of the option "auth.verifier"', clock);
  }

  get size(): number {
    return this.#verified.size + this.#refused.size;
  }

  async verifyAccessToken(token: string): Promise<AuthInfo> {
    const key = keyOf(token);
    const known = this.#verified.get(key);
    if (known && this.clock.now() < known.until) return known.info;
    const refused = this.#refused.get(key);
    if (refused) throw refused.error ?? this.#source.away();
    const asked = this.#asked.get(key);
    if (asked) return asked;
    if (this.#running >= MOST_AT_ONCE) throw tooManyVerifications();
    const asking = this.#ask(key, token).finally(() => this.#asked.delete(key));
    if (this.keepMs > 0) this.#asked.set(key, asking);
    return asking;
  }

  prepare(): void {
    this.verifier();
  }

  async #ask(key: string, token: string): Promise<AuthInfo> {
    this.#running++;
    try {
      const info = await this.#source.ask(
        async () => this.verifier().verifyAccessToken(token) as Promise<AuthInfo | undefined>,
        // An error that a verifier throws for one strange token must not keep other callers out: only silence is an
        // outage.
        (error) => (refusalBy(error) ? 'answer' : 'failure'),
      );
      // A verifier that answers with nothing refuses the token.
      if (!info) throw new TokenRefusedError('invalid_token', 'The token is not valid');
      const { expiresAt = Infinity } = info;
      const until = Math.min(expiresAt * 1_000, this.clock.now() + this.keepMs);
      this.#refused.delete(key);
      if (this.keepMs > 0) {
        freezeDeeply(info.extra);
        keep(this.#verified, key, { info, until });
      }
      return info;
    } catch (error) {
      const refusal = refusalBy(error);
      this.#refused.add(key, refusal, refusal ? 0 : longer(this.#refused.failedMs(key)));
      throw refusal ?? error;
    } finally {
      this.#running--;
    }
  }
}

/**
 * Freezes what claims contain; the record itself is copied for each request. Objects of other classes belong to the
 * app, not to a token, which may change them: an entity that the verifier has found, and all that it leads to.
 */
function freezeDeeply(claims: object | undefined): void {
  const seen = new Set<object>();
  const left: unknown[] = Object.values(claims ?? {});
  for (let value = left.pop(); left.length > 0 || value !== undefined; value = left.pop()) {
    if (typeof value !== 'object' || value === null || seen.has(value) || !isPlain(value)) continue;
    seen.add(Object.freeze(value));
    left.push(...(Object.values(value) as unknown[]));
  }
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null || Array.isArray(value);
}
