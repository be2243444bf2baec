import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { AuthInfo, OAuthTokenVerifier } from '@modelcontextprotocol/server';

/*
 * Tokens are JWTs signed with a key that this process has made. HMAC comes from `node:crypto`, as `jose` is an ES
 * module alone, which jest does not load in CommonJS.
 */

/** Decides what a token of a test claims. @publicApi */
export interface McpTestTokenOptions {
  /** The subject is the user. */
  sub: string;
  /** @default none */
  scopes?: readonly string[];
  /** The token expires after so many seconds; a negative number makes an expired one. @default 3600 */
  expiresIn?: number;
  /** @default test-client */
  clientId?: string;
  /** The resource that the token is for, such as the option `auth.resource`. @default none: for all */
  audience?: string;
  /** The token has these claims too. */
  claims?: Readonly<Record<string, unknown>>;
}

const KEY = randomBytes(32);
const HEADER = encoded({ alg: 'HS256', typ: 'at+jwt' });

/**
 * Makes an access token that {@link McpTestAuth} accepts: `createMcpTestClient(app, { token: mintTestToken({ sub: 'anna' }) })`.
 *
 * @publicApi
 */
export function mintTestToken(options: McpTestTokenOptions): string {
  const { sub, scopes = [], expiresIn = 3_600, clientId = 'test-client', audience, claims } = options;
  const issuedAt = Math.floor(Date.now() / 1_000);
  const times = { iat: issuedAt, exp: issuedAt + expiresIn };
  const jti = randomBytes(8).toString('base64url');
  const own = { iss: 'urn:nestjs-mcp-streamable:testing', sub, client_id: clientId, scope: scopes.join(' ') };
  const signed = `${HEADER}.${encoded({ ...claims, ...own, ...(audience !== undefined && { aud: audience }), ...times, jti })}`;
  return `${signed}.${signatureOf(signed).toString('base64url')}`;
}

/**
 * Verifies the tokens of {@link mintTestToken}, and no others: for the option `auth: { verifier }` of an endpoint under test, or
 * for a guard of the app.
 *
 * ```ts
 * Test.createTestingModule({ imports: [AppModule] }).overrideProvider(AppTokenVerifier).useValue(new McpTestAuth());
 * ```
 *
 * @publicApi
 */
export class McpTestAuth implements OAuthTokenVerifier {
  /** Verifies a token. @throws Error (rejects) with the code `invalid_token` */
  async verifyAccessToken(token: string): Promise<AuthInfo> {
    const [header = '', payload = '', signature = '', more] = token.split('.');
    const expected = signatureOf(`${header}.${payload}`);
    const given = Buffer.from(signature, 'base64url');
    if (more !== undefined || given.length !== expected.length || !timingSafeEqual(given, expected)) {
      throw invalidToken('The token was not made by mintTestToken() of this process.');
    }
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as Claims;
    if (claims.exp * 1_000 <= Date.now()) throw invalidToken('The token has expired.');
    return {
      token,
      clientId: claims.client_id,
      scopes: claims.scope === '' ? [] : claims.scope.split(' '),
      expiresAt: claims.exp,
      extra: { ...claims },
    };
  }
}

interface Claims {
  readonly sub: string;
  readonly client_id: string;
  readonly scope: string;
  readonly exp: number;
}

/** Returns an error like `OAuthError` of the SDK: authentication goes by the code. */
function invalidToken(message: string): Error {
  return Object.assign(new Error(message), { code: 'invalid_token' });
}

function signatureOf(text: string): Buffer {
  return createHmac('sha256', KEY).update(text).digest();
}

function encoded(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}
