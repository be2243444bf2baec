import { type CanActivate, Inject, Injectable, type Provider, Scope, type Type, UseGuards } from '@nestjs/common';
import {
  APP_GUARD,
  ApplicationConfig,
  ContextIdFactory,
  DiscoveryModule,
  DiscoveryService,
  ModulesContainer,
  REQUEST,
} from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { Tool } from '../decorators/handler.decorators.js';
import { assertNoneSkipped } from './enhancers.js';
import { assertPayload, MADE, mendedIn, mountedOnFastify } from './older-nest.js';
import { layoutOf, methodOf } from './params.js';

/**
 * What older versions of Nest do not do: the start fails for the apps that rely on it. `npm run x -- check:compat` runs the oldest
 * versions themselves (test/package).
 */

@Injectable({ scope: Scope.TRANSIENT })
class TransientGuard implements CanActivate {
  canActivate(): boolean {
    return true;
  }
}
@Injectable({ scope: Scope.REQUEST })
class RequestGuard extends TransientGuard {}
@Injectable()
class StaticGuard extends TransientGuard {}

@Injectable()
class Tools {
  @Tool({ name: 'plain' })
  plain(): void {}
  @Tool({ name: 'guarded' })
  @UseGuards(StaticGuard, RequestGuard)
  guarded(): void {}
  @Tool({ name: 'transient' })
  @UseGuards(TransientGuard)
  transient(): void {}
}

@Injectable({ scope: Scope.REQUEST, durable: true })
class OfTenant {
  constructor(@Inject(REQUEST) readonly payload: unknown) {}
}
@Injectable({ scope: Scope.REQUEST, durable: true })
class Connection {}
@Injectable()
class TenantTools {
  constructor(@Inject(OfTenant) readonly tenant: OfTenant) {}
  @Tool({ name: 'tenant' })
  run(): void {}
}
@Injectable()
class ConnectedTools {
  constructor(@Inject(Connection) readonly connection: Connection) {}
  @Tool({ name: 'connected' })
  run(): void {}
}
@Injectable()
class StaticTools {
  @Tool({ name: 'static' })
  run(): void {}
}
const byTenant = { attach: () => ({ resolve: () => ContextIdFactory.create(), payload: {} }) };

/** Starts the handler on a version of Nest. @returns the error of the start; nothing if the handler may be served */
async function refusal(version: string, handler: string, providers: Provider[]): Promise<string | undefined> {
  const app = await Test.createTestingModule({ imports: [DiscoveryModule], providers }).compile();
  try {
    const [name, methodName] = handler.split('.') as [string, string];
    const wrapper = app
      .get(DiscoveryService)
      .getProviders()
      .find((each) => each.name === name)!;
    const host = wrapper.metatype as Type<object>;
    const method = methodOf(host.prototype as object, methodName)!;
    const layout = layoutOf(host, methodName, handler);
    assertNoneSkipped(app.get(ApplicationConfig), wrapper, handler, { host, method, layout }, version);
    assertPayload(wrapper, app.get(ModulesContainer), handler, version);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  } finally {
    await app.close();
  }
}

describe('on an older Nest the start', () => {
  afterEach(() => ContextIdFactory.apply(undefined as never));

  it.each([
    ['11.2.7', '11.2.8'],
    ['12.1 or older', '12.2.0'],
  ])(
    'on an older Nest the start fails for enhancers that Nest %s does not make, and names %s',
    async (version, needed) => {
      const global = (given: object): Provider[] => [Tools, RequestGuard, { provide: APP_GUARD, ...given } as Provider];
      const update = `Update Nest to ${needed}.`;
      expect(await refusal(version, 'Tools.transient', [Tools])).toMatch(
        `Nest ${version} would skip its guard TransientGuard, or run it without its constructor, because it is transient. ${update}`,
      );
      for (const given of [
        { useClass: TransientGuard, scope: Scope.TRANSIENT },
        { useExisting: RequestGuard, scope: Scope.REQUEST },
      ])
        expect(await refusal(version, 'Tools.plain', global(given))).toContain(update);
    },
  );

  it.each(['11.1.0', '12.1 or older'])(
    'on an older Nest the start serves all other handlers, on %s',
    async (version) => {
      const guard = { provide: APP_GUARD, useClass: RequestGuard, scope: Scope.REQUEST };
      expect(await refusal(version, 'Tools.guarded', [Tools, guard])).toBeUndefined();
      ContextIdFactory.apply(byTenant);
      expect(await refusal(version, 'ConnectedTools.run', [ConnectedTools, Connection])).toBeUndefined();
      expect(await refusal(version, 'StaticTools.run', [StaticTools, OfTenant])).toBeUndefined();
    },
  );

  it.each([
    ['11.2.9', '11.2.10'],
    ['12.4.2', '12.5.0'],
  ])(
    'on an older Nest the start fails on %s for durable providers that would see the request of another caller, and names %s',
    async (version, needed) => {
      const ask = (of: string): Promise<string | undefined> => refusal(of, 'TenantTools.run', [TenantTools, OfTenant]);
      expect(await ask(version)).toBeUndefined();
      ContextIdFactory.apply(byTenant);
      expect(await ask(version)).toContain(
        `the durable provider OfTenant the request of its first caller as REQUEST, instead of the payload of the ContextIdStrategy. Update Nest to ${needed}.`,
      );
      expect(await ask(needed)).toBeUndefined();
    },
  );

  it('on an older Nest the start compares versions by their numbers, and takes other major versions as they are', () => {
    const versions = ['11.1.29', '11.2.8', '11.2.10', '12.2.0-next.1', '12.10.0', '13.0.0'];
    expect(versions.map((version) => mendedIn(MADE, version))).toEqual(['11.2.8', ...Array(5).fill(undefined)]);
  });

  it('on an older Nest the start knows that middleware on Fastify runs below the global prefix alone', () => {
    const on = (version: string): string[] =>
      ['/api/orders', '/mcp'].map((path) => mountedOnFastify(path, '/api', version));
    expect(on('11.1.29')).toEqual(['/api/orders', '/api/mcp']);
    expect(on('11.2.1')).toEqual(['/api/orders', '/mcp']);
    expect(on('12.1 or older')).toEqual(['/api/orders', '/mcp']);
  });
});
