import {
  Injectable,
  Logger,
  Scope,
  UnauthorizedException,
  UseGuards,
  UseInterceptors,
  UsePipes,
  type CanActivate,
  type ExecutionContext,
} from '@nestjs/common';
import { APP_GUARD, Reflector } from '@nestjs/core';
import { of } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ONE_ADAPTER, EntryProvider, InvokingApp, TestedClient } from '../../../../test/support/invoking-app.js';
import { McpExecutionContext } from '../../calls/mcp-execution-context.js';
import { McpArgs } from '../decorators/param.decorators.js';

const Roles = Reflector.createDecorator<string[]>();

let asked: string[] = [];

/** Nothing of MCP in it: the same class guards routes. */
@Injectable()
class RolesGuard implements CanActivate {
  constructor(private readonly reflector: Reflector) {}
  canActivate(context: ExecutionContext) {
    const roles = this.reflector.getAllAndOverride(Roles, [context.getHandler(), context.getClass()]) ?? [];
    asked.push(`roles of ${context.getHandler().name}`);
    return of(roles.includes(context.switchToHttp().getRequest().headers['x-role']));
  }
}

@Injectable()
class OwnerGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    asked.push('owner');
    return McpExecutionContext.create(context).getArgs<{ owner?: string }>().owner === 'anna';
  }
}

/** Decides by itself when a list has no arguments. */
@Injectable()
class SwallowingGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    try {
      return McpExecutionContext.create(context).getArgs() !== undefined;
    } catch {
      return false;
    }
  }
}

@Injectable()
class GlobalGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    if (McpExecutionContext.isMcp(context)) asked.push('global');
    return context.switchToHttp().getRequest().headers['x-global'] !== 'no' || !McpExecutionContext.isMcp(context);
  }
}

@Injectable({ scope: Scope.REQUEST })
class ScopedGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    return context.switchToHttp().getRequest().headers['x-role'] === 'admin';
  }
}

const faulty: CanActivate = {
  canActivate() {
    throw new TypeError('no database');
  },
};

const never = () => {
  throw new Error('Not in a list');
};

@EntryProvider()
@Injectable()
@UseGuards(RolesGuard)
class Guarded {
  @Roles(['admin'])
  @UseInterceptors({ intercept: never })
  @UsePipes({ transform: never })
  admins(@McpArgs() _args: object) {}

  @Roles(['user'])
  @UseGuards(OwnerGuard)
  owned() {}

  @Roles(['user'])
  @UseGuards(OwnerGuard, SwallowingGuard)
  swallowed() {}
}

@EntryProvider()
@Injectable()
class Open {
  run() {}
  @UseGuards(faulty)
  faulty() {}
  @UseGuards({
    canActivate() {
      throw new UnauthorizedException();
    },
  })
  thrown() {}
}

@EntryProvider()
@Injectable()
class Scoped {
  @UseGuards(ScopedGuard)
  run() {}
}

describe.each(ONE_ADAPTER)('what a list shows, on %s', (adapter) => {
  let app: InvokingApp;
  const visible = (handler: string, headers = {}, listGuards?: (typeof GlobalGuard)[]): Promise<unknown> =>
    app.visible({ handler, ...(listGuards && { listGuards }) }, headers);

  beforeEach(async () => {
    asked = [];
    const global = { provide: APP_GUARD, useClass: GlobalGuard };
    app = await InvokingApp.start({ adapter, providers: [Guarded, Open, Scoped, global] });
  });
  afterEach(async () => {
    vi.restoreAllMocks();
    await app.close();
  });

  it('a list shows what guards of class and method let in, and asks nothing but guards', async () => {
    expect(await visible('Guarded.admins', { 'x-role': 'admin' })).toBe(true);
    expect(await visible('Guarded.admins', { 'x-role': 'user' })).toBe(false);
    expect(await visible('Guarded.admins')).toBe(false);
    expect(asked).toEqual(Array.from({ length: 3 }, () => 'roles of admins'));
  });

  it('a list shows what a guard cannot say without arguments, unless another one hides it', async () => {
    expect(await visible('Guarded.owned', { 'x-role': 'user' })).toBe(true);
    expect(await visible('Guarded.owned', { 'x-role': 'other' })).toBe(false);
    expect(await visible('Guarded.swallowed', { 'x-role': 'user' })).toBe(false);
    const run = (owner: string) => app.run({ handler: 'Guarded.owned', args: { owner } }, { 'x-role': 'user' });
    await expect(run('anna')).resolves.toBeUndefined();
    await expect(run('bert')).rejects.toMatchObject({ status: 403 });
  });

  it('a list asks global guards only if they are named', async () => {
    const invoker = app.invoker({ handler: 'Open.run' });
    expect(invoker.guarded).toBe(false);
    expect(invoker.visible(new TestedClient().context({}))).toBe(true);
    expect(asked).toEqual([]);
    expect(app.invoker({ handler: 'Open.run', listGuards: [GlobalGuard] }).guarded).toBe(true);
    expect(await visible('Open.run', {}, [GlobalGuard])).toBe(true);
    expect(await visible('Open.run', { 'x-global': 'no' }, [GlobalGuard])).toBe(false);
    expect(asked).toEqual(['global', 'global']);
    asked = [];
    expect(await visible('Guarded.admins', { 'x-role': 'admin' }, [GlobalGuard])).toBe(true);
    expect(asked).toEqual(['global', 'roles of admins']);
  });

  it('a list hides what a guard throws about, and says once that it failed', async () => {
    const error = vi.spyOn(Logger.prototype, 'error').mockImplementation(() => {});
    expect(await visible('Open.thrown')).toBe(false);
    expect(error).not.toHaveBeenCalled();
    const invoker = app.invoker({ handler: 'Open.faulty' });
    const context = new TestedClient().context({});
    expect([await invoker.visible(context), await invoker.visible(context)]).toEqual([false, false]);
    expect(error).toHaveBeenCalledOnce();
    expect(error.mock.calls[0]![0]).toMatch(/Open\.faulty[^]*no database/);
  });

  it('a list asks request-scoped guards too', async () => {
    expect(app.invoker({ handler: 'Scoped.run' }).guarded).toBe(true);
    expect(await visible('Scoped.run', { 'x-role': 'admin' })).toBe(true);
    expect(await visible('Scoped.run', { 'x-role': 'user' })).toBe(false);
  });
});

describe('global guards that are request-scoped', () => {
  it.each([
    ['useClass', { provide: APP_GUARD, useClass: ScopedGuard, scope: Scope.REQUEST }],
    ['useExisting', { provide: APP_GUARD, useExisting: ScopedGuard, scope: Scope.REQUEST }],
  ])('global guards that are request-scoped are asked if they are named, given by %s', async (_name, guard) => {
    const app = await InvokingApp.start({ adapter: 'express', providers: [Open, ScopedGuard, guard as never] });
    const shown = (role: string, listGuards?: (typeof ScopedGuard)[]) =>
      app.within(
        async (request) => {
          (request as { headers: Record<string, string> }).headers['x-role'] = role;
          const invoker = app.invoker({ handler: 'Open.run', ...(listGuards && { listGuards }) });
          return invoker.visible(new TestedClient().context(request));
        },
        { 'x-role': 'admin' },
      );
    expect(await shown('user')).toBe(true);
    expect(await shown('user', [ScopedGuard])).toBe(false);
    expect(await shown('admin', [ScopedGuard])).toBe(true);
    await app.close();
  });
});
