import { createHash, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWTPayload } from 'jose';

interface Grant {
  readonly clientId: string;
  readonly scope: string;
  readonly resource: string | undefined;
  readonly challenge?: string;
}

export interface AuthorizationServerOptions {
  /** Of tokens. */
  now?: () => number;
  lifetimeS?: number;
  /** Who agrees to everything, at once. */
  user?: string;
  /** Behind the origin; with it the issuer has a path. */
  path?: string;
  /** What the document at that well-known name says, instead. */
  metadata?: Record<string, unknown>;
  /** The only well-known name that it answers. */
  wellKnown?: 'oauth-authorization-server' | 'openid-configuration';
}

export type Claims = JWTPayload & Record<string, unknown>;

/**
 * An OAuth 2.1 authorization server, as small as the official client can do with: metadata, dynamic registration, PKCE, a user
 * who agrees to everything without being asked, refresh tokens; access tokens are JWTs (RFC 9068).
 */
export class AuthorizationServer {
  readonly #grants = new Map<string, Grant>();
  /** Paths that were asked for, in order. */
  readonly requests: string[] = [];
  /** What users were asked to agree to, in order. */
  readonly asked: string[] = [];
  /** The next requests for keys are answered with 500. */
  failing = false;
  /** The next requests for keys get no answer. */
  silent = false;
  #key: CryptoKey;
  #published: object[];

  private constructor(
    private readonly server: Server,
    private readonly options: AuthorizationServerOptions,
    key: { privateKey: CryptoKey; jwk: object },
  ) {
    this.#key = key.privateKey;
    this.#published = [key.jwk];
  }

  static async start(options: AuthorizationServerOptions = {}): Promise<AuthorizationServer> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const started = new AuthorizationServer(server, options, await newKey('first'));
    server.on('request', (request, response) => void started.#serve(request, response));
    return started;
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  get issuer(): string {
    return this.origin + (this.options.path ?? '');
  }

  get jwks(): object {
    return { keys: this.#published };
  }

  /** Signs with another key from now on. */
  async rotate(kid: string = randomUUID()): Promise<void> {
    const { privateKey, jwk } = await newKey(kid);
    this.#key = privateKey;
    this.#published = [...this.#published, jwk];
  }

  /** A token as this server would give it, but for these claims (`undefined` leaves one out) and header (`null` does). */
  async token(
    claims: Claims = {},
    options: { alg?: string; kid?: string | null; key?: CryptoKey; typ?: unknown } = {},
  ): Promise<string> {
    const { alg = 'ES256', kid = this.#kid, key = this.#key, typ = 'at+jwt' } = options;
    const { now = Date.now, lifetimeS = 300, user = 'ann' } = this.options;
    const at = Math.floor(now() / 1000);
    const usual = { iss: this.issuer, sub: user, client_id: 'client', iat: at, exp: at + lifetimeS, jti: randomUUID() };
    const all = Object.entries({ ...usual, ...claims }).filter(([, value]) => value !== undefined);
    return new SignJWT(Object.fromEntries(all))
      .setProtectedHeader({ alg, ...(typ !== null && { typ: typ as string }), ...(kid !== null && { kid }) })
      .sign(key);
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  get #kid(): string {
    return (this.#published.at(-1) as { kid: string }).kid;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url!, this.origin);
    this.requests.push(url.pathname);
    const { path = '', wellKnown = 'oauth-authorization-server' } = this.options;
    const reply = (status: number, body: object, headers: Record<string, string> = {}): void => {
      response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
    };
    const form = async (): Promise<URLSearchParams> => new URLSearchParams(await text(request));
    switch (url.pathname) {
      case wellKnown === 'openid-configuration'
        ? `${path}/.well-known/openid-configuration`
        : `/.well-known/oauth-authorization-server${path}`:
        return reply(200, { ...this.#metadata(), ...this.options.metadata });
      case '/jwks':
        if (this.silent) return;
        return this.failing ? reply(500, {}) : reply(200, this.jwks);
      case '/register':
        return reply(201, { ...(JSON.parse(await text(request)) as object), client_id: randomUUID() });
      case '/authorize':
        response.writeHead(302, { location: this.#agree(url.searchParams) }).end();
        return;
      case '/token': {
        const answer = await this.#tokens(await form());
        return answer ? reply(200, answer) : reply(400, { error: 'invalid_grant' });
      }
      default:
        return reply(404, {});
    }
  }

  #metadata(): object {
    const { origin, issuer } = this;
    return {
      issuer,
      authorization_endpoint: `${origin}/authorize`,
      token_endpoint: `${origin}/token`,
      registration_endpoint: `${origin}/register`,
      jwks_uri: `${origin}/jwks`,
      response_types_supported: ['code'],
      grant_types_supported: ['authorization_code', 'refresh_token'],
      code_challenge_methods_supported: ['S256'],
      token_endpoint_auth_methods_supported: ['none'],
      authorization_response_iss_parameter_supported: true,
    };
  }

  #agree(query: URLSearchParams): string {
    const scope = query.get('scope') ?? '';
    this.asked.push(scope);
    const code = this.#grant({
      clientId: query.get('client_id')!,
      scope,
      resource: query.get('resource') ?? undefined,
      challenge: query.get('code_challenge')!,
    });
    const back = new URL(query.get('redirect_uri')!);
    back.searchParams.set('code', code);
    back.searchParams.set('iss', this.issuer);
    const state = query.get('state');
    if (state !== null) back.searchParams.set('state', state);
    return back.href;
  }

  #grant(grant: Grant): string {
    const name = randomUUID();
    this.#grants.set(name, grant);
    return name;
  }

  async #tokens(form: URLSearchParams): Promise<object | undefined> {
    const code = form.get('code');
    const grant = this.#grants.get(code ?? form.get('refresh_token') ?? '');
    // A refresh token is good for more than once: the official client refreshes for a POST and a GET side by side.
    if (code !== null) this.#grants.delete(code);
    if (!grant) return undefined;
    const { clientId, scope, resource, challenge } = grant;
    const proof = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url');
    if (challenge !== undefined && challenge !== proof) return undefined;
    return {
      access_token: await this.token({ aud: resource, client_id: clientId, scope }),
      token_type: 'Bearer',
      expires_in: this.options.lifetimeS ?? 300,
      scope,
      refresh_token: this.#grant({ clientId, scope, resource }),
    };
  }
}

async function newKey(kid: string): Promise<{ privateKey: CryptoKey; jwk: object }> {
  const { privateKey, publicKey } = await generateKeyPair('ES256');
  return { privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg: 'ES256', use: 'sig' } };
}

async function text(request: IncomingMessage): Promise<string> {
  let body = '';
  for await (const chunk of request.setEncoding('utf8')) body += chunk as string;
  return body;
}
