import {
  BadRequestException,
  Catch,
  Controller,
  createParamDecorator,
  ForbiddenException,
  Injectable,
  Module,
  Scope,
  UseFilters,
  UseGuards,
  UseInterceptors,
  UsePipes,
  type ArgumentMetadata,
  type ArgumentsHost,
  type CallHandler,
  type CanActivate,
  type ExceptionFilter,
  type ExecutionContext,
  type INestApplication,
  type NestInterceptor,
  type PipeTransform,
  type Provider,
  type Type,
} from '@nestjs/common';
import { APP_FILTER, APP_GUARD, APP_INTERCEPTOR, APP_PIPE } from '@nestjs/core';
import { map } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, EntryProvider, InvokingApp } from '../../../../test/support/invoking-app.js';
import { McpContext } from '../../calls/mcp-context.js';
import { McpExecutionContext } from '../../calls/mcp-execution-context.js';
import { McpArgs, McpCtx } from '../decorators/param.decorators.js';

/** Records what ran, in order. */
let ran: string[] = [];

/** Enhancers run around the route too; here only handlers count. */
function note(context: ArgumentsHost, what: string): boolean {
  if (!McpExecutionContext.isMcp(context)) return false;
  ran.push(what);
  return true;
}

@Injectable()
class Helper {
  readonly name = 'helper';
}

@Injectable()
class Guard implements CanActivate {
  constructor(private readonly helper: Helper) {}
  canActivate(context: ExecutionContext): boolean {
    note(context, `guard with ${this.helper.name}`);
    return true;
  }
}

@Injectable()
class Interceptor implements NestInterceptor {
  constructor(private readonly helper: Helper) {}
  intercept(context: ExecutionContext, next: CallHandler) {
    if (!note(context, `interceptor with ${this.helper.name}`)) return next.handle();
    return next.handle().pipe(map((value) => ({ wrapped: value })));
  }
}

@Injectable()
class Pipe implements PipeTransform {
  constructor(private readonly helper: Helper) {}
  transform(value: unknown, { type }: ArgumentMetadata): unknown {
    if (type !== 'body') return value;
    ran.push(`pipe with ${this.helper.name}`);
    return { ...(value as object), piped: true };
  }
}

class Broken extends Error {}

@Catch(Broken)
@Injectable()
class Filter implements ExceptionFilter {
  constructor(private readonly helper: Helper) {}
  catch(_error: Broken, host: ArgumentsHost): string {
    note(host, `filter with ${this.helper.name}`);
    return 'filtered';
  }
}

const Caller = createParamDecorator((field: string, context: ExecutionContext) => {
  const caller = context.switchToHttp().getRequest().headers['x-caller'];
  return `${field} ${caller} of ${context.getClass().name}.${context.getHandler().name}`;
});

@EntryProvider()
@Injectable()
class Plain {
  run(args: object, context: McpContext) {
    ran.push('method');
    return { args, principal: context.principal, method: context.method };
  }
  fail(): never {
    throw new Broken();
  }
}

@EntryProvider()
@Injectable()
class OnMethods {
  @UseGuards(Guard)
  guard() {
    ran.push('method');
  }
  @UseInterceptors(Interceptor)
  interceptor() {
    return 'value';
  }
  @UsePipes(Pipe)
  pipe(@McpArgs() args: object) {
    return args;
  }
  @UseFilters(Filter)
  filter() {
    throw new Broken();
  }
  @UseGuards(Guard)
  @UseInterceptors(Interceptor)
  @UsePipes(Pipe)
  @UseFilters(Filter)
  all(@McpArgs() _args: object): never {
    ran.push('method');
    throw new Broken();
  }
}

@EntryProvider()
@Injectable()
@UseGuards(Guard)
@UseInterceptors(Interceptor)
@UsePipes(Pipe)
@UseFilters(Filter)
class OnClass {
  run(args: object) {
    ran.push('method');
    return args;
  }
  fail(): never {
    throw new Broken();
  }
}

@Controller('on-class')
class OnController extends OnClass {}

@EntryProvider()
@Injectable()
class Params {
  mixed(@Caller('by') caller: string, @McpCtx() context: McpContext, @McpArgs('id') id: unknown, ...rest: unknown[]) {
    return { caller, principal: context.principal, id, rest };
  }
  onlyContext(@McpCtx() context: McpContext) {
    return context instanceof McpContext;
  }
  piped(@McpArgs('id', Pipe) id: unknown, @McpArgs(Pipe) all: unknown) {
    return { id, all };
  }
}

@Injectable({ scope: Scope.TRANSIENT })
class TransientGuard extends Guard {}

@Injectable({ scope: Scope.REQUEST })
class RequestGuard extends Guard {}

@EntryProvider()
@Controller('scoped-guards')
class ScopedGuards {
  @UseGuards(TransientGuard)
  transient() {}
  @UseGuards(RequestGuard)
  request() {}
}

@EntryProvider()
@Controller('static')
class OnlyTransientGuard {
  @UseGuards(TransientGuard)
  run() {}
}

const globals: Record<string, [string, Type]> = {
  guard: [APP_GUARD, Guard],
  interceptor: [APP_INTERCEPTOR, Interceptor],
  pipe: [APP_PIPE, Pipe],
  filter: [APP_FILTER, Filter],
};

const scopes: Record<string, Partial<Provider>> = {
  static: {},
  'request-scoped': { scope: Scope.REQUEST },
  'transient-scoped': { scope: Scope.TRANSIENT },
};

describe.each(ONE_ADAPTER)('what runs around a handler, on %s', (adapter) => {
  let app: InvokingApp;

  async function start(providers: Provider[], configure?: (app: INestApplication) => void): Promise<void> {
    app = await InvokingApp.start({ adapter, providers: [Helper, ...providers], ...(configure && { configure }) });
  }

  beforeEach(() => {
    ran = [];
  });
  afterEach(() => app.close());

  it('the invoker of a handler calls a method without param decorators with (args, ctx)', async () => {
    await start([Plain]);
    const value = await app.run({ handler: 'Plain.run', args: { id: 1 } });
    expect(value).toEqual({ args: { id: 1 }, principal: 'anna', method: 'tools/call' });
  });

  it('the invoker of a handler runs what stands on methods', async () => {
    await start([OnMethods]);
    await app.run({ handler: 'OnMethods.guard' });
    expect(ran).toEqual(['guard with helper', 'method']);
    expect(await app.run({ handler: 'OnMethods.interceptor' })).toEqual({ wrapped: 'value' });
    expect(await app.run({ handler: 'OnMethods.pipe', args: { id: 1 } })).toEqual({ id: 1, piped: true });
    expect(await app.run({ handler: 'OnMethods.filter' })).toBe('filtered');
  });

  it('the invoker of a handler runs them in the order of a route', async () => {
    await start([OnMethods]);
    const validate = (raw: unknown) => {
      ran.push('validation');
      return raw;
    };
    expect(await app.run({ handler: 'OnMethods.all', validate })).toBe('filtered');
    expect(ran).toEqual([
      'guard with helper',
      'interceptor with helper',
      'validation',
      'pipe with helper',
      'method',
      'filter with helper',
    ]);
  });

  it('the invoker of a handler runs what stands on the class', async () => {
    await start([OnClass]);
    expect(await app.run({ handler: 'OnClass.run', args: { id: 1 } })).toEqual({ wrapped: { id: 1, piped: true } });
    expect(ran).toEqual(['guard with helper', 'interceptor with helper', 'pipe with helper', 'method']);
    expect(await app.run({ handler: 'OnClass.fail' })).toBe('filtered');
  });

  it('the invoker of a handler runs what stands on the class of a controller', async () => {
    app = await InvokingApp.start({ adapter, providers: [Helper], controllers: [OnController] });
    expect(await app.run({ handler: 'OnController.run', args: { id: 1 } })).toEqual({
      wrapped: { id: 1, piped: true },
    });
    expect(ran).toEqual(['guard with helper', 'interceptor with helper', 'pipe with helper', 'method']);
    expect(await app.run({ handler: 'OnController.fail' })).toBe('filtered');
  });

  it.each(['providers', 'controllers'])('the invoker of a handler runs scoped guards of %s', async (place) => {
    const [providers, controllers] = place === 'providers' ? [[ScopedGuards], []] : [[], [ScopedGuards]];
    app = await InvokingApp.start({ adapter, providers: [Helper, ...providers], controllers });
    await app.run({ handler: 'ScopedGuards.transient' });
    await app.run({ handler: 'ScopedGuards.request' });
    expect(ran).toEqual(['guard with helper', 'guard with helper']);
  });

  it.each(['providers', 'controllers'])(
    'the invoker of a handler runs a transient guard of %s that are static',
    async (place) => {
      const [providers, controllers] = place === 'providers' ? [[OnlyTransientGuard], []] : [[], [OnlyTransientGuard]];
      app = await InvokingApp.start({ adapter, providers: [Helper, ...providers], controllers });
      await app.run({ handler: 'OnlyTransientGuard.run' });
      expect(ran).toEqual(['guard with helper']);
    },
  );

  it('the invoker of a handler finds the enhancers of a class in the module that provides it, when several do', async () => {
    @Module({ providers: [{ provide: Helper, useValue: { name: 'other helper' } }, OnClass] })
    class Other {}
    app = await InvokingApp.start({ adapter, imports: [Other], providers: [Helper, OnClass] });
    await app.run({ handler: 'OnClass.run', module: 'TestedModule' });
    await app.run({ handler: 'OnClass.run', module: 'Other' });
    const guards = ran.filter((what) => what.startsWith('guard'));
    expect(guards).toEqual(['guard with helper', 'guard with other helper']);
  });

  describe.each(Object.entries(scopes))('%s and global', (_name, scope) => {
    it.each(Object.entries(globals))('runs an APP_* %s', async (kind, [token, useClass]) => {
      await start([Plain, { provide: token, useClass, ...scope } as Provider]);
      const value = await app.run({ handler: kind === 'filter' ? 'Plain.fail' : 'Plain.run', args: { id: 1 } });
      expect(ran).toContain(`${kind} with helper`);
      if (kind === 'interceptor') expect(value).toMatchObject({ wrapped: { args: { id: 1 } } });
      if (kind === 'pipe') expect(value).toMatchObject({ args: { id: 1, piped: true } });
      if (kind === 'filter') expect(value).toBe('filtered');
    });
  });

  it('the invoker of a handler runs what useGlobal…() adds', async () => {
    const helper = new Helper();
    await start([Plain], (nest) => {
      nest.useGlobalGuards(new Guard(helper));
      nest.useGlobalInterceptors(new Interceptor(helper));
      nest.useGlobalPipes(new Pipe(helper));
      nest.useGlobalFilters(new Filter(helper));
    });
    const value = await app.run({ handler: 'Plain.run', args: { id: 1 } });
    expect(value).toMatchObject({ wrapped: { args: { id: 1, piped: true } } });
    expect(ran).toEqual(['guard with helper', 'interceptor with helper', 'pipe with helper', 'method']);
    expect(await app.run({ handler: 'Plain.fail' })).toBe('filtered');
  });

  it('the invoker of a handler makes parameters as their decorators say', async () => {
    await start([Params]);
    const value = await app.run({ handler: 'Params.mixed', args: { id: 7 } }, { 'x-caller': 'anna' });
    expect(value).toEqual({ caller: 'by anna of Params.mixed', principal: 'anna', id: 7, rest: [] });
    expect(await app.run({ handler: 'Params.onlyContext' })).toBe(true);
    expect(await app.run({ handler: 'Params.piped', args: { id: {} } })).toEqual({
      id: { piped: true },
      all: { id: {}, piped: true },
    });
  });

  it('the invoker of a handler does not take a name of every object for an argument', async () => {
    @EntryProvider()
    @Injectable()
    class Careful {
      run(@McpArgs('constructor') value: unknown) {
        return value === undefined;
      }
    }
    await start([Careful]);
    expect(await app.run({ handler: 'Careful.run' })).toBe(true);
  });

  it('the invoker of a handler validates once, after the guards, and only what a parameter needs', async () => {
    let validated = 0;
    const validate = (raw: unknown) => {
      validated++;
      if ((raw as { id: unknown }).id === 'bad') throw new BadRequestException('id is bad');
      return Promise.resolve(raw);
    };
    @Injectable()
    class NoGuard implements CanActivate {
      canActivate(): boolean {
        throw new ForbiddenException();
      }
    }
    @EntryProvider()
    @Injectable()
    class Validated {
      twice(@McpArgs('id') id: unknown, @McpArgs() args: unknown) {
        return { id, args };
      }
      never(@McpCtx() _context: McpContext) {
        return 'done';
      }
      @UseGuards(NoGuard)
      denied(_args: object) {}
    }
    await start([Validated]);
    const value = await app.run({ handler: 'Validated.twice', args: { id: 1 }, validate });
    expect(value).toEqual({ id: 1, args: { id: 1 } });
    expect(validated).toBe(1);
    await app.run({ handler: 'Validated.never', validate });
    await expect(app.run({ handler: 'Validated.denied', args: { id: 'bad' }, validate })).rejects.toThrow('Forbidden');
    expect(validated).toBe(1);
    await expect(app.run({ handler: 'Validated.twice', args: { id: 'bad' }, validate })).rejects.toThrow('id is bad');
    expect(validated).toBe(2);
  });
});
