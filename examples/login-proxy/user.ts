import type {
  OAuthClientInformationMixed,
  OAuthClientMetadata,
  OAuthClientProvider,
  OAuthDiscoveryState,
  OAuthTokens,
} from '@modelcontextprotocol/client';

const REDIRECT_URL = 'http://127.0.0.1/callback';

/**
 * A user without a browser: follows the redirections, as a browser would, allows what the consent page asks for, and keeps the code
 * that comes back. A real client opens the URL in a browser, and waits for the request to its own redirect URL.
 */
export class UserWithoutBrowser implements OAuthClientProvider {
  readonly redirectUrl = REDIRECT_URL;
  readonly clientMetadata: OAuthClientMetadata = {
    client_name: 'A client without a browser',
    redirect_uris: [REDIRECT_URL],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    application_type: 'native',
  };
  #information: OAuthClientInformationMixed | undefined;
  #tokens: OAuthTokens | undefined;
  #verifier = '';
  #discovery: OAuthDiscoveryState | undefined;
  #callback: URLSearchParams | undefined;

  clientInformation = (): OAuthClientInformationMixed | undefined => this.#information;
  saveClientInformation = (information: OAuthClientInformationMixed): void =>
    void (this.#information = information);
  tokens = (): OAuthTokens | undefined => this.#tokens;
  saveTokens = (tokens: OAuthTokens): void => void (this.#tokens = tokens);
  codeVerifier = (): string => this.#verifier;
  saveCodeVerifier = (verifier: string): void => void (this.#verifier = verifier);

  discoveryState = (): OAuthDiscoveryState | undefined => this.#discovery;
  saveDiscoveryState = (state: OAuthDiscoveryState): void =>
    void (this.#discovery = state);

  /** What was shown to the user, in order. */
  readonly pages: string[] = [];

  async redirectToAuthorization(url: URL): Promise<void> {
    const cookies = new Map<string, string>();
    let next = url;
    let form: string | undefined;
    while (!next.href.startsWith(REDIRECT_URL)) {
      const cookie = Array.from(cookies, ([name, value]) => `${name}=${value}`).join(
        '; ',
      );
      const post = { method: 'POST', body: new URLSearchParams(form) };
      const response = await fetch(next, {
        redirect: 'manual',
        headers: { cookie },
        ...(form !== undefined && post),
      });
      form = undefined;
      for (const set of response.headers.getSetCookie()) {
        const [, name, value] = /^([^=]+)=([^;]*)/.exec(set) ?? [];
        if (name !== undefined) cookies.set(name, value ?? '');
      }
      const location = response.headers.get('location');
      if (location !== null) {
        next = new URL(location, next);
        continue;
      }
      const page = await response.text();
      if (!page.includes('<form'))
        throw new Error(`${next.href} was answered with ${response.status}: ${page}`);
      this.pages.push(page);
      form = 'decision=allow';
    }
    this.#callback = next.searchParams;
  }

  /** What the authorization server has sent the browser back with, for `transport.finishAuth()`. */
  takeCallback(): URLSearchParams {
    const callback = this.#callback;
    this.#callback = undefined;
    if (!callback) throw new Error('The user was not asked.');
    return callback;
  }
}
