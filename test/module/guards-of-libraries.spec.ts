import { type CanActivate, Injectable } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { ClsModule } from 'nestjs-cls';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, type TestApp } from '../support/app.js';
import { testApps } from '../support/test-apps.js';

@Injectable()
class CountingGuard implements CanActivate {
  canActivate(): boolean {
    return true;
  }
}
const PUBLIC = { ttlMs: 0, scope: 'public' } as const;
const COUNTING = { provide: APP_GUARD, useClass: CountingGuard };

describe.each(ONE_ADAPTER)('a guard that a library puts around the app, on %s,', (adapter) => {
  const start = testApps(adapter, {
    guards: [],
    tools: { ping: () => 'pong' },
    module: { imports: [ClsModule.forRoot({ global: true })] },
  });
  const scopeOf = async (app: TestApp): Promise<unknown> => (await app.modern().ask('tools/list')).result.cacheScope;
  const linesOf = ({ log }: TestApp): string[] => log.texts().filter((text) => text.includes('guard'));

  it('a guard of nestjs-cls is no login: nothing is logged about guards, neither at start nor about anonymous callers', async () => {
    const app = await start();
    await app.client().initialize();
    expect(linesOf(app)).toEqual([]);
  });

  it('a guard of nestjs-cls keeps lists private, and the log names its module and the cure', async () => {
    const app = await start({ listCache: PUBLIC });
    expect(await scopeOf(app)).toBe('private');
    expect(linesOf(app)).toEqual([expect.stringMatching(/"listCache".* ClsRootModule.*"guardedByApp: false"/)]);
  });

  it('guards of the app keep no list private if guardedByApp is false, and the log says nothing about them', async () => {
    const app = await start({ listCache: PUBLIC, guardedByApp: false, providers: [COUNTING] });
    await app.client().initialize();
    expect([await scopeOf(app), linesOf(app)]).toEqual(['public', []]);
  });

  it('guards of the endpoint keep lists private, whatever guardedByApp says', async () => {
    const app = await start({ listCache: PUBLIC, guardedByApp: false, guards: [new CountingGuard()] });
    expect(await scopeOf(app)).toBe('private');
  });

  it('a guard with a class is named in the log, and one of nestjs-cls beside it is not', async () => {
    const app = await start({ providers: [COUNTING] });
    expect(linesOf(app)).toEqual([expect.stringContaining('without running the global guards CountingGuard:')]);
  });
});
