import { ApiKeysModule } from './api-key.guard.js';
import { ApiKeysController } from './api-keys.controller.js';
import { ApiKeys, isApiKey } from './api-keys.js';
import { InvoiceTools } from './invoice-tools.js';
// #region verifier
import { OAuthError } from '@modelcontextprotocol/server';
import { Inject, Injectable, Module } from '@nestjs/common';
import { createRemoteJWKSet, errors, jwtVerify } from 'jose';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import type { AuthInfo, OAuthTokenVerifier } from 'nestjs-mcp-streamable/auth';

export const settings = {
  resource: 'https://api.example.com/mcp',
  issuer: 'https://idp.example.com/',
  jwksUri: 'https://idp.example.com/jwks',
};

/** Accepts API keys, and the access tokens of the authorization server. */
@Injectable()
export class KeysAndTokens implements OAuthTokenVerifier {
  readonly #signers = createRemoteJWKSet(new URL(settings.jwksUri));

  constructor(@Inject(ApiKeys) private readonly keys: ApiKeys) {}

  async verifyAccessToken(token: string): Promise<AuthInfo> {
    return isApiKey(token) ? this.#keyOf(token) : this.#accessToken(token);
  }

  async #keyOf(token: string): Promise<AuthInfo> {
    const row = await this.keys.find(token);
    if (!row)
      throw new OAuthError('invalid_token', 'The API key is unknown, or has expired');
    const { id, owner, scopes, expiresAt } = row;
    // This is the principal of the user's access tokens too: a user is one caller with
    // both.
    const extra = { iss: settings.issuer, sub: owner };
    return {
      token,
      clientId: `key ${id}`,
      scopes: [...scopes],
      expiresAt: Math.floor(expiresAt / 1_000),
      extra,
    };
  }

  async #accessToken(token: string): Promise<AuthInfo> {
    const { issuer, resource } = settings;
    try {
      const { payload } = await jwtVerify(token, this.#signers, {
        issuer,
        audience: resource,
        algorithms: ['RS256', 'ES256'],
        requiredClaims: ['exp', 'sub'],
      });
      const { client_id: clientId, scope, exp } = payload;
      return {
        token,
        clientId: String(clientId),
        scopes: typeof scope === 'string' ? scope.split(' ') : [],
        expiresAt: exp!,
        extra: payload,
      };
    } catch (error) {
      // If the keys cannot be fetched, the token may be valid: the caller gets 503, and
      // keeps the token.
      if (!(error instanceof errors.JOSEError) || AWAY.includes(error.code)) throw error;
      throw new OAuthError('invalid_token', 'Token not valid');
    }
  }
}

const AWAY = ['ERR_JOSE_GENERIC', 'ERR_JWKS_INVALID', 'ERR_JWKS_TIMEOUT'];
// #endregion

@Module({
  imports: [
    ApiKeysModule,
    McpStreamableModule.forRoot({
      serverInfo: { name: 'invoices', version: '1.0.0' },
      // #region auth
      auth: {
        resource: settings.resource,
        authorizationServers: [settings.issuer],
        verifier: KeysAndTokens,
        cacheMs: 0, // refuse a deleted key at once
      },
      // #endregion
    }),
  ],
  controllers: [ApiKeysController],
  providers: [KeysAndTokens, InvoiceTools],
})
export class AppModule {}
