import { type OAuthClientProvider, withOAuth } from '@modelcontextprotocol/client';
import {
  McpHttpUnauthorizedError,
  StreamableClientTransport,
} from 'nestjs-mcp-streamable/client';

export function fresh(tokens: {
  current(): Promise<string>;
  refresh(scope?: string): Promise<void>;
}) {
  // #region refresh
  return new StreamableClientTransport('https://orders.example.com/mcp', {
    headers: async () => ({ authorization: `Bearer ${await tokens.current()}` }),
    onUnauthorized: ({ challenge }) => tokens.refresh(challenge?.scope),
  });
  // #endregion
}

export function authorized(provider: OAuthClientProvider) {
  const url = 'https://orders.example.com/mcp';
  // #region oauth
  return new StreamableClientTransport(url, { fetch: withOAuth(provider, url)(fetch) });
  // #endregion
}

export function explain(error: unknown): string {
  // #region errors
  if (error instanceof McpHttpUnauthorizedError)
    return `Ask for the scope ${error.challenge?.scope}.`;
  // #endregion
  return String(error);
}
