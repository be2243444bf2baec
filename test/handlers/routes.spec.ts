import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import {
  Body,
  type CanActivate,
  Controller,
  type ExecutionContext,
  ForbiddenException,
  Get,
  Headers,
  Inject,
  Injectable,
  Ip,
  Param,
  ParseIntPipe,
  Patch,
  Post,
  Query,
  Redirect,
  Req,
  Res,
  Scope,
  type MessageEvent,
  Sse,
  type Type,
  UploadedFile,
  UseGuards,
  UseInterceptors,
  ValidationPipe,
} from '@nestjs/common';
import { REQUEST } from '@nestjs/core';
import { Transform } from 'class-transformer';
import { IsInt, IsOptional, IsString } from 'class-validator';
import {
  McpArgs,
  type McpContext,
  McpCtx,
  McpExecutionContext,
  McpStreamableModule,
  Tool,
} from 'nestjs-mcp-streamable';
import { map, type Observable, of } from 'rxjs';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { OrdersController } from '../../examples/snippets/orders.controller.js';
import { ONE_ADAPTER, TestApp, serverInfo, startFailure } from '../support/app.js';
import { loneFetch } from '../support/ways.js';

class AddDto {
  @IsString() name!: string;
  @IsInt() @IsOptional() count?: number;
}

class PageDto {
  @IsInt() page!: number;
}

class PriceDto {
  @Transform(({ value }) => Number(value) * 100) @IsInt() cents!: number;
}

/** As in many apps: nothing else than the class has. */
const STRICT = { transform: true, whitelist: true, forbidNonWhitelisted: true };

/** One guard for both: where the id is differs. */
@Injectable()
class OwnOrders implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const { params } = context.switchToHttp().getRequest<{ params: { id?: string } }>();
    const { id } = McpExecutionContext.isMcp(context) ? McpExecutionContext.create(context).getArgs() : params;
    if (Number(id) === 7) return true;
    throw new ForbiddenException('That is not your order.');
  }
}

@Controller('shop')
@UseInterceptors({ intercept: (_, next) => next.handle().pipe(map((value: object) => ({ ...value, wrapped: true }))) })
class ShopController {
  @Post('lines')
  @Tool({ name: 'add_line' })
  add(@Body() line: AddDto, @McpCtx() ctx?: McpContext): object {
    const { name, count } = line;
    return { isDto: line instanceof AddDto, name, count, over: ctx ? 'mcp' : 'http' };
  }
  @Get('pages')
  @Tool({ name: 'get_page' })
  page(@Query() { page }: PageDto): object {
    return { page, type: typeof page };
  }
  @Post('prices')
  @Tool({ name: 'set_price' })
  price(@Body() price: PriceDto): object {
    return { isDto: price instanceof PriceDto, cents: price.cents };
  }
  @Patch('lines/:id')
  @Tool({ name: 'change_line', inputSchema: z.object({ id: z.number(), name: z.string() }) })
  change(@Param('id', ParseIntPipe) id: number, @Body(new ValidationPipe(STRICT)) line: AddDto): object {
    return { id, line, isDto: line instanceof AddDto };
  }
  @Patch('pages/:page')
  @Tool({ name: 'change_page', inputSchema: z.object({ page: z.number() }) })
  changePage(@Param('page', ParseIntPipe) page: number, @Body(new ValidationPipe(STRICT)) body: PageDto): object {
    return { page, body };
  }
  @UseGuards(OwnOrders)
  @Post('orders/:id')
  @Tool({ name: 'rename_order', inputSchema: z.object({ id: z.number(), name: z.string() }) })
  rename(@Param('id', ParseIntPipe) id: number, @Body('name') name: string): object {
    return { id, name };
  }
  @Get('all/:id')
  @Tool({ name: 'get_all', inputSchema: z.object({ id: z.string() }) })
  all(@Param() params: object, @Query() query: object): object {
    return { params, query };
  }
  @Get('seen/:id')
  @Tool({ name: 'seen', inputSchema: z.object({ id: z.string() }) })
  seen(@Param('id') id: string, @Headers('host') host: string, @Ip() _ip: string, @Req() request: object): object {
    return { id, host: typeof host, request: typeof request };
  }
  @Get('hello')
  @Tool({ name: 'hello' })
  hello(): object {
    return { hello: 'world' };
  }
}

/** What a global pipe was given. */
const seen: string[] = [];

@Controller({ path: 'scoped', scope: Scope.REQUEST })
class ScopedController {
  constructor(@Inject(REQUEST) private readonly request: { readonly headers: Record<string, unknown> }) {}
  @Get()
  @Tool({ name: 'scoped' })
  scoped(): object {
    return { host: typeof this.request.headers['host'] };
  }
}

describe.each(ONE_ADAPTER)('a method that is a route and a tool, on %s', (adapter) => {
  let app: TestApp;
  const clients: Client[] = [];
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.close();
    await app.close();
  });

  async function start(era: 'legacy' | 'modern' = 'legacy') {
    const imports = [McpStreamableModule.forRoot({ serverInfo })];
    app = await TestApp.of(
      adapter,
      { imports, controllers: [OrdersController, ShopController, ScopedController] },
      (nest) => {
        nest.useGlobalPipes(
          new ValidationPipe({ transform: true, transformOptions: { enableImplicitConversion: true } }),
          {
            transform(value: unknown, { type, data }) {
              seen.push(`${type} ${data}`);
              return value;
            },
          },
        );
      },
    );
    const mode = era === 'modern' ? { pin: '2026-07-28' } : era;
    const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode } });
    clients.push(client);
    await client.connect(new StreamableHTTPClientTransport(new URL(`${app.base}/mcp`), { fetch: loneFetch }));
    return {
      client,
      call: async (name: string, args: object = {}) => {
        const { structuredContent, content, isError } = await client.callTool({ name, arguments: { ...args } });
        return isError ? (content as { text: string }[])[0]!.text : structuredContent;
      },
      http: async (path: string, body?: object, method = 'POST') => {
        const init = body && {
          method,
          body: JSON.stringify(body),
          headers: { 'content-type': 'application/json' },
        };
        const response = await loneFetch(`${app.base}/${path}`, init);
        return { status: response.status, body: await response.json() };
      },
    };
  }

  it('a method that is a route and a tool gives a body the arguments that no other parameter names, unless its class has them', async () => {
    const { call, http } = await start();
    const changed = { id: 7, line: { name: 'lamp' }, isDto: true };
    expect(await http('shop/lines/7', { name: 'lamp' }, 'PATCH')).toMatchObject({ status: 200, body: changed });
    expect(await call('change_line', { id: 7, name: 'lamp' })).toMatchObject(changed);
    expect(await call('change_page', { page: 7 })).toMatchObject({ page: 7, body: { page: 7 } });
  });

  it('a method that is a route and a tool transforms the arguments once, by the ValidationPipe of the app', async () => {
    const { call, http } = await start();
    const price = { isDto: true, cents: 500 };
    expect(await http('shop/prices', { cents: 5 })).toMatchObject({ body: price });
    expect(await call('set_price', { cents: 5 })).toMatchObject(price);
  });

  it.each(['legacy', 'modern'] as const)(
    'a method that is a route and a tool takes parameters of the path and the query as arguments (%s)',
    async (era) => {
      const { call, http, client } = await start(era);
      const { tools } = await client.listTools();
      const { inputSchema } = tools.find(({ name }) => name === 'orders_lines')!;
      expect(Object.keys(inputSchema.properties!)).toEqual(['id', 'limit']);
      expect(await http('orders/7/lines?limit=2')).toEqual({ status: 200, body: { id: 7, lines: ['lamp', 'chair'] } });
      expect(await call('orders_lines', { id: 7, limit: 2 })).toEqual({ id: 7, lines: ['lamp', 'chair'] });
      expect(await call('orders_lines', { id: 7 })).toEqual({ id: 7, lines: ['lamp', 'chair', 'table'] });
      expect(await http('orders/8/lines')).toMatchObject({ status: 404, body: { message: 'There is no order 8.' } });
      expect(await call('orders_lines', { id: 8 })).toBe('There is no order 8.');
      expect(await http('orders/x/lines')).toMatchObject({ status: 400 });
      expect(await call('orders_lines', { id: 'x' })).toContain('id');
    },
  );

  it('a method that is a route and a tool gets the body as arguments, whose class is the schema, and the context over MCP alone', async () => {
    const { call, http } = await start();
    const line = { name: 'lamp', count: 2 };
    expect(await http('shop/lines', line)).toEqual({
      status: 201,
      body: { isDto: true, ...line, over: 'http', wrapped: true },
    });
    expect(await call('add_line', line)).toEqual({ isDto: true, ...line, over: 'mcp', wrapped: true });
    expect(await http('shop/lines', { count: 2 })).toMatchObject({ status: 400 });
    expect(await call('add_line', { count: 2 })).toContain('name');
  });

  it('a method that is a route and a tool gets the query as arguments', async () => {
    const { call, http } = await start();
    expect((await http('shop/pages?page=3')).body).toMatchObject({ page: 3, type: 'number' });
    expect(await call('get_page', { page: 3 })).toMatchObject({ page: 3, type: 'number' });
  });

  it('a method that is a route and a tool runs its guards and interceptors around route and tool', async () => {
    const { call, http } = await start();
    expect((await http('shop/orders/7', { name: 'mine' })).body).toEqual({ id: 7, name: 'mine', wrapped: true });
    expect(await call('rename_order', { id: 7, name: 'mine' })).toEqual({ id: 7, name: 'mine', wrapped: true });
    expect(await http('shop/orders/8', { name: 'x' })).toMatchObject({ status: 403 });
    expect(await call('rename_order', { id: 8, name: 'x' })).toBe('That is not your order.');
  });

  it('a method that is a route and a tool gives pipes the same parameters', async () => {
    const { call, http } = await start();
    seen.splice(0);
    const result = { id: 'x', host: 'string', request: 'object', wrapped: true };
    expect((await http('shop/seen/x')).body).toEqual(result);
    const onRoute = seen.splice(0);
    expect(await call('seen', { id: 'x' })).toEqual(result);
    expect([onRoute, seen]).toEqual([['param id'], ['param id']]);
  });

  it('a method that is a route and a tool belongs to a controller that is made for each request', async () => {
    const { call, http } = await start();
    expect((await http('scoped')).body).toEqual({ host: 'string' });
    expect(await call('scoped')).toEqual({ host: 'string' });
  });

  it('a method that is a route and a tool gives all arguments to a parameter without a name', async () => {
    const { call, http } = await start();
    expect((await http('shop/all/7?page=1')).body).toMatchObject({ params: { id: '7' }, query: { page: '1' } });
    expect(await call('get_all', { id: '7' })).toMatchObject({ params: { id: '7' }, query: { id: '7' } });
    expect(await call('hello')).toEqual({ hello: 'world', wrapped: true });
  });
});

describe.each(ONE_ADAPTER)('a method that is a route and a tool stops the start, on %s,', (adapter) => {
  const failureOf = async (controller: Type): Promise<string> => {
    const imports = [McpStreamableModule.forRoot({ serverInfo })];
    const error = await startFailure(adapter, () => ({ imports, controllers: [controller] }));
    expect(error.name).toBe('McpHandlerDefinitionError');
    return error.message;
  };
  const inputSchema = z.object({ id: z.string() });

  it('a method that is a route and a tool stops the start when a parameter exists in HTTP alone', async () => {
    @Controller()
    class WithResponse {
      @Get()
      @Tool({ name: 'broken' })
      get(@Res() _response: object): void {}
    }
    @Controller()
    class WithFile {
      @Post()
      @Tool({ name: 'broken' })
      post(@UploadedFile() _file: object): void {}
    }
    @Controller()
    class WithRedirect {
      @Get()
      @Redirect('/elsewhere')
      @Tool({ name: 'broken' })
      get(): void {}
    }
    const withResponse = await failureOf(WithResponse);
    expect(withResponse).toContain('a parameter has @Res(), which an MCP call does not have');
    expect(withResponse).toContain('@Res({ passthrough: true })');
    for (const failure of [withResponse, await failureOf(WithFile), await failureOf(WithRedirect)]) {
      expect(failure).toContain('If the route must not be a tool, use @Tool(false).');
    }
    expect(await failureOf(WithFile)).toContain('@UploadedFile()');
    expect(await failureOf(WithRedirect)).toContain('@Redirect()');
  });

  it('a method that is a route and a tool stops the start when its controller is served at some hosts alone', async () => {
    @Controller({ path: 'orders', host: ['admin.example.com', /^internal/] })
    class OfHost {
      @Get(':id')
      @Tool({ name: 'broken' })
      get(@Param('id') id: string): string {
        return id;
      }
    }
    expect(await failureOf(OfHost)).toContain(
      'its controller serves only at the host admin.example.com, /^internal/, while clients call it wherever they reach the endpoint',
    );
  });

  it('a method that is a route and a tool stops the start when its parameters have no decorators, as Nest would give the route other values', async () => {
    @Controller()
    class Bare {
      @Get()
      @Tool({ name: 'broken', inputSchema })
      get(_args: object): void {}
    }
    expect(await failureOf(Bare)).toContain('it is also a route');
  });

  it('a method that is a route and a tool stops the start when a parameter is an argument that its schema does not have', async () => {
    @Controller()
    class Misnamed {
      @Get(':orderId')
      @Tool({ name: 'broken', inputSchema })
      get(@Param('orderId') _id: string): void {}
    }
    expect(await failureOf(Misnamed)).toContain(
      'is the argument "orderId", which is not in its schema. Available: "id".',
    );
  });

  it('a method that is a route and a tool stops the start when it is a stream of events', async () => {
    @Controller()
    class Events {
      @Sse('events')
      @Tool({ name: 'broken' })
      events(): Observable<MessageEvent> {
        return of({ data: 'one' }, { data: 'two' });
      }
    }
    expect(await failureOf(Events)).toContain('it is also a route with @Sse()');
  });

  it('a method that is a route and a tool stops the start when a tool that is no route has parameters of routes', async () => {
    @Injectable()
    class NoRoute {
      @Tool({ name: 'broken', inputSchema })
      get(@Query('id') _id: string, @McpArgs() _args: object): void {}
    }
    const error = await startFailure(adapter, () => ({
      imports: [McpStreamableModule.forRoot({ serverInfo })],
      providers: [NoRoute],
    }));
    expect(error.message).toContain('a parameter has @Query(), which only an HTTP route has');
  });
});
