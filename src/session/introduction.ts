import type { McpSessionInfo } from '../context/mcp-call.js';
import type { InitializeParams } from './session-store.js';

/** Who is at the other end, as far as it has said so: nothing at first, then what stands in its `initialize`. */
export function introduced(info: Unintroduced, params: Partial<InitializeParams> = {}): McpSessionInfo {
  const { clientInfo = { name: 'unknown', version: '0' }, capabilities: clientCapabilities = {} } = params;
  return { ...info, clientInfo, clientCapabilities };
}

type Unintroduced = Pick<McpSessionInfo, 'id' | 'principal' | 'protocolVersion' | 'routeParams'>;
