import { type CanActivate, type DynamicModule, Inject, Injectable, Module } from '@nestjs/common';
import { McpOptionError, McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpLiveModule } from 'nestjs-mcp-streamable/live';
import { McpPrometheusModule } from 'nestjs-mcp-streamable/prometheus';
import { getMcpToken, InMemoryTaskStore, McpTaskService, McpTasksModule } from 'nestjs-mcp-streamable/tasks';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { serverInfo, startFailure, TestApp } from '../support/app.js';
import { loneFetch } from '../support/ways.js';

/** What the options of all three modules are made of. */
class Config {
  readonly registry = new Registry();
  readonly store = new InMemoryTaskStore();
  readonly maxReaders = 1;
}
let config: Config;

/** Makes the options of the three modules by the names that Nest calls. */
@Injectable()
class Options {
  constructor(@Inject(Config) private readonly config: Config) {}
  createMcpLiveOptions = () => ({ maxReaders: this.config.maxReaders });
  createMcpPrometheusOptions = () => Promise.resolve({ registry: this.config.registry });
  createMcpTasksOptions = () => ({ store: this.config.store });
}

@Module({
  providers: [{ provide: Config, useFactory: () => config }, Options],
  exports: [Config, Options],
})
class ConfigModule {}

@Injectable()
class Everyone implements CanActivate {
  canActivate(): boolean {
    return true;
  }
}

const imports = [ConfigModule];
const early = { path: 'watch', guards: [Everyone], imports };
const SOURCES: [string, () => DynamicModule[]][] = [
  [
    'useFactory',
    () => [
      McpLiveModule.forRootAsync({
        ...early,
        inject: [Config],
        useFactory: ({ maxReaders }: Config) => ({ maxReaders }),
      }),
      McpPrometheusModule.forRootAsync({
        imports,
        inject: [Config],
        useFactory: ({ registry }: Config) => ({ registry }),
      }),
      McpTasksModule.forRootAsync({
        endpoint: 'a',
        imports,
        inject: [Config],
        useFactory: async ({ store }: Config) => Promise.resolve({ store }),
      }),
    ],
  ],
  ...(['useClass', 'useExisting'] as const).map((source): [string, () => DynamicModule[]] => [
    source,
    () => [
      McpLiveModule.forRootAsync({ ...early, [source]: Options }),
      McpPrometheusModule.forRootAsync({ imports, [source]: Options }),
      McpTasksModule.forRootAsync({ endpoint: 'a', imports, [source]: Options }),
    ],
  ]),
];

describe('forRootAsync of the modules beside the endpoint', () => {
  let app: TestApp | undefined;
  beforeEach(() => {
    config = new Config();
  });
  afterEach(async () => {
    await app?.close();
    app = undefined;
  });

  it.each(SOURCES)(
    'forRootAsync of the modules beside the endpoint takes the options of the live page, the metrics and the tasks from %s',
    async (_, modules) => {
      const list = vi.spyOn(config.store, 'list');
      app = await TestApp.of('fastify', {
        imports: [McpStreamableModule.forRoot({ serverInfo, name: 'a' }), ...modules()],
      });
      const get = (path: string) => loneFetch(`${app!.base}/watch${path}`);
      const [page, events] = [await get(''), await get('/events')];
      expect([page.status, events.status]).toEqual([200, 200]);
      const refused = await get('/events');
      expect([refused.status, await refused.text()]).toEqual([503, expect.stringContaining('maxReaders')]);
      await Promise.all([page.text(), events.body!.cancel()]);
      expect(config.registry.getSingleMetric('mcp_server_operation_duration_seconds')).toBeDefined();
      await app.app.get(getMcpToken(McpTaskService, 'a'), { strict: false }).list();
      expect(list).toHaveBeenCalledOnce();
    },
  );

  it.each<[string, () => DynamicModule, string]>([
    [
      'McpLiveModule',
      () => McpLiveModule.forRootAsync({ ...early, useFactory: () => ({ maxReaders: 0 }) }),
      'maxReaders',
    ],
    [
      'McpPrometheusModule',
      () => McpPrometheusModule.forRootAsync({ useFactory: () => ({ registry: {} as Registry }) }),
      'registry',
    ],
    ['McpTasksModule', () => McpTasksModule.forRootAsync({ useFactory: () => ({ maxTasks: 0 }) }), 'maxTasks'],
  ])(
    'forRootAsync of the modules beside the endpoint stops the start with what is wrong in the options that a factory of %s returns',
    async (_, module, option) => {
      const imports = () => [McpStreamableModule.forRoot({ serverInfo }), module()];
      expect(await startFailure('fastify', () => ({ imports: imports() }))).toMatchObject({ option });
    },
  );

  it.each<[string, () => DynamicModule, string, string]>([
    [
      'an option beside the factory',
      () => McpTasksModule.forRootAsync({ maxTasks: 3, useFactory: () => ({}) } as never),
      'maxTasks',
      'Return it from the factory',
    ],
    [
      'an option that does not exist',
      () => McpPrometheusModule.forRootAsync({ registy: 1, useFactory: () => ({}) } as never),
      'registy',
      'no option "registy"',
    ],
    [
      'no source of the options',
      () => McpPrometheusModule.forRootAsync({ imports }),
      'useFactory',
      'Give "useFactory", "useClass" or "useExisting"',
    ],
    [
      'no guards beside the factory',
      () => McpLiveModule.forRootAsync({ useFactory: () => ({}) }),
      'guards',
      'needs "guards"',
    ],
    ['nothing', () => McpLiveModule.forRootAsync(undefined as never), 'options', 'takes an object of options'],
  ])('forRootAsync of the modules beside the endpoint refuses %s, and says what to give', (_, make, option, text) => {
    expect(make).toThrow(McpOptionError);
    expect(make).toThrow(text);
    expect(make).toThrow(expect.objectContaining({ option }));
  });
});
