import {
  type ConfigurableModuleAsyncOptions,
  ConfigurableModuleBuilder,
  type DynamicModule,
  Module,
  type ModuleMetadata,
} from '@nestjs/common';
import { assertAsyncOptions } from '../core/common/async-options.js';
import { McpClock, systemClock } from '../core/common/clock.js';
import { AUDIT_NAMES, AUDIT_OPTIONS, type McpAuditOptions, resolveAuditOptions } from './audit.options.js';
import { AuditPlugin, McpAuditService } from './mcp-audit.service.js';

/** What `McpAuditModule.forRoot()` takes: the options, and the modules that a sink injects from. @publicApi */
export interface McpAuditModuleOptions extends McpAuditOptions, Pick<ModuleMetadata, 'imports'> {}

/**
 * `McpAuditModule.forRootAsync()` takes `useFactory` with `inject`, `useClass` or `useExisting`; a class has the method
 * `createMcpAuditOptions()`.
 *
 * @publicApi
 */
export type McpAuditModuleAsyncOptions = ConfigurableModuleAsyncOptions<McpAuditOptions, 'createMcpAuditOptions'>;

type Imports = NonNullable<ModuleMetadata['imports']>;

const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN } = new ConfigurableModuleBuilder<McpAuditOptions>({
  moduleName: 'McpAudit',
})
  .setClassMethodName('forRoot')
  .setFactoryMethodName('createMcpAuditOptions')
  .setExtras<{ imports: Imports }>({ imports: [] }, auditModule)
  .build();

function auditModule(definition: DynamicModule, { imports }: { imports: Imports }): DynamicModule {
  return {
    ...definition,
    // The service is injected anywhere: for a metric, or a health check.
    global: true,
    imports: [...new Set([...(definition.imports ?? []), ...imports])],
    providers: [
      ...(definition.providers ?? []),
      { provide: McpClock, useValue: systemClock },
      { provide: AUDIT_OPTIONS, useFactory: resolveAuditOptions, inject: [MODULE_OPTIONS_TOKEN] },
      McpAuditService,
      AuditPlugin,
    ],
    exports: [McpAuditService],
  };
}

/**
 * Writes one record for each decision of the MCP endpoints of the app: who called what with which arguments, and whether the call
 * was served, failed, was denied by a guard, or was refused before.
 *
 * ```ts
 * imports: [McpStreamableModule.forRoot({ … }), McpAuditModule.forRoot({ sink: AuditTable, redact: ['cardNumber'] })]
 * ```
 *
 * @publicApi
 */
@Module({})
export class McpAuditModule extends ConfigurableModuleClass {
  /** @throws McpOptionError; at start, too, if the app has no McpStreamableModule */
  static override forRoot(options: McpAuditModuleOptions = {}): DynamicModule {
    const { imports: _, ...others } = options;
    resolveAuditOptions(others);
    return super.forRoot(options);
  }

  /** Does the same with options from a factory or a class. @throws McpOptionError; in part at start */
  static override forRootAsync(options: McpAuditModuleAsyncOptions): DynamicModule {
    assertAsyncOptions('McpAuditModule', options, { early: [], made: AUDIT_NAMES });
    return super.forRootAsync(options);
  }
}
