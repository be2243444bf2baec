import { Controller, Get, type INestApplication, Injectable, Module, VersioningType } from '@nestjs/common';
import { APP_GUARD, APP_INTERCEPTOR } from '@nestjs/core';
import { McpStreamableModule, type McpStreamableModuleOptions, Tool } from 'nestjs-mcp-streamable';
import { afterEach, describe, expect, it } from 'vitest';
import { EverywhereGuard, WrappingInterceptor } from '../support/app-wide.js';
import { ADAPTERS, ONE_ADAPTER, startFailure, TestApp } from '../support/app.js';
import { send } from '../support/http.js';
import { testApps } from '../support/test-apps.js';

const CARD = 'application/mcp-server-card+json';
const CATALOG = '/.well-known/ai-catalog.json';
const serverInfo = {
  name: 'com.example/orders',
  title: 'Orders',
  version: '1.2.0',
  description: 'Finds orders, and pays them back',
  websiteUrl: 'https://example.com/orders',
  icons: [{ src: 'https://example.com/orders.png', mimeType: 'image/png', sizes: ['48x48'] }],
};
const URL_OF_CLIENTS = 'https://api.example.com/mcp';
const serverCard = { url: URL_OF_CLIENTS };

const read = (base: string, path: string, method = 'GET', headers = {}) => send(base + path, { method, headers });

@Injectable()
class SecretTools {
  @Tool({ name: 'secret_tool', description: 'Only for staff' })
  secret(): string {
    return 'secret';
  }
}

describe.each(ADAPTERS)('the server card, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, serverInfo, guards: [] });

  it('N1: the server card says who the server is, where, and which revisions it speaks, and nothing of what it has', async () => {
    const app = await start({ serverCard, providers: [SecretTools], instructions: 'secret instructions' });
    const response = await read(app.base, '/mcp/server-card', 'GET', { accept: CARD });
    expect(response.status).toBe(200);
    expect(response.headers).toMatchObject({
      'content-type': CARD,
      'access-control-allow-origin': '*',
      'access-control-allow-methods': expect.stringContaining('GET'),
      'access-control-allow-headers': 'Content-Type, If-None-Match',
      'access-control-expose-headers': 'ETag',
      'cache-control': 'public, max-age=3600',
      etag: expect.stringMatching(/^"[\w-]{43}"$/),
    });
    expect(await response.json()).toEqual({
      $schema: 'https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json',
      ...serverInfo,
      remotes: [
        {
          type: 'streamable-http',
          url: URL_OF_CLIENTS,
          supportedProtocolVersions: ['2026-07-28', '2025-11-25', '2025-06-18', '2025-03-26'],
        },
      ],
    });
  });

  it('N2: the server card is in the catalog of the domain', async () => {
    const app = await start({ serverCard });
    const response = await read(app.base, CATALOG);
    expect(response.headers).toMatchObject({
      'content-type': 'application/ai-catalog+json',
      'access-control-allow-origin': '*',
    });
    expect(await response.json()).toEqual({
      specVersion: '1.0',
      entries: [{ identifier: 'urn:air:example.com:mcp:orders', type: CARD, url: `${URL_OF_CLIENTS}/server-card` }],
    });
  });

  it('N1: the server card is sent once: a client that has it gets 304', async () => {
    const origin = (await start({ serverCard })).base;
    for (const path of ['/mcp/server-card', CATALOG]) {
      const etag = (await read(origin, path)).header('etag');
      for (const known of [etag, `W/${etag}`, `"x", ${etag}`, '*']) {
        const response = await read(origin, path, 'GET', { 'if-none-match': known });
        expect([response.status, await response.text(), response.header('etag')]).toEqual([304, '', etag]);
        expect(response.header('access-control-allow-origin')).toBe('*');
      }
      expect((await read(origin, path, 'GET', { 'if-none-match': '"x"' })).status).toBe(200);
    }
  });

  it('N1: HEAD and OPTIONS are served, other methods are not', async () => {
    const origin = (await start({ serverCard })).base;
    const head = await read(origin, '/mcp/server-card', 'HEAD');
    expect([head.status, Number(head.header('content-length')) > 0, await head.text()]).toEqual([200, true, '']);
    const preflight = await read(origin, '/mcp/server-card', 'OPTIONS', {
      origin: 'https://page.test',
      'access-control-request-method': 'GET',
      'access-control-request-headers': 'if-none-match',
    });
    expect([preflight.status, preflight.header('access-control-allow-headers')]).toEqual([
      204,
      'Content-Type, If-None-Match',
    ]);
    for (const method of ['POST', 'DELETE', 'PUT']) {
      const refused = await read(origin, '/mcp/server-card', method);
      expect([refused.status, refused.header('allow')]).toEqual([405, 'GET, HEAD, OPTIONS']);
      await refused.text();
    }
  });

  it('N1: global prefix, versioning, guards and interceptors of the whole app leave it alone', async () => {
    const app = await start({
      serverCard: { url: 'https://api.example.com/shop/mcp' },
      version: '1',
      module: {
        providers: [
          { provide: APP_GUARD, useClass: EverywhereGuard },
          { provide: APP_INTERCEPTOR, useClass: WrappingInterceptor },
        ],
      },
      configure: (nest: INestApplication) => {
        nest.setGlobalPrefix('api');
        nest.enableVersioning({ type: VersioningType.URI });
      },
    });
    const origin = app.base;
    // Behind a proxy that leaves the path as it is, and behind one that strips a prefix.
    for (const path of ['/shop/mcp/server-card', '/api/v1/mcp/server-card', '/api/v1/mcp/server-card?x=1']) {
      const response = await read(origin, path);
      expect([path, response.status]).toEqual([path, 200]);
      expect((await response.json()).remotes[0].url).toBe('https://api.example.com/shop/mcp');
    }
    for (const path of [
      '/mcp/server-card',
      '/server-card',
      '/api/v1/mcp/server-card/',
      '/api/v1/mcpx/server-card',
      '/.well-known/ai-catalog',
    ]) {
      const response = await read(origin, path);
      expect([path, response.status]).toEqual([path, 404]);
      await response.text();
    }
  });

  it('N1: the server card is not there unless it is asked for', async () => {
    const origin = (await start()).base;
    for (const path of ['/mcp/server-card', CATALOG]) {
      const response = await read(origin, path);
      expect(response.status).toBe(404);
      await response.text();
    }
  });
});

describe.each(ONE_ADAPTER)('the cards of an app, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, serverInfo, guards: [] });
  const apps: TestApp[] = [];
  afterEach(async () => {
    for (const app of apps.splice(0)) await app.app.close();
  });
  const endpoint = (path: string, options: Partial<McpStreamableModuleOptions>) =>
    McpStreamableModule.forRoot({ serverInfo, path, name: path, ...options });

  it('N1: the card of an app has the resource of "auth" as its URL, and says nothing else of "auth"', async () => {
    const auth = {
      resource: 'https://mcp.example.com/mcp',
      authorizationServers: ['https://idp.example.com'],
      requiredScopes: ['a'],
    };
    const app = await start({ serverCard: true, auth });
    const text = await (await read(app.base, '/mcp/server-card')).text();
    expect(JSON.parse(text).remotes[0].url).toBe(auth.resource);
    expect(text).not.toMatch(/idp|scope|header/i);
    expect((await read(app.base, '/mcp', 'GET')).status).toBe(401);
  });

  it.each([
    ['legacy', ['2025-11-25', '2025-06-18', '2025-03-26']],
    ['modern', ['2026-07-28']],
  ] as const)('N1: the card of an app names the revisions of the eras that are served: %s', async (eras, revisions) => {
    const app = await start({ serverCard, eras });
    const { remotes } = await (await read(app.base, '/mcp/server-card')).json();
    expect(remotes[0].supportedProtocolVersions).toEqual(revisions);
  });

  it('N2: the catalog has all cards; a route of the app takes its place', async () => {
    const cards = ['orders', 'stock'].map((name) =>
      endpoint(name, { serverCard: { name: `com.example/${name}`, url: `https://api.example.com/${name}` } }),
    );
    const app = await TestApp.of(adapter, { imports: [...cards, endpoint('hidden', {})] });
    apps.push(app);
    const { entries } = await (await read(app.base, CATALOG)).json();
    expect(entries.map(({ url }: { url: string }) => url)).toEqual([
      'https://api.example.com/orders/server-card',
      'https://api.example.com/stock/server-card',
    ]);
    expect((await (await read(app.base, '/stock/server-card')).json()).name).toBe('com.example/stock');
    expect((await read(app.base, '/hidden/server-card')).status).toBe(404);

    @Controller('.well-known/ai-catalog.json')
    class OwnCatalog {
      @Get()
      get(): object {
        return { specVersion: '1.0', entries: [] };
      }
    }
    const other = await TestApp.of(adapter, { imports: cards, controllers: [OwnCatalog] });
    apps.push(other);
    expect(await (await read(other.base, CATALOG)).json()).toEqual({ specVersion: '1.0', entries: [] });
  });

  it.each<[string, Partial<McpStreamableModuleOptions>, RegExp]>([
    ['no URL', { serverCard: true }, /"serverCard\.url" is needed: the URL at which clients reach/],
    [
      'a plain name',
      { serverInfo: { ...serverInfo, name: 'orders' }, serverCard },
      /"serverCard\.name" is needed.*"com\.example\/orders"; "orders" does not have this form/,
    ],
    [
      'no description',
      { serverInfo: { name: 'a/b', version: '1.0.0' }, serverCard },
      /"serverCard\.description" is needed.*there is none/,
    ],
    [
      'a long description',
      { serverCard: { ...serverCard, description: 'x'.repeat(101) } },
      /100 characters; the one .* has 101/,
    ],
    [
      'a range as version',
      { serverInfo: { ...serverInfo, version: '^1.0.0' }, serverCard },
      /"serverInfo\.version" is "\^1\.0\.0"/,
    ],
    ['credentials in the URL', { serverCard: { url: 'https://me:secret@example.com/mcp' } }, /without credentials/],
    ['http on a network', { serverCard: { url: 'http://example.com/mcp' } }, /absolute URL of https/],
    ['no URL at all', { serverCard: { url: 'mcp' } }, /absolute URL of https/],
    ['an unknown option', { serverCard: { link: 'x' } as never }, /no option "serverCard\.link"/],
    [
      'a repository without a host',
      { serverCard: { ...serverCard, repository: { url: 'https://a.test' } as never } },
      /"serverCard\.repository" must be/,
    ],
    [
      'a repository of javascript',
      { serverCard: { ...serverCard, repository: { url: 'javascript:alert(1)', source: 'x' } } },
      /"serverCard\.repository" must be/,
    ],
    ['a text', { serverCard: 'yes' as never }, /"serverCard" must be true, false or an object/],
  ])('N1: the app does not start with %s', async (_, options, message) => {
    const module = () => ({ imports: [McpStreamableModule.forRoot({ serverInfo, ...options })] });
    expect((await startFailure(adapter, module)).message).toMatch(message);
  });

  it('N2: the app does not start with two cards of one name', async () => {
    const cards = ['a', 'b'].map((path) => endpoint(path, { serverCard: { url: `https://api.example.com/${path}` } }));
    @Module({ imports: cards })
    class Twice {}
    await expect(TestApp.of(adapter, { imports: [Twice] })).rejects.toThrow(
      /Two MCP endpoints.*urn:air:example\.com:mcp:orders/,
    );
  });
});
