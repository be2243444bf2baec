import {
  Injectable,
  Scope,
  UnauthorizedException,
  UseGuards,
  type CanActivate,
  type ExecutionContext,
  type INestApplication,
  type Provider,
} from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import {
  McpExecutionContext,
  McpRegistry,
  McpStreamableModule,
  Tool,
  type McpStreamableOptions,
} from 'nestjs-mcp-streamable';
import { afterEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, TestApp, serverInfo } from '../support/app.js';

const userOf = (context: ExecutionContext) =>
  context.switchToHttp().getRequest<{ headers: Record<string, string> }>().headers['x-user'];

/** Global: lets nobody but the owner call what is called secret. */
@Injectable()
class SecretsGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    if (!McpExecutionContext.isMcp(context)) return true;
    return McpExecutionContext.create(context).getName() !== 'secret' || userOf(context) === 'owner';
  }
}

@Injectable()
class OwnerGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    return userOf(context) === 'owner';
  }
}

@Injectable()
class Tools {
  @Tool({ name: 'open' })
  open(): string {
    return 'open';
  }
  @Tool({ name: 'secret' })
  secret(): string {
    return 'secret';
  }
  @Tool({ name: 'owned' })
  @UseGuards(OwnerGuard)
  owned(): string {
    return 'owned';
  }
}

describe.each(ONE_ADAPTER)('which entries lists show on %s', (adapter) => {
  let app: TestApp;
  afterEach(() => app.close());

  const start = async (
    options: Partial<McpStreamableOptions>,
    providers: Provider[] = [Tools, { provide: APP_GUARD, useClass: SecretsGuard }],
    configure?: (nest: INestApplication) => void,
  ): Promise<void> => {
    const imports = [McpStreamableModule.forRoot({ serverInfo, ...options })];
    app = await TestApp.of(adapter, { imports, providers }, configure);
  };
  const toolsOf = async (user: string): Promise<string[]> => {
    const client = await app.clientAt('mcp', { 'x-user': user }).initialize();
    const response = await client.post({ jsonrpc: '2.0', id: 9, method: 'tools/list' });
    return ((await response.json()).result.tools as { name: string }[]).map(({ name }) => name);
  };

  it('what lists show is decided by the guards of class and method', async () => {
    await start({});
    expect(await toolsOf('owner')).toEqual(['open', 'secret', 'owned']);
    expect(await toolsOf('other')).toEqual(['open', 'secret']);
  });

  it('what lists show leaves out an entry whose guard fails, which the log says once, and says no denial', async () => {
    const throwing = (error: Error): CanActivate => ({
      canActivate: () => {
        throw error;
      },
    });
    class Failing {
      @Tool({ name: 'faulty' })
      @UseGuards(throwing(new TypeError('no database')))
      faulty(): void {}
      @Tool({ name: 'denied' })
      @UseGuards(throwing(new UnauthorizedException()))
      denied(): void {}
    }
    await start({}, [Failing]);
    expect([await toolsOf('owner'), await toolsOf('other')]).toEqual([[], []]);
    expect(app.log.texts('error')).toEqual([expect.stringMatching(/Failing\.faulty[^]*no database/)]);
  });

  it('what lists show is not decided by a global guard that is not named, also beside the guard of a method', async () => {
    const closed: CanActivate = { canActivate: (context) => !McpExecutionContext.isMcp(context) };
    await start({}, [Tools, { provide: APP_GUARD, useValue: closed }]);
    expect(await toolsOf('owner')).toEqual(['open', 'secret', 'owned']);
  });

  it('what lists show is decided by global guards that the option "listGuards" names', async () => {
    await start({ listGuards: [SecretsGuard] });
    expect(await toolsOf('owner')).toEqual(['open', 'secret', 'owned']);
    expect(await toolsOf('other')).toEqual(['open']);
    const registry = app.app.get(McpRegistry, { strict: false });
    expect(registry.list('tool').map(({ key, guarded }) => [key, guarded])).toEqual([
      ['open', true],
      ['secret', true],
      ['owned', true],
    ]);
  });

  describe('and the note at the start about global guards that lists do not run', () => {
    const said = (): string[] => app.log.texts('log').filter((text) => text.includes('listGuards'));
    const scoped = { provide: APP_GUARD, scope: Scope.REQUEST, useClass: OwnerGuard };

    it('the note at the start about global guards that lists do not run names their classes and the option, once for the endpoint', async () => {
      const own = { canActivate: () => true };
      const value = { provide: APP_GUARD, useValue: { canActivate: () => true } };
      const providers = [Tools, { provide: APP_GUARD, useClass: SecretsGuard }, value, scoped];
      await start({}, providers, (nest) => void nest.useGlobalGuards(new SecretsGuard(), own));
      expect(said()).toEqual([
        expect.stringMatching(
          /^The endpoint "mcp" lists .* SecretsGuard, an object without a class \(\w*Module\w*\), an object without a class \(app\.useGlobalGuards\(\)\), OwnerGuard: /,
        ),
      ]);
    });

    it('the note at the start about global guards that lists do not run is not logged when the option is set, also to an empty list', async () => {
      for (const listGuards of [[SecretsGuard], []]) {
        await start({ listGuards });
        expect(said()).toEqual([]);
        if (listGuards.length > 0) await app.close();
      }
    });

    it('the note at the start about global guards that lists do not run is not logged without global guards, nor without handlers', async () => {
      await start({}, [Tools]);
      expect(said()).toEqual([]);
      await app.close();
      await start({}, [{ provide: APP_GUARD, useClass: SecretsGuard }]);
      expect(said()).toEqual([]);
    });
  });
});
