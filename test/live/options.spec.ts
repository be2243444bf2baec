import { type CanActivate, Injectable, Module } from '@nestjs/common';
import { McpOptionError, McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpLiveModule, type McpLiveOptions } from 'nestjs-mcp-streamable/live';
import { expect, it, describe } from 'vitest';
import { serverInfo, startFailure, TestApp } from '../support/app.js';

@Injectable()
class Everyone implements CanActivate {
  canActivate(): boolean {
    return true;
  }
}

describe('McpLiveModule.forRoot()', () => {
  it.each<[string, unknown, string, string]>([
    ['nothing', undefined, 'options', 'must be an object'],
    ['neither guards nor unguarded', {}, 'guards', 'needs "guards"'],
    ['both', { guards: [Everyone], unguarded: 'loopback' }, 'unguarded', 'both "guards" and "unguarded"'],
    ['no guard', { guards: [] }, 'guards', 'at least one guard'],
    ['a guard that a circular import left undefined', { guards: [undefined] }, 'guards', 'circular import'],
    ['unguarded for everyone', { unguarded: true }, 'unguarded', 'one of "loopback"'],
    ['a name that is no option', { guard: [Everyone] }, 'guard', 'Did you mean "guards"?'],
    ['no path', { guards: [Everyone], path: '' }, 'path', 'a non-empty string'],
    ['no reader', { guards: [Everyone], maxReaders: 0 }, 'maxReaders', 'at least 1'],
    ['payloads that are no boolean', { guards: [Everyone], payloads: 'yes' }, 'payloads', 'true or false'],
    ['tryIt that is no boolean', { guards: [Everyone], tryIt: 1 }, 'tryIt', 'true or false'],
    [
      'decorators that are not called',
      { guards: [Everyone], decorators: [{}] },
      'decorators',
      'array of class decorators',
    ],
    ['imports that are no list', { guards: [Everyone], imports: {} }, 'imports', 'array of modules'],
  ])('McpLiveModule.forRoot() with %s throws and says what to give', (_, options, option, text) => {
    const make = () => McpLiveModule.forRoot(options as McpLiveOptions);
    expect(make).toThrow(McpOptionError);
    expect(make).toThrow(text);
    expect(make).toThrow(expect.objectContaining({ option }));
  });

  it('two pages of one path do not start, also in two modules; one that is imported twice does', async () => {
    const page = () => McpLiveModule.forRoot({ guards: [Everyone] });
    const endpoint = McpStreamableModule.forRoot({ serverInfo });
    const shop = (imports: object[]) => {
      @Module({ imports: imports as never })
      class Shop {}
      return Shop;
    };
    const failure = await startFailure('fastify', () => ({ imports: [endpoint, shop([page()]), page()] }));
    expect(failure).toBeInstanceOf(McpOptionError);
    expect(failure.message).toContain('The app has McpLiveModule several times with the path "mcp-live"');
    const once = page();
    const app = await TestApp.of('fastify', { imports: [endpoint, shop([once]), once] });
    await app.close();
  });

  it('without an endpoint in the app the start fails and says what to import', async () => {
    const failure = await startFailure('fastify', () => ({ imports: [McpLiveModule.forRoot({ guards: [Everyone] })] }));
    expect(failure).toBeInstanceOf(McpOptionError);
    expect(failure.message).toContain('Import McpStreamableModule.forRoot()');
  });

  it('a guard whose dependencies no import has stops the start', async () => {
    class Sessions {}
    @Injectable()
    class Needy implements CanActivate {
      constructor(readonly sessions: Sessions) {}
      canActivate = (): boolean => true;
    }
    Reflect.defineMetadata('design:paramtypes', [Sessions], Needy);
    const imports = () => [McpStreamableModule.forRoot({ serverInfo }), McpLiveModule.forRoot({ guards: [Needy] })];
    expect((await startFailure('fastify', () => ({ imports: imports() }))).message).toContain('Sessions');
  });
});
