import { type DynamicModule, Module } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { check } from '../common/option-checks.js';
import { McpMetrics, type McpPrometheusOptions, PROMETHEUS_OPTIONS } from './mcp-metrics.js';

/**
 * Metrics of all MCP endpoints of the app, in a registry of prom-client. The app serves the registry, as it does for its own
 * metrics.
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
    check.group('options', options);
    if (options.registry !== undefined)
      check.implementation('registry', options.registry, ['registerMetric', 'getSingleMetric', 'removeSingleMetric']);
    return {
      module: McpPrometheusModule,
      imports: [DiscoveryModule],
      providers: [{ provide: PROMETHEUS_OPTIONS, useValue: options }, McpMetrics],
    };
  }
}
