/** @module nestjs-mcp-streamable/audit */

export { McpAuditModule, type McpAuditModuleAsyncOptions, type McpAuditModuleOptions } from './mcp-audit.module.js';
export { McpAuditService } from './mcp-audit.service.js';
export type { McpAuditOptions, McpAuditRedaction } from './audit.options.js';
export type { McpAuditOutcome, McpAuditRecord, McpAuditSink } from './audit-record.js';
