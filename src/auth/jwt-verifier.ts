import type { AuthInfo, OAuthTokenVerifier } from '@modelcontextprotocol/server';
import type * as Jose from 'jose';
import type { McpClock } from '../core/common/clock.js';
import { McpOptionError } from '../core/common/options.js';
import { isThenable } from '../core/common/promises.js';
import { metadataUrls } from '../core/protocol/uris.js';
import { McpError, shown } from '../core/protocol/errors.js';
import { canonicalType, type ResolvedAuthOptions, type ResolvedJwtOptions, urlFault } from './auth.options.js';
import { requireJose } from './jose-package.cjs';
import { keyOf, RefusedTokens } from './refused-tokens.js';
import { TokenRefusedError } from './token.errors.js';
import { ANSWER_MS, SourceAwayError, TokenSource } from './token-source.js';
import { VerificationSlots } from './verification-slots.js';

/**
 * Verifies access tokens that are JWTs, with the public keys of their issuer. Keys are fetched when the first token of an
 * issuer comes, and again for a key that is not known yet; `jose` does so at most every 30 s.
 */
export class JwtVerifier implements OAuthTokenVerifier {
  readonly #jose: typeof Jose;
  readonly #issuers: ReadonlyMap<string, IssuerKeys>;
  readonly #usual: Jose.JWTVerifyOptions;
  readonly #refused: RefusedTokens;
  readonly #slots = new VerificationSlots();

  /** @throws McpOptionError when `jose` is not installed */
  constructor(
    private readonly jwt: ResolvedJwtOptions,
    options: Pick<ResolvedAuthOptions, 'clockToleranceMs'>,
    private readonly clock: McpClock,
  ) {
    this.#jose = loadJose();
    this.#refused = new RefusedTokens(clock);
    const keys = Array.from(
      jwt.keys,
      ([issuer, uri]) => [issuer, new IssuerKeys(issuer, uri, this.#jose, clock)] as const,
    );
    this.#issuers = new Map(keys);
    this.#usual = {
      algorithms: [...jwt.algorithms],
      requiredClaims: ['exp', 'aud'],
      clockTolerance: options.clockToleranceMs / 1_000,
    };
  }

  /** Verifies a token. @throws TokenRefusedError; any other error: the token could not be verified */
  async verifyAccessToken(token: string): Promise<AuthInfo> {
    // The hash is computed only while tokens are refused.
    const refused = this.#refused.any ? this.#refused.get(keyOf(token)) : undefined;
    if (refused) throw refused.error!;
    try {
      return await this.#verify(token);
    } catch (error) {
      if (error instanceof TokenRefusedError) this.#refused.add(keyOf(token), error);
      throw error;
    }
  }

  async #verify(token: string): Promise<AuthInfo> {
    const issuer = this.#issuerOf(token);
    const found = issuer.get();
    const keys = isThenable(found) ? await found : found;
    const currentDate = new Date(this.clock.now());
    const options: Jose.JWTVerifyOptions = { ...this.#usual, issuer: issuer.name, currentDate };
    let entered = false;
    const enter = (): Promise<void> | undefined => {
      const turn = this.#slots.enter();
      entered = true;
      return turn;
    };
    let verified: Jose.JWTVerifyResult;
    try {
      // The slot is taken once the key is known: requests that wait for their issuer keep no others out.
      const keyInTurn: Jose.JWTVerifyGetKey = async (header, input) => {
        const key = await keys(header, input);
        const turn = enter();
        if (turn) await turn;
        return key;
      };
      verified = await this.#jose.jwtVerify(token, keyInTurn, options);
    } catch (error) {
      const { JWKSMultipleMatchingKeys } = this.#jose.errors;
      if (error instanceof SourceAwayError || error instanceof McpError) throw error;
      if (!(error instanceof JWKSMultipleMatchingKeys)) throw refusalFor(error) ?? withoutKeys(issuer.name, error);
      await enter();
      verified = await this.#verifiedByOne(error, token, options);
    } finally {
      if (entered) this.#slots.leave();
    }
    const { payload: claims, protectedHeader } = verified;
    this.#assertType(protectedHeader.typ);
    const { client_id: clientId, azp, appid, cid } = claims;
    const client = [clientId, azp, appid, cid].find((claim) => typeof claim === 'string');
    return {
      token,
      clientId: client ?? '',
      scopes: this.jwt.scopes(claims) as string[],
      expiresAt: claims.exp!,
      extra: claims,
    };
  }

  /**
   * Returns the keys of the issuer that a token claims; `jose` verifies the claim. For an unknown issuer no keys are
   * fetched.
   */
  #issuerOf(token: string): IssuerKeys {
    let claimed: unknown;
    try {
      // This detects tokens that are not JWTs, before their signature is verified.
      const [, payload, , more] = token.split('.');
      if (more !== undefined) throw new Error('encrypted');
      claimed = (JSON.parse(Buffer.from(payload!, 'base64url').toString()) as { iss?: unknown }).iss;
    } catch {
      throw new TokenRefusedError('invalid_token', 'The token is not a JWT');
    }
    const issuer = this.#issuers.get(claimed as string);
    if (issuer) return issuer;
    const text = `The token is from the issuer ${shown(claimed)}, not from ${[...this.#issuers.keys()].join(' or ')}`;
    throw new TokenRefusedError('invalid_token', text, 'auth.jwt.issuer');
  }

  /** Refuses JWTs that the issuer has signed for another purpose, such as logout tokens. @throws TokenRefusedError */
  #assertType(type: unknown = 'JWT'): void {
    const { types } = this.jwt;
    if (typeof type === 'string' && types.includes(canonicalType(type))) return;
    const text = `The token has the type ${shown(type)}, but access tokens have ${types.join(' or ')} here (option auth.jwt.types)`;
    throw new TokenRefusedError('invalid_token', text, 'auth.jwt.types');
  }

  /** Tries the keys of a set without ids one after the other. */
  async #verifiedByOne(
    keys: Jose.errors.JWKSMultipleMatchingKeys,
    token: string,
    options: Jose.JWTVerifyOptions,
  ): Promise<Jose.JWTVerifyResult> {
    let failure: unknown;
    for await (const key of keys) {
      try {
        return await this.#jose.jwtVerify(token, key, options);
      } catch (error) {
        failure = error;
        if (codeOf(error) !== 'ERR_JWS_SIGNATURE_VERIFICATION_FAILED') break;
      }
    }
    throw refusalFor(failure) ?? failure;
  }
}

/** Fetches the keys of one issuer, and holds them. */
class IssuerKeys {
  /** Holds the keys without a promise, once they are found. */
  #keys: Jose.JWTVerifyGetKey | Promise<Jose.JWTVerifyGetKey> | undefined;
  readonly #source: TokenSource;

  constructor(
    readonly name: string,
    private readonly uri: string | undefined,
    private readonly jose: typeof Jose,
    clock: McpClock,
  ) {
    this.#source = new TokenSource(`The issuer ${name}`, clock);
  }

  get(): Jose.JWTVerifyGetKey | Promise<Jose.JWTVerifyGetKey> {
    if (this.#keys) return this.#keys;
    const finding = this.#source.ask(
      () => this.#find(),
      () => 'outage',
    );
    finding.then(
      (keys) => (this.#keys = keys),
      () => (this.#keys = undefined),
    );
    return (this.#keys = finding);
  }

  async #find(): Promise<Jose.JWTVerifyGetKey> {
    const signal = AbortSignal.timeout(ANSWER_MS);
    const uri = this.uri ?? (await this.#uriInMetadata(signal));
    let found = false;
    const keys = this.jose.createRemoteJWKSet(new URL(uri), {
      timeoutDuration: ANSWER_MS,
      [this.jose.customFetch]: (url, init) => {
        const request = (): Promise<Response> => this.#fetch(url, found ? init : { ...init, signal });
        return found ? this.#source.ask(request, () => 'outage') : request();
      },
    });
    await keys.reload();
    found = true;
    return keys;
  }

  /** Fails for a response that is no set of keys, so that the issuer is not asked again for each request. */
  async #fetch(url: string, init: RequestInit): Promise<Response> {
    try {
      const response = await fetch(url, init);
      if (response.status !== 200) throw new Error(`the server answered with HTTP ${response.status}`);
      const text = await response.text();
      this.jose.createLocalJWKSet(JSON.parse(text) as Jose.JSONWebKeySet);
      return new Response(text);
    } catch (error) {
      throw withoutKeys(this.name, error);
    }
  }

  async #uriInMetadata(signal: AbortSignal): Promise<string> {
    const faults: string[] = [];
    for (const url of metadataUrls(this.name)) {
      try {
        const response = await fetch(url, {
          headers: { accept: 'application/json' },
          signal,
        });
        if (!response.ok) throw new Error(`the server answered with HTTP ${response.status}`);
        const { issuer, jwks_uri: uri } = (await response.json()) as Record<string, unknown>;
        // RFC 8414 §3.3: a document of another issuer could name other keys.
        if (issuer !== this.name) throw new Error(`its issuer is ${shown(issuer)}`);
        if (typeof uri !== 'string') throw new Error('it has no "jwks_uri"');
        const fault = urlFault(uri);
        if (fault !== undefined) throw new Error(`its "jwks_uri" cannot be ${shown(uri)}: ${fault}`);
        return uri;
      } catch (error) {
        faults.push(`${url}: ${(error as Error).message}`);
      }
    }
    throw new Error(
      `The keys of the issuer ${this.name} were not found. Set the option "auth.jwt.jwksUri", or check its metadata: ${faults.join('; ')}`,
    );
  }
}

/** Maps errors of `jose` to texts for the client; after any other error the token could not be verified. */
const REFUSALS: Readonly<Record<string, string>> = {
  ERR_JWT_EXPIRED: 'The token has expired',
  ERR_JWT_INVALID: 'Token malformed',
  ERR_JWS_INVALID: 'Token malformed',
  ERR_JOSE_NOT_SUPPORTED: 'The token has a form that is not supported',
  ERR_JOSE_ALG_NOT_ALLOWED: 'The token is signed by an algorithm that is not accepted',
  ERR_JWS_SIGNATURE_VERIFICATION_FAILED: 'The signature of the token is not valid',
  ERR_JWKS_NO_MATCHING_KEY: 'The token is signed with an unknown key',
};

function refusalFor(error: unknown): TokenRefusedError | undefined {
  const code = codeOf(error);
  const text = code === 'ERR_JWT_CLAIM_VALIDATION_FAILED' ? claimFault(error) : REFUSALS[code ?? ''];
  return text === undefined ? undefined : new TokenRefusedError('invalid_token', text);
}

/** Returns an error for missing keys: that of `jose` has only a text such as "request timed out". */
function withoutKeys(issuer: string, cause: unknown): Error {
  const reason = cause instanceof Error ? cause.message : String(cause);
  const text = `The keys of the issuer ${issuer} could not be used: ${reason}. Check its "jwks_uri", or the option "auth.jwt.jwksUri"`;
  return new Error(text, { cause });
}

function claimFault(error: unknown): string {
  const { claim } = error as Jose.errors.JWTClaimValidationFailed;
  return claim === 'nbf' ? 'The token is not valid yet' : `The token has no valid claim ${shown(claim)}`;
}

function codeOf(error: unknown): string | undefined {
  return (error as { code?: string } | null | undefined)?.code;
}

function loadJose(): typeof Jose {
  try {
    return requireJose() as typeof Jose;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND') throw cause;
    const text =
      'The option "auth" verifies JWTs with the package "jose", which is not installed. Install it (npm install jose), or give your own "verifier".';
    throw new McpOptionError('auth.jwt', text);
  }
}
