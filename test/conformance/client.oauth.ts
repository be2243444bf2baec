import {
  auth,
  type AuthOptions,
  computeScopeUnion,
  isStrictScopeSuperset,
  type OAuthClientInformationMixed,
  type OAuthClientMetadata,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type OAuthTokens,
  UnauthorizedError,
} from '@modelcontextprotocol/client';
import type { McpHttpUnauthorizedError, StreamableClientTransportOptions } from 'nestjs-mcp-streamable/client';

const REDIRECT_URL = 'http://localhost:3000/callback';

/**
 * A user who agrees to everything at once: the redirection is followed here, and its code kept. All the protocol is the
 * SDK's; this only remembers.
 */
export class AgreeingUser implements OAuthClientProvider {
  readonly redirectUrl = REDIRECT_URL;
  readonly clientMetadata: OAuthClientMetadata = { client_name: 'conformance', redirect_uris: [REDIRECT_URL] };
  readonly clientMetadataUrl: string | undefined = 'https://conformance-test.local/client-metadata.json';
  #information: OAuthClientInformationMixed | undefined;
  #tokens: OAuthTokens | undefined;
  #verifier = '';
  #discovery: OAuthDiscoveryState | undefined;
  #agreement: { code: string; iss: string | undefined } | undefined;

  constructor(registered?: { client_id: string; client_secret: string }) {
    if (!registered) return;
    this.#information = registered;
    this.clientMetadataUrl = undefined;
  }

  clientInformation = (): OAuthClientInformationMixed | undefined => this.#information;
  saveClientInformation(information: OAuthClientInformationMixed): void {
    this.#information = information;
  }
  tokens = (): OAuthTokens | undefined => this.#tokens;
  saveTokens(tokens: OAuthTokens): void {
    this.#tokens = tokens;
  }
  codeVerifier = (): string => this.#verifier;
  saveCodeVerifier(verifier: string): void {
    this.#verifier = verifier;
  }
  discoveryState = (): OAuthDiscoveryState | undefined => this.#discovery;
  saveDiscoveryState(state: OAuthDiscoveryState): void {
    this.#discovery = state;
  }

  invalidateCredentials(scope: 'all' | 'client' | 'tokens' | 'verifier' | 'discovery'): void {
    const all = scope === 'all';
    if (all || scope === 'client') this.#information = undefined;
    if (all || scope === 'tokens') this.#tokens = undefined;
    if (all || scope === 'verifier') this.#verifier = '';
    if (all || scope === 'discovery') this.#discovery = undefined;
  }

  async redirectToAuthorization(url: URL): Promise<void> {
    const { headers } = await fetch(url, { redirect: 'manual' });
    const { searchParams } = new URL(headers.get('location') ?? 'about:blank');
    const code = searchParams.get('code');
    if (code === null) throw new Error(`No code came back from ${url.origin}.`);
    this.#agreement = { code, iss: searchParams.get('iss') ?? undefined };
  }

  /** What the user has agreed to last; once. */
  takeAgreement(): { code: string; iss: string | undefined } {
    const agreement = this.#agreement;
    this.#agreement = undefined;
    if (!agreement) throw new UnauthorizedError('The user was not asked.');
    return agreement;
  }
}

/** How a transport gets its credentials: from the provider, and by the SDK's `auth` when they are refused. */
export function oauth(
  serverUrl: string,
  provider: OAuthClientProvider,
): Pick<StreamableClientTransportOptions, 'headers' | 'onUnauthorized'> {
  return {
    headers: async () => {
      const headers: Record<string, string> = {};
      const tokens = await provider.tokens();
      if (tokens) headers.authorization = `Bearer ${tokens.access_token}`;
      return headers;
    },
    onUnauthorized: (error) => authorize(serverUrl, provider, error),
  };
}

async function authorize(
  serverUrl: string,
  provider: OAuthClientProvider,
  { status, challenge }: McpHttpUnauthorizedError,
): Promise<void> {
  const granted = (await provider.tokens())?.scope;
  // What was granted before is kept when more is needed (SEP-2350).
  const scope = status === 403 ? computeScopeUnion(granted, challenge?.scope) : challenge?.scope;
  // A token that no longer counts may mean that another authorization server is in charge (SEP-2352).
  if (status === 401) await provider.invalidateCredentials?.('discovery');
  const metadata = challenge?.resourceMetadata;
  const options: AuthOptions = {
    serverUrl,
    ...(scope !== undefined && { scope }),
    ...(metadata !== undefined && { resourceMetadataUrl: new URL(metadata) }),
  };
  const result = await auth(provider, { ...options, forceReauthorization: isStrictScopeSuperset(scope, granted) });
  if (result === 'AUTHORIZED' || !(provider instanceof AgreeingUser)) return;
  const { code, iss } = provider.takeAgreement();
  await auth(provider, { ...options, authorizationCode: code, ...(iss !== undefined && { iss }) });
}
