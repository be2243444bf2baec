import { Inject, Injectable, Module, type CanActivate } from '@nestjs/common';
import { McpSessionService, McpStreamableModule, type McpStreamableOptions } from 'nestjs-mcp-streamable';
import { afterEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, TestApp, serverInfo, startFailure, whoami } from '../support/app.js';
import { RecordedLog } from '../support/recorded-log.js';
import { serverSaying } from '../support/scripted-server.js';

@Injectable()
class Config {
  readonly motto = 'configured';
}

@Module({ providers: [Config], exports: [Config] })
class ConfigModule {}

/** Also asks for something from its own dependencies. */
@Injectable()
class OptionsFactory {
  constructor(@Inject(Config) private readonly config: Config) {}

  createMcpStreamableOptions(): Promise<McpStreamableOptions> {
    return Promise.resolve({ serverInfo, server: () => serverSaying(() => this.config.motto) });
  }
}

@Module({ imports: [ConfigModule], providers: [OptionsFactory], exports: [OptionsFactory] })
class OptionsModule {}

@Injectable()
class ConfiguredGuard implements CanActivate {
  constructor(@Inject(Config) private readonly config: Config) {}

  canActivate(): boolean {
    return this.config.motto === 'configured';
  }
}

describe.each(ONE_ADAPTER)('forRootAsync on %s', (adapter) => {
  let app: TestApp | undefined;
  afterEach(async () => {
    await app?.close();
    app = undefined;
  });

  it.each([
    ['at once', (options: McpStreamableOptions) => options],
    ['later', (options: McpStreamableOptions) => Promise.resolve(options)],
  ])(
    'forRootAsync takes options from a factory that returns them %s, and what it injects from imports',
    async (_, returned) => {
      const useFactory = (config: Config) => returned({ serverInfo, server: () => serverSaying(() => config.motto) });
      app = await TestApp.of(adapter, {
        imports: [McpStreamableModule.forRootAsync({ imports: [ConfigModule], inject: [Config], useFactory })],
      });
      expect(await whoami(await app.client().initialize())).toBe('configured');
    },
  );

  it('forRootAsync takes options from a class that it makes', async () => {
    app = await TestApp.of(adapter, {
      imports: [McpStreamableModule.forRootAsync({ imports: [ConfigModule], useClass: OptionsFactory })],
    });
    expect(await whoami(await app.client().initialize())).toBe('configured');
  });

  it('forRootAsync takes options from a provider that is there already', async () => {
    app = await TestApp.of(adapter, {
      imports: [McpStreamableModule.forRootAsync({ imports: [OptionsModule], useExisting: OptionsFactory })],
    });
    expect(await whoami(await app.client().initialize())).toBe('configured');
  });

  it('forRootAsync takes what Nest needs before beside the factory: path, guards and their imports, isGlobal', async () => {
    @Injectable()
    class Watcher {
      constructor(@Inject(McpSessionService) readonly sessions: McpSessionService) {}
    }
    @Module({ providers: [Watcher] })
    class FeatureModule {}

    const endpoint = McpStreamableModule.forRootAsync({
      useFactory: () => ({ serverInfo, server: () => serverSaying(() => 'me'), principal: () => 'somebody' }),
      imports: [ConfigModule],
      path: 'api/tools',
      guards: [ConfiguredGuard],
      isGlobal: true,
    });
    app = await TestApp.of(adapter, { imports: [FeatureModule, endpoint] });
    expect(await whoami(await app.clientAt('api/tools').initialize())).toBe('me');
    expect(await app.app.get(Watcher, { strict: false }).sessions.list()).toHaveLength(1);
  });

  it('forRootAsync fails to start with the error of the factory', async () => {
    const log = new RecordedLog().attach();
    const useFactory = (): Promise<McpStreamableOptions> => Promise.reject(new Error('no configuration today'));
    const error = await startFailure(adapter, () => ({ imports: [McpStreamableModule.forRootAsync({ useFactory })] }));
    log.release();
    expect(error.message).toBe('no configuration today');
  });
});
