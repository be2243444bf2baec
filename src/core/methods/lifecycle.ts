import type { Implementation } from '@modelcontextprotocol/server';
import { isLogLevel } from '../protocol/log-levels.js';
import { arePlainCapabilities, isPlainInfo } from '../protocol/era.js';
import { MODERN_REVISIONS } from '../protocol/revisions.js';
import { type CachePolicy, discoveryHints } from './cache-hints.js';
import type { EndpointCapabilities } from './capabilities.js';
import type { ServedMethod, ServedMethods } from '../plugins/served-method.js';
import { paramsReader } from './method.js';

export interface ServerIdentity {
  readonly serverInfo: Implementation;
  /** Instructs the model how to use the server. An empty string is omitted. */
  readonly instructions: string | undefined;
}

const DONE = Object.freeze({});

/** Serves `initialize` and `ping` of the legacy era, and `server/discover` of revision 2026-07-28. */
export function lifecycleMethods(
  { serverInfo, instructions }: ServerIdentity,
  cache: CachePolicy,
  declared: EndpointCapabilities,
): ServedMethods {
  const initialize: ServedMethod<{ readonly protocolVersion: string }> = {
    read: paramsReader('InitializeRequest', ({ protocolVersion, capabilities, clientInfo }) =>
      typeof protocolVersion === 'string' && arePlainCapabilities(capabilities) && isPlainInfo(clientInfo)
        ? { protocolVersion }
        : undefined,
    ),
    serve: ({ protocolVersion }) => ({
      protocolVersion,
      capabilities: declared.of('legacy'),
      serverInfo,
      ...(instructions && { instructions }),
    }),
  };
  const ping: ServedMethod = {
    read: paramsReader('PingRequest', (params) => params),
    serve: () => DONE,
  };
  const discover: ServedMethod = {
    read: paramsReader('DiscoverRequest', (params) => params),
    serve: () => ({
      supportedVersions: MODERN_REVISIONS,
      capabilities: declared.of('modern'),
      ...(instructions && { instructions }),
      ...discoveryHints(cache),
    }),
  };
  return { initialize, ping, 'server/discover': discover };
}

/** Serves `logging/setLevel`: the session keeps the level, once the request has succeeded. */
export function sessionMethods(): ServedMethods {
  const setLevel: ServedMethod = {
    read: paramsReader('SetLevelRequest', ({ level }) => (isLogLevel(level) ? { level } : undefined)),
    serve: () => DONE,
  };
  return { 'logging/setLevel': setLevel };
}
