export { StreamableClientTransport } from './streamable-client-transport.js';
export { TaskTransport } from './task-transport.js';
export type {
  FetchLike,
  HeadersSource,
  McpClientInstrumentation,
  McpClientRequest,
  ReconnectOptions,
  ReplayPolicy,
  StreamableClientTransportOptions,
} from './client.options.js';

export type { AuthChallenge } from './auth-challenge.js';
export type { ClientTransportState, ReconnectEvent, RecoveryEvent } from './client-session.js';
export {
  ClientTransportError,
  type ClientTransportErrorCode,
  HttpStatusError,
  HttpUnauthorizedError,
  SessionLostError,
  StreamLostError,
  UnexpectedContentError,
} from './client.errors.js';
export { getMcpToken, InjectMcp } from '../context/inject-mcp.js';
export { McpClientModule } from './nest/mcp-client.module.js';
export type {
  McpClientAuth,
  McpClientModuleExtras,
  McpClientModuleOptions,
  McpClientOptions,
} from './nest/mcp-client.options.js';
export { McpClient, McpClientPackageError, type McpToolCallEvent } from './nest/mcp-client.js';
