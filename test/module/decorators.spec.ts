import {
  applyDecorators,
  Inject,
  Injectable,
  SetMetadata,
  UseGuards,
  type CanActivate,
  type ExecutionContext,
} from '@nestjs/common';
import { APP_GUARD, ModulesContainer, Reflector } from '@nestjs/core';
import { SkipThrottle, Throttle, ThrottlerGuard, ThrottlerModule } from '@nestjs/throttler';
import { McpStreamableModule, Tool, type McpStreamableExtras } from 'nestjs-mcp-streamable';
import { afterEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, TestApp, serverInfo, whoami } from '../support/app.js';
import { ModernClient } from '../support/modern-client.js';

const Public = () => SetMetadata('isPublic', true);

/** As in Nest's own documentation: everything needs a login, but for what is public. */
@Injectable()
class LoginGuard implements CanActivate {
  constructor(@Inject(Reflector) private readonly reflector: Reflector) {}

  canActivate(context: ExecutionContext): boolean {
    return this.reflector.getAllAndOverride<boolean>('isPublic', [context.getHandler(), context.getClass()]) ?? false;
  }
}

/** Global guards apply to handlers too, which have decorators of their own. */
@Public()
class PublicTools {
  @Tool({ name: 'whoami', description: 'Who answers' })
  whoami(): string {
    return 'me';
  }
}

describe.each(ONE_ADAPTER)('the decorators of the endpoint on %s', (adapter) => {
  let app: TestApp;
  afterEach(async () => {
    await app.service.terminateAll();
    await app.close();
  });

  const endpoint = (extras: McpStreamableExtras) =>
    McpStreamableModule.forRoot({
      serverInfo,
      ...extras,
    });
  const loggedIn = async (extras: McpStreamableExtras): Promise<number> => {
    const providers = [{ provide: APP_GUARD, useClass: LoginGuard }, PublicTools];
    app = await TestApp.of(adapter, { imports: [endpoint(extras)], providers });
    const client = app.client();
    return (await client.post(client.initializeMessage())).status;
  };

  it('a global guard reads decorators of the controller, for every method and in both eras', async () => {
    expect(await loggedIn({ decorators: [Public()] })).toBe(200);
    const client = await app.client().initialize();
    expect(await whoami(client)).toBe('me');
    (await client.listen()).destroy();
    expect((await new ModernClient(client.url).call('whoami')).status).toBe(200);
    expect((await client.delete()).status).toBe(204);
  });

  it('a global guard refuses an endpoint without decorators', async () => {
    expect(await loggedIn({})).toBe(403);
  });

  it('decorators apply in their order, and leave guards, filters and description of the controller alone', async () => {
    const order: string[] = [];
    const says = (text: string): CanActivate => ({ canActivate: () => order.push(text) > 0 });
    const decorators = [
      applyDecorators(Public(), UseGuards(says('decorator'))),
      SetMetadata('which', 'first'),
      SetMetadata('which', 'second'),
      SetMetadata('path', 'elsewhere'),
      SetMetadata('swagger/apiExcludeController', [false]),
    ];
    expect(await loggedIn({ decorators, guards: [says('endpoint')] })).toBe(200);
    expect(order).toEqual(['decorator', 'endpoint']);
    const [controller] = [...app.app.get(ModulesContainer).values()].flatMap(({ controllers }) => [
      ...controllers.values(),
    ]);
    const metadata = (key: string): unknown => Reflect.getMetadata(key, controller!.metatype as object);
    // As above a class: the first one is applied last.
    expect(metadata('which')).toBe('first');
    expect(metadata('swagger/apiExcludeController')).toEqual([true]);
  });

  describe('with a throttler around the whole app', () => {
    const statuses = async (extras: McpStreamableExtras, count: number): Promise<number[]> => {
      const providers = [{ provide: APP_GUARD, useClass: ThrottlerGuard }];
      const throttler = ThrottlerModule.forRoot([{ ttl: 60_000, limit: 2 }]);
      app = await TestApp.of(adapter, { imports: [endpoint(extras), throttler], providers });
      const client = app.client();
      const found: number[] = [];
      for (let sent = 0; sent < count; sent++) found.push((await client.post(client.initializeMessage())).status);
      return found;
    };

    it('the throttler counts each POST', async () => {
      expect(await statuses({}, 3)).toEqual([200, 200, 429]);
    });

    it('SkipThrottle() exempts the endpoint', async () => {
      expect(await statuses({ decorators: [SkipThrottle()] }, 4)).toEqual([200, 200, 200, 200]);
    });

    it('Throttle() gives the endpoint a limit of its own', async () => {
      const decorators = [Throttle({ default: { ttl: 60_000, limit: 3 } })];
      expect(await statuses({ decorators }, 4)).toEqual([200, 200, 200, 429]);
    });
  });
});
