export { McpPrometheusModule } from './mcp-prometheus.module.js';
export { type McpPrometheusOptions, PrometheusPackageError } from './mcp-metrics.js';
