/**
 * For apps with servers of their own (option `server`): the SDK's classes, from the copy that this package uses.
 *
 * @module nestjs-mcp-streamable/server
 */

export { McpServer, Server, type McpServerContext, type McpServerFunction } from '../sdk/server-factory.js';
export { McpServerFactoryError } from '../session/session.errors.js';
export { LEGACY_REVISIONS, MODERN_REVISIONS } from '../wire/revisions.js';
