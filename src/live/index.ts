/** @module nestjs-mcp-streamable/live */

export { McpLiveModule, type McpLiveModuleAsyncOptions } from './mcp-live.module.js';
export type { McpLiveOptions } from './live.options.js';
