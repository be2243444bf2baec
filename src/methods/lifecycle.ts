import type { Implementation, ServerCapabilities } from '@modelcontextprotocol/server';
import { isLogLevel } from '../wire/notifications.js';
import { arePlainCapabilities, isPlainInfo } from '../wire/era.js';
import { MODERN_REVISIONS, negotiateLegacyRevision } from '../wire/revisions.js';
import { withoutSessions } from '../wire/client-capabilities.js';
import { type CachePolicy, discoveryHints } from './cache-hints.js';
import { type McpMethod, type McpMethods, paramsReader } from './method.js';

/** Declared by every endpoint, also when a list is empty: handlers may be registered later, and are announced then. */
export const CAPABILITIES: ServerCapabilities = Object.freeze({
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { subscribe: true, listChanged: true },
  completions: {},
  logging: {},
});

export interface ServerIdentity {
  readonly serverInfo: Implementation;
  /** How to use the server, for the model. An empty text is left out. */
  readonly instructions: string | undefined;
}

const DONE = Object.freeze({});

/** `initialize` and `ping` of the legacy era, `server/discover` of revision 2026-07-28. */
export function lifecycleMethods(
  { serverInfo, instructions }: ServerIdentity,
  cache: CachePolicy,
  sessions: 'required' | 'off' = 'required',
  extensions: Readonly<Record<string, object>> = {},
): McpMethods {
  const described = { capabilities: CAPABILITIES, ...(instructions && { instructions }) };
  const capabilities = sessions === 'off' ? withoutSessions(CAPABILITIES) : CAPABILITIES;
  const initialize: McpMethod<{ readonly protocolVersion: string }> = {
    era: 'legacy',
    read: paramsReader('InitializeRequest', ({ protocolVersion, capabilities, clientInfo }) =>
      typeof protocolVersion === 'string' && arePlainCapabilities(capabilities) && isPlainInfo(clientInfo)
        ? { protocolVersion }
        : undefined,
    ),
    serve: ({ protocolVersion }) => ({
      protocolVersion: negotiateLegacyRevision(protocolVersion),
      capabilities,
      serverInfo,
      ...(instructions && { instructions }),
    }),
  };
  const ping: McpMethod = { era: 'legacy', read: paramsReader('PingRequest', (params) => params), serve: () => DONE };
  const discover: McpMethod = {
    era: 'modern',
    read: paramsReader('DiscoverRequest', (params) => params),
    serve: () => ({
      supportedVersions: MODERN_REVISIONS,
      ...described,
      ...(Object.keys(extensions).length > 0 && { capabilities: { ...CAPABILITIES, extensions } }),
      ...discoveryHints(cache),
    }),
  };
  return { initialize, ping, 'server/discover': discover };
}

/** `logging/setLevel`: the session keeps the level, once the request has succeeded. */
export function sessionMethods(): McpMethods {
  const setLevel: McpMethod = {
    era: 'legacy',
    read: paramsReader('SetLevelRequest', ({ level }) => (isLogLevel(level) ? { level } : undefined)),
    serve: () => DONE,
  };
  return { 'logging/setLevel': setLevel };
}
