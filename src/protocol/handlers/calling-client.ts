import type { ServerContext } from '@modelcontextprotocol/server';
import type { McpCall } from '../../context/mcp-call.js';
import type { InitializeParams } from '../../session/session-store.js';
import { CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY } from '../../wire/era.js';
import { MODERN_REVISIONS } from '../../wire/revisions.js';

/** A modern client need not say who it is. */
const UNNAMED = { name: 'unknown', version: '' };

interface ClientEnvelope {
  [CLIENT_INFO_META_KEY]?: InitializeParams['clientInfo'];
  [CLIENT_CAPABILITIES_META_KEY]?: InitializeParams['capabilities'];
}

/** What the client of a call said of itself: in `initialize`, or with this request. */
export function callingClient({ session }: McpCall, { mcpReq }: ServerContext): InitializeParams {
  if (session) {
    const { protocolVersion, clientInfo, clientCapabilities } = session;
    return { protocolVersion, capabilities: { ...clientCapabilities }, clientInfo };
  }
  // Checked before the request was dispatched (M2); the SDK keeps the type to itself.
  const { [CLIENT_INFO_META_KEY]: clientInfo = UNNAMED, [CLIENT_CAPABILITIES_META_KEY]: capabilities = {} } =
    (mcpReq.envelope ?? {}) as ClientEnvelope;
  return { protocolVersion: MODERN_REVISIONS[0], capabilities, clientInfo };
}
