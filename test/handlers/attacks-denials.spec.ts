import { Injectable, UnauthorizedException, UseGuards, type ExecutionContext } from '@nestjs/common';
import { Tool } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER } from '../support/app.js';
import { testApps } from '../support/test-apps.js';

// oxlint-disable-next-line typescript/no-explicit-any -- Express' or Fastify's response
type Response = any;

/** A guard that does something to the response, and lets nobody in. */
function denies(touch: (response: Response) => unknown): MethodDecorator & ClassDecorator {
  return UseGuards({
    canActivate(context: ExecutionContext): never {
      touch(context.switchToHttp().getResponse());
      throw new UnauthorizedException('Who are you?');
    },
  });
}

@Injectable()
class Denied {
  @Tool({ name: 'body' })
  @denies((response) =>
    response
      .header('Content-Length', '0')
      .header('Content-Encoding', 'gzip')
      .header('Transfer-Encoding', 'chunked')
      .header('Content-Type', 'text/html')
      .header('Connection', 'upgrade'),
  )
  body(): void {}

  @Tool({ name: 'session' })
  @denies((response) => response.setHeader?.('Mcp-Session-Id', 'mine').setHeader('Set-Cookie', ['a=1', 'b=2']))
  session(): void {}

  @Tool({ name: 'login' })
  @denies((response) => response.redirect('/login'))
  login(): void {}

  @Tool({ name: 'line-break' })
  @denies((response) => response.header('WWW-Authenticate', 'Bearer realm="a\r\nX-Evil: 1"'))
  lineBreak(): void {}

  @Tool({ name: 'no-header' })
  @denies((response) => response.header('two words', 'x'))
  noHeader(): void {}
}

describe.each(ONE_ADAPTER)('a guard that writes to the response before it denies, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers: [Denied], errorDetails: false });

  const call = async (name: string) => {
    const app = await start();
    const client = await app.client().initialize();
    const response = await client.call(name);
    return { app, response, body: await response.json() };
  };
  const denial = { jsonrpc: '2.0', error: { code: -32000, message: 'Who are you?' } };

  it.each(['body', 'session'])(
    'a guard that writes to the response before it denies cannot change the parts of the transport (%s)',
    async (name) => {
      const { response, body } = await call(name);
      expect([response.status, body]).toMatchObject([401, denial]);
      expect(response.header('content-type')).toMatch(/^application\/json/);
      for (const header of ['content-encoding', 'mcp-session-id', 'set-cookie']) {
        expect(response.header(header)).toBeUndefined();
      }
    },
  );

  it('a guard that writes to the response before it denies may redirect, which an MCP client gets as a denial', async () => {
    const { response, body } = await call('login');
    expect([response.status, body]).toMatchObject([401, denial]);
  });

  it.each(['line-break', 'no-header'])(
    'a guard that writes to the response before it denies fails the call when HTTP cannot carry the value (%s)',
    async (name) => {
      const { app, response, body } = await call(name);
      expect(response.status).toBe(200);
      expect(body.result.isError).toBe(true);
      expect(JSON.stringify([body, response.headers])).not.toMatch(/evil|two words|realm/i);
      expect(app.log.texts('error').join()).toMatch(/Denied\.\w+.*failed: TypeError/);
    },
  );
});
