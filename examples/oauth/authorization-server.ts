import { createServer, type Server } from 'node:http';
import { exportJWK, generateKeyPair } from 'jose';
import { Provider, type Configuration } from 'oidc-provider';

/** What the endpoint's scopes are. */
const SCOPES = ['notes:read', 'notes:write'];

/**
 * An authorization server for this machine, by the package `oidc-provider`. There is one user, who is signed in and agrees to
 * everything without being asked: never use it for anything but trying out.
 *
 * @param resource the URL of the endpoint that it gives tokens for
 */
export async function localAuthorizationServer(issuer: string, resource: string): Promise<Server> {
  const { privateKey } = await generateKeyPair('ES256', { extractable: true });
  const configuration: Configuration = {
    jwks: { keys: [{ ...(await exportJWK(privateKey)), alg: 'ES256', use: 'sig' }] },
    cookies: { keys: ['a secret of this machine'] },
    scopes: ['openid', 'offline_access', ...SCOPES],
    pkce: { required: () => true },
    clientDefaults: { id_token_signed_response_alg: 'ES256', token_endpoint_auth_method: 'none' },
    features: {
      devInteractions: { enabled: false },
      // Claude, ChatGPT and the official client register themselves.
      registration: { enabled: true },
      // RFC 8707: the token is for the resource that the client names, and a JWT.
      resourceIndicators: {
        enabled: true,
        defaultResource: () => resource,
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({
          scope: SCOPES.join(' '),
          audience: resource,
          accessTokenTTL: 300,
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg: 'ES256' } },
        }),
      },
    },
    // Clients register with the scopes that they need at first; later they may need more.
    extraClientMetadata: {
      properties: ['any_scope'],
      validator: (_context, _name, _value, metadata) => {
        delete metadata.scope;
      },
    },
    findAccount: (_context, sub) => ({ accountId: sub, claims: () => ({ sub }) }),
    interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
    // Consent, as a user would give it on a page.
    async loadExistingGrant({ oidc }) {
      const { client, session, params } = oidc;
      const grant = new oidc.provider.Grant({ clientId: client!.clientId, accountId: session!.accountId! });
      const { scope: asked } = params as { scope: string };
      grant.addOIDCScope(asked);
      grant.addResourceScope(resource, SCOPES.filter((scope) => asked.split(' ').includes(scope)).join(' '));
      await grant.save();
      return grant;
    },
  };
  const provider = new Provider(issuer, configuration);
  const serve = provider.callback();
  const server = createServer((request, response) => {
    const isInteraction = request.url!.startsWith('/interaction/');
    const served = isInteraction
      ? provider.interactionFinished(request, response, { login: { accountId: 'ann' }, consent: {} })
      : serve(request, response);
    served.catch(() => response.writeHead(500).end());
  });
  const { hostname, port } = new URL(issuer);
  await new Promise<void>((resolve) => server.listen(Number(port), hostname, resolve));
  return server;
}
