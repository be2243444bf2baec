import { createHash } from 'node:crypto';
import type { AuthInfo, OAuthTokenVerifier } from '@modelcontextprotocol/server';
import type { Clock } from '../common/clock.js';
import { McpError } from '../wire/errors.js';
import { refusalBy, TokenRefusedError } from './token.errors.js';
import { longer, TokenSource } from './token-source.js';

/** An `OAuthTokenVerifier` as apps write it. */
export interface TokenVerifier {
  verifyAccessToken(token: string): Promise<AuthInfo | undefined>;
  /** Once all providers are there. @throws McpOptionError when there is nothing to verify with */
  prepare?(): void;
}

/** A token that was not verified. */
interface Remembered {
  /** `undefined`: the verifier failed. */
  readonly error: TokenRefusedError | undefined;
  readonly until: number;
  /** How long a failure is remembered. */
  readonly failedMs: number;
}

/** Maximum number of verified tokens, and of refused ones; the oldest is removed first. */
const MOST = 10_000;
/** Maximum number of verifications at once. */
const MOST_AT_ONCE = 50;
/** Milliseconds that a refusal is reused. */
const REFUSED_MS = 5_000;

/**
 * # Tokens that a verifier of the app has verified
 *
 * A verifier usually calls the authorization server, which takes longer than the call. So its result is cached for some
 * time, and concurrent requests with one token share one verification.
 *
 * Invariants: tokens are kept as their SHA-256 alone; refused tokens are kept apart, so that invalid ones evict no others;
 * at most {@link MOST} of each are kept; cached claims are frozen; at most {@link MOST_AT_ONCE} verifications run.
 */
export class VerifiedTokens implements TokenVerifier {
  readonly #verified = new Map<string, { readonly info: AuthInfo; readonly until: number }>();
  readonly #refused = new Map<string, Remembered>();
  readonly #asked = new Map<string, Promise<AuthInfo>>();
  readonly #source: TokenSource;
  #running = 0;

  constructor(
    private readonly verifier: () => OAuthTokenVerifier,
    private readonly keepMs: number,
    private readonly clock: Clock,
  ) {
    this.#source = new TokenSource('The verifier of the option "auth.verifier"', clock);
  }

  get size(): number {
    return this.#verified.size + this.#refused.size;
  }

  async verifyAccessToken(token: string): Promise<AuthInfo> {
    const key = createHash('sha256').update(token).digest('base64');
    const now = this.clock.now();
    const known = this.#verified.get(key);
    if (known && now < known.until) return known.info;
    const refused = this.#refused.get(key);
    if (refused && now < refused.until) throw refused.error ?? this.#source.away();
    const asked = this.#asked.get(key);
    if (asked) return asked;
    if (this.#running >= MOST_AT_ONCE) {
      const text = `This server verifies ${MOST_AT_ONCE} access tokens already. Try again in a moment.`;
      throw new McpError('UNAVAILABLE', text, { headers: { 'Retry-After': '1' } });
    }
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
        // What a verifier throws for one strange token must not keep other callers out: only silence is an outage.
        (error) => (refusalBy(error) ? 'answer' : 'failure'),
      );
      // A verifier that answers with nothing refuses the token.
      if (!info) throw new TokenRefusedError('invalid_token', 'Token not valid');
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
      const waitMs = refusal ? REFUSED_MS : longer(this.#refused.get(key)?.failedMs ?? 0);
      const until = this.clock.now() + waitMs;
      keep(this.#refused, key, { error: refusal, until, failedMs: refusal ? 0 : waitMs });
      throw refusal ?? error;
    } finally {
      this.#running--;
    }
  }
}

function keep<T>(kept: Map<string, T>, key: string, value: T): void {
  kept.delete(key);
  kept.set(key, value);
  if (kept.size > MOST) kept.delete(kept.keys().next().value!);
}

/** Freezes what claims contain; the record itself is copied for each request. */
function freezeDeeply(claims: object | undefined): void {
  const seen = new Set<object>();
  const left: unknown[] = Object.values(claims ?? {});
  for (let value = left.pop(); left.length > 0 || value !== undefined; value = left.pop()) {
    if (typeof value !== 'object' || value === null || seen.has(value) || ArrayBuffer.isView(value)) continue;
    seen.add(Object.freeze(value));
    left.push(...Object.values(value));
  }
}
