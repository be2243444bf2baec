import type { AuthInfo } from '@modelcontextprotocol/server';
import { HttpException } from '@nestjs/common';
import type { McpClock } from '../core/common/clock.js';
import { logError, logger } from '../core/calls/operator-log.js';
import { type Challenger, setCredentials } from '../core/http/credentials.js';
import { userOf } from '../core/http/principal.js';
import { McpError, type McpErrorCode, retryLater } from '../core/protocol/errors.js';
import { shown } from '../core/protocol/errors.js';
import { canonicalUri, type ResolvedAuthOptions } from './auth.options.js';
import { refusalBy, TokenRefusedError } from './token.errors.js';
import { SourceAwayError } from './token-source.js';
import type { TokenVerifier } from './verified-tokens.js';

/** The well-known name of protected resource metadata (RFC 9728 §3). */
export const WELL_KNOWN = '/.well-known/oauth-protected-resource';

/** Matches the header of RFC 6750 §2.1. */
const BEARER = /^Bearer +([A-Za-z0-9\-._~+/]+=*) *$/i;
/** Longer tokens are refused without verification. */
const MAX_TOKEN_CHARACTERS = 12 * 1024;

const STATUS = {
  invalid_request: 'BAD_REQUEST',
  invalid_token: 'UNAUTHORIZED',
  insufficient_scope: 'INSUFFICIENT_SCOPE',
} as const satisfies Readonly<Record<TokenRefusedError['code'], McpErrorCode>>;

const SERVER = Symbol('nestjs-mcp-streamable:resource-server');

/** Advises an operator about a guard of the app that refuses tokens which the option `auth` accepts. */
const REMEDIES = {
  'The app refused the token':
    'A guard of the app refused a request with a Bearer token at the endpoint. If it is a global guard that knows other tokens only, let it skip the endpoint by metadata in the option "decorators".',
  'A handler refused the token':
    'A guard around a handler refused a caller whose token the option "auth" had accepted. If it is a global guard that knows other tokens only, let it return true where McpExecutionContext.isMcp(context) is.',
} as const;

type AuthRequest = object & {
  readonly headers: { readonly authorization?: string | undefined };
  readonly raw?: { readonly user?: unknown };
  auth?: AuthInfo;
  user?: unknown;
  [SERVER]?: ResourceServer;
};

/** Returns the URL of the metadata document, as clients reach it. */
export function metadataUrlOf({ resource: { origin, pathname, search } }: ResolvedAuthOptions): string {
  return origin + WELL_KNOWN + pathname.replace(/\/$/, '') + search;
}

/** Returns the resource server of the endpoint whose bearer guard has admitted a request. */
export function resourceServerOf(request: object | undefined): ResourceServer | undefined {
  return (request as AuthRequest | undefined)?.[SERVER];
}

/**
 * # One endpoint as an OAuth 2.1 resource server
 *
 *     Authorization ─▶ token ─▶ verifier ─▶ expiry, audience, binding, caller ─▶ required scopes ─▶ request.auth, request.user
 *          │ none        │ malformed  │ no        │ no                               │ too few
 *          ▼             ▼            ▼           ▼                                  ▼
 *         401           400          401         401                                403, each with a challenge
 *
 * A challenge has the URL of the metadata of the endpoint, which names the authorization servers; its `scope` has all
 * scopes that the request needs.
 *
 * @see https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
 */
export class ResourceServer implements Challenger {
  readonly metadataUrl: string;
  readonly #explained = new Set<string>();

  constructor(
    readonly options: ResolvedAuthOptions,
    private readonly verifier: TokenVerifier,
    private readonly clock: McpClock,
  ) {
    this.metadataUrl = metadataUrlOf(options);
  }

  /**
   * Resolves the verifier once all providers exist.
   *
   * @throws McpOptionError when the app does not provide the verifier
   */
  prepare(): void {
    this.verifier.prepare?.();
  }

  /**
   * Admits or refuses a request, before its body is read, and sets its caller on it.
   *
   * @throws McpError UNAUTHORIZED (A2, A6, A12), BAD_REQUEST (A6), INSUFFICIENT_SCOPE (A7); UNAVAILABLE: the token could not be
   *   verified
   */
  admit(request: AuthRequest): true | Promise<true> {
    request[SERVER] = this;
    const { authorization } = request.headers;
    if (hasBearer(request)) return this.#admit(request, authorization!);
    if (this.options.anonymous) return true;
    const text =
      'This server needs an access token in the header Authorization: Bearer. The header WWW-Authenticate of this response names the metadata with the authorization server.';
    throw new McpError('UNAUTHORIZED', text, { headers: { 'WWW-Authenticate': this.challenge() } });
  }

  async #admit(request: AuthRequest, authorization: string): Promise<true> {
    try {
      const token = tokenIn(authorization);
      this.#settle(request, this.#accepted(await this.verifier.verifyAccessToken(token), token));
      return true;
    } catch (error) {
      const refusal = refusalBy(error);
      if (refusal) throw this.#refused(refusal);
      if (error instanceof McpError) throw error;
      // A source that is away has logged it.
      if (!(error instanceof SourceAwayError)) logError(error);
      const text = 'The access token cannot be verified at the moment. Try again later.';
      throw retryLater('UNAVAILABLE', text, 5, { cause: error });
    }
  }

  /** Checks the result of a verifier: expiry, audience, binding, caller and scopes. @throws TokenRefusedError */
  #accepted(given: AuthInfo | undefined, token: string): AuthInfo {
    if (!given) throw new TokenRefusedError('invalid_token', 'The token is not valid');
    const { expiresAt, scopes = [] } = given as Partial<AuthInfo>;
    if (expiresAt !== undefined && !(expiresAt * 1_000 + this.options.clockToleranceMs > this.clock.now()))
      throw new TokenRefusedError('invalid_token', 'The token has expired');
    this.#assertMeantForUs(given);
    assertUnbound(given);
    if (!Array.isArray(scopes) || !scopes.every((scope) => typeof scope === 'string')) {
      const source = this.options.jwt ? 'auth.jwt.scopes' : 'auth.verifier';
      throw new Error(
        `The scopes of a token must be an array of strings; the option "${source}" gave ${shown(scopes)}.`,
      );
    }
    const { options } = this;
    if (!options.scopes.cover(scopes, options.scopes.required)) {
      const needed = options.scopes.required.join(' ');
      throw new TokenRefusedError('insufficient_scope', `This server needs a token with the scopes: ${needed}`);
    }
    // The values are copied, because the app may change them, and the result of a verifier is cached.
    const { extra } = given;
    const own = { token, scopes: [...scopes], ...(extra && { extra: { ...extra } }) };
    return { resourceMetadataUrl: this.metadataUrl, ...given, ...own };
  }

  /** Refuses a token that was issued for another resource, also by the same issuer (A5). */
  #assertMeantForUs({ resource, extra }: AuthInfo): void {
    // A result that was stored as JSON has a string here.
    const claimed: unknown = resource ? String(resource) : extra?.['aud'];
    // A verifier without this field has checked the audience itself; for a JWT the claim is required.
    if (claimed === undefined) return;
    const { audiences } = this.options;
    const named = [claimed].flat().filter((each): each is string => typeof each === 'string');
    const isOurs = (audience: string): boolean =>
      audiences.includes(audience) || audiences.includes(canonicalUri(audience));
    if (named.some(isOurs)) return;
    const text = `The token is for the audience ${named.join(' ')}, not for ${audiences.join(' or ')}`;
    throw new TokenRefusedError('invalid_token', text, 'auth.jwt.audience');
  }

  #settle(request: AuthRequest, info: AuthInfo): void {
    const { id, principal } = callerOf(info, this.options.clientsAreCallers);
    const user = info.extra ?? (principal === undefined ? {} : { sub: principal });
    request.auth = info;
    if (userOf(request) === undefined) request.user = user;
    const { expiresAt } = info;
    const ends = this.options.closeStreamsOnExpiry && expiresAt !== undefined;
    setCredentials(request, { principal, id, user, streamsEndAt: ends ? expiresAt * 1_000 : undefined });
  }

  #refused({ code, message, option }: TokenRefusedError): McpError {
    const headers = { 'WWW-Authenticate': this.challenge(code, message) };
    // It goes to the log, too, and parts of it may come from a token.
    const line = message.slice(0, 300).replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]/gu, ' ');
    return new McpError(STATUS[code], `${line}.`, { headers, option });
  }

  /**
   * Returns the value of `WWW-Authenticate`.
   *
   * @param error left out for a request without credentials (A12)
   * @param needed the scopes beside those that every request needs
   */
  challenge(error?: TokenRefusedError['code'], description = '', needed: readonly string[] = []): string {
    const scope = this.options.scopes.all(needed).join(' ');
    return challengeOf({ error, description, scope, metadataUrl: this.metadataUrl });
  }

  /**
   * Returns the challenge for a refusal.
   *
   * @param presented whether the caller has sent a token: only then the challenge has an error (A12)
   */
  #challengeTo(presented: boolean, description: string): string {
    return this.challenge(presented ? 'invalid_token' : undefined, description);
  }

  refusal(thrown: unknown, request: object): unknown {
    if (!(thrown instanceof HttpException)) return thrown;
    const status = thrown.getStatus();
    const presented = hasBearer(request as AuthRequest);
    // Nest answers 403 when a guard returns false; a client without a token needs a challenge instead.
    const unnamed = status === 403 && !presented && !this.options.anonymous;
    if (status !== 401 && !unnamed) return thrown;
    if (presented) this.#explain('The app refused the token');
    const challenge = this.#challengeTo(presented, 'The app refused the token');
    const { message } = thrown;
    return new McpError('UNAUTHORIZED', message, { headers: { 'WWW-Authenticate': challenge }, cause: thrown });
  }

  /** Logs once what a client sees when a guard of the app refuses its token: the client only begins another login. */
  #explain(seen: keyof typeof REMEDIES): void {
    if (this.#explained.has(seen)) return;
    this.#explained.add(seen);
    logger.log(
      `Clients get 401 "${seen}" and log in again. ${REMEDIES[seen]} See "In an app with a guard of its own" in docs/authentication.md. This is logged once.`,
    );
  }

  readonly reply: Challenger['reply'] = (reply, request) => {
    if (reply.kind !== 'json' || reply.status !== 401 || reply.headers?.['www-authenticate']) return reply;
    const presented = hasBearer(request as AuthRequest);
    if (presented) this.#explain('A handler refused the token');
    const challenge = this.#challengeTo(presented, 'A handler refused the token');
    return { ...reply, headers: { ...reply.headers, 'www-authenticate': challenge } };
  };
}

/** Returns a challenge of RFC 6750 §3 with the parameter of RFC 9728 §5.1. */
export function challengeOf(about: {
  readonly error: TokenRefusedError['code'] | undefined;
  readonly description: string;
  readonly scope: string;
  readonly metadataUrl?: string;
}): string {
  const { error, description, scope, metadataUrl } = about;
  const explained = error && description !== '';
  const parameters = [
    error && `error="${error}"`,
    explained && `error_description="${asDescription(description)}"`,
    scope !== '' && `scope="${scope}"`,
    metadataUrl && `resource_metadata="${metadataUrl}"`,
  ].filter(Boolean);
  return parameters.length === 0 ? 'Bearer' : `Bearer ${parameters.join(', ')}`;
}

/** Limits the text to the characters of RFC 6750 §3, because parts of it may come from a token. */
function asDescription(text: string): string {
  return text.slice(0, 300).replace(/[^\x20\x21\x23-\x5b\x5d-\x7e]/g, "'");
}

function hasBearer({ headers }: AuthRequest): boolean {
  // Only the scheme is checked: a malformed token is refused, even if callers without a token are admitted.
  return /^Bearer(?![\w!#$%&'*+.^`|~-])/i.test(headers.authorization ?? '');
}

/** Returns the token of a header. @throws TokenRefusedError */
function tokenIn(authorization: string): string {
  if (authorization.length > MAX_TOKEN_CHARACTERS)
    throw new TokenRefusedError('invalid_token', 'The token is too long');
  const [, token] = BEARER.exec(authorization) ?? [];
  if (token !== undefined) return token;
  throw new TokenRefusedError('invalid_request', 'The header Authorization is not: Bearer <token>');
}

/**
 * Refuses a token that is bound to a key of its client (DPoP, mutual TLS): a caller who only shows the token has not
 * proved that it has the key (A17).
 *
 * @throws TokenRefusedError
 */
function assertUnbound({ extra }: AuthInfo): void {
  if ((extra?.['cnf'] ?? undefined) === undefined) return;
  const text = 'The token is bound to a key (claim cnf), and this server accepts tokens for Bearer only';
  throw new TokenRefusedError('invalid_token', text);
}

/** The principals of clients that call for themselves begin with this text. */
const CLIENT = 'client:';

/**
 * Returns the caller of a token: the same for all tokens of a caller, and different for callers of two issuers. A
 * client is never the same caller as a user (RFC 9068 §5), also if an issuer lets users choose the text of their
 * subject.
 *
 * @returns nothing if the verifier gave no subject, and clients do not call for themselves
 * @throws TokenRefusedError
 */
function callerOf({ clientId, extra }: AuthInfo, clientsAreCallers: boolean): { id?: string; principal?: string } {
  const { iss, sub } = extra ?? {};
  const byClient = sub === undefined;
  if (byClient && !clientsAreCallers) return {};
  const id = idText(byClient ? clientId : sub);
  if (id === undefined) {
    const text = byClient ? 'The token names neither a subject nor a client' : 'The token has no valid subject';
    throw new TokenRefusedError('invalid_token', text);
  }
  const text = typeof iss === 'string' ? `${iss}|${id}` : id;
  if (byClient) return { id, principal: CLIENT + text };
  if (clientsAreCallers && text.startsWith(CLIENT)) {
    throw new TokenRefusedError(
      'invalid_token',
      `The token has a subject that begins with "${CLIENT}", which is reserved for clients`,
    );
  }
  return { id, principal: text };
}

/** Returns an id as text: introspection may answer with numbers. */
function idText(id: unknown): string | undefined {
  if (Number.isSafeInteger(id)) return String(id);
  return typeof id === 'string' && id !== '' ? id : undefined;
}
