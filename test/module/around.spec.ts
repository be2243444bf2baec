import {
  BadRequestException,
  Controller,
  Get,
  HttpException,
  type CanActivate,
  type INestApplication,
} from '@nestjs/common';
import { McpStreamableModule, type McpStreamableOptions } from 'nestjs-mcp-streamable';
import { VirtualTimeScheduler } from 'rxjs';
import { afterEach, describe, expect, it } from 'vitest';
import { ADAPTERS, gate, TestApp, serverInfo, whoami } from '../support/app.js';
import { AppExceptionFilter, TimeoutInterceptor, WrappingInterceptor } from '../support/app-wide.js';
import { send } from '../support/http.js';
import { expectGenericFailure, expectRefusal } from '../support/refusal.js';
import { serverSaying } from '../support/scripted-server.js';

@Controller('beside')
class BesideController {
  @Get()
  beside(): { beside: boolean } {
    return { beside: true };
  }
  @Get('fails')
  fails(): never {
    throw new HttpException('not here', 410);
  }
}

/** What helmet and its like set on every answer. */
const HELMET = {
  'content-security-policy': "default-src 'self'",
  'cross-origin-resource-policy': 'same-origin',
  'strict-transport-security': 'max-age=31536000; includeSubDomains',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'SAMEORIGIN',
};

describe.each(ADAPTERS)('what an app does to all of its routes on %s', (adapter) => {
  let app: TestApp;
  let release: ReturnType<typeof gate<void>>;
  let broken: Error | undefined;
  afterEach(() => app.close());

  const server = () => {
    const made = serverSaying(() => 'me');
    made.registerTool('talks', {}, async (ctx) => {
      await ctx.mcpReq.notify({ method: 'notifications/message', params: { level: 'info', data: 'wait' } });
      await release.promise;
      return { content: [{ type: 'text', text: 'said' }] };
    });
    made.registerTool('waits', {}, async (ctx) => {
      await Promise.race([release.promise, new Promise((resolve) => (ctx.mcpReq.signal.onabort = resolve))]);
      return { content: [{ type: 'text', text: 'waited' }] };
    });
    return made;
  };

  async function start(
    configure: (nest: INestApplication) => void,
    options: Partial<McpStreamableOptions> = {},
  ): Promise<void> {
    release = gate();
    broken = undefined;
    const guard: CanActivate = {
      canActivate: () => {
        if (broken) throw broken;
        return true;
      },
    };
    const endpoint = { serverInfo, server, guards: [guard], principal: () => 'me', ...options };
    const module = { imports: [McpStreamableModule.forRoot(endpoint)], controllers: [BesideController] };
    app = await TestApp.of(adapter, module, configure);
  }

  const beside = async (path = 'beside') => (await send(`${app.base}/${path}`, { method: 'GET' })).json();

  /** JSON, 202, SSE of a POST and of a GET, errors of each kind, the end. */
  async function expectAllIsWell(): Promise<void> {
    const client = await app.client().initialize();
    const json = await (await client.call('whoami', {}, { id: 'j' })).json();
    expect(json).toEqual({ jsonrpc: '2.0', id: 'j', result: { content: [{ type: 'text', text: 'me' }] } });

    const posted = await (await client.call('talks', {}, { id: 's' })).sse().count(1);
    const listening = await client.listen();
    release.open();
    expect(await posted.end()).toBe('end');
    expect(posted.messages).toEqual([
      { jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'wait' } },
      { jsonrpc: '2.0', id: 's', result: { content: [{ type: 'text', text: 'said' }] } },
    ]);
    await app.service.notify(client.sessionId!, { method: 'notifications/tools/list_changed' });
    expect((await listening.count(1)).messages[0].method).toBe('notifications/tools/list_changed');

    await expectRefusal(await client.post('{'), { status: 400, code: -32700 });
    await expectRefusal(await client.get('nonsense'), { status: 400, code: -32000 });
    const stranger = app.client();
    stranger.sessionId = 'no-such-session-here';
    await expectRefusal(await stranger.call('whoami', {}, { id: 'x' }), { status: 404, code: -32001, id: 'x' });
    const put = await send(client.url, { method: 'PUT', headers: client.usualHeaders });
    await expectRefusal(put, { status: 405, code: -32000 });
    broken = new HttpException('closed for today', 403);
    await expectRefusal(await client.call('whoami'), { status: 403, code: -32000, says: ['closed for today'] });
    broken = new Error('it broke');
    await expectGenericFailure(await client.call('whoami'), null);
    broken = undefined;

    const deleted = await client.delete();
    expect([deleted.status, await deleted.text()]).toEqual([204, '']);
    expect(await listening.end()).toBe('end');
  }

  it('an interceptor that wraps every response does not touch ours', async () => {
    await start((nest) => nest.useGlobalInterceptors(new WrappingInterceptor()));
    expect(await beside()).toEqual({ success: true, data: { beside: true } });
    await expectAllIsWell();
  });

  it('an exception filter that catches everything does not touch our errors', async () => {
    await start((nest) => nest.useGlobalFilters(new AppExceptionFilter()));
    expect(await beside('beside/fails')).toEqual({ success: false, message: 'not here' });
    await expectAllIsWell();
  });

  it('a pipe has nothing of ours to transform', async () => {
    const transform = (): never => {
      throw new BadRequestException('not valid');
    };
    await start((nest) => nest.useGlobalPipes({ transform }));
    await expectAllIsWell();
  });

  it('all of them together', async () => {
    await start((nest) => {
      nest.useGlobalInterceptors(new WrappingInterceptor(), new TimeoutInterceptor(60_000, new VirtualTimeScheduler()));
      nest.useGlobalFilters(new AppExceptionFilter());
      nest.enableCors();
    });
    await expectAllIsWell();
  });

  describe('a timeout', () => {
    let time: VirtualTimeScheduler;
    let interceptor: TimeoutInterceptor;

    async function startWithTimeout(options: Partial<McpStreamableOptions> = {}): Promise<void> {
      time = new VirtualTimeScheduler();
      interceptor = new TimeoutInterceptor(5_000, time);
      await start((nest) => nest.useGlobalInterceptors(interceptor), options);
    }

    it('a timeout does not end streams that last longer', async () => {
      await startWithTimeout();
      const client = await app.client().initialize();
      const listening = await client.listen();
      const posted = await (await client.call('talks')).sse().count(1);
      time.flush();
      expect(interceptor.fired).toBe(0);
      release.open();
      expect(await posted.end()).toBe('end');
      expect(posted.messages.at(-1).result.content[0].text).toBe('said');
      await app.service.notify(client.sessionId!, { method: 'notifications/tools/list_changed' });
      await listening.count(1);
      expect(listening.ended).toBeUndefined();
    });

    it('a timeout does not end a call that is slow and became a stream before', async () => {
      await startWithTimeout({ sseAfterMs: 1 });
      const client = await app.client().initialize();
      const posted = await (await client.call('waits')).sse().opened();
      time.flush();
      release.open();
      expect(await posted.end()).toBe('end');
      expect(posted.messages.map(({ result }) => result.content[0].text)).toEqual(['waited']);
      expect(interceptor.fired).toBe(0);
    });

    it('a timeout ends a call that is answered as JSON and takes longer, as JSON-RPC, and nothing is left of it', async () => {
      await startWithTimeout({ responseMode: 'json' });
      const client = await app.client().initialize();
      const pending = client.call('waits', {}, { id: 'slow' });
      await expect.poll(async () => (await app.service.counts()).inFlight).toBe(1);
      time.flush();
      await expectRefusal(await pending, { status: 408, code: -32000, id: 'slow', says: ['Too slow for this app.'] });
      release.open();
      await expect.poll(async () => (await app.service.counts()).inFlight).toBe(0);
      expect(await whoami(client)).toBe('me');
      expect(app.log.texts('error')).toEqual([]);
    });
  });

  it('security headers of a middleware are on every answer, streams included', async () => {
    await start((nest) => {
      nest.use((_: unknown, response: { setHeader(name: string, value: string): void }, next: () => void) => {
        for (const [name, value] of Object.entries(HELMET)) response.setHeader(name, value);
        next();
      });
    });
    const client = await app.client().initialize();
    const responses = [
      await client.call('whoami'),
      await client.post({ jsonrpc: '2.0', method: 'notifications/roots/list_changed' }),
      await client.get(),
      await client.call('talks'),
      await client.post('{'),
    ];
    expect(responses.map((response) => [response.status, response.header('content-type')?.split(';')[0]])).toEqual([
      [200, 'application/json'],
      [202, undefined],
      [200, 'text/event-stream'],
      [200, 'text/event-stream'],
      [400, 'application/json'],
    ]);
    for (const response of responses) {
      expect(response.headers).toMatchObject(HELMET);
      response.destroy();
    }
    release.open();
    const deleted = await client.delete();
    expect(deleted.headers).toMatchObject(HELMET);
  });
});
