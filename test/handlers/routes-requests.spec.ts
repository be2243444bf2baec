import {
  Body,
  type CanActivate,
  Controller,
  createParamDecorator,
  type ExecutionContext,
  Get,
  Inject,
  Injectable,
  Param,
  ParseIntPipe,
  Post,
  Query,
  Req,
  Scope,
  type Type,
  UseFilters,
  UseGuards,
  UseInterceptors,
} from '@nestjs/common';
import { REQUEST } from '@nestjs/core';
import { type McpContext, McpCtx, McpExecutionContext, McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ADAPTERS, gate, TestApp, serverInfo } from '../support/app.js';

interface Seen {
  method: string;
  url: string;
  ip?: string;
  headers: Record<string, unknown>;
  params: Record<string, unknown>;
  query: Record<string, unknown>;
  body: Record<string, unknown>;
  user?: string;
}

const requestOf = (context: ExecutionContext): Seen => context.switchToHttp().getRequest<Seen>();
const partsOf = ({ params, query, body }: Seen): object => structuredClone({ params, query, body });
const withOwner = { type: 'object' as const, properties: { owner: { type: 'string' as const } } };

/** Written for routes: it knows nothing of MCP. Only the orders of bob may be seen. */
const onlyOwn = (part: 'params' | 'query' | 'body'): CanActivate => ({
  canActivate: (context) => requestOf(context)[part]?.['owner'] === 'bob',
});

const Owner = createParamDecorator((_: unknown, context: ExecutionContext) => requestOf(context).query['owner']);

/** What enhancers saw. */
const seen: Record<string, object> = {};
/** Calls wait here for each other. */
let both = gate();
let arrived = 0;

@Controller('orders')
class Orders {
  @Get()
  @UseGuards(onlyOwn('query'))
  @Tool({ name: 'by_query', inputSchema: withOwner })
  byQuery(@Query('owner') owner: string): string {
    return `orders of ${owner}`;
  }
  @Get('all')
  @UseGuards(onlyOwn('query'))
  @Tool({ name: 'by_whole_query', inputSchema: withOwner })
  byWholeQuery(@Query() { owner }: Record<string, string>): string {
    return `orders of ${owner}`;
  }
  @Get('of/:owner')
  @UseGuards(onlyOwn('params'))
  @Tool({ name: 'by_params', inputSchema: withOwner })
  byParams(@Param('owner') owner: string): string {
    return `orders of ${owner}`;
  }
  @Post()
  @UseGuards(onlyOwn('body'))
  @Tool({ name: 'by_body', inputSchema: withOwner })
  byBody(@Body('owner') owner: string): string {
    return `orders of ${owner}`;
  }
  @Post('all')
  @UseGuards(onlyOwn('body'))
  @Tool({ name: 'by_whole_body', inputSchema: withOwner })
  byWholeBody(@Body() { owner }: Record<string, string>): string {
    return `orders of ${owner}`;
  }

  @Post(':id')
  @UseInterceptors({
    intercept(context, next) {
      seen['interceptor'] = partsOf(requestOf(context));
      return next.handle();
    },
  })
  @UseFilters({
    catch(error, host) {
      seen['filter'] = partsOf(host.switchToHttp().getRequest());
      return error;
    },
  })
  @Tool({ name: 'parts', inputSchema: z.object({ id: z.number(), limit: z.number(), name: z.string() }) })
  parts(
    @Param('id', ParseIntPipe) id: number,
    @Query('limit', ParseIntPipe) limit: number,
    @Body() { name }: { name: string },
    @Owner() owner: unknown,
    @Req() request: Seen,
    @McpCtx() ctx?: McpContext,
  ): object {
    seen['@Req()'] = partsOf(request);
    seen['the context'] = partsOf(ctx!.request as Seen);
    if (name === 'fails') throw new Error('It fails.');
    const { method, url, ip, headers } = request;
    return { id, limit, name, owner, method, url, ip: typeof ip, host: typeof headers['host'] };
  }

  @Post('forced/:id')
  @UseGuards({
    canActivate(context) {
      const request = requestOf(context);
      request.body['owner'] = 'ann';
      request.query = { page: '1' };
      return true;
    },
  })
  @Tool({
    name: 'forced',
    inputSchema: z.object({ id: z.string(), page: z.string().optional(), owner: z.string(), name: z.string() }),
  })
  forced(@Param('id') id: string, @Query('page') page: string, @Body() body: object): object {
    return { id, page, body };
  }

  @Get('noted')
  @UseGuards({
    canActivate(context) {
      requestOf(context).query = { note: 'true', isOpen: 'true' };
      return true;
    },
  })
  @Tool({ name: 'noted' })
  noted(@Query('note') note: string, @Query('isOpen') isOpen: boolean): object {
    return { note, isOpen };
  }
}

@Controller('users')
class Users {
  @Get('me')
  @UseGuards(
    {
      canActivate(context) {
        const request = requestOf(context);
        request.user = `${String(request.query['name'])} ${request.user ?? ''}`.trim();
        return true;
      },
    },
    { canActivate: (context) => McpExecutionContext.create(context).getContext().request === requestOf(context) },
    {
      async canActivate(context) {
        if (++arrived === 2) both.open();
        await both.promise;
        return requestOf(context).user === requestOf(context).query['name'];
      },
    },
  )
  @Tool({ name: 'me', inputSchema: { type: 'object', properties: { name: { type: 'string' } } } })
  me(@Query('name') name: string, @Req() request: Seen, @McpCtx() ctx: McpContext): object {
    return { name, user: request.user, ofContext: (ctx.request as Seen).user };
  }
}

@Injectable({ scope: Scope.REQUEST })
class OwnOfRequest implements CanActivate {
  constructor(@Inject(REQUEST) private readonly request: Seen) {}
  canActivate(): boolean {
    return this.request.query['owner'] === 'bob';
  }
}

/** Nest makes its request, and what it needs, before there is a call. */
@Injectable({ scope: Scope.REQUEST })
class GuardOfEndpoint implements CanActivate {
  constructor(@Inject(REQUEST) private readonly request: Seen) {}
  canActivate(): boolean {
    return this.request.method === 'POST';
  }
}

@Controller({ path: 'scoped', scope: Scope.REQUEST })
class ScopedOrders {
  constructor(@Inject(REQUEST) private readonly request: Seen) {}
  @Get()
  @UseGuards(OwnOfRequest)
  @Tool({ name: 'scoped', inputSchema: withOwner })
  scoped(@Query('owner') owner: string): object {
    return { owner, query: this.request.query };
  }
}

@Injectable()
class NoRoute {
  @UseGuards({
    canActivate(context) {
      seen['no route'] = { query: { ...requestOf(context).query } };
      return true;
    },
  })
  @Tool({ name: 'no_route', inputSchema: withOwner })
  tool(): string {
    return 'done';
  }
}

interface Start {
  query?: string;
  revision?: string;
  controllers?: Type[];
  guards?: Type<CanActivate>[];
}

describe.each(ADAPTERS)('the request of a tool that is a route too, on %s,', (adapter) => {
  let app: TestApp;
  afterEach(() => app.close());

  async function start({
    query = 'owner=bob',
    revision = '2025-11-25',
    controllers = [Orders],
    guards = [],
  }: Start = {}) {
    [both, arrived] = [gate(), 0];
    const imports = [McpStreamableModule.forRoot({ serverInfo, guards })];
    app = await TestApp.of(adapter, { imports, controllers, providers: [NoRoute] });
    const client = await app.clientAt(`mcp?${query}`).initialize(revision);
    const call = async (name: string, args: object): Promise<unknown> => {
      const { result } = await (await client.call(name, args)).json();
      return result.isError
        ? `refused: ${result.content[0].text}`
        : (result.structuredContent ?? result.content[0].text);
    };
    return { client, call };
  }

  it.each(['by_query', 'by_whole_query', 'by_params', 'by_body', 'by_whole_body'])(
    'the request of a tool that is a route too has the arguments, and nothing of the query that the client wrote (%s)',
    async (tool) => {
      const { call } = await start();
      expect(await call(tool, { owner: 'ann' })).toBe('refused: Forbidden resource');
      expect(await call(tool, {})).toBe('refused: Forbidden resource');
      expect(await call(tool, { owner: 'bob' })).toBe('orders of bob');
    },
  );

  it('the request of a tool that is a route too has the arguments where the decorators of its parameters read them, for enhancers of all kinds', async () => {
    const { call } = await start({ query: 'owner=bob&limit=9&id=8' });
    const parts = { params: { id: '7' }, query: { limit: '2' }, body: { name: 'lamp' } };
    const { params, query } = parts;
    expect(await call('parts', { id: 7, limit: 2, name: 'lamp' })).toEqual({
      id: 7,
      limit: 2,
      name: 'lamp',
      owner: undefined,
      method: 'POST',
      url: '/orders/7?limit=2',
      ip: 'string',
      host: 'string',
    });
    expect(seen).toMatchObject({ interceptor: parts, '@Req()': parts, 'the context': parts });
    await call('parts', { id: 7, limit: 2, name: 'fails' });
    expect(seen['filter']).toEqual({ params, query, body: { name: 'fails' } });
  });

  it('the request of a tool that is a route too is made for each call: enhancers and the method see the values that a guard writes into it', async () => {
    const { client } = await start({ revision: '2025-03-26', controllers: [Users] });
    const messages = ['ann', 'bob'].map((name) => client.toolCall('me', { name }));
    const answers = (await (await client.post(messages)).json()) as { result: { structuredContent: object } }[];
    const names = answers.map(({ result }) => result.structuredContent);
    expect(names).toHaveLength(2);
    for (const name of ['ann', 'bob']) expect(names).toContainEqual({ name, user: name, ofContext: name });
  });

  it('the request of a tool that is a route too gives the method the value that a guard has put in place of an argument', async () => {
    const { call } = await start();
    const forced = { id: '7', page: '1', body: { owner: 'ann', name: 'lamp' } };
    expect(await call('forced', { id: '7', owner: 'bob', name: 'lamp', page: '2' })).toEqual(forced);
    expect(await call('noted', { note: 'x', isOpen: false })).toEqual({ note: 'true', isOpen: true });
  });

  it.each([
    ['none', []],
    ['one of its own', [GuardOfEndpoint]],
  ])(
    'the request of a tool that is a route too is what request-scoped providers get as REQUEST (guards of the endpoint: %s)',
    async (_, guards) => {
      const { call } = await start({ controllers: [ScopedOrders], guards });
      expect(await call('scoped', { owner: 'ann' })).toBe('refused: Forbidden resource');
      expect(await call('scoped', { owner: 'bob' })).toEqual({ owner: 'bob', query: { owner: 'bob' } });
    },
  );

  it('the request of a tool that is a route too has no arguments while a list is made: a guard that reads them does not decide', async () => {
    const { client } = await start();
    const message = { jsonrpc: '2.0', id: client.nextId(), method: 'tools/list' };
    const { result } = await (await client.post(message)).json();
    const names = result.tools.map(({ name }: { name: string }) => name);
    expect(names).toEqual(expect.arrayContaining(['by_query', 'by_params', 'by_body']));
  });

  it('the request of a tool that is a route too is that of HTTP for a tool that is no route', async () => {
    const { call } = await start();
    expect(await call('no_route', { owner: 'ann' })).toBe('done');
    expect(seen['no route']).toEqual({ query: { owner: 'bob' } });
  });
});
