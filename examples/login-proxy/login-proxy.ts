import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:http';
import { exportJWK, generateKeyPair } from 'jose';
import { type Configuration, errors, Provider } from 'oidc-provider';
import { consentPage, failurePage, PAGE_HEADERS } from './pages.js';
import { Upstream, type UpstreamOptions } from './upstream.js';

export interface LoginProxyOptions {
  /** The URL of the proxy, as clients and the identity provider know it. */
  readonly issuer: string;
  /** The URL of the MCP endpoint, for which it gives tokens, and for nothing else. */
  readonly resource: string;
  /** What users can grant to a client. */
  readonly scopes: readonly string[];
  /** The identity provider, where the proxy is one registered client. */
  readonly upstream: UpstreamOptions;
}

/**
 * An authorization server for MCP clients, which register themselves, in front of an identity provider that knows one client: this
 * proxy. The identity provider says who the user is; the user grants each client its scopes here; tokens are the proxy's own.
 */
export class LoginProxy {
  private constructor(
    private readonly provider: Provider,
    private readonly upstream: Upstream,
    private readonly options: LoginProxyOptions,
  ) {}

  static async start(options: LoginProxyOptions): Promise<Server> {
    const callbackUrl = new URL('/callback', options.issuer).href;
    const upstream = await Upstream.discover(options.upstream, callbackUrl);
    const proxy = new LoginProxy(
      new Provider(options.issuer, await configurationOf(options)),
      upstream,
      options,
    );
    const server = createServer(
      (request, response) => void proxy.#serve(request, response),
    );
    const { hostname, port } = new URL(options.issuer);
    await new Promise<void>((resolve) => server.listen(Number(port), hostname, resolve));
    return server;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const { pathname, search } = new URL(request.url!, this.options.issuer);
      const [, room, uid, step] = pathname.split('/');
      if (pathname === '/callback') return this.#returned(search, response);
      if (room !== 'interaction' || uid === undefined)
        return await this.provider.callback()(request, response);
      // Throws unless the cookie of this interaction came with the request: another browser cannot go on with it.
      const interaction = await this.provider.interactionDetails(request, response);
      if (interaction.uid !== uid)
        throw new errors.SessionNotFound('interaction of another browser');
      if (interaction.prompt.name === 'login') {
        if (step === 'callback')
          return await this.#loggedIn(request, response, uid, search);
        redirect(response, await this.upstream.begin(uid));
        return;
      }
      await this.#consent(request, response, interaction);
    } catch (error) {
      const { status = 500, message } = error as { status?: number; message: string };
      if (!response.headersSent)
        response.writeHead(status >= 400 ? status : 500, PAGE_HEADERS);
      response.end(
        failurePage(status < 500 ? message : 'The login failed. Begin again.'),
      );
      if (status >= 500) console.error(error);
    }
  }

  // #region callback
  /**
   * The identity provider knows this one URL. The method redirects to the path of the
   * interaction, to which browsers send its cookie.
   */
  #returned(search: string, response: ServerResponse): void {
    const uid = this.upstream.interactionOf(new URLSearchParams(search).get('state'));
    if (uid === undefined) throw new errors.SessionNotFound('unknown state');
    redirect(response, `/interaction/${uid}/callback${search}`);
  }

  /** Takes the code of the identity provider, in the browser that began the login. */
  async #loggedIn(
    request: IncomingMessage,
    response: ServerResponse,
    uid: string,
    search: string,
  ): Promise<void> {
    const accountId = await this.upstream.finish(uid, search);
    await this.provider.interactionFinished(request, response, { login: { accountId } });
  }
  // #endregion

  // #region consent
  /**
   * Asks the user about each client: the identity provider does not know it, and has only
   * asked about the proxy, once.
   */
  async #consent(
    request: IncomingMessage,
    response: ServerResponse,
    interaction: Interaction,
  ): Promise<void> {
    const { params, prompt, session, grantId } = interaction;
    const client = (await this.provider.Client.find(String(params['client_id'])))!;
    const wanted = prompt.details as {
      missingOIDCScope?: string[];
      missingResourceScopes?: Record<string, string[]>;
    };
    const scopes = Object.values(wanted.missingResourceScopes ?? {}).flat();
    if (request.method !== 'POST') {
      const { clientId, clientName = clientId } = client;
      const page = consentPage({
        clientName,
        redirectUri: String(params['redirect_uri']),
        scopes,
      });
      response.writeHead(200, PAGE_HEADERS).end(page);
      return;
    }
    // The cookie is `SameSite`, but a page on another port or subdomain counts as the
    // same site.
    const from = request.headers['sec-fetch-site'];
    if (from !== undefined && from !== 'same-origin')
      throw new errors.InvalidRequest('decision of another page');
    if ((await formOf(request)).get('decision') !== 'allow') {
      const denied = {
        error: 'access_denied',
        error_description: 'The user has denied it',
      };
      return this.provider.interactionFinished(request, response, denied);
    }
    const { Grant } = this.provider;
    const known = grantId === undefined ? undefined : await Grant.find(grantId);
    const grant =
      known ?? new Grant({ accountId: session!.accountId, clientId: client.clientId });
    grant.addOIDCScope((wanted.missingOIDCScope ?? []).join(' '));
    grant.addResourceScope(this.options.resource, scopes.join(' '));
    const consent = { grantId: await grant.save() };
    await this.provider.interactionFinished(
      request,
      response,
      { consent },
      { mergeWithLastSubmission: true },
    );
  }
  // #endregion
}

type Interaction = Awaited<ReturnType<Provider['interactionDetails']>>;

/** @returns what the proxy is, as an authorization server */
async function configurationOf({
  resource,
  scopes,
}: LoginProxyOptions): Promise<Configuration> {
  // In production: a key and cookie secrets that are kept, and an `adapter` with a database, which several nodes share.
  const { privateKey } = await generateKeyPair('ES256', { extractable: true });
  return {
    jwks: { keys: [{ ...(await exportJWK(privateKey)), alg: 'ES256', use: 'sig' }] },
    cookies: { keys: [randomBytes(32).toString('hex')] },
    // #region provider
    scopes: ['openid', 'offline_access', ...scopes],
    pkce: { required: () => true },
    clientDefaults: {
      id_token_signed_response_alg: 'ES256',
      token_endpoint_auth_method: 'none',
    },
    features: {
      devInteractions: { enabled: false },
      registration: { enabled: true }, // MCP clients register at the proxy (RFC 7591)
      resourceIndicators: {
        enabled: true,
        defaultResource: () => resource,
        useGrantedResource: () => true,
        getResourceServerInfo: (_context, indicator) => {
          if (indicator !== resource) throw new errors.InvalidTarget();
          return {
            scope: scopes.join(' '),
            audience: resource,
            accessTokenTTL: 300,
            accessTokenFormat: 'jwt',
            jwt: { sign: { alg: 'ES256' } },
          };
        },
      },
    },
    // #endregion
    // Called for each client that registers.
    extraClientMetadata: {
      properties: ['rules'],
      validator: (_context, _name, _value, metadata) => {
        for (const uri of metadata.redirect_uris ?? []) assertSafe(uri);
        // Clients register with the scopes that they need at first; later they may ask their user for more.
        delete metadata.scope;
      },
    },
    findAccount: (_context, sub) => ({ accountId: sub, claims: () => ({ sub }) }),
    interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
    renderError: (context, { error, error_description: text = '' }) => {
      context.set(PAGE_HEADERS);
      context.body = failurePage(`${error} ${text}`);
    },
  };
}

// #region redirect
/** The schemes of apps that are not a reversed domain. */
const APP_SCHEMES = ['cursor:', 'vscode:'];

/**
 * The package lets native clients register any scheme, `javascript:` too.
 *
 * @throws InvalidRedirectUri unless it is https, http on a loopback host, or the scheme of an
 * app (RFC 8252)
 */
function assertSafe(uri: string): void {
  const { protocol, hostname } = new URL(uri);
  const local =
    protocol === 'http:' && ['127.0.0.1', '[::1]', 'localhost'].includes(hostname);
  const app = protocol.includes('.') || APP_SCHEMES.includes(protocol);
  if (protocol !== 'https:' && !local && !app) throw new errors.InvalidRedirectUri();
}
// #endregion

function redirect(response: ServerResponse, location: string): void {
  response
    .writeHead(303, {
      location,
      'cache-control': 'no-store',
      'referrer-policy': 'no-referrer',
    })
    .end();
}

/** A form of the consent page has one field. */
async function formOf(request: IncomingMessage): Promise<URLSearchParams> {
  let text = '';
  for await (const chunk of request.setEncoding('utf8')) {
    text += chunk as string;
    if (text.length > 1_000) throw new errors.InvalidRequest('form too large');
  }
  return new URLSearchParams(text);
}
