import { createServer, type Server } from 'node:http';
import { Provider } from 'oidc-provider';
import type { UpstreamOptions } from './upstream.js';

/**
 * An identity provider for this machine. As many in companies, it knows the clients that an administrator has registered, one here, and
 * no MCP client can register. It signs everyone in as `ann`, without a password: for trying out only.
 */
export async function localIdentityProvider(
  upstream: UpstreamOptions,
  callbackUrl: string,
): Promise<Server> {
  const { issuer, clientId, clientSecret } = upstream;
  const provider = new Provider(issuer, {
    clients: [
      { client_id: clientId, client_secret: clientSecret, redirect_uris: [callbackUrl] },
    ],
    // Cookies do not tell ports of a host apart: those of the proxy have other names.
    cookies: {
      keys: ['a secret of this machine'],
      names: {
        interaction: '_idp_interaction',
        resume: '_idp_resume',
        session: '_idp_session',
      },
    },
    features: { devInteractions: { enabled: false } },
    findAccount: (_context, sub) => ({ accountId: sub, claims: () => ({ sub }) }),
    interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
    // The administrator has agreed for all users.
    async loadExistingGrant({ oidc }) {
      const { client, session } = oidc;
      const grant = new oidc.provider.Grant({
        clientId: client!.clientId,
        accountId: session!.accountId!,
      });
      grant.addOIDCScope('openid');
      await grant.save();
      return grant;
    },
  });
  const serve = provider.callback();
  const server = createServer((request, response) => {
    const served = request.url!.startsWith('/interaction/')
      ? provider.interactionFinished(request, response, {
          login: { accountId: 'ann' },
          consent: {},
        })
      : serve(request, response);
    served.catch(() => response.writeHead(500).end());
  });
  const { hostname, port } = new URL(issuer);
  await new Promise<void>((resolve) => server.listen(Number(port), hostname, resolve));
  return server;
}
