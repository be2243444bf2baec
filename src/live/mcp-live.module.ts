import {
  type ConfigurableModuleAsyncOptions,
  ConfigurableModuleBuilder,
  type DynamicModule,
  Module,
} from '@nestjs/common';
import { assertAsyncOptions } from '../core/common/async-options.js';
import { McpClock, systemClock } from '../core/common/clock.js';
import { createLiveController } from './live.controller.js';
import { LiveFeed } from './live-feed.js';
import {
  EARLY_NAMES,
  LIVE_OPTIONS,
  MADE_NAMES,
  type MadeLiveOptions,
  type McpLiveOptions,
  resolveLiveOptions,
} from './live.options.js';

type EarlyOptions = Pick<McpLiveOptions, (typeof EARLY_NAMES)[number]>;

/** Takes the options of `McpLiveModule.forRootAsync()`. @publicApi */
export interface McpLiveModuleAsyncOptions
  extends
    Omit<ConfigurableModuleAsyncOptions<MadeLiveOptions, 'createMcpLiveOptions'>, 'imports'>,
    Pick<McpLiveOptions, 'path' | 'guards' | 'unguarded' | 'decorators' | 'imports'> {}

const NO_EARLY_OPTIONS = Object.fromEntries(EARLY_NAMES.map((name) => [name, undefined])) as EarlyOptions;

const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN } = new ConfigurableModuleBuilder<MadeLiveOptions>({
  moduleName: 'McpLive',
})
  .setClassMethodName('forRoot')
  .setFactoryMethodName('createMcpLiveOptions')
  .setExtras<EarlyOptions>(NO_EARLY_OPTIONS, withPage)
  .build();

function withPage(definition: DynamicModule, given: EarlyOptions): DynamicModule {
  const early = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  const resolved = resolveLiveOptions(early);
  const options = {
    provide: LIVE_OPTIONS,
    useFactory: (made: MadeLiveOptions) => resolveLiveOptions({ ...made, ...early }),
    inject: [MODULE_OPTIONS_TOKEN],
  };
  return {
    ...definition,
    imports: [...new Set([...(definition.imports ?? []), ...resolved.imports])],
    controllers: [createLiveController(resolved)],
    providers: [...(definition.providers ?? []), { provide: McpClock, useValue: systemClock }, options, LiveFeed],
  };
}

/**
 * A page that shows operators what the MCP endpoints of the app do on this node: sessions, calls, tools, events, the state of
 * stores and bus. It never shows session ids and tokens, and arguments and results with the option `payloads` alone. Tools can be tried.
 *
 * ```ts
 * imports: [McpStreamableModule.forRoot({ … }), McpLiveModule.forRoot({ guards: [AdminGuard], imports: [AuthModule] })]
 * ```
 *
 * @publicApi
 */
@Module({})
export class McpLiveModule extends ConfigurableModuleClass {
  /** @throws McpOptionError; at start, too, if the app has no McpStreamableModule */
  static override forRoot(options: McpLiveOptions): DynamicModule {
    resolveLiveOptions(options);
    return super.forRoot(options);
  }

  /**
   * Does the same with options from a factory; those that are needed before it runs stand beside it: `path`, `guards`, `unguarded`, `decorators` and `imports`.
   *
   * @throws McpOptionError as `forRoot` does
   */
  static override forRootAsync(options: McpLiveModuleAsyncOptions): DynamicModule {
    assertAsyncOptions('McpLiveModule', options, { early: EARLY_NAMES, made: MADE_NAMES });
    return super.forRootAsync(options);
  }
}
