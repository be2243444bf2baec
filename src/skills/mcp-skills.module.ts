import {
  type ConfigurableModuleAsyncOptions,
  ConfigurableModuleBuilder,
  type DynamicModule,
  Module,
} from '@nestjs/common';
import { assertAsyncOptions } from '../core/common/async-options.js';
import { type McpSkillsOptions, resolveSkillsOptions, SKILLS_OPTION_NAMES, SKILLS_OPTIONS } from './skills.options.js';
import { SkillsPlugin } from './skills.plugin.js';

/** Takes the options of `McpSkillsModule.forRootAsync()`. @publicApi */
export type McpSkillsModuleAsyncOptions = ConfigurableModuleAsyncOptions<McpSkillsOptions, 'createMcpSkillsOptions'>;

const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN } = new ConfigurableModuleBuilder<McpSkillsOptions>({
  moduleName: 'McpSkills',
})
  .setClassMethodName('forRoot')
  .setFactoryMethodName('createMcpSkillsOptions')
  .setExtras({}, withSkills)
  .build();

function withSkills(definition: DynamicModule): DynamicModule {
  const options = { provide: SKILLS_OPTIONS, useFactory: resolveSkillsOptions, inject: [MODULE_OPTIONS_TOKEN] };
  return { ...definition, providers: [...(definition.providers ?? []), options, SkillsPlugin] };
}

/**
 * Adds skills to an endpoint: instructions for models that clients list, verify and read, by the extension
 * `io.modelcontextprotocol/skills`. They come from folders, and from methods with `@Skill()`.
 *
 * ```ts
 * imports: [McpStreamableModule.forRoot({ … }), McpSkillsModule.forRoot({ folders: ['skills'] })]
 * ```
 *
 * @see https://modelcontextprotocol.io/extensions/skills/overview
 * @publicApi
 */
@Module({})
export class McpSkillsModule extends ConfigurableModuleClass {
  /**
   * Adds skills to an endpoint.
   *
   * @throws McpOptionError; at start for a folder that cannot be read, and if the endpoint does not exist
   */
  static override forRoot(options: McpSkillsOptions = {}): DynamicModule {
    resolveSkillsOptions(options);
    return super.forRoot(options);
  }

  /** Does the same with options from a factory. @throws McpOptionError as `forRoot` does */
  static override forRootAsync(options: McpSkillsModuleAsyncOptions): DynamicModule {
    assertAsyncOptions('McpSkillsModule', options, { early: [], made: SKILLS_OPTION_NAMES });
    return super.forRootAsync(options);
  }
}
