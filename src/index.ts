/** @module nestjs-mcp-streamable */

export { McpStreamableModule } from './mcp-streamable.module.js';
export type { McpStreamableOptions } from './mcp-streamable.options.js';
export type {
  McpStreamableModuleAsyncOptions,
  McpStreamableModuleOptions,
} from './mcp-streamable.module-definition.js';
export type { McpStreamableExtras } from './http/endpoint-extras.js';
export type { McpEras } from './endpoint/protocol.options.js';
export type { McpResponseMode } from './exchange/exchange.js';
export { McpOptionError } from './common/options.js';

export { McpError, type McpErrorCode } from './wire/errors.js';
export type { McpEra } from './wire/era.js';

export { McpContext } from './context/mcp-context.js';
export type { McpAnswer, McpElicitAnswer, McpElicitation, McpForm, McpQuestion } from './context/mcp-questions.js';
export { type McpPrincipalState, type McpState, McpStateError, McpUnknownStateError } from './context/mcp-state.js';
export { McpExecutionContext } from './context/mcp-execution-context.js';
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
export { currentMcpCall, type McpCall, type McpHttpCall, type McpSessionInfo } from './context/mcp-call.js';

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
  AppViewOptions,
  CompleteOptions,
  McpCacheHints,
  McpMethodOptions,
  PromptOptions,
  ResourceOptions,
  McpListedResource,
  McpListedResources,
  McpListResourcesArgs,
  ResourceTemplateOptions,
  ToolOptions,
  ToolsOptions,
} from './handlers/decorators/handler-options.js';
export { McpArgs, McpCtx } from './handlers/decorators/param.decorators.js';
export {
  toolLog,
  toolProgress,
  type McpLogLevel,
  type ToolEvent,
  type ToolLog,
  type ToolProgress,
} from './handlers/results/tool-event.js';
export { audio, file, image, type McpContent, McpFile, resourceLink, text } from './handlers/results/files.js';
export {
  McpArgumentsError,
  McpDuplicateHandlerError,
  McpHandlerDefinitionError,
  McpHandlerResultError,
  McpHandlerSignal,
  McpHandlerTimeoutError,
} from './handlers/handlers.errors.js';
export type { McpHandlerSchema } from './handlers/schema/handler-schema.js';
export type { McpHandlerDecorator } from './handlers/schema/schema-types.js';
export {
  McpRegistry,
  type McpHandlerFunction,
  type McpHandlerInfo,
  type McpRegistration,
  type McpPromptRegistration,
  type McpResourceRegistration,
  type McpResourceTemplateRegistration,
  type McpToolRegistration,
} from './handlers/registry/mcp-registry.js';
export {
  type McpListedTool,
  type McpToolCallEvent,
  type McpToolCallOptions,
  McpToolCaller,
} from './methods/mcp-tool-caller.js';

export { McpSession } from './session/live/mcp-session.js';
export type { McpSessionDetails } from './session/live/session-state.js';
export { type McpCounts, McpSessionService } from './session/mcp-session.service.js';
export type { McpSessionEvent, McpSessionEndReason } from './session/session-events.js';
export { McpUnknownSessionError } from './session/session.errors.js';
export { McpServerRequestError } from './context/server-request.error.js';
export { type McpHealth, McpHealthIndicator } from './health/mcp-health.indicator.js';

export { mcpCors, type McpCors } from './http/mcp-cors.js';
export { McpController } from './http/mcp.controller.js';
export { McpSessionGuard } from './http/mcp-session.guard.js';
export type { McpRequest, McpPrincipalFunction } from './http/principal.js';
export { getMcpToken, InjectMcp } from './context/inject-mcp.js';
