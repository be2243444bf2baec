/**
 * What controllers and providers with handlers need: the same as in the main entry, without loading the module and the SDK. For apps
 * that turn MCP on by a flag.
 *
 * @module nestjs-mcp-streamable/decorators
 */

export {
  AppView,
  Complete,
  ListResources,
  McpHandlers,
  McpMethod,
  Prompt,
  Resource,
  ResourceTemplate,
  Tool,
  Tools,
} from '../handlers/decorators/handler.decorators.js';
export { McpArgs, McpCtx } from '../handlers/decorators/param.decorators.js';
export { McpContext } from '../context/mcp-context.js';
export { McpExecutionContext } from '../context/mcp-execution-context.js';
export { currentMcpCall } from '../context/mcp-call.js';
export { McpError } from '../wire/errors.js';
export { McpHandlerSignal } from '../handlers/handlers.errors.js';
export { toolLog, toolProgress, type ToolEvent } from '../handlers/results/tool-event.js';
export { audio, file, image, resourceLink, text } from '../handlers/results/files.js';
