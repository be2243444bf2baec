/** @module nestjs-mcp-streamable/live */

export { McpLiveModule } from './mcp-live.module.js';
export type { McpLiveOptions } from './live.options.js';
