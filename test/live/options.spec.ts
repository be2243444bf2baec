import { type CanActivate, Injectable } from '@nestjs/common';
import { McpLiveModule, type McpLiveOptions, McpOptionError, McpStreamableModule } from 'nestjs-mcp-streamable';
import { expect, it, describe } from 'vitest';
import { isLoopbackRequest } from '../../src/http/edge/host-origin.js';
import { serverInfo, startFailure } from '../support/nest-app.js';

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
    ['imports that are no list', { guards: [Everyone], imports: {} }, 'imports', 'array of modules'],
  ])('with %s throws and says what to give', (_, options, option, text) => {
    const make = () => McpLiveModule.forRoot(options as McpLiveOptions);
    expect(make).toThrow(McpOptionError);
    expect(make).toThrow(text);
    expect(make).toThrow(expect.objectContaining({ option }));
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

describe('a caller of this machine', () => {
  const isLocal = (remoteAddress: string, headers: object) =>
    isLoopbackRequest({ headers, socket: { remoteAddress } } as never);

  it.each<[string, object, boolean]>([
    ['127.0.0.1', { host: 'localhost:3000' }, true],
    ['::1', { host: '[::1]:3000' }, true],
    ['::ffff:127.0.0.1', { host: '127.0.0.1' }, true],
    ['10.0.0.7', { host: 'localhost:3000' }, false],
    ['10.0.0.7', { host: 'localhost', 'x-forwarded-for': '127.0.0.1' }, false],
    ['127.0.0.1', { host: 'evil.example' }, false],
    ['127.0.0.1', { host: 'localhost.evil.example' }, false],
    ['127.0.0.1', {}, false],
    ['127.0.0.1', { host: 'localhost', 'x-forwarded-for': '10.0.0.7' }, false],
    ['127.0.0.1', { host: 'localhost', 'x-forwarded-proto': 'https' }, false],
    ['127.0.0.1', { host: 'localhost', forwarded: 'for=10.0.0.7' }, false],
    ...['x-real-ip', 'cf-connecting-ip', 'true-client-ip', 'fastly-client-ip', 'x-azure-clientip', 'x-envoy-peer'].map(
      (name): [string, object, boolean] => ['127.0.0.1', { host: 'localhost', [name]: '10.0.0.7' }, false],
    ),
    ...['x-original-host', 'x-host', 'x-forwarded', 'x-forwarded-host', 'via', 'forwarded-for'].map(
      (name): [string, object, boolean] => ['127.0.0.1', { host: 'localhost', [name]: 'mcp.example.com' }, false],
    ),
    [
      '127.0.0.1',
      { host: 'localhost', viable: '1', shipping: '1', 'user-agent': 'curl', 'sec-fetch-site': 'none' },
      true,
    ],
  ])('from %s with %o: %s', (address, headers, local) => {
    expect(isLocal(address, headers)).toBe(local);
  });
});
