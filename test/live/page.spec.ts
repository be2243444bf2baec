import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import {
  type CallHandler,
  type CanActivate,
  type ExecutionContext,
  type INestApplication,
  Inject,
  Injectable,
  Module,
  type NestInterceptor,
  VersioningType,
} from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpLiveModule, type McpLiveOptions } from 'nestjs-mcp-streamable/live';
import { map, type Observable } from 'rxjs';
import { afterEach, describe, expect, it } from 'vitest';
import { ADAPTERS, type Adapter } from '../support/adapters.js';
import { send } from '../support/http.js';
import { act, LiveReader } from './live-reader.js';
import { TestApp, serverInfo } from '../support/app.js';

@Injectable()
class Staff {
  readonly password = 'letmein';
}

@Module({ providers: [Staff], exports: [Staff] })
class StaffModule {}

@Injectable()
class StaffGuard implements CanActivate {
  constructor(@Inject(Staff) private readonly staff: Staff) {}

  canActivate(context: ExecutionContext): boolean {
    return context.switchToHttp().getRequest().headers['x-password'] === this.staff.password;
  }
}

/** What apps have around all of their routes. */
class Envelope implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(map((data: unknown) => ({ data })));
  }
}

/** Of apps whose other routes pages of any origin may embed. */
const SHARED = { 'cross-origin-resource-policy': 'cross-origin' };

describe.each(ADAPTERS)('the live page on %s', (adapter) => {
  let app: TestApp;
  afterEach(() => app.close());

  async function start(
    live: McpLiveOptions = { unguarded: 'loopback' },
    configure?: (app: INestApplication) => void,
    endpoint: object = {},
  ): Promise<void> {
    const imports = [McpStreamableModule.forRoot({ serverInfo, ...endpoint }), McpLiveModule.forRoot(live)];
    app = await TestApp.of(adapter, { imports }, configure);
  }
  const get = (path: string, headers: Record<string, string> = {}, method = 'GET') =>
    send(`${app.base}/${path}`, { method, headers: { connection: 'close', ...headers } });

  it('the live page is one document that loads nothing from elsewhere, under a policy of its own', async () => {
    await start();
    const response = await get('mcp-live');
    const html = await response.text();
    expect(response.status).toBe(200);
    expect(response.headers).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-store',
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
    });
    const policy = String(response.header('content-security-policy'));
    for (const rule of ["default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'"])
      expect(policy.split('; ')).toContain(rule);
    for (const [directive, element] of [
      ['script-src', /<script[^>]*>(.*?)<\/script>/gs],
      ['style-src', /<style>(.*?)<\/style>/gs],
    ] as const) {
      const hashes = Array.from(html.matchAll(element), ([, text]) => `'sha256-${hashOf(text!)}'`);
      expect(hashes).toHaveLength(1);
      expect(policy).toContain(`${directive} ${hashes[0]!};`);
    }
    expect(html.match(/(?:src|href)=["'](?!data:|#)[^"']*/g)).toBeNull();
    expect(html).not.toMatch(/\.(?:innerHTML|outerHTML|insertAdjacentHTML|write)\b/);
  });

  it('the live page takes at most 60 KB compressed', async () => {
    await start();
    const html = await (await get('mcp-live')).text();
    expect(gzipSync(html).length).toBeLessThanOrEqual(60_000);
  });

  it('the live page keeps its headers and its body in an app with headers, interceptors and CORS around all routes', async () => {
    await start({ unguarded: 'loopback' }, (app) => {
      app.useGlobalInterceptors(new Envelope());
      app.enableCors({ origin: true });
      setEverywhere(app, adapter, { 'content-security-policy': 'default-src *', 'cache-control': 'public', ...SHARED });
    });
    const response = await get('mcp-live');
    expect(await response.text()).toMatch(/^<!doctype html>/);
    expect(response.header('content-security-policy')).toMatch(/^default-src 'none'/);
    expect(response.header('cache-control')).toBe('no-store');
    const reader = await LiveReader.open(`${app.base}/mcp-live`);
    expect(reader.first.facts).toMatchObject({ server: 'test 1.0.0', live: 0 });
    expect(reader.stream.response.headers).toMatchObject({
      'x-content-type-options': 'nosniff',
      'cross-origin-resource-policy': 'same-origin',
    });
    reader.close();
  });

  it('the live page is below a global prefix, in every version of the API, and at its own path', async () => {
    await start({ unguarded: 'loopback', path: 'ops/mcp' }, (app) => {
      app.setGlobalPrefix('api');
      app.enableVersioning({ type: VersioningType.URI, defaultVersion: '2' });
    });
    expect((await get('api/ops/mcp')).status).toBe(200);
    expect((await get('ops/mcp')).status).toBe(404);
    const reader = await LiveReader.open(`${app.base}/api/ops/mcp`);
    expect(reader.first.facts).toMatchObject({ path: '/api/mcp' });
    reader.close();
  });

  it('the live page answers HEAD without holding the response open', async () => {
    await start();
    expect((await get('mcp-live', {}, 'HEAD')).status).toBe(200);
    expect((await get('mcp-live/events', {}, 'HEAD')).status).toBe(405);
  });

  it('the live page asks the guards, with what they inject, on each route', async () => {
    await start({ guards: [StaffGuard], imports: [StaffModule] });
    const allowed = { 'x-password': 'letmein' };
    const page = `${app.base}/mcp-live`;
    expect((await get('mcp-live')).status).toBe(403);
    expect((await get('mcp-live/events')).status).toBe(403);
    expect((await act(page, 'sessions/x/end')).status).toBe(403);
    expect((await act(page, 'calls/x/cancel')).status).toBe(403);
    expect((await get('mcp-live', allowed)).status).toBe(200);
    expect((await act(page, 'sessions/x/end', allowed)).status).toBe(404);
    (await LiveReader.open(page, allowed)).close();
  });

  it('with guards it is for the hosts that an endpoint lists, so that no page of a rebound name reads it', async () => {
    const guards = [{ canActivate: () => true }];
    await start({ guards }, undefined, { allowedHosts: ['ops.example.com'] });
    for (const path of ['mcp-live', 'mcp-live/events?once']) {
      const response = await get(path, { host: 'evil.example' });
      expect(response.status).toBe(403);
      expect(await response.json()).toMatchObject({
        error: 'FORBIDDEN_HOST',
        message: expect.stringContaining('allowedHosts'),
      });
    }
    expect((await get('mcp-live', { host: 'ops.example.com' })).status).toBe(200);
    expect((await get('mcp-live', { host: 'localhost:1234' })).status).toBe(200);
  });

  it('an action by the name of an attacker is refused although the guards let it pass, and nothing ends', async () => {
    await start({ guards: [{ canActivate: () => true }] }, undefined, { allowedHosts: ['ops.example.com'] });
    await app.client().initialize();
    const reader = await LiveReader.open(`${app.base}/mcp-live`);
    const { key } = reader.row('sessions');
    reader.close();
    const evil = { host: 'evil.example', origin: 'http://evil.example' };
    const refused = await act(`${app.base}/mcp-live`, `sessions/${key}/end`, evil);
    expect(refused).toMatchObject({ status: 403, body: { error: 'FORBIDDEN_HOST' } });
    expect(await app.service.list()).toHaveLength(1);
  });

  it('the live page runs guards that are given as objects', async () => {
    await start({ guards: [{ canActivate: () => false }] });
    expect((await get('mcp-live')).status).toBe(403);
  });

  it('unguarded: refuses a name that is not of this machine, and what a proxy has passed on', async () => {
    await start();
    expect((await get('mcp-live', { host: 'localhost:1234' })).status).toBe(200);
    const strangers: Record<string, string>[] = [
      { host: 'rebound.example' },
      { 'x-forwarded-for': '127.0.0.1' },
      { via: '1.1 proxy' },
      { 'x-amzn-trace-id': 'Root=1-67891233-abcdef012345678912345678' },
      { 'fly-region': 'fra' },
    ];
    for (const headers of strangers) {
      for (const path of ['mcp-live', 'mcp-live/events']) {
        const refused = await get(path, headers);
        expect(refused.status).toBe(403);
        expect(await refused.json()).toMatchObject({
          error: 'NOT_LOOPBACK',
          message: expect.stringContaining('guards'),
        });
      }
    }
  });

  it('the live page is not readable for a page of another origin, whatever CORS the app has', async () => {
    await start({ unguarded: 'loopback' }, (app) => app.enableCors());
    for (const path of ['mcp-live', 'mcp-live/events']) {
      const refused = await get(path, { origin: 'https://evil.example' });
      expect(refused.status).toBe(403);
      expect(await refused.json()).toMatchObject({ error: 'FORBIDDEN_ORIGIN' });
    }
  });
});

const hashOf = (text: string): string => createHash('sha256').update(text).digest('base64');

function setEverywhere(app: INestApplication, adapter: Adapter, headers: Record<string, string>): void {
  if (adapter === 'express') {
    app.use((_: unknown, response: { setHeader(name: string, value: string): void }, next: () => void) => {
      for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
      next();
    });
    return;
  }
  // As @fastify/helmet does it, and once more at the end.
  // oxlint-disable-next-line typescript/no-explicit-any -- types of Fastify's hooks by kind
  const set = (_: unknown, reply: any, ...rest: any[]) => {
    for (const [name, value] of Object.entries(headers)) {
      reply.raw.setHeader(name, value);
      reply.header(name, value);
    }
    rest.at(-1)();
  };
  app.getHttpAdapter().getInstance().addHook('onRequest', set).addHook('onSend', set);
}
