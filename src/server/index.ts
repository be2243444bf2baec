/**
 * Exports the SDK's classes for apps with servers of their own (option `server`), from the copy that this package uses.
 *
 * @module nestjs-mcp-streamable/server
 */

export { McpServer, Server, type McpServerContext, type McpServerFunction } from './server-factory.js';
export { McpServerFactoryError } from '../core/sessions/session.errors.js';
export { LEGACY_REVISIONS, MODERN_REVISIONS } from '../core/protocol/revisions.js';
