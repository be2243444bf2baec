/** @module nestjs-mcp-streamable/stdio */

export { McpStderrLogger, type McpStdioOptions, type McpStdioServer, serveMcpStdio } from './serve-mcp-stdio.js';
