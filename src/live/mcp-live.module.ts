import { type DynamicModule, Module } from '@nestjs/common';
import { McpClock, systemClock } from '../core/common/clock.js';
import { createLiveController } from './live.controller.js';
import { LiveFeed } from './live-feed.js';
import { LIVE_OPTIONS, type McpLiveOptions, resolveLiveOptions } from './live.options.js';

/**
 * A page that shows operators what the MCP endpoints of the app do on this node: sessions, calls, tools, events, the state of
 * stores and bus. It never shows arguments, results, session ids or tokens.
 *
 * ```ts
 * imports: [McpStreamableModule.forRoot({ … }), McpLiveModule.forRoot({ guards: [AdminGuard], imports: [AuthModule] })]
 * ```
 *
 * @publicApi
 */
@Module({})
export class McpLiveModule {
  /** @throws McpOptionError; at start, too, if the app has no McpStreamableModule */
  static forRoot(options: McpLiveOptions): DynamicModule {
    const resolved = resolveLiveOptions(options);
    return {
      module: McpLiveModule,
      imports: resolved.imports,
      controllers: [createLiveController(resolved)],
      providers: [
        { provide: McpClock, useValue: systemClock },
        { provide: LIVE_OPTIONS, useValue: resolved },
        LiveFeed,
      ],
    };
  }
}
