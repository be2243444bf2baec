import { createHash } from 'node:crypto';
import type { AuthInfo, OAuthTokenVerifier } from '@modelcontextprotocol/server';
import type { Clock } from '../common/clock.js';
import { within } from '../common/promises.js';

/** An `OAuthTokenVerifier` as apps write it. */
export interface TokenVerifier {
  verifyAccessToken(token: string): Promise<AuthInfo | undefined>;
  /** Once all providers are there. @throws McpOptionError when there is nothing to verify with */
  prepare?(): void;
}

/** Maximum number of cached tokens; the one that was verified first is removed first. */
const MOST = 10_000;
/** Milliseconds that a verifier has to answer. */
const ANSWER_MS = 10_000;

/**
 * # Tokens that a verifier of the app has verified
 *
 * A verifier usually calls the authorization server, which takes longer than the call. So its result is cached for some
 * time, and concurrent requests with one token share one verification.
 *
 * Invariants: tokens are kept as their SHA-256 alone; refused tokens are not cached, so that invalid ones evict no
 * others; at most {@link MOST} are kept; a request waits for {@link ANSWER_MS} at most.
 */
export class VerifiedTokens implements TokenVerifier {
  readonly #verified = new Map<string, { readonly info: AuthInfo; readonly until: number }>();
  readonly #asked = new Map<string, Promise<AuthInfo | undefined>>();

  constructor(
    private readonly verifier: () => OAuthTokenVerifier,
    private readonly keepMs: number,
    private readonly clock: Clock,
  ) {}

  get size(): number {
    return this.#verified.size;
  }

  verifyAccessToken(token: string): Promise<AuthInfo | undefined> {
    if (this.keepMs === 0) return this.#ask(token);
    const key = createHash('sha256').update(token).digest('base64');
    const known = this.#verified.get(key);
    if (known && this.clock.now() < known.until) return Promise.resolve(known.info);
    const asked = this.#asked.get(key);
    if (asked) return asked;
    const asking = this.#ask(token)
      .then((info) => this.#keep(key, info))
      .finally(() => this.#asked.delete(key));
    this.#asked.set(key, asking);
    return asking;
  }

  prepare(): void {
    this.verifier();
  }

  async #ask(token: string): Promise<AuthInfo | undefined> {
    const answer = Promise.resolve(this.verifier().verifyAccessToken(token));
    if (await within(answer, ANSWER_MS, this.clock)) return answer;
    // All requests with this token would wait for it.
    throw new Error(
      `The verifier of the option "auth.verifier" did not answer within ${ANSWER_MS} ms. Use a shorter time limit inside the verifier.`,
    );
  }

  #keep(key: string, info: AuthInfo | undefined): AuthInfo | undefined {
    // A verifier that answers with nothing refuses the token.
    if (!info) return info;
    const { expiresAt = Infinity } = info;
    this.#verified.delete(key);
    this.#verified.set(key, { info, until: Math.min(expiresAt * 1_000, this.clock.now() + this.keepMs) });
    if (this.#verified.size > MOST) this.#verified.delete(this.#verified.keys().next().value!);
    return info;
  }
}
