/** @module nestjs-mcp-streamable/prometheus */

export { McpPrometheusModule, type McpPrometheusModuleAsyncOptions } from './mcp-prometheus.module.js';
export { type McpPrometheusOptions, PrometheusPackageError } from './mcp-metrics.js';
