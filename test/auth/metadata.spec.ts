import { Controller, Get, type INestApplication, Module, type ModuleMetadata, VersioningType } from '@nestjs/common';
import { APP_GUARD, APP_INTERCEPTOR } from '@nestjs/core';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { afterEach, describe, expect, it } from 'vitest';
import { EverywhereGuard, WrappingInterceptor } from '../support/app-wide.js';
import { ADAPTERS, TestApp, serverInfo, startFailure } from '../support/app.js';
import { send } from '../support/http.js';
import { authorizationServer, challengeIn, METADATA_URL, protectedApps, RESOURCE } from './protected-apps.js';

const WELL_KNOWN = '/.well-known/oauth-protected-resource';
const read = (base: string, path: string, method = 'GET', headers = {}) => send(base + path, { method, headers });

describe.each(ADAPTERS)('the metadata of the resource, on %s', (adapter) => {
  const idp = authorizationServer();
  const start = protectedApps(adapter, idp);
  const apps: TestApp[] = [];
  afterEach(async () => {
    for (const app of apps.splice(0)) await app.app.close();
  });
  /** Apps with several endpoints, or routes of their own. */
  const startApp = async (module: ModuleMetadata, configure?: (app: INestApplication) => void) => {
    const app = await TestApp.of(adapter, module, configure);
    app.log.release();
    apps.push(app);
    return app;
  };
  const endpoint = (path: string, resource: string | undefined, more = {}) => {
    const auth = resource === undefined ? undefined : { resource, authorizationServers: [idp().issuer] };
    return McpStreamableModule.forRoot({ serverInfo, path, name: path, ...(auth && { auth }), ...more });
  };

  it('A1, A9: the metadata of the resource names the authorization servers, and only the needed fields', async () => {
    const app = await start({
      auth: { requiredScopes: ['notes:read'], resourceName: 'Notes', resourceDocumentation: 'https://notes.test/docs' },
    });
    const response = await read(app.base, `${WELL_KNOWN}/mcp`);
    expect(response.status).toBe(200);
    expect(response.headers).toMatchObject({
      'content-type': 'application/json',
      'access-control-allow-origin': '*',
      'cache-control': 'public, max-age=3600',
    });
    expect(await response.json()).toEqual({
      resource: RESOURCE,
      authorization_servers: [idp().issuer],
      scopes_supported: ['notes:read'],
      bearer_methods_supported: ['header'],
      resource_name: 'Notes',
      resource_documentation: 'https://notes.test/docs',
    });
  });

  it('A1: several authorization servers are named as they call themselves; other scopes may be proposed', async () => {
    const authorizationServers = ['https://IDP.test/', 'https://other.test/tenant'];
    const app = await start({ auth: { authorizationServers, requiredScopes: ['a'], scopesSupported: ['a', 'b'] } });
    const document = await (await read(app.base, `${WELL_KNOWN}/mcp`)).json();
    expect(document).toMatchObject({ authorization_servers: authorizationServers, scopes_supported: ['a', 'b'] });
  });

  it('A1: HEAD and OPTIONS are served, other methods are not', async () => {
    const origin = (await start()).base;
    const head = await read(origin, `${WELL_KNOWN}/mcp`, 'HEAD');
    expect([head.status, Number(head.header('content-length')) > 0, await head.text()]).toEqual([200, true, '']);
    const preflight = await read(origin, `${WELL_KNOWN}/mcp`, 'OPTIONS', {
      origin: 'https://page.test',
      'access-control-request-method': 'GET',
      'access-control-request-headers': 'mcp-protocol-version',
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers).toMatchObject({
      'access-control-allow-origin': '*',
      'access-control-allow-methods': 'GET, HEAD, OPTIONS',
      'access-control-allow-headers': '*',
    });
    for (const method of ['POST', 'DELETE', 'PUT']) {
      const refused = await read(origin, `${WELL_KNOWN}/mcp`, method);
      expect([refused.status, refused.header('allow')]).toEqual([405, 'GET, HEAD, OPTIONS']);
      await refused.text();
    }
  });

  it('A2: the metadata of the resource is served where clients look: at the path of the resource, and at the well-known path itself', async () => {
    const origin = (await start()).base;
    for (const path of ['/mcp', '', '/mcp/', '/', '/mcp?x=1']) {
      const response = await read(origin, WELL_KNOWN + path);
      expect([path, response.status]).toEqual([path, 200]);
      expect((await response.json()).resource).toBe(RESOURCE);
    }
    for (const path of ['/other', '/mcp/other', 'x', '/mcpx']) {
      const response = await read(origin, WELL_KNOWN + path);
      expect([path, response.status]).toEqual([path, 404]);
      await response.text();
    }
  });

  it('A1, A2: global prefix, versioning, guards and interceptors of the whole app leave it alone', async () => {
    const app = await start({
      auth: { resource: 'https://mcp.test/api/v1/mcp', requiredScopes: ['notes:read'] },
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
    const refused = await send(`${app.base}/api/v1/mcp`, {
      headers: { 'content-type': 'application/json' },
      body: {},
    });
    expect(refused.status).toBe(401);
    const { resource_metadata: url, ...rest } = challengeIn(refused);
    expect(rest).toEqual({ scope: 'notes:read' });
    expect(url).toBe(`https://mcp.test${WELL_KNOWN}/api/v1/mcp`);
    for (const path of [new URL(url!).pathname, WELL_KNOWN]) {
      const response = await read(app.base, path);
      expect(response.status).toBe(200);
      expect((await response.json()).resource).toBe('https://mcp.test/api/v1/mcp');
    }
  });

  it('A2: behind a proxy that strips a prefix it is at the path of the resource, and at that of the endpoint', async () => {
    const app = await start({ auth: { resource: 'https://mcp.test/notes/mcp' } });
    const refused = await app.client().post({});
    expect(challengeIn(refused)['resource_metadata']).toBe(`https://mcp.test${WELL_KNOWN}/notes/mcp`);
    for (const path of ['/notes/mcp', '/mcp', '']) {
      const response = await read(app.base, WELL_KNOWN + path);
      expect([path, response.status]).toEqual([path, 200]);
      await response.text();
    }
  });

  it('A2: a resource without a path is at the well-known path itself', async () => {
    const app = await start({ auth: { resource: 'https://mcp.test' } });
    expect(challengeIn(await app.client().post({}))['resource_metadata']).toBe(`https://mcp.test${WELL_KNOWN}`);
    const document = await (await read(app.base, WELL_KNOWN)).json();
    expect(document.resource).toBe('https://mcp.test');
  });

  it('A10: the resource is named in canonical form', async () => {
    const app = await start({ auth: { resource: 'HTTPS://MCP.Test/MCP/' } });
    const document = await (await read(app.base, `${WELL_KNOWN}/MCP`)).json();
    expect(document.resource).toBe('https://mcp.test/MCP');
  });

  it('A1, A2: two endpoints have a document each, and none without a path', async () => {
    const app = await startApp({
      imports: [
        endpoint('one', 'https://mcp.test/one'),
        endpoint('two', 'https://mcp.test/two'),
        endpoint('open', undefined),
      ],
    });
    for (const path of ['one', 'two']) {
      const response = await read(app.base, `${WELL_KNOWN}/${path}`);
      expect((await response.json()).resource).toBe(`https://mcp.test/${path}`);
      const refused = await app.clientAt(path).post({});
      expect(challengeIn(refused)['resource_metadata']).toBe(`https://mcp.test${WELL_KNOWN}/${path}`);
    }
    for (const path of ['/open', '']) {
      const response = await read(app.base, WELL_KNOWN + path);
      expect([path, response.status]).toEqual([path, 404]);
      await response.text();
    }
    expect((await app.clientAt('open').post(app.clientAt('open').initializeMessage())).status).toBe(200);
  });

  it('A1, A2: one protected endpoint beside an open one is found without a path', async () => {
    const app = await startApp({ imports: [endpoint('one', 'https://mcp.test/one'), endpoint('open', undefined)] });
    const response = await read(app.base, WELL_KNOWN);
    expect((await response.json()).resource).toBe('https://mcp.test/one');
  });

  it('the metadata of the resource is not served without the option "auth"', async () => {
    const app = await startApp({ imports: [McpStreamableModule.forRoot({ serverInfo })] });
    for (const path of ['', '/mcp']) {
      const response = await read(app.base, WELL_KNOWN + path);
      expect(response.status).toBe(404);
      await response.text();
    }
  });

  it('the metadata of the resource is served with an option "auth" that comes from a factory', async () => {
    const auth = { resource: RESOURCE, authorizationServers: [idp().issuer] };
    const useFactory = () => Promise.resolve({ serverInfo, auth });
    const app = await startApp({ imports: [McpStreamableModule.forRootAsync({ useFactory })] });
    expect((await read(app.base, `${WELL_KNOWN}/mcp`)).status).toBe(200);
    expect(challengeIn(await app.client().post({}))).toEqual({ resource_metadata: METADATA_URL });
  });

  it('A1: a route of the app at its path stops the start', async () => {
    @Controller('.well-known/oauth-protected-resource')
    class OwnMetadata {
      @Get('mcp')
      own() {
        return {};
      }
    }
    const failure = await startFailure(adapter, () => ({
      imports: [endpoint('mcp', RESOURCE)],
      controllers: [OwnMetadata],
    }));
    expect(failure.message).toContain(`A route of the app has the path ${WELL_KNOWN}/mcp`);
  });

  it('A1: two endpoints whose resources have one path stop the start', async () => {
    const failure = await startFailure(adapter, () => ({
      imports: [endpoint('one', RESOURCE), endpoint('two', RESOURCE)],
    }));
    expect(failure.message).toContain(`Two MCP endpoints of this app have the "auth.resource" ${RESOURCE}`);
  });

  it('A1: other routes of the app below the well-known name are served', async () => {
    @Controller('.well-known/oauth-protected-resource')
    class OfOthers {
      @Get()
      whole() {
        return { resource: 'the app' };
      }
      @Get('mcp')
      local() {
        return { resource: 'of another proxy' };
      }
      @Get('orders')
      orders() {
        return { resource: 'orders' };
      }
    }
    @Module({ controllers: [OfOthers] })
    class OthersModule {}
    const app = await startApp({ imports: [endpoint('mcp', 'https://mcp.test/notes/mcp'), OthersModule] });
    for (const [path, resource] of [
      ['/orders', 'orders'],
      ['', 'the app'],
      ['/mcp', 'of another proxy'],
      ['/notes/mcp', 'https://mcp.test/notes/mcp'],
    ]) {
      expect((await (await read(app.base, WELL_KNOWN + path!)).json()).resource).toBe(resource);
    }
  });
});
