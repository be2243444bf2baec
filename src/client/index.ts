/** @module nestjs-mcp-streamable/client */

export { StreamableClientTransport } from './streamable-client-transport.js';
export { McpTaskTransport } from './task-transport.js';
export type {
  McpFetchLike,
  McpHeadersSource,
  McpClientInstrumentation,
  McpClientRequest,
  McpReconnectOptions,
  McpReplayPolicy,
  StreamableClientTransportOptions,
} from './client.options.js';

export type { McpAuthChallenge } from './auth-challenge.js';
export type { McpClientTransportState, McpReconnectEvent, McpRecoveryEvent } from './client-session.js';
export {
  McpClientTransportError,
  type McpClientTransportErrorCode,
  McpHttpStatusError,
  McpHttpUnauthorizedError,
  McpOutputSchemaError,
  McpSessionLostError,
  McpStreamLostError,
  McpUnexpectedContentError,
} from './client.errors.js';
export { getMcpToken, InjectMcp } from '../core/calls/inject-mcp.js';
export { McpClientModule } from './nest/mcp-client.module.js';
export type {
  McpClientAuth,
  McpClientModuleExtras,
  McpClientModuleOptions,
  McpClientOptions,
} from './nest/mcp-client.options.js';
export { McpClient, McpClientPackageError, type McpToolCallEvent } from './nest/mcp-client.js';
export {
  McpCallRelay,
  type McpCallRelayOptions,
  type McpRelayedParams,
  type McpRelayedSend,
} from './nest/call-relay.js';
