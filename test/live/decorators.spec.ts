import { type CanActivate, type ExecutionContext, Inject, Injectable, SetMetadata } from '@nestjs/common';
import { APP_GUARD, Reflector } from '@nestjs/core';
import { SkipThrottle, ThrottlerGuard, ThrottlerModule } from '@nestjs/throttler';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpLiveModule, type McpLiveOptions } from 'nestjs-mcp-streamable/live';
import { afterEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, serverInfo, TestApp } from '../support/app.js';
import { send } from '../support/http.js';
import { act, LiveReader } from './live-reader.js';

const Public = () => SetMetadata('isPublic', true);

/** As in Nest's own documentation: everything needs a token, but for what is public. */
@Injectable()
class TokenGuard implements CanActivate {
  constructor(@Inject(Reflector) private readonly reflector: Reflector) {}

  canActivate(context: ExecutionContext): boolean {
    return this.reflector.getAllAndOverride<boolean>('isPublic', [context.getHandler(), context.getClass()]) ?? false;
  }
}

const isReader: CanActivate = {
  canActivate: (context) => context.switchToHttp().getRequest().headers['x-user'] === 'reader',
};
const READER = { 'x-user': 'reader' };

describe.each(ONE_ADAPTER)('the decorators of the live page on %s', (adapter) => {
  let app: TestApp;
  afterEach(() => app.close());

  async function start(live: Pick<McpLiveOptions, 'decorators'>, isAsync = false): Promise<string> {
    const given = { guards: [isReader], ...live };
    const module = isAsync
      ? McpLiveModule.forRootAsync({ ...given, useFactory: () => ({}) })
      : McpLiveModule.forRoot(given);
    const throttler = ThrottlerModule.forRoot([{ ttl: 60_000, limit: 1 }]);
    const providers = [
      { provide: APP_GUARD, useClass: TokenGuard },
      { provide: APP_GUARD, useClass: ThrottlerGuard },
    ];
    app = await TestApp.of(adapter, {
      imports: [McpStreamableModule.forRoot({ serverInfo }), module, throttler],
      providers,
    });
    return `${app.base}/mcp-live`;
  }
  const get = async (url: string, headers = READER) => (await send(url, { method: 'GET', headers })).status;

  it.each([false, true])(
    'global guards of tokens and of rates find the decorators of the page on all of its routes (async: %s)',
    async (isAsync) => {
      const page = await start({ decorators: [Public(), SkipThrottle()] }, isAsync);
      for (let read = 0; read < 3; read++) expect(await get(page)).toBe(200);
      const reader = await LiveReader.open(page, READER);
      reader.close();
      expect(await act(page, 'sessions/nothing/end', READER)).toMatchObject({ body: { error: 'UNKNOWN_SESSION' } });
      expect(await get(page, { 'x-user': 'nobody' })).toBe(403);
    },
  );

  it('global guards of tokens and of rates refuse a page without decorators', async () => {
    const page = await start({ decorators: [Public()] });
    expect([await get(page), await get(page)]).toEqual([200, 429]);
    await app.close();
    expect(await get(await start({}))).toBe(403);
  });
});
