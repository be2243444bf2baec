import {
  type ConfigurableModuleAsyncOptions,
  ConfigurableModuleBuilder,
  type DynamicModule,
  Module,
} from '@nestjs/common';
import { assertAsyncOptions } from '../core/common/async-options.js';
import { contract, type OptionTable, resolveGroup } from '../core/common/options.js';
import { McpMetrics, type McpPrometheusOptions, PROMETHEUS_OPTIONS } from './mcp-metrics.js';

const PROMETHEUS_TABLE = {
  registry: contract(undefined, ['registerMetric', 'getSingleMetric', 'removeSingleMetric']),
} satisfies OptionTable<McpPrometheusOptions>;

/** Takes the options of `McpPrometheusModule.forRootAsync()`. @publicApi */
export type McpPrometheusModuleAsyncOptions = ConfigurableModuleAsyncOptions<
  McpPrometheusOptions,
  'createMcpPrometheusOptions'
>;

const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN } = new ConfigurableModuleBuilder<McpPrometheusOptions>({
  moduleName: 'McpPrometheus',
})
  .setClassMethodName('forRoot')
  .setFactoryMethodName('createMcpPrometheusOptions')
  .setExtras({}, withMetrics)
  .build();

function withMetrics(definition: DynamicModule): DynamicModule {
  const options = {
    provide: PROMETHEUS_OPTIONS,
    useFactory: (made: McpPrometheusOptions) => resolveGroup(PROMETHEUS_TABLE, made),
    inject: [MODULE_OPTIONS_TOKEN],
  };
  return {
    ...definition,
    providers: [...(definition.providers ?? []), options, McpMetrics],
  };
}

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
export class McpPrometheusModule extends ConfigurableModuleClass {
  /** @throws McpOptionError; at start PrometheusPackageError if `prom-client` is not installed */
  static override forRoot(options: McpPrometheusOptions = {}): DynamicModule {
    resolveGroup(PROMETHEUS_TABLE, options);
    return super.forRoot(options);
  }

  /** Does the same with options from a factory. @throws McpOptionError as `forRoot` does */
  static override forRootAsync(options: McpPrometheusModuleAsyncOptions): DynamicModule {
    assertAsyncOptions('McpPrometheusModule', options, { early: [], made: Object.keys(PROMETHEUS_TABLE) });
    return super.forRootAsync(options);
  }
}
