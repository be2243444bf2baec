/** @module nestjs-mcp-streamable */

export { McpStreamableModule } from './mcp-streamable.module.js';
export type { McpStreamableOptions } from './mcp-streamable.options.js';
export type {
  McpStreamableModuleAsyncOptions,
  McpStreamableModuleOptions,
} from './mcp-streamable.module-definition.js';
export type { McpStreamableExtras } from './core/http/endpoint-extras.js';
export type { McpEras } from './core/eras/protocol.options.js';
export type { McpResponseMode } from './core/calls/exchange.js';
export { McpOptionError } from './core/common/options.js';

export { McpError, type McpErrorCode } from './core/protocol/errors.js';
export type { McpEra } from './core/protocol/era.js';

export { McpContext } from './core/calls/mcp-context.js';
export type { McpAnswer, McpElicitAnswer, McpElicitation, McpForm, McpQuestion } from './core/calls/mcp-questions.js';
export { type McpPrincipalState, type McpState, McpStateError, McpUnknownStateError } from './core/calls/mcp-state.js';
export { McpExecutionContext } from './core/calls/mcp-execution-context.js';
export type {
  McpCallEnd,
  McpCallInfo,
  McpCallOutcome,
  McpInstrumentation,
  McpQuestionInfo,
  McpQuestionOutcome,
  McpRefusal,
  McpSessionEnd,
} from './core/calls/mcp-instrumentation.js';
export { McpEndpointHost, type McpEndpointPlugin, McpPlugin } from './core/plugins/mcp-plugin.js';
export { currentMcpCall, type McpCall, type McpHttpCall, type McpSessionInfo } from './core/calls/mcp-call.js';

export {
  AppView,
  Complete,
  Confirm,
  McpHandlers,
  McpMethod,
  Prompt,
  Resource,
  ListResources,
  ResourceTemplate,
  Tool,
  Tools,
} from './core/handlers/decorators/handler.decorators.js';
export type {
  AppViewOptions,
  CompleteOptions,
  McpMethodOptions,
  PromptOptions,
  ResourceOptions,
  McpListedResource,
  McpListedResources,
  McpListResourcesArgs,
  ResourceTemplateOptions,
  ToolOptions,
  ToolsOptions,
} from './core/handlers/decorators/handler-options.js';
export { McpCatalogue, type McpCatalogueOptions, McpToolName } from './catalogue/catalogue.decorators.js';
export type { McpCatalogueTool } from './catalogue/catalogue-tool.js';
export type { McpCaller } from './core/calls/mcp-caller.js';
export type { McpCacheHints } from './core/handlers/handlers.options.js';
export { McpArgs, McpCtx } from './core/handlers/decorators/param.decorators.js';
export {
  toolLog,
  toolProgress,
  type McpLogLevel,
  type ToolEvent,
  type ToolLog,
  type ToolProgress,
} from './core/handlers/results/tool-event.js';
export { audio, file, image, type McpContent, McpFile, resourceLink, text } from './core/handlers/results/files.js';
export { type McpStructured, structured, toolResult } from './core/handlers/results/returned-as.js';
export { McpHandlerSignal } from './core/calls/handler-signals.js';
export {
  McpArgumentsError,
  McpDuplicateHandlerError,
  McpHandlerDefinitionError,
  McpHandlerResultError,
  McpHandlerTimeoutError,
} from './core/handlers/handlers.errors.js';
export type { McpHandlerSchema } from './core/handlers/schema/handler-schema.js';
export type { McpHandlerDecorator } from './core/handlers/schema/schema-types.js';
export { McpRegistry, type McpHandlerInfo, type McpRegistration } from './core/handlers/registry/mcp-registry.js';
export type {
  McpHandlerFunction,
  McpPromptRegistration,
  McpResourceRegistration,
  McpResourceTemplateRegistration,
  McpToolRegistration,
} from './core/handlers/registry/registered-entries.js';
export {
  type McpListedTool,
  type McpToolCallEvent,
  type McpToolCallOptions,
  McpToolCaller,
} from './core/methods/mcp-tool-caller.js';

export { McpConfirmations } from './effects/mcp-confirmations.js';

export { McpSession } from './core/sessions/running/mcp-session.js';
export type { McpSessionDetails } from './core/sessions/running/session-state.js';
export { type McpCounts, McpSessionService } from './core/sessions/mcp-session.service.js';
export type { McpSessionEvent, McpSessionEndReason } from './core/sessions/session-events.js';
export { McpUnknownSessionError } from './core/sessions/session.errors.js';
export { McpServerRequestError } from './core/calls/server-request.error.js';
export { type McpHealth, McpHealthIndicator } from './core/nodes/mcp-health.indicator.js';

export { mcpCors, type McpCors } from './core/http/mcp-cors.js';
export { McpController } from './core/http/mcp.controller.js';
export { mcpServerJson, type McpServerJsonOptions } from './card/server-json.js';
export type { McpServerCardOptions } from './card/server-card.options.js';
export { McpSessionGuard } from './core/http/mcp-session.guard.js';
export type { McpRequest, McpPrincipalFunction } from './core/http/principal.js';
export { getMcpToken, InjectMcp } from './core/calls/inject-mcp.js';
