import type { CallHandler, ExecutionContext, INestApplication, NestInterceptor } from '@nestjs/common';
import { UseInterceptors } from '@nestjs/common';
import { McpExecutionContext } from 'nestjs-mcp-streamable';
import { EMPTY, NEVER, of, type Observable, Subject } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ADAPTERS, gate, type TestApp } from '../support/app.js';
import type { RawClient } from '../support/raw-client.js';
import { expectRefusal } from '../support/refusal.js';
import { testApps } from '../support/test-apps.js';

type Intercept = (context: ExecutionContext, next: CallHandler) => Observable<unknown> | Promise<Observable<unknown>>;

interface Writing {
  status(code: number): this;
  header(name: string, value: string): this;
  send(body: object): void;
}

/** What the interceptor of the app does with the next request. */
let intercept: Intercept | undefined;
let ran: number;

class CacheInterceptor implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> | Promise<Observable<unknown>> {
    return intercept && !McpExecutionContext.isMcp(context) ? intercept(context, next) : next.handle();
  }
}
class InnerInterceptor implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle();
  }
}

const write = (context: ExecutionContext): void =>
  context.switchToHttp().getResponse<Writing>().status(503).header('retry-after', '60').send({ closed: true });

describe.each(ADAPTERS)('an interceptor around the endpoint that does not call the controller, on %s,', (adapter) => {
  const start = testApps(adapter, {
    shared: true,
    tools: { ping: () => String(++ran) },
    decorators: [UseInterceptors(InnerInterceptor)],
    configure: (app: INestApplication) => void app.useGlobalInterceptors(new CacheInterceptor()),
  });
  let app: TestApp;
  let client: RawClient;
  beforeEach(async () => {
    intercept = undefined;
    ran = 0;
    app = await start();
    client = await app.client().initialize();
  });
  afterEach(async () => {
    intercept = undefined;
    await (await client.delete()).text();
  });

  const unserved = { status: 503, code: -32000, says: ['interceptor'] };

  it.each<[string, Intercept]>([
    ['with a value', () => of({ cached: true })],
    ['with nothing', () => EMPTY],
    ['later', async () => of(undefined)],
  ])('E17: a POST whose interceptors end without the controller gets 503 (%s)', async (_, ends) => {
    intercept = ends;
    await expectRefusal(await client.call('ping', {}, { id: 'p' }), { ...unserved, id: 'p' });
    intercept = undefined;
    expect(await (await client.call('ping')).json()).toMatchObject({ result: { content: [{ text: '1' }] } });
  });

  it('E17: a GET and a DELETE whose interceptors end without the controller get 503', async () => {
    intercept = () => of({ cached: true });
    await expectRefusal(await client.get(), unserved);
    await expectRefusal(await client.delete(), unserved);
    intercept = undefined;
    expect((await client.call('ping')).status).toBe(200);
  });

  it('E17: the log names the interceptors around the endpoint once', async () => {
    const own = await start({});
    const caller = await own.client().initialize();
    intercept = () => of({ cached: true });
    for (let time = 0; time < 2; time++) await (await caller.call('ping')).text();
    const lines = own.log.lines.filter(({ text }) => text.includes('an interceptor of the app'));
    expect(lines.map(({ level }) => level)).toEqual(['warn', 'debug']);
    expect(lines[0]!.text).toContain('Around the endpoint are: CacheInterceptor, InnerInterceptor.');
  });

  it('E17: a response that an interceptor writes itself is the answer', async () => {
    for (const ended of [of(null), EMPTY]) {
      intercept = (context) => {
        write(context);
        return ended;
      };
      const response = await client.call('ping');
      expect([response.status, response.header('retry-after'), await response.json()]).toEqual([
        503,
        '60',
        { closed: true },
      ]);
    }
  });

  it('E17: an interceptor may write its response as long as it has not ended', async () => {
    const [asked, wait] = [gate(), gate()];
    intercept = async (context) => {
      asked.open();
      await wait.promise;
      write(context);
      return NEVER;
    };
    const posted = client.call('ping');
    await asked.promise;
    wait.open();
    expect(await (await posted).json()).toEqual({ closed: true });
  });

  it('E17: an interceptor may call the controller late', async () => {
    const [asked, wait] = [gate(), gate()];
    intercept = async (_context, next) => {
      asked.open();
      await wait.promise;
      return next.handle();
    };
    const posted = client.call('ping');
    await asked.promise;
    wait.open();
    expect(await (await posted).json()).toMatchObject({ result: { content: [{ text: '1' }] } });
  });

  it('E17: the controller answers although the interceptor that called it has ended', async () => {
    intercept = (_context, next) => {
      next.handle().subscribe();
      return of('stale');
    };
    expect(await (await client.call('ping')).json()).toMatchObject({ result: { content: [{ text: '1' }] } });
  });

  it('E17: the controller does not serve a request that has got 503', async () => {
    const handled = new Subject<void>();
    let late: CallHandler | undefined;
    intercept = (_context, next) => {
      late = next;
      return of('stale');
    };
    await expectRefusal(await client.call('ping', {}, { id: 'p' }), { ...unserved, id: 'p' });
    late!.handle().subscribe(handled);
    await new Promise<void>((resolve) => handled.subscribe({ complete: resolve }));
    expect(ran).toBe(0);
  });
});
