import { type DynamicModule, Module } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { contract, type OptionTable, resolveOptions } from '../core/common/options.js';
import { McpMetrics, type McpPrometheusOptions, PROMETHEUS_OPTIONS } from './mcp-metrics.js';

const PROMETHEUS_TABLE = {
  registry: contract(undefined, ['registerMetric', 'getSingleMetric', 'removeSingleMetric']),
} satisfies OptionTable<McpPrometheusOptions>;

/**
 * Registers the metrics of all MCP endpoints of the app in a registry of prom-client. The app serves the registry, as
 * it does for its own metrics.
 *
 * ```ts
 * imports: [McpStreamableModule.forRoot({ … }), McpPrometheusModule.forRoot()]
 * ```
 *
 * @publicApi
 */
@Module({})
export class McpPrometheusModule {
  /** @throws McpOptionError; at start PrometheusPackageError if `prom-client` is not installed */
  static forRoot(options: McpPrometheusOptions = {}): DynamicModule {
    return {
      module: McpPrometheusModule,
      imports: [DiscoveryModule],
      providers: [{ provide: PROMETHEUS_OPTIONS, useValue: resolveOptions(PROMETHEUS_TABLE, options) }, McpMetrics],
    };
  }
}
