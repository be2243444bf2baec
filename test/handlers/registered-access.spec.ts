import {
  type ArgumentsHost,
  type CallHandler,
  type CanActivate,
  Catch,
  type ExceptionFilter,
  type ExecutionContext,
  ForbiddenException,
  type INestApplication,
  Inject,
  Injectable,
  type NestInterceptor,
  Scope,
  SetMetadata,
  UseGuards,
} from '@nestjs/common';
import { APP_GUARD, REQUEST, Reflector } from '@nestjs/core';
import { map, type Observable } from 'rxjs';
import {
  McpExecutionContext,
  McpHandlerDefinitionError,
  McpRegistry,
  McpStreamableModule,
  type McpStreamableModuleOptions,
} from 'nestjs-mcp-streamable';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { serverInfo, TestApp } from '../support/app.js';
import { ModernClient } from '../support/modern-client.js';
import { as, decidesByArguments, trustingGuard } from '../support/users.js';

@Injectable()
class OnlyAnn implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    if (McpExecutionContext.create(context).getContext().principal === 'ann') return true;
    throw new ForbiddenException('Only Ann.');
  }
}

/** Says what was around a handler. */
class Envelope implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    if (!McpExecutionContext.isMcp(context)) return next.handle();
    const call = McpExecutionContext.create(context);
    const role = new Reflector().getAllAndOverride<string>('role', [context.getHandler(), context.getClass()]);
    return next
      .handle()
      .pipe(map((value) => `<${call.getKind()} ${call.getName()} of ${context.getClass().name} for ${role}> ${value}`));
  }
}

@Catch(RangeError)
class RangeFilter implements ExceptionFilter {
  catch(error: RangeError, _host: ArgumentsHost): string {
    return `filtered: ${error.message}`;
  }
}

describe('a handler that is registered at run time', () => {
  let app: TestApp;
  afterEach(() => app?.close());

  const start = async (
    configure?: (app: INestApplication) => void,
    providers: object[] = [OnlyAnn],
    options: Partial<McpStreamableModuleOptions> = {},
  ): Promise<McpRegistry> => {
    app = await TestApp.of(
      'fastify',
      {
        imports: [McpStreamableModule.forRoot({ serverInfo, guards: [trustingGuard], denials: 'result', ...options })],
        providers: providers as never,
      },
      configure,
    );
    return app.app.get(McpRegistry);
  };
  const client = (user: string) => new ModernClient(app.url, as(user));
  const text = async (user: string, name: string, args = {}): Promise<string> => {
    const { result, error } = await client(user).ask('tools/call', { name, arguments: args });
    return error ? `${error.code}` : (result.content[0]?.text ?? '');
  };
  const listed = async (user: string): Promise<string[]> =>
    (await client(user).ask('tools/list')).result.tools.map(({ name }: { name: string }) => name);

  it('a handler that is registered at run time is hidden from callers whom its guards refuse, and does not exist for them', async () => {
    const registry = await start();
    const ran: string[] = [];
    registry.registerTool({ name: 'by_class', guards: [OnlyAnn], handler: () => void ran.push('class') });
    registry.registerTool({ name: 'by_object', guards: [new OnlyAnn()], handler: () => void ran.push('object') });
    registry.registerTool({
      name: 'by_caller',
      visible: async ({ principal }) => principal === 'ann',
      handler: () => void ran.push('visible'),
    });
    expect(await listed('ann')).toEqual(['by_class', 'by_object', 'by_caller']);
    expect(await listed('bob')).toEqual([]);
    for (const name of ['by_class', 'by_object', 'by_caller', 'unknown'])
      expect(await text('bob', name)).toBe('-32602');
    expect(ran).toEqual([]);
    for (const name of ['by_class', 'by_object', 'by_caller']) await text('ann', name);
    expect(ran).toEqual(['class', 'object', 'visible']);
    expect((await client('ann').ask('tools/list')).result.cacheScope).toBe('private');
  });

  it('a handler that is registered at run time is refused by a guard that reads arguments, and listed by it', async () => {
    const registry = await start();
    const guard: CanActivate = {
      canActivate(context) {
        decidesByArguments(context);
        return McpExecutionContext.create(context).getArgs<{ n: number }>().n < 5;
      },
    };
    registry.registerTool({
      name: 'few',
      inputSchema: z.object({ n: z.number() }),
      guards: [guard],
      handler: ({ n }) => n + 1,
    });
    expect(await listed('bob')).toEqual(['few']);
    expect(await text('bob', 'few', { n: 4 })).toBe('5');
    expect(await text('bob', 'few', { n: 6 })).toContain('Forbidden');
  });

  it('a handler that is registered at run time has the guards, interceptors and filters of the app around it, of all kinds', async () => {
    const refused: string[] = [];
    const registry = await start((nest) => {
      nest.useGlobalGuards({
        canActivate(context) {
          if (!McpExecutionContext.isMcp(context)) return true;
          const call = McpExecutionContext.create(context);
          if (call.getContext().principal !== 'eve') return true;
          refused.push(call.getName());
          return false;
        },
      });
      nest.useGlobalInterceptors(new Envelope());
      nest.useGlobalFilters(new RangeFilter());
    });
    const handler = (): string => 'done';
    SetMetadata('role', 'staff')(handler);
    registry.registerTool({ name: 'work', handler });
    registry.registerTool({
      name: 'fail',
      handler: () => {
        throw new RangeError('too far');
      },
    });
    registry.registerResource({ uri: 'log://today', name: 'log', handler: () => 'quiet' });
    registry.registerResourceTemplate({
      uriTemplate: 'log://day/{day}',
      name: 'day',
      handler: ({ day }) => String(day),
      complete: { day: () => ['monday'] },
    });
    registry.registerPrompt({ name: 'ask', handler: () => 'Why?' });
    expect(await text('ann', 'work')).toBe('<tool work of McpRegistry for staff> done');
    expect(await text('ann', 'fail')).toBe('filtered: too far');
    const read = async (user: string, uri: string) => client(user).ask('resources/read', { uri });
    expect((await read('ann', 'log://today')).result.contents[0].text).toContain(
      '<resource log://today of McpRegistry',
    );
    expect((await read('ann', 'log://day/7')).result.contents[0].text).toContain('> 7');
    const prompt = async (user: string) => client(user).ask('prompts/get', { name: 'ask' });
    expect((await prompt('ann')).result.messages[0].content.text).toContain('Why?');
    await text('eve', 'work');
    await read('eve', 'log://today');
    await read('eve', 'log://day/7');
    await prompt('eve');
    expect(refused).toEqual(['work', 'log://today', 'log://day/{day}', 'ask']);
  });

  it('a handler that is registered at run time has guards of the app that are made for each request, while the registry stays a singleton', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class PerRequest implements CanActivate {
      constructor(@Inject(REQUEST) private readonly request: { user?: { sub: string } }) {}
      canActivate(context: ExecutionContext): boolean {
        if (!McpExecutionContext.isMcp(context)) return true;
        return this.request.user?.sub === 'ann';
      }
    }
    const registry = await start(undefined, [{ provide: APP_GUARD, useClass: PerRequest }]);
    let runs = 0;
    registry.registerTool({ name: 'work', handler: () => `run ${++runs}` });
    expect(await text('ann', 'work')).toBe('run 1');
    expect(await text('bob', 'work')).toContain('Forbidden');
    expect(runs).toBe(1);
  });

  it('a handler that is registered at run time has the guards that a decorator has put on its function', async () => {
    class Orders {
      @UseGuards(new OnlyAnn())
      find(): string {
        return 'found';
      }
    }
    const registry = await start();
    registry.registerTool({ name: 'find', handler: Orders.prototype.find });
    registry.registerTool({ name: 'twice', handler: Orders.prototype.find, visible: () => false });
    expect([await listed('ann'), await listed('bob')]).toEqual([['find'], []]);
    expect(await text('ann', 'find')).toBe('found');
  });

  it('a handler that is registered at run time can get other guards, which calls and lists use from then on', async () => {
    const registry = await start();
    const tool = registry.registerTool({ name: 'work', handler: () => 'done' });
    expect(await text('bob', 'work')).toBe('done');
    tool.update({ visible: ({ principal }) => principal === 'ann' });
    expect([await listed('bob'), await text('bob', 'work'), await text('ann', 'work')]).toEqual([[], '-32602', 'done']);
    tool.update({ visible: () => Promise.reject(new Error('The database is away.')) });
    expect(await listed('ann')).toEqual([]);
  });

  it('a handler that is registered at run time is refused with a guard that does not exist, or is none', async () => {
    @Injectable()
    class Missing extends OnlyAnn {}
    @Injectable({ scope: Scope.REQUEST })
    class Scoped extends OnlyAnn {}
    const registry = await start(undefined, [Scoped]);
    const register = (guards: unknown, visible?: unknown) => () =>
      registry.registerTool({ name: 'a', handler: () => '', guards: guards as never, visible: visible as never });
    for (const guards of [[Missing], [Scoped], [{}], [undefined], 'Missing']) {
      expect(register(guards)).toThrow(McpHandlerDefinitionError);
    }
    expect(register([], true)).toThrow('its "visible" must be a function');
    expect(registry.list('tool')).toEqual([]);
  });
});
