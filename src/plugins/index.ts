/**
 * What the author of a plugin needs. The main entry, which is for authors of apps, has the first three of these names.
 *
 * @module nestjs-mcp-streamable/plugins
 */

export {
  McpEndpointHost,
  type McpEndpointPlugin,
  McpPlugin,
  type McpCallHooks,
  type McpHandlerHooks,
  type McpRun,
  type McpRunHooks,
  type Passed as McpPassed,
} from '../core/plugins/mcp-plugin.js';
export { passed } from '../core/plugins/run-hooks.js';
export type { McpRing } from '../core/plugins/rings.js';
export type { McpEntering } from '../core/calls/mcp-context.js';
export type { McpHandlerTarget, McpTarget } from '../core/calls/mcp-target.js';
export {
  partOf,
  type BareHandler as McpBareHandler,
  type HandlerSource as McpHandlerSource,
  type ListedKind as McpListedKind,
  type SourceItem as McpSourceItem,
  type SourcePage as McpSourcePage,
} from '../core/plugins/handler-source.js';
