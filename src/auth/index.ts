/** @module nestjs-mcp-streamable/auth */

export type { AuthInfo, OAuthTokenVerifier } from '@modelcontextprotocol/server';
export type { McpAuthOption, McpAuthOptions, McpJwtOptions } from './auth.options.js';
export { McpBearerGuard } from './bearer.guard.js';
export { McpAuth, RequireScopes, type RequireScopesOptions } from './require-scopes.js';
export type { McpScopeImplication } from './scopes.js';
export { McpInsufficientScopeError } from './token.errors.js';
