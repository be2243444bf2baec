/**
 * Exports a session without the module and without Nest's application.
 *
 * @module nestjs-mcp-streamable/standalone
 */

export { createMcpSession, type McpStandaloneSessionOptions } from './standalone-session.js';
export { serveMcpSession } from './serve-mcp-session.js';
