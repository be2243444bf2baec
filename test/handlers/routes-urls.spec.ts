import {
  All,
  Body,
  type CallHandler,
  type CanActivate,
  Controller,
  createParamDecorator,
  Delete,
  type ExecutionContext,
  Get,
  Head,
  Headers,
  Inject,
  Injectable,
  type MiddlewareConsumer,
  type NestInterceptor,
  Param,
  Patch,
  Post,
  Put,
  Query,
  Req,
  RequestMethod,
  Scope,
  type Type,
  UseGuards,
  Version,
  VERSION_NEUTRAL,
  VersioningType,
} from '@nestjs/common';
import { APP_GUARD, APP_INTERCEPTOR, REQUEST, RouterModule } from '@nestjs/core';
import { RouteConfig } from '@nestjs/platform-fastify';
import { McpArgs, type McpContext, McpCtx, McpStreamableModule, Tool, Tools } from 'nestjs-mcp-streamable';
import type { Observable } from 'rxjs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Adapter, ADAPTERS, serverInfo, TestApp } from '../support/app.js';
import type { RawClient } from '../support/raw-client.js';

/** Of Node, of Express or of Fastify. */
interface RawRequest {
  readonly method: string;
  url: string;
  readonly originalUrl: string;
  readonly query: object;
  readonly headers: Record<string, string>;
  readonly httpVersion: string;
  readonly socket: object;
}
interface Request extends RawRequest {
  readonly id?: unknown;
  readonly ip: string;
  readonly hostname: string;
  readonly protocol: string;
  readonly path?: string;
  readonly baseUrl?: string;
  readonly params: object;
  readonly route?: { readonly path: string; readonly methods: object };
  readonly raw?: RawRequest;
  readonly routeOptions?: { readonly method: string; readonly url: string; readonly config: object };
  readonly res?: Response;
}
interface Response {
  readonly req: unknown;
  locals?: Record<string, unknown>;
  setHeader(name: string, value: string): unknown;
}

/** What of a request tells a guard which route it is. */
const looked = ({ method, url, originalUrl, path, baseUrl, route, raw, routeOptions, params, query }: Request) => ({
  method,
  url,
  originalUrl,
  path,
  baseUrl,
  params: { ...params },
  query: { ...query },
  route: route && { path: route.path, methods: route.methods },
  raw: raw && { method: raw.method, url: raw.url, originalUrl: raw.originalUrl, query: { ...raw.query } },
  options: routeOptions && { method: routeOptions.method, url: routeOptions.url, config: { ...routeOptions.config } },
});

let seen: object | undefined;
let kept: ((request: Request) => void) | undefined;

@Injectable()
class Watch implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    if (context.getClass().name !== 'McpEndpointController') {
      const request = requestOf(context);
      seen = looked(request);
      kept?.(request);
    }
    return next.handle();
  }
}

@Controller('orders')
@Tools()
class Orders {
  @Get()
  all(@Query('limit') _limit?: string, @Query('tags') _tags?: string[]): string {
    return 'all';
  }
  @Get(':id/lines/:line')
  line(@Param('id') id: string, @Query('limit') _limit?: string): string {
    return id;
  }
  @Post(':id')
  add(@Param('id') id: string, @Body('name') _name: string): string {
    return id;
  }
  @Put(':id')
  put(@Param('id') id: string): string {
    return id;
  }
  @Patch(':id')
  patch(@Param('id') id: string): string {
    return id;
  }
  @Delete(':id')
  remove(@Param('id') id: string): string {
    return id;
  }
  @Head('heads/:id')
  head(@Param('id') _id: string): void {}
  @Version('2')
  @Get('second/:id')
  second(@Param('id') id: string): string {
    return id;
  }
  @Version(VERSION_NEUTRAL)
  @Get('neutral/:id')
  neutral(@Param('id') id: string): string {
    return id;
  }
  @Get(['by/:name', 'by/:name/at/:place'])
  by(@Param('name') name: string, @Param('place') _place?: string): string {
    return name;
  }
  @Get('configured')
  @RouteConfig({ roles: ['staff'] })
  configured(): string {
    return 'configured';
  }
}

@Controller('open')
class Open {
  @Get(':id')
  @Tool()
  one(@Param('id') id: string): string {
    return id;
  }
}

@Controller('shelves')
class Shelves {
  @Get(':shelf')
  @Tool()
  one(@Param('shelf') shelf: string): string {
    return shelf;
  }
}

const requestOf = (context: ExecutionContext): Request => context.switchToHttp().getRequest();
const ownerIn = (url: string): string | null => new URL(url, 'http://localhost').searchParams.get('owner');

/** Guards of routes, which know nothing of MCP: bob owns what is asked for, by what says so. */
const OWNERS: Record<string, (request: Request) => unknown> = {
  url: ({ url }) => ownerIn(url),
  originalUrl: ({ originalUrl }) => ownerIn(originalUrl),
  raw: ({ raw, url }) => ownerIn((raw ?? { url }).url),
  'the URL of raw before middleware': ({ raw, url }) => ownerIn((raw ?? {}).originalUrl ?? url),
  'its path': ({ path, url }) => (path ?? url.split('?')[0]!).split('/').at(-1),
  'a header of a proxy': ({ headers }) => ownerIn(headers['x-original-url']!),
  'a header of a proxy, as Node has it': ({ raw, headers }) => ownerIn((raw ?? { headers }).headers['x-original-url']!),
};

@Controller('owned')
class Owned {}
for (const [index, [name, ownerOf]] of Object.entries(OWNERS).entries()) {
  const key = `by${index}`;
  const prototype = Owned.prototype as unknown as Record<string, unknown>;
  prototype[key] = (owner: string): string => `of ${owner}`;
  const descriptor = Object.getOwnPropertyDescriptor(prototype, key)!;
  const inPath = name === 'its path';
  (inPath ? Param : Query)('owner')(prototype, key, 0);
  Get(inPath ? `by${index}/:owner` : key)(prototype, key, descriptor);
  UseGuards({ canActivate: (context) => ownerOf(requestOf(context)) === 'bob' })(prototype, key, descriptor);
  Tool({ name: `owned_by_${name}`, description: name })(prototype, key, descriptor);
}

/** A guard of the app that decides by the path of a route. */
@Injectable()
class OnlyStaff implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const { url, headers } = requestOf(context);
    return !url.includes('/admin') || headers['x-user'] === 'staff';
  }
}

const Path = createParamDecorator((_: unknown, context: ExecutionContext): string => requestOf(context).url);

@Controller('admin')
@Tools()
class Admin {
  @Get('users')
  users(): string {
    return 'users';
  }
}

@Controller({ path: 'scoped', scope: Scope.REQUEST })
class Scoped {
  constructor(@Inject(REQUEST) private readonly request: Request) {}
  @Get(':id')
  @Tool()
  one(
    @Param('id') _id: string,
    @Req() request: Request,
    @Path() path: string,
    @Headers('x-original-url') header: string,
    @McpCtx() ctx?: McpContext,
  ): object {
    const urls = [this.request, request, ctx!.request as Request].map(({ url }) => url);
    return { urls: [...urls, path, header] };
  }
}

let written: unknown[];

@Controller('special')
@Tools()
class Special {
  @Get('read/:id')
  @Tool({ name: 'read' })
  @UseGuards({ canActivate: (context) => requestOf(context).url.startsWith('/api/v1/special/read/') })
  read(@Param('id') id: string, @Query('tags') _tags?: string[]): string {
    return id;
  }
  @Get('by-hand/:id')
  @Tool({ name: 'by_hand', inputSchema: { type: 'object', properties: { id: { type: 'string' }, more: {} } } })
  byHand(@Param('id') id: string, @Query() { more }: { more?: unknown }): string {
    return `${id} ${JSON.stringify(more)}`;
  }
  @Get('bodies')
  @Tool({ name: 'in_body' })
  inBody(@McpArgs('note') note?: string): string {
    return note ?? 'none';
  }
  @All('any/:id')
  @Tool({ name: 'any_method' })
  any(@Param('id') id: string): string {
    return id;
  }
  @Get('written')
  @Tool({ name: 'written' })
  @UseGuards({
    canActivate(context) {
      const request = requestOf(context);
      request.url = '/elsewhere';
      request.headers['x-written'] = 'yes';
      return true;
    },
  })
  written(@Req() request: Request): void {
    written = [request.url, request.headers['x-written'], Object.getPrototypeOf(request).url];
  }
  @Get('answered')
  @Tool({ name: 'answered' })
  @UseGuards({
    canActivate(context) {
      const request = requestOf(context);
      const response = context.switchToHttp().getResponse<Response>();
      const { res } = request;
      written = [res === undefined || res === response, response.req === request, response.locals?.['user']];
      res?.setHeader('x-guard', 'was here');
      return true;
    },
  })
  answered(): string {
    return 'answered';
  }
}

/** Paths that the routers of the two adapters write differently. */
function filesOf(adapter: Adapter): Type {
  const [optional, rest] = adapter === 'express' ? ['named{/:name}', 'rest/*path'] : ['named/:name?', 'rest/*'];
  const name = adapter === 'express' ? 'path' : '*';
  @Controller('files')
  class Files {
    @Get(optional)
    @Tool()
    named(@Param('name') found?: string): string {
      return found ?? 'all';
    }
    @Get(rest)
    @Tool({ rename: { [`params.${name}`]: 'path' } })
    rest(@Param(name) path: string | string[]): object {
      return { path };
    }
    @Get(rest.replace('rest', 'below'))
    @Tool({ rename: { [`params.${name}`]: 'path' } })
    below(@Param(name) path: string[]): object {
      return { path };
    }
    @Get(rest.replace('rest', 'by-hand'))
    @Tool({ name: 'files_by_hand', inputSchema: { type: 'object', properties: { [name]: { type: 'string' } } } })
    byHand(@Param(name) _path: string, @Req() { params }: Request): object {
      return { path: (params as Record<string, unknown>)[name] };
    }
  }
  return Files;
}

/** A route and its tool: a URL that the router takes apart, and the arguments that the URL is made of. */
const CASES: { tool: string; url: string; args?: object; verb?: string }[] = [
  { tool: 'orders_all', url: '/api/v1/orders' },
  { tool: 'orders_all', url: '/api/v1/orders?limit=2', args: { limit: '2' } },
  { tool: 'orders_all', url: '/api/v1/orders?tags=a&tags=b%20%26%20c', args: { tags: ['a', 'b & c'] } },
  {
    tool: 'orders_line',
    url: '/api/v1/orders/a%20b%2Fc%3Fd%23%C3%A9%25/lines/...?limit=%3D%26%3F',
    args: { id: 'a b/c?d#é%', line: '...', limit: '=&?' },
  },
  { tool: 'orders_add', url: '/api/v1/orders/7', args: { id: '7', name: 'lamp' }, verb: 'POST' },
  { tool: 'orders_put', url: '/api/v1/orders/7', args: { id: '7' }, verb: 'PUT' },
  { tool: 'orders_patch', url: '/api/v1/orders/7', args: { id: '7' }, verb: 'PATCH' },
  { tool: 'orders_remove', url: '/api/v1/orders/7', args: { id: '7' }, verb: 'DELETE' },
  { tool: 'orders_head', url: '/api/v1/orders/heads/7', args: { id: '7' }, verb: 'HEAD' },
  { tool: 'orders_second', url: '/api/v2/orders/second/7', args: { id: '7' } },
  { tool: 'orders_neutral', url: '/api/orders/neutral/7', args: { id: '7' } },
  { tool: 'orders_by', url: '/api/v1/orders/by/ann', args: { name: 'ann' } },
  { tool: 'orders_by', url: '/api/v1/orders/by/ann/at/Rome', args: { name: 'ann', place: 'Rome' } },
  { tool: 'orders_configured', url: '/api/v1/orders/configured' },
  { tool: 'open_one', url: '/v1/open/7', args: { id: '7' } },
  { tool: 'shelves_one', url: '/api/v1/shops/3/shelves/a', args: { shop: '3', shelf: 'a' } },
  { tool: 'files_named', url: '/api/v1/files/named/x', args: { name: 'x' } },
  { tool: 'files_named', url: '/api/v1/files/named', args: {} },
  { tool: 'files_rest', url: '/api/v1/files/rest/a%20b/c', args: { path: 'a b/c' } },
];

describe.each(ADAPTERS)('the request of a route that is a tool, on %s,', (adapter) => {
  let app: TestApp;
  let client: RawClient;

  beforeAll(async () => {
    class ShopModule {}
    const Files = filesOf(adapter);
    class WebModule {
      configure(consumer: MiddlewareConsumer): void {
        const middleware = (_: unknown, response: Response, next: () => void): void => {
          response.locals = { user: 'ann' };
          next();
        };
        consumer.apply(middleware).forRoutes('*path');
      }
    }
    app = await TestApp.of(
      adapter,
      {
        imports: [
          McpStreamableModule.forRoot({ serverInfo }),
          { module: ShopModule, controllers: [Shelves] },
          RouterModule.register([{ path: 'shops/:shop', module: ShopModule }]),
          { module: WebModule, controllers: [Orders, Open, Files, Owned, Admin, Scoped, Special] },
        ],
        providers: [
          { provide: APP_GUARD, useClass: OnlyStaff },
          { provide: APP_INTERCEPTOR, useClass: Watch },
        ],
      },
      (nest) => {
        nest.setGlobalPrefix('api', { exclude: [{ path: 'open/:id', method: RequestMethod.GET }] });
        nest.enableVersioning({ type: VersioningType.URI, defaultVersion: '1' });
      },
    );
    client = await at('bob').initialize('2025-11-25');
  });
  afterAll(() => app.close());

  /** A client that writes into the URL, and into headers of proxies, whose the things are. */
  const at = (owner: string, headers: Record<string, string> = {}): RawClient => {
    const url = `api/mcp?owner=${owner}&id=9`;
    return app.clientAt(url, { 'x-original-url': `/${url}`, 'x-forwarded-method': 'POST', ...headers });
  };

  const call = async (name: string, args: object = {}, by = client): Promise<unknown> => {
    const { result } = await (await by.call(name, args)).json();
    const { text } = result.content[0] ?? {};
    return result.isError ? `refused: ${text}` : (result.structuredContent ?? text);
  };

  const listed = async (by = client): Promise<string[]> => {
    const { result } = await (await by.post({ jsonrpc: '2.0', id: by.nextId(), method: 'tools/list' })).json();
    return result.tools.map(({ name }: { name: string }) => name);
  };

  const seenBy = async (tool: string, args?: object): Promise<Record<string, unknown>> => {
    seen = undefined;
    await call(tool, args);
    return seen! as Record<string, unknown>;
  };

  it.each(CASES)(
    'the request of a route that is a tool has the URL, the method and the path of the route: $tool, $url',
    async ({ tool, url, args, verb = 'GET' }) => {
      const body = verb === 'POST' && { body: JSON.stringify(args), headers: { 'content-type': 'application/json' } };
      await fetch(`${app.base}${url}`, { method: verb, ...body });
      const byHttp = seen! as Record<string, unknown>;
      const byTool = await seenBy(tool, args);
      expect(byTool).toEqual(byHttp);
      expect(byTool).toMatchObject({ url, method: verb });
    },
  );

  it('the request of a route that is a tool has the value of a wildcard as the route: Express gives a list of segments', async () => {
    const values = adapter === 'express' ? ['a b', 'c'] : 'a b/c';
    const name = adapter === 'express' ? 'path' : '*';
    const route = await fetch(`${app.base}/api/v1/files/rest/a%20b/c`);
    expect(await route.json()).toEqual({ path: values });
    expect(await call('files_rest', { path: 'a b/c' })).toEqual({ path: values });
    expect(await call('files_by_hand', { [name]: 'a b/c' })).toEqual({ path: values });
  });

  it.runIf(adapter === 'express')(
    'the request of a route that is a tool has the segments of a wildcard that is declared as a list',
    async () => {
      const { url, params } = await seenBy('files_below', { path: ['a b', 'c'] });
      expect([url, params]).toEqual(['/api/v1/files/below/a%20b/c', { path: ['a b', 'c'] }]);
      expect(await call('files_below', { path: ['a b', 'c'] })).toEqual({ path: ['a b', 'c'] });
    },
  );

  it.each(Object.keys(OWNERS))(
    'the request of a route that is a tool has nothing of the URL of the endpoint, in which a client writes what it likes: %s',
    async (name) => {
      expect(await call(`owned_by_${name}`, { owner: 'ann' })).toBe('refused: Forbidden resource');
      expect(await call(`owned_by_${name}`, { owner: 'bob' })).toBe('of bob');
      expect(await call(`owned_by_${name}`, { owner: 'bob' }, await at('ann').initialize('2025-11-25'))).toBe('of bob');
      expect(await listed()).toContain(`owned_by_${name}`);
    },
  );

  it('the request of a route that is a tool has its path for a guard of the app that decides by it', async () => {
    expect(await call('admin_users')).toBe('refused: Forbidden resource');
    const staff = await at('bob', { 'x-user': 'staff' }).initialize('2025-11-25');
    expect(await call('admin_users', {}, staff)).toBe('users');
    expect(await call('open_one', { id: '7' })).toBe('7');
    // A value is no part of the path.
    expect(await call('open_one', { id: '7/admin' })).toBe('7/admin');
  });

  it('the request of a route that is a tool is what all decorators, the context and REQUEST give', async () => {
    const url = '/api/v1/scoped/7';
    expect(await call('scoped_one', { id: '7' })).toEqual({ urls: [url, url, url, url, url] });
  });

  it('the request of a route that is a tool has no URL if an argument of the path is a segment that parsers remove', async () => {
    const refused = 'refused: The arguments are not valid: id: must not be "." or "..".';
    expect(await call('read', { id: '..' })).toBe(refused);
    expect(await call('read', { id: '.' })).toBe(refused);
    expect(await call('read', { id: '%2e%2e' })).toBe('%2e%2e');
    expect(await call('read', { id: '../..' })).toBe('../..');
  });

  it('the request of a route that is a tool has no URL that is much longer than the arguments', async () => {
    const name = 'n'.repeat(200_000);
    const many = Array.from({ length: 10_000 }, () => 'v');
    const refused =
      'refused: The arguments are not valid: together they make the URL of the route longer than 1048576 characters.';
    expect(await call('by_hand', { id: '7', [name]: many })).toBe(refused);
    expect(await call('read', { id: '7', tags: many.map(() => 'v'.repeat(200)) })).toBe(refused);
  });

  it('the request of a route that is a tool has half a character as the one that stands for such', async () => {
    expect(await seenBy('read', { id: 'a\ud800' })).toMatchObject({ url: '/api/v1/special/read/a%EF%BF%BD' });
  });

  it('the request of a route that is a tool has objects in its query as qs writes them', async () => {
    const more = { a: [1, { b: null }], 'c d': { e: true } };
    const { url } = await seenBy('by_hand', { id: '7', more });
    expect(url).toBe('/api/v1/special/by-hand/7?more[a]=1&more[a][1][b]=&more[c%20d][e]=true');
  });

  it('the request of a route that is a tool has the method of the POST for a route of all methods, and for a GET with a body', async () => {
    expect(await seenBy('any_method', { id: '7' })).toMatchObject({ method: 'POST', url: '/api/v1/special/any/7' });
    expect(await seenBy('in_body', { note: 'secret' })).toMatchObject({
      method: 'POST',
      url: '/api/v1/special/bodies',
    });
  });

  it('the request of a route that is a tool keeps what a guard writes into it, in the call', async () => {
    await call('written');
    expect(written).toEqual(['/elsewhere', 'yes', '/api/mcp?owner=bob&id=9']);
    expect(await seenBy('orders_all')).toMatchObject({ url: '/api/v1/orders' });
  });

  it('the request of a route that is a tool names the response of the call, not that of the POST', async () => {
    const response = await client.call('answered', {});
    expect(response.header('x-guard')).toBeUndefined();
    await response.text();
    expect(written).toEqual([true, true, adapter === 'express' ? 'ann' : undefined]);
  });

  it('the request of a route that is a tool has all else of the POST: its caller, its host and its other headers', async () => {
    let request!: Request;
    kept = (given) => (request = given);
    await call('open_one', { id: '7' }, await at('bob', { 'x-user': 'ann' }).initialize('2025-11-25'));
    const { headers, socket, raw = request } = request;
    const post = Object.getPrototypeOf(request) as Request;
    expect(headers).toMatchObject({ 'x-user': 'ann', 'x-original-url': '/v1/open/7', 'x-forwarded-method': 'GET' });
    expect(headers).toHaveProperty('mcp-session-id');
    expect(raw.headers).toEqual(headers);
    for (const name of ['ip', 'hostname', 'protocol', 'id'] as const) expect(request[name]).toBe(post[name]);
    expect([request.hostname, raw.httpVersion, raw.socket === socket]).toEqual(['127.0.0.1', '1.1', true]);
    expect(socket).toBe(post.socket);
  });
});

describe.each(ADAPTERS)('the URL of a route that is a tool, on %s,', (adapter) => {
  const isAdmin = (read: (request: Request) => string): CanActivate => ({
    canActivate: (context) => !read(requestOf(context)).includes('admin'),
  });

  @Controller('admin')
  class Guarded {
    @Get('users')
    @Tool({ name: 'by_whole_url' })
    @UseGuards(isAdmin(({ url }) => url))
    all(): string {
      return 'all';
    }
    @Get('users/:id')
    @Tool({ name: 'by_url_with_arguments' })
    @UseGuards(isAdmin(({ url }) => url))
    one(@Param('id') id: string): string {
      return id;
    }
    @Get('roles/:id')
    @Tool({ name: 'by_declared_path' })
    @UseGuards(isAdmin(({ route, routeOptions }) => route?.path ?? routeOptions!.url))
    role(@Param('id') id: string): string {
      return id;
    }
    @Get('groups/:id')
    @Tool({ name: 'by_copied_headers' })
    @UseGuards({ canActivate: (context) => ({ ...requestOf(context).headers })['x-user'] === 'staff' })
    group(@Param('id') id: string): string {
      return id;
    }
    @Get('open/:id')
    @Tool({ name: 'open', inputSchema: { type: 'object', properties: { id: { type: 'string' } } } })
    open(@Param('id') id: string, @Query() query: object): string {
      return `${id} ${Object.keys(query).length}`;
    }
  }

  let app: TestApp;
  let client: RawClient;
  beforeAll(async () => {
    const imports = [McpStreamableModule.forRoot({ serverInfo })];
    app = await TestApp.of(adapter, { imports, controllers: [Guarded] });
    client = await app.clientAt('mcp?x=users', { 'x-original-url': '/mcp' }).initialize('2025-11-25');
  });
  afterAll(() => app.close());

  it('the URL of a route that is a tool lets a guard decide about a list if it has no arguments; the declared path and headers do', async () => {
    const { result } = await (await client.post({ jsonrpc: '2.0', id: 7, method: 'tools/list' })).json();
    expect(result.tools.map(({ name }: { name: string }) => name)).toEqual(['by_url_with_arguments', 'open']);
  });

  it('the URL of a route that is a tool is not made if it is not read', async () => {
    const many = Array.from({ length: 10_000 }, () => 'v');
    const { result } = await (await client.call('open', { id: '..', ['n'.repeat(200_000)]: many })).json();
    expect(result.content).toEqual([{ type: 'text', text: '.. 1' }]);
  });
});
