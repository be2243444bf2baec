/**
 * What controllers and providers with handlers need: the same as in the main entry, without loading the module and the SDK. For apps
 * that turn MCP on by a flag.
 *
 * @module nestjs-mcp-streamable/decorators
 */

export {
  AppView,
  Complete,
  Confirm,
  ListResources,
  McpHandlers,
  McpMethod,
  Prompt,
  Resource,
  ResourceTemplate,
  Tool,
  Tools,
} from '../core/handlers/decorators/handler.decorators.js';
export { McpCatalogue, McpToolName } from '../catalogue/catalogue.decorators.js';
export type { McpCatalogueTool } from '../catalogue/catalogue-tool.js';
export type { McpCaller } from '../core/calls/mcp-caller.js';
export { McpArgs, McpCtx } from '../core/handlers/decorators/param.decorators.js';
export { McpContext } from '../core/calls/mcp-context.js';
export { McpExecutionContext } from '../core/calls/mcp-execution-context.js';
export { currentMcpCall } from '../core/calls/mcp-call.js';
export { McpError } from '../core/protocol/errors.js';
export { McpHandlerSignal } from '../core/calls/handler-signals.js';
export { toolLog, toolProgress, type ToolEvent } from '../core/handlers/results/tool-event.js';
export { audio, file, image, resourceLink, text } from '../core/handlers/results/files.js';
