import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
// #region verifier
import { OAuthError } from '@modelcontextprotocol/server';
import { Injectable } from '@nestjs/common';
import type { AuthInfo, OAuthTokenVerifier } from 'nestjs-mcp-streamable/auth';

/** Accepts opaque tokens: it asks the authorization server about each (RFC 7662). */
@Injectable()
export class Introspection implements OAuthTokenVerifier {
  async verifyAccessToken(token: string): Promise<AuthInfo> {
    const response = await fetch('https://idp.example.com/introspect', {
      method: 'POST',
      // Base64 of "<client id>:<secret>", of a client that may introspect.
      headers: { authorization: `Basic ${process.env['INTROSPECTION_CREDENTIALS']}` },
      body: new URLSearchParams({ token }),
      signal: AbortSignal.timeout(5_000),
    });
    // Not the token's fault: the caller gets 503, and keeps it.
    if (!response.ok)
      throw new Error(`Introspection was answered with ${response.status}.`);
    const claims = (await response.json()) as Record<string, string> & {
      active: boolean;
      exp?: number;
    };
    if (!claims.active) throw new OAuthError('invalid_token', 'Token not active');
    const { client_id: clientId = '', scope = '', exp } = claims;
    // `aud` in `extra` is compared with `auth.resource`. If your server gives none,
    // check here for whom the token is.
    return {
      token,
      clientId,
      scopes: scope.split(' '),
      ...(exp !== undefined && { expiresAt: exp }),
      extra: claims,
    };
  }
}
// #endregion

// #region module
@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: { name: 'notes', version: '1.0.0' },
      auth: {
        resource: 'https://api.example.com/mcp',
        authorizationServers: ['https://idp.example.com/'],
        verifier: Introspection, // asked once a minute for each token: "cacheMs"
      },
    }),
  ],
  providers: [Introspection],
})
export class AppModule {}
// #endregion
