import type { OAuthTokenVerifier } from '@modelcontextprotocol/server';
import type { InjectionToken } from '@nestjs/common';
import {
  contract,
  count,
  flag,
  functionOf,
  group,
  McpOptionError,
  object,
  option,
  type OptionTable,
  required,
  type Resolved,
  resolveGroup,
  text,
  texts,
} from '../core/common/options.js';
import { shown } from '../core/protocol/errors.js';
import { isScope, ScopeRules, type McpScopeImplication } from './scopes.js';

/** The option by which an endpoint becomes an OAuth resource server. @publicApi */
export interface McpAuthOption {
  /**
   * Makes the endpoint an OAuth 2.1 resource server. Callers must send an access token; a caller without one gets 401
   * and the URL of the metadata that names the authorization server. The endpoint issues no tokens: your authorization
   * server does.
   *
   * @default none (guards of the app decide who may call)
   * @see https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
   */
  auth?: McpAuthOptions;
}

/** Decides what access tokens an endpoint accepts, and where clients get them. @publicApi */
export interface McpAuthOptions {
  /**
   * Sets the URL of the endpoint as clients know it, such as `https://api.example.com/mcp`. It identifies the endpoint
   * at the authorization server, and tokens for another resource are refused. It begins with `https`, or with `http` on
   * a loopback host, and has no fragment.
   *
   * @see https://www.rfc-editor.org/rfc/rfc8707
   */
  resource: string;
  /**
   * Lists the issuers of the authorization servers that issue tokens for this endpoint, spelled exactly as in their
   * metadata.
   */
  authorizationServers: readonly string[];
  /**
   * Decides how access tokens that are JWTs are verified; the package `jose` must be installed.
   *
   * @default tokens of `authorizationServers` are accepted; their metadata names the keys
   */
  jwt?: McpJwtOptions;
  /**
   * Verifies access tokens of any format, instead of `jwt`. It is an `OAuthTokenVerifier` of the MCP SDK, or the
   * injection token of a provider of the app that implements one. It must answer within 5 seconds. For a token that is
   * not valid, it must throw an `OAuthError` with the code `invalid_token`. It must also check the audience of the
   * token. If its result has `resource`, the endpoint compares this value with the option `resource`. Otherwise it
   * compares `extra.aud`, if there is one.
   *
   * @default verification by `jwt`
   */
  verifier?: OAuthTokenVerifier | InjectionToken<OAuthTokenVerifier>;
  /**
   * Lists the scopes that every request needs. Clients ask their users for all of them at the first login. For the
   * scopes of a single handler, use `@RequireScopes()`.
   *
   * @default []
   */
  requiredScopes?: readonly string[];
  /**
   * Lists the scopes that a client requests if no challenge names any. List as few as are useful.
   *
   * @default `requiredScopes`
   */
  scopesSupported?: readonly string[];
  /** Names the endpoint for users; clients show it. @default none */
  resourceName?: string;
  /** Sets the URL of documentation for developers. @default none */
  resourceDocumentation?: string;
  /**
   * Declares which scopes include others. Give a record such as `{ 'notes:admin': ['notes:read', 'notes:write'] }`, or
   * a function that decides whether one scope includes another. In a record, an included scope can include further
   * scopes.
   *
   * @default none
   */
  implies?: McpScopeImplication;
  /**
   * Decides whether callers that send no token are served, too. `@RequireScopes()` still refuses them, and a token that
   * is sent must be valid.
   *
   * @default false
   */
  anonymous?: boolean;
  /**
   * Decides what the caller is if a token has no subject, as with client credentials. With `true` the caller is the
   * client app, with the principal `client:<issuer>|<client id>`. With `false` the request gets 500, because all users
   * of one client app would be one caller. Use `true` only if your authorization server puts a subject into every token
   * of a user.
   *
   * @default false
   */
  clientsAreCallers?: boolean;
  /**
   * Sets the milliseconds by which the clocks of an issuer and of this server may differ. With a higher value expired
   * tokens are accepted for longer.
   *
   * @default 5000
   */
  clockToleranceMs?: number;
  /**
   * Sets the milliseconds for which a result of `verifier` is reused, at most until the token expires. With a higher
   * value there are fewer verifications, but a revoked token is accepted for longer. With 0 the token of each request
   * is verified. The option has no effect on `jwt`, which verifies each request.
   *
   * @default 60000
   */
  cacheMs?: number;
  /**
   * Decides whether a GET stream or a subscription ends when the token that opened it expires. `clockToleranceMs` does
   * not extend this time. The client then reconnects with another token. With `false` they stay open until the client
   * closes them.
   *
   * @default true
   */
  closeStreamsOnExpiry?: boolean;
}

/** Decides how access tokens that are JWTs are verified. @publicApi */
export interface McpJwtOptions {
  /** Lists the accepted values of the claim `iss`. @default `authorizationServers` */
  issuer?: string | readonly string[];
  /**
   * Lists the accepted values of the claim `aud`; one must match. Identity providers that do not support the parameter
   * `resource` have their own name for the endpoint: an API identifier (Auth0), `api://…` or a client id (Entra ID).
   *
   * @default `resource`
   */
  audience?: string | readonly string[];
  /**
   * Sets the URL of the public keys of the issuer. For several issuers, give a record of URLs by issuer.
   *
   * @default `jwks_uri` of the issuer's metadata
   */
  jwksUri?: string | Readonly<Record<string, string>>;
  /**
   * Lists the accepted signature algorithms. Symmetric ones are refused: a server that can verify such tokens could
   * also issue them.
   *
   * @default all asymmetric ones: `RS`, `PS` and `ES` with 256, 384 and 512, and `EdDSA`
   */
  algorithms?: readonly string[];
  /**
   * Lists the accepted values of the header `typ`, which says what a JWT is for. A token without the header counts as
   * `JWT`. The prefix `application/` and the case of letters do not matter. Other types, such as `logout+jwt` or
   * `dpop+jwt`, are no access tokens. With `['at+jwt']` only tokens of RFC 9068 are accepted, so ID tokens are refused.
   *
   * @default ['at+jwt', 'JWT']
   * @see https://www.rfc-editor.org/rfc/rfc9068#section-4
   */
  types?: readonly string[];
  /** Returns the scopes of a token from its claims. @default from the claims `scope`, `scp` and `permissions` */
  scopes?: (claims: Readonly<Record<string, unknown>>) => readonly string[];
}

const ALGORITHMS = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
];

const JWT_TABLE = {
  issuer: option(undefined, textOrTexts),
  audience: option(undefined, textOrTexts),
  jwksUri: option(undefined, urlOrUrls),
  algorithms: option(ALGORITHMS, asymmetric),
  types: option(['at+jwt', 'JWT'], typesOf),
  scopes: functionOf(claimedScopes),
} satisfies OptionTable<McpJwtOptions>;

const AUTH_TABLE = {
  resource: option(required, urlOf),
  authorizationServers: option(required, urlsOf),
  jwt: group({}, JWT_TABLE),
  verifier: option(undefined, verifierOf),
  requiredScopes: option([], scopesOf),
  scopesSupported: option(undefined, scopesOf),
  resourceName: text(undefined),
  resourceDocumentation: text(undefined),
  implies: option(undefined, implicationOf),
  anonymous: flag(false),
  clientsAreCallers: flag(false),
  clockToleranceMs: count(5_000, { min: 0 }),
  cacheMs: count(60_000, { min: 0 }),
  closeStreamsOnExpiry: flag(true),
} satisfies OptionTable<McpAuthOptions>;

type Derived = 'resource' | 'jwt' | 'requiredScopes' | 'implies' | 'scopesSupported';

export const AUTH_NAMES: readonly string[] = Object.keys(AUTH_TABLE);

export interface ResolvedAuthOptions extends Omit<Resolved<typeof AUTH_TABLE>, Derived> {
  readonly resource: URL;
  /** The canonical form of the URI has scheme and host in lower case, and no trailing slash. */
  readonly resourceUri: string;
  readonly jwt: ResolvedJwtOptions | undefined;
  /** Tokens must be issued for one of these, in canonical form. */
  readonly audiences: readonly string[];
  readonly scopes: ScopeRules;
  readonly scopesSupported: readonly string[];
}

export interface ResolvedJwtOptions {
  /** Maps issuers to the URLs of their keys; `undefined`: the metadata of the issuer names it. */
  readonly keys: ReadonlyMap<string, string | undefined>;
  readonly algorithms: readonly string[];
  /** In canonical form. */
  readonly types: readonly string[];
  readonly scopes: NonNullable<McpJwtOptions['scopes']>;
}

export const AUTH_OPTION_TABLE = { auth: object(undefined) } satisfies OptionTable<McpAuthOption>;

/** Validates what is in the option. @throws McpOptionError */
export function resolveAuthOption({ auth }: McpAuthOption): { readonly auth: ResolvedAuthOptions | undefined } {
  return { auth: auth && resolveAuthOptions(auth) };
}

/** Validates the option `auth`. @throws McpOptionError */
export function resolveAuthOptions(given: McpAuthOptions): ResolvedAuthOptions {
  const { jwt, requiredScopes, implies, ...options } = resolveGroup(AUTH_TABLE, given, 'auth');
  const { verifier, authorizationServers, scopesSupported = requiredScopes } = options;
  if (given.jwt !== undefined && verifier !== undefined) {
    const reason = 'The options "auth.jwt" and "auth.verifier" exclude each other. Remove one.';
    throw new McpOptionError('auth.verifier', reason);
  }
  const resource = new URL(options.resource);
  const resourceUri = canonicalUri(resource.href);
  return {
    ...options,
    resource,
    resourceUri,
    jwt: verifier === undefined ? verificationOf(jwt, authorizationServers) : undefined,
    audiences: [jwt.audience ?? resourceUri].flat().map(canonicalUri),
    scopes: new ScopeRules(requiredScopes, implies),
    scopesSupported,
  };
}

function verificationOf(
  { issuer, jwksUri, algorithms, types, scopes }: Resolved<typeof JWT_TABLE>,
  authorizationServers: readonly string[],
): ResolvedJwtOptions {
  const issuers = [issuer ?? authorizationServers].flat();
  const keys = keysOf(issuers, jwksUri);
  const nameless = issuers.find((name) => keys.get(name) === undefined && urlFault(name) !== undefined);
  if (nameless !== undefined) {
    const reason = `The option "auth.jwt.issuer" has ${shown(nameless)}, whose metadata cannot be read: ${urlFault(nameless)}. Set "auth.jwt.jwksUri" to the URL of its keys.`;
    throw new McpOptionError('auth.jwt.issuer', reason);
  }
  return { keys, algorithms, types: types.map(canonicalType), scopes };
}

function keysOf(issuers: readonly string[], jwksUri: McpJwtOptions['jwksUri']): Map<string, string | undefined> {
  const name = 'auth.jwt.jwksUri';
  if (jwksUri === undefined) return new Map(issuers.map((issuer) => [issuer, undefined]));
  if (typeof jwksUri === 'string') {
    if (issuers.length === 1) return new Map([[issuers[0]!, jwksUri]]);
    const reason = `The option "${name}" is one URL for ${issuers.length} issuers, but each issuer has its own keys. Give a record by issuer, or omit it.`;
    throw new McpOptionError(name, reason);
  }
  const unknown = Object.keys(jwksUri).find((issuer) => !issuers.includes(issuer));
  if (unknown !== undefined) {
    const reason = `The option "${name}" has an entry for ${shown(unknown)}, which is not in "auth.jwt.issuer". The issuers are: ${issuers.join(', ')}.`;
    throw new McpOptionError(name, reason);
  }
  return new Map(issuers.map((issuer) => [issuer, jwksUri[issuer]]));
}

/**
 * Returns a URI in the form in which two are compared: scheme and host in lower case, without one trailing slash. A
 * text that is no URL of HTTP, such as `api://…` or a client id, is compared as it is; so is a URL with a fragment or a
 * user, which names no resource.
 */
export function canonicalUri(uri: string): string {
  if (!/^https?:\/\//i.test(uri) || !URL.canParse(uri)) return uri;
  const { origin, pathname, search, username, password } = new URL(uri);
  if (uri.includes('#') || username !== '' || password !== '') return uri;
  return origin + pathname.replace(/\/$/, '') + search;
}

/** Returns the value of a header `typ` in the form in which two are compared: RFC 7515 §4.1.9 lets both be written. */
export function canonicalType(type: string): string {
  return type.toLowerCase().replace(/^application\//, '');
}

/** Returns the scopes in the claims that authorization servers use for them. */
function claimedScopes({ scope, scp, permissions }: Readonly<Record<string, unknown>>): string[] {
  if (scp === undefined && permissions === undefined && typeof scope === 'string') {
    return scope.split(' ').filter((each) => each !== '');
  }
  const found = [scope, scp, permissions].flatMap((claim) => (typeof claim === 'string' ? claim.split(' ') : claim));
  return [...new Set(found.filter((each): each is string => typeof each === 'string' && each !== ''))];
}

/** Parses a URL that credentials may be sent to or be meant for. */
function urlOf(given: string, name: string): string {
  const reason = urlFault(text(required)(given, name));
  if (reason === undefined) return given;
  throw new McpOptionError(name, `The option "${name}" cannot be ${shown(given)}: ${reason}.`);
}

function urlsOf(given: readonly string[], name: string): readonly string[] {
  for (const url of texts(required)(given, name)) urlOf(url, name);
  if (given.length > 0) return given;
  const reason = `The option "${name}" is empty. Name at least one, such as "https://idp.example.com/".`;
  throw new McpOptionError(name, reason);
}

function urlOrUrls(given: NonNullable<McpJwtOptions['jwksUri']>, name: string): typeof given {
  if (typeof given === 'string') return urlOf(given, name);
  for (const url of Object.values(object<Record<string, string>>(required)(given, name))) urlOf(url, name);
  return given;
}

/** Returns why a URL must not carry keys or credentials. */
export function urlFault(text: string): string | undefined {
  if (!URL.canParse(text)) return 'it is not an absolute URL';
  const { protocol, hostname, username, password } = new URL(text);
  if (text.includes('#')) return 'it has a fragment';
  if (username !== '' || password !== '') return 'it contains credentials';
  if (protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname))) return undefined;
  return 'it is not "https" (only a loopback host may use "http")';
}

function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}

function textOrTexts(given: string | readonly string[], name: string): string | readonly string[] {
  const all = texts(required)(typeof given === 'string' ? [given] : given, name);
  if (all.length > 0 && !all.includes('')) return given;
  throw new McpOptionError(name, `The option "${name}" is empty, so no token could be valid. Name at least one.`);
}

function typesOf(given: readonly string[], name: string): readonly string[] {
  if (texts(required)(given, name).length > 0 && !given.includes('')) return given;
  throw new McpOptionError(name, `The option "${name}" is empty, so no token could be valid. Name at least one type.`);
}

function asymmetric(given: readonly string[], name: string): readonly string[] {
  const symmetric = texts(required)(given, name).find((algorithm) => /^(?:HS|none)/i.test(algorithm));
  if (symmetric === undefined && given.length > 0) return given;
  const reason = `The option "${name}" must name asymmetric algorithms, such as "ES256"; got ${shown(symmetric ?? given)}. For tokens that are signed with a secret, give your own "verifier".`;
  throw new McpOptionError(name, reason);
}

function scopesOf(given: readonly string[], name: string): readonly string[] {
  const wrong = texts(required)(given, name).find((scope) => !isScope(scope));
  if (wrong !== undefined) {
    const reason = `The option "${name}" has ${shown(wrong)}, which is not a scope. Scopes are printable ASCII without spaces, quotes and backslashes.`;
    throw new McpOptionError(name, reason);
  }
  if (given.includes('offline_access')) {
    const reason = `The option "${name}" has "offline_access", which a client sends to its authorization server to get a refresh token. It is not a scope of this endpoint; remove it.`;
    throw new McpOptionError(name, reason);
  }
  return given;
}

function implicationOf(given: McpScopeImplication, name: string): McpScopeImplication {
  if (typeof given === 'function') return given;
  scopesOf(Object.keys(object(required)(given, name)), name);
  for (const [scope, implied] of Object.entries(given)) scopesOf(implied, `${name}.${scope}`);
  return given;
}

type Verifier = NonNullable<McpAuthOptions['verifier']>;

function verifierOf(given: Verifier, name: string): Verifier {
  if (['function', 'string', 'symbol'].includes(typeof given)) return given;
  return contract<OAuthTokenVerifier>(required, ['verifyAccessToken'])(given as OAuthTokenVerifier, name);
}
