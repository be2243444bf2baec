import type { OAuthTokenVerifier } from '@modelcontextprotocol/server';
import type { InjectionToken, Provider } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { McpClock } from '../core/common/clock.js';
import { contract, MCP_OPTIONS, McpOptionError, required } from '../core/common/options.js';
import { SCOPES_DECORATOR, type ScopesDecorator } from '../core/plugins/scopes.js';
import { CHALLENGER } from '../core/http/credentials.js';
import type { ResolvedAuthOptions } from './auth.options.js';
import { McpBearerGuard, RESOURCE_SERVER } from './bearer.guard.js';
import { JwtVerifier } from './jwt-verifier.js';
import { ProtectedResource } from './protected-resource.js';
import { RequireScopes } from './require-scopes.js';
import { ResourceServer } from './resource-server.js';
import { type TokenVerifier, VerifiedTokens } from './verified-tokens.js';

/** Provides `auth` for each endpoint; without effect if there is no option `auth`. */
export const authProviders: Provider[] = [
  {
    provide: RESOURCE_SERVER,
    useFactory: (
      { auth }: { auth?: ResolvedAuthOptions },
      clock: McpClock,
      module: ModuleRef,
    ): ResourceServer | null =>
      auth === undefined ? null : new ResourceServer(auth, verifierFor(auth, clock, module), clock),
    inject: [MCP_OPTIONS, McpClock, ModuleRef],
  },
  { provide: CHALLENGER, useExisting: RESOURCE_SERVER },
  {
    provide: SCOPES_DECORATOR,
    useValue: (({ all, listed }) => RequireScopes(...(all as [string]), { listed })) satisfies ScopesDecorator,
  },
  McpBearerGuard,
  ProtectedResource,
];

/** Creates the verifier of an endpoint. @throws McpOptionError */
function verifierFor(options: ResolvedAuthOptions, clock: McpClock, module: ModuleRef): TokenVerifier {
  const { jwt, verifier, cacheMs } = options;
  // No verified tokens are kept: verifying a signature takes hardly longer than a hash and a look-up.
  if (jwt) return new JwtVerifier(jwt, options, clock);
  const given = verifier as OAuthTokenVerifier | InjectionToken<OAuthTokenVerifier>;
  if (typeof given === 'object' && 'verifyAccessToken' in given) return new VerifiedTokens(() => given, cacheMs, clock);
  let found: OAuthTokenVerifier | undefined;
  // The app may create the provider after this one.
  return new VerifiedTokens(() => (found ??= provided(given, module)), cacheMs, clock);
}

function provided(token: InjectionToken<OAuthTokenVerifier>, module: ModuleRef): OAuthTokenVerifier {
  const name = typeof token === 'function' ? token.name : String(token);
  let found: OAuthTokenVerifier;
  try {
    found = module.get<OAuthTokenVerifier>(token, { strict: false });
  } catch (cause) {
    const text = `The option "auth.verifier" is ${name}, which no module provides, or which is request-scoped. Add it to the "providers" of a module, or pass the verifier itself.`;
    throw Object.assign(new McpOptionError('auth.verifier', text), { cause });
  }
  return contract<OAuthTokenVerifier>(required, ['verifyAccessToken'])(found, `auth.verifier (${name})`);
}
