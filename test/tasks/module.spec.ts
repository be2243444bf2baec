import type { ModuleMetadata } from '@nestjs/common';
import { Inject, Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  McpRegistry,
  McpStreamableModule,
  type McpStreamableOptions,
  Tool,
  type ToolOptions,
} from 'nestjs-mcp-streamable';
import {
  InMemoryEventStore,
  InMemoryMessageBus,
  InMemorySessionStore,
  InMemoryStateStore,
} from 'nestjs-mcp-streamable/stores';
import {
  getMcpToken,
  InjectMcp,
  InMemoryTaskStore,
  McpTaskService,
  McpTasksModule,
  type McpTasksOptions,
} from 'nestjs-mcp-streamable/tasks';
import { afterEach, describe, expect, it } from 'vitest';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { shared } from '../support/doubles.js';
import { TaskTools } from './task-tools.js';

const serverInfo = { name: 'tasks', version: '1.0.0' };
const apps: NestFastifyApplication[] = [];
afterEach(async () => {
  for (const app of apps.splice(0)) await app.close();
});

const endpoint = (options: Partial<McpStreamableOptions> & { name?: string; path?: string } = {}) =>
  McpStreamableModule.forRoot({ serverInfo, ...options });

async function start(metadata: ModuleMetadata): Promise<NestFastifyApplication> {
  const testing = await Test.createTestingModule(metadata).compile();
  const app = testing.createNestApplication<NestFastifyApplication>(new FastifyAdapter(), { logger: false });
  apps.push(app);
  await app.init();
  return app;
}
const refused = (metadata: ModuleMetadata, message: RegExp) => expect(start(metadata)).rejects.toThrow(message);

describe('a tool with tasks', () => {
  it('a tool with tasks stops the start of an app without McpTasksModule, with what to import', async () => {
    await refused(
      { imports: [endpoint()], providers: [TaskTools] },
      /TaskTools\.slow.*Import McpTasksModule\.forRoot\(\) of "nestjs-mcp-streamable\/tasks"/,
    );
    await start({ imports: [endpoint(), McpTasksModule.forRoot()], providers: [TaskTools] });
  });

  it('a tool with tasks cannot be registered at run time without McpTasksModule, and can with it', async () => {
    const tool = { name: 'late', task: 'optional', handler: () => 'x' } as const;
    const registry = (await start({ imports: [endpoint()] })).get(McpRegistry, { strict: false });
    expect(() => registry.registerTool(tool)).toThrow(/McpTasksModule/);
    const plain = registry.registerTool({ ...tool, task: false });
    expect(() => plain.update({ task: 'required' })).toThrow(/McpTasksModule/);
    const other = (await start({ imports: [endpoint(), McpTasksModule.forRoot()] })).get(McpRegistry, {
      strict: false,
    });
    expect(other.registerTool(tool).key).toBe('late');
  });

  it.each([
    'always',
    true,
    { suport: 'optional' },
    { support: 'maybe' },
    { afterMs: -1 },
    { ttlMs: 0 },
    { pollIntervalMs: '1s' },
  ])('a tool with tasks stops the start with a malformed option (%#)', async (task) => {
    @Injectable()
    class Tools {
      @Tool({ name: 'odd', task } as ToolOptions)
      odd(): string {
        return '';
      }
    }
    const imports = [endpoint(), McpTasksModule.forRoot()];
    await refused({ imports, providers: [Tools] }, /Tools\.odd.*its "task" must be/);
  });
});

describe('McpTasksModule', () => {
  it.each<[unknown, RegExp]>([
    [{ ttl: 1 }, /no option "ttl"/],
    [{ ttlMs: Infinity }, /"ttlMs"/],
    [{ leaseMs: 15_000 }, /no option "leaseMs"/],
    [{ maxTasks: 0 }, /"maxTasks"/],
    [{ endpoint: '' }, /"endpoint"/],
    [{ store: {} }, /"store".*no method "create"/],
    ['x', /"options"/],
  ])('McpTasksModule refuses wrong options (%#)', (options, message) => {
    expect(() => McpTasksModule.forRoot(options as McpTasksOptions)).toThrow(message);
  });

  it('McpTasksModule belongs to one endpoint', async () => {
    const [a, b] = [endpoint({ name: 'a', path: 'a' }), endpoint({ name: 'b', path: 'b' })];
    await refused({ imports: [a, b, McpTasksModule.forRoot()] }, /has no endpoint/);
    await refused({ imports: [a, McpTasksModule.forRoot({ endpoint: 'c' })] }, /"c"/);
    await refused({ imports: [McpTasksModule.forRoot()] }, /has no endpoint/);
    const twice = [endpoint(), McpTasksModule.forRoot(), McpTasksModule.forRoot({ ttlMs: 1 })];
    await refused({ imports: twice }, /has two McpTasksModule/);
  });

  it('McpTasksModule has a service of its own for each of several endpoints', async () => {
    @Injectable()
    class Page {
      constructor(
        @InjectMcp(McpTaskService, 'a') readonly a: McpTaskService,
        @InjectMcp(McpTaskService, 'b') readonly b: McpTaskService,
      ) {}
    }
    const imports = ['a', 'b'].flatMap((name) => [
      endpoint({ name, path: name }),
      McpTasksModule.forRoot({ endpoint: name }),
    ]);
    const app = await start({ imports, providers: [Page] });
    const { a, b } = app.get(Page);
    expect(a).not.toBe(b);
    expect(app.get(getMcpToken(McpTaskService, 'a'), { strict: false })).toBe(a);
    expect(await a.counts()).toEqual({
      working: 0,
      input_required: 0,
      completed: 0,
      failed: 0,
      cancelled: 0,
      running: 0,
    });
  });

  it('McpTasksModule takes its options from a factory', async () => {
    const of = (maxTasks: number, name?: string) =>
      McpTasksModule.forRootAsync({
        ...(name && { endpoint: name }),
        imports: [{ module: class Numbers {}, providers: [{ provide: 'n', useValue: maxTasks }], exports: ['n'] }],
        inject: ['n'],
        useFactory: async (n: number) => ({ maxTasks: n }),
      });
    await refused({ imports: [endpoint(), of(0)] }, /"maxTasks"/);
    const app = await start({ imports: [endpoint({ name: 'a' }), of(3, 'a')] });
    expect(await app.get(getMcpToken(McpTaskService, 'a'), { strict: false }).list()).toEqual([]);
  });

  it('McpTasksModule without a name belongs to the only endpoint, whatever its name is', async () => {
    const app = await start({ imports: [endpoint({ name: 'only' }), McpTasksModule.forRoot()] });
    expect(await app.get(McpTaskService, { strict: false }).list()).toEqual([]);
  });

  it('McpTasksModule requires a store that the nodes of a backend share', async () => {
    const backend = {
      sessionStore: shared(new InMemorySessionStore()),
      eventStore: new InMemoryEventStore({}, undefined, 'shared'),
      stateStore: new InMemoryStateStore(),
      messageBus: new InMemoryMessageBus(),
    };
    const of = (more: object) =>
      endpoint({ backend: { ...backend, ...more } as never, requestStateKeys: ['k'.repeat(32)] });
    await refused({ imports: [of({}), McpTasksModule.forRoot()] }, /"backend" without a "taskStore"/);
    await refused({ imports: [of({ taskStore: {} }), McpTasksModule.forRoot()] }, /"backend.taskStore"/);
    await start({ imports: [of({ taskStore: new InMemoryTaskStore() }), McpTasksModule.forRoot()] });
    await start({ imports: [of({}), McpTasksModule.forRoot({ store: new InMemoryTaskStore() })] });
  });

  it('McpTasksModule reports changes of tasks on any node', async () => {
    @Injectable()
    class Watching {
      readonly seen: string[] = [];
      constructor(@Inject(McpTaskService) readonly tasks: McpTaskService) {}
      onApplicationBootstrap(): void {
        this.tasks.changes$.subscribe({ next: (id) => this.seen.push(id), complete: () => this.seen.push('end') });
      }
    }
    const app = await start({ imports: [endpoint(), McpTasksModule.forRoot()], providers: [TaskTools, Watching] });
    const { TaskCaller } = await import('./tasks-app.js');
    const { createAppFetch } = await import('nestjs-mcp-streamable/testing');
    const caller = new TaskCaller(await createAppFetch(app));
    const id = await caller.begin('slow', { label: 'A' });
    const { seen, tasks } = app.get(Watching);
    await expect.poll(() => seen).toEqual([id]);
    expect(await tasks.list({ principal: null })).toMatchObject([{ id, tool: 'slow', status: 'working' }]);
    expect(await tasks.cancel(id)).toBe(true);
    expect(await tasks.cancel(id)).toBe(false);
    await expect.poll(() => seen).toEqual([id, id]);
    await app.close();
    expect(seen.at(-1)).toBe('end');
  });
});
