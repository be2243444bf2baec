/** @module nestjs-mcp-streamable */

export { McpServer, Server } from './sdk/server-factory.js';

export { McpStreamableModule } from './mcp-streamable.module.js';
export type { McpBackend, McpStreamableOptions } from './mcp-streamable.options.js';
export type {
  McpStreamableModuleAsyncOptions,
  McpStreamableModuleOptions,
} from './mcp-streamable.module-definition.js';
export type { McpStreamableExtras } from './http/endpoint-extras.js';
export type { McpEndpointVersion } from './context/endpoint-name.js';

export { McpOptionError } from './common/options.js';
export { Clock, systemClock } from './common/clock.js';

export { McpError, type McpErrorCode, type McpErrorOptions } from './wire/errors.js';
export type { McpEra } from './wire/era.js';
export type { RequestId } from './wire/json-rpc.js';
export { LATEST_LEGACY_REVISION, LEGACY_REVISIONS, MODERN_REVISIONS } from './wire/revisions.js';

export { McpContext, type McpProgress } from './context/mcp-context.js';
export type {
  McpAnswer,
  McpAnswers,
  McpElicitAnswer,
  McpElicitation,
  McpForm,
  McpFormContent,
  McpQuestion,
} from './context/mcp-questions.js';
export {
  type McpPrincipalState,
  type McpState,
  McpStateError,
  type McpStateErrorCode,
  McpUnknownStateError,
} from './context/mcp-state.js';
export { McpExecutionContext, type McpHandlerKind } from './context/mcp-execution-context.js';
export type {
  McpCallEnd,
  McpCallInfo,
  McpCallOutcome,
  McpInstrumentation,
  McpQuestionInfo,
  McpQuestionOutcome,
  McpRefusal,
  McpSessionEnd,
} from './context/mcp-instrumentation.js';
export {
  currentMcpCall,
  type McpCall,
  type McpHttpCall,
  type McpSessionInfo,
  type RouteParams,
} from './context/mcp-call.js';

export {
  AppView,
  Complete,
  McpHandlers,
  type McpHandlersOptions,
  McpMethod,
  Prompt,
  Resource,
  ListResources,
  ResourceTemplate,
  Tool,
  Tools,
} from './handlers/decorators/handler.decorators.js';
export type {
  AppViewCsp,
  AppViewOptions,
  AppViewPermissions,
  McpCacheHints,
  CompleteOptions,
  CompletionValues,
  DescribedOptions,
  HandlerConcurrency,
  LimitedOptions,
  McpMethodOptions,
  PromptArgumentOptions,
  PromptOptions,
  ResourceArgs,
  ResourceOptions,
  McpListedResource,
  McpListedResources,
  McpListResourcesArgs,
  ResourceTemplateArgs,
  ResourceTemplateOptions,
  ToolOptions,
  ToolsOptions,
  ToolTaskOptions,
  ToolUi,
} from './handlers/decorators/handler-options.js';
export { McpArgs, McpCtx } from './handlers/decorators/param.decorators.js';
export {
  toolLog,
  toolProgress,
  type McpLogLevel,
  type ToolEvent,
  type ToolLog,
  type ToolProgress,
  type ToolValue,
} from './handlers/results/tool-event.js';
export {
  audio,
  type EmbeddedFileOptions,
  file,
  type FileOptions,
  type FileSource,
  image,
  type McpContent,
  McpFile,
  resourceLink,
  text,
} from './handlers/results/files.js';
export type { McpHandlerListChange } from './handlers/registry/handler-table.js';
export {
  McpArgumentsError,
  type McpArgumentProblem,
  McpDuplicateHandlerError,
  McpHandlerDefinitionError,
  McpHandlerResultError,
  McpHandlerSignal,
  McpHandlerTimeoutError,
} from './handlers/handlers.errors.js';
export type { McpHandlerOptions } from './handlers/handlers.options.js';
export {
  McpRegistry,
  type CompletionFunction,
  type HandlerFunction,
  type McpHandlerInfo,
  type McpListed,
  type McpRegistration,
  type McpPromptRegistration,
  type McpResourceRegistration,
  type McpResourceTemplateRegistration,
  type McpToolRegistration,
} from './handlers/registry/mcp-registry.js';
export type { McpHandlerSchema, JsonSchema } from './handlers/schema/handler-schema.js';
export type { ArgumentsOf, McpHandlerDecorator, ResultOf } from './handlers/schema/schema-types.js';

export {
  type McpListedTool,
  type McpToolCallEvent,
  type McpToolCallOptions,
  McpToolCaller,
} from './methods/mcp-tool-caller.js';

export { McpMessageBus, type McpLostNode } from './bus/message-bus.js';
export { InMemoryMessageBus } from './bus/in-memory-message-bus.js';

export {
  MCP_DROPPED_SESSION_MS,
  MCP_INBOX_STREAM,
  McpEventStore,
  MCP_MIN_EVENTS,
  type McpAppendOptions,
  type McpAppendResult,
  type McpClaimResult,
  type McpEventStoreStats,
  type McpLastError,
  type McpReaderRef,
  type McpAppendedMessage,
  type McpReadResult,
  type McpStoredEvent,
  type McpStreamHead,
  type McpUnfinishedStream,
} from './stream/event-store.js';
export {
  McpEventLogFullError,
  McpEventStoreError,
  McpSessionGoneError,
  McpStreamEndedError,
  McpStreamNotFoundError,
  McpStreamOverflowError,
} from './stream/event-store.errors.js';
export { InMemoryEventStore } from './stream/in-memory-event-store.js';
export type { McpEventLogOptions } from './stream/stream.options.js';

export {
  McpSessionStore,
  type McpCreateOutcome,
  type McpSessionRecord,
  type McpNewSessionRecord,
  type McpSessionCaps,
  type McpSessionPatch,
} from './session/store/session-store.js';
export { InMemorySessionStore } from './session/store/in-memory-session-store.js';

export { McpStateStore, type McpStateQuota } from './state/state-store.js';
export { InMemoryStateStore } from './state/in-memory-state-store.js';
export type { McpStateOptions } from './state/state.options.js';

export { McpSession } from './session/live/mcp-session.js';
export type { McpSessionDetails } from './session/live/session-state.js';
export { createMcpSession, type McpStandaloneSessionOptions } from './standalone/standalone-session.js';
export { type McpCounts, type McpNodeCounts, McpSessionService } from './session/mcp-session.service.js';
export { type McpHealth, McpHealthIndicator } from './health/mcp-health.indicator.js';
export { McpLiveModule } from './live/mcp-live.module.js';
export type { McpLiveOptions } from './live/live.options.js';
export type { McpSessionEvent, McpSessionEndReason } from './session/session-events.js';
export { McpServerRequestError, type McpServerRequestErrorCode } from './context/server-request.error.js';
export { McpServerFactoryError, McpUnknownSessionError } from './session/session.errors.js';
export type { McpExtensionOptions } from './methods/capabilities.js';
export type { McpRequestStateOptions } from './questions/request-state.options.js';
export type { McpEras, McpProtocolOptions } from './endpoint/protocol.options.js';
export type { McpSessionOptions } from './session/session.options.js';
export type { McpResponseMode } from './exchange/exchange.js';
export type { McpResponseOptions } from './exchange/response.options.js';

export type { McpServerContext, McpServerFunction } from './sdk/server-factory.js';

export { mcpCors, type McpCors, type McpCorsOptions } from './http/mcp-cors.js';
export { serveMcpSession } from './standalone/serve-mcp-session.js';
export { McpStderrLogger, type McpStdioOptions, type McpStdioServer, serveMcpStdio } from './stdio/serve-mcp-stdio.js';
export { McpController } from './http/mcp.controller.js';
export { McpSessionGuard } from './http/mcp-session.guard.js';
export type { McpHttpOptions } from './http/http.options.js';
export type { McpRequest, McpPrincipalFunction, McpPrincipalId } from './http/principal.js';
export type { HostOriginOptions } from './http/edge/host-origin.js';
export { getMcpToken, InjectMcp } from './context/inject-mcp.js';
