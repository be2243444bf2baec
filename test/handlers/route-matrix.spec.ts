import {
  BadRequestException,
  Body,
  type CallHandler,
  type CanActivate,
  ClassSerializerInterceptor,
  Controller,
  createParamDecorator,
  Delete,
  type ExecutionContext,
  ForbiddenException,
  Get,
  HttpCode,
  Inject,
  Injectable,
  type NestInterceptor,
  NotFoundException,
  Param,
  ParseBoolPipe,
  ParseIntPipe,
  Patch,
  Post,
  Put,
  Query,
  Req,
  Scope,
  SetMetadata,
  StreamableFile,
  UseGuards,
  UseInterceptors,
  ValidationPipe,
} from '@nestjs/common';
import { Reflector, REQUEST } from '@nestjs/core';
import { Exclude, Expose, Type as TypeOf } from 'class-transformer';
import { IsIn, IsInt, IsOptional, IsString, Max, ValidateNested } from 'class-validator';
import { McpStreamableModule, Tools } from 'nestjs-mcp-streamable';
import { map, type Observable, of, tap } from 'rxjs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ADAPTERS, TestApp, serverInfo } from '../support/app.js';

/**
 * The same routes by HTTP and as tools: the same caller is let in and refused by the same guards, and gets the same.
 */

interface Seen {
  readonly method: string;
  readonly url: string;
  readonly params: Record<string, string>;
  readonly query: Record<string, string>;
  readonly body: Record<string, unknown> | undefined;
  readonly headers: Record<string, string | undefined>;
  user?: { name: string; role: string };
}
const requestOf = (context: ExecutionContext): Seen => context.switchToHttp().getRequest<Seen>();

/** As an app has it: who calls, by a header that MCP clients send too. */
@Injectable()
class Authentication implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = requestOf(context);
    const [name = 'nobody', role = 'guest'] = (request.headers['x-user'] ?? '').split(':');
    request.user = { name, role };
    return true;
  }
}
const guard = (decide: (request: Seen) => boolean): CanActivate => ({
  canActivate: (context) => decide(requestOf(context)),
});

const Roles = (...roles: string[]): MethodDecorator => SetMetadata('roles', roles);
@Injectable()
class RolesGuard implements CanActivate {
  constructor(@Inject(Reflector) private readonly reflector: Reflector) {}
  canActivate(context: ExecutionContext): boolean {
    const roles = this.reflector.getAllAndOverride<string[] | undefined>('roles', [
      context.getHandler(),
      context.getClass(),
    ]);
    return roles?.includes(requestOf(context).user!.role) ?? true;
  }
}

const CurrentUser = createParamDecorator((_: unknown, context: ExecutionContext) => requestOf(context).user?.name);
const Tenant = createParamDecorator((_: unknown, context: ExecutionContext) => requestOf(context).query['tenant']);

/** As `CacheInterceptor` of @nestjs/cache-manager: GETs, by their URL. */
@Injectable()
class Cache implements NestInterceptor {
  readonly #kept = new Map<string, unknown>();
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const { method, url } = requestOf(context);
    if (method !== 'GET') return next.handle();
    if (this.#kept.has(url)) return of(this.#kept.get(url));
    return next.handle().pipe(tap((value: unknown) => this.#kept.set(url, value)));
  }
}

class PageDto {
  @IsOptional() @IsInt() @Max(50) @TypeOf(() => Number) limit?: number;
  @IsOptional() @IsString() text?: string;
}
class LineDto {
  @IsString() name!: string;
  @IsInt() count!: number;
}
class OrderDto {
  @IsIn(['open', 'sent']) status!: string;
  @ValidateNested({ each: true }) @TypeOf(() => LineDto) lines!: LineDto[];
}
class Account {
  @Expose() id!: number;
  @Exclude() password!: string;
  constructor(of: Partial<Account>) {
    Object.assign(this, of);
  }
}

@Injectable({ scope: Scope.REQUEST })
class Basket {
  readonly #owner: string;
  constructor(@Inject(REQUEST) request: Seen) {
    this.#owner = request.params['owner'] ?? 'none';
  }
  get owner(): string {
    return this.#owner;
  }
}

@Controller('shop')
@Tools()
@UseGuards(Authentication, RolesGuard)
class ShopController {
  @Get('hello')
  hello(): object {
    return { hello: 'world' };
  }
  @Get('own-params/:owner')
  @UseGuards(guard(({ params, user }) => params['owner'] === user!.name))
  ownParams(@Param('owner') owner: string): object {
    return { owner };
  }
  @Get('own-number/:id')
  @UseGuards(guard(({ params }) => ['7', '8'].includes(params['id']!)))
  ownNumber(@Param('id', ParseIntPipe) id: number): object {
    return { id, type: typeof id };
  }
  @Get('own-query')
  @UseGuards(guard(({ query, user }) => query['owner'] === user!.name))
  ownQuery(@Query('owner') owner: string): object {
    return { owner };
  }
  @Get('own-flag')
  @UseGuards(guard(({ query }) => query['all'] !== 'true'))
  ownFlag(@Query('all', ParseBoolPipe) all: boolean): object {
    return { all };
  }
  @Post('own-body')
  @UseGuards(guard(({ body, user }) => body?.['owner'] === user!.name))
  ownBody(@Body('owner') owner: string, @Body('count') count: number): object {
    return { owner, count };
  }
  @Delete('admins/:id')
  @Roles('admin')
  admins(@Param('id') id: string): object {
    return { removed: id };
  }
  @Delete('verbs/:id')
  @UseGuards(guard(({ method, user }) => method !== 'DELETE' || user!.role === 'admin'))
  verb(@Param('id') id: string): object {
    return { removed: id };
  }
  @Get('user')
  user(@CurrentUser() name: string, @Req() request: Seen): object {
    return { name, role: request.user!.role };
  }
  @Get('tenant')
  tenant(@Tenant() seen: string, @Query('tenant') tenant: string): object {
    return { seen, tenant };
  }
  @Get('pages')
  pages(@Query() page: PageDto): object {
    return { limit: page.limit, text: page.text, isDto: page instanceof PageDto };
  }
  @Patch('orders/:id')
  order(@Param('id', ParseIntPipe) id: number, @Body() order: OrderDto): object {
    return {
      id,
      status: order.status,
      lines: order.lines,
      areDtos: order.lines.every((line) => line instanceof LineDto),
    };
  }
  @Get('cached/:id')
  @UseInterceptors(Cache)
  cached(@Param('id') id: string, @Query('page') page: string): object {
    return { id, page };
  }
  @Get('accounts/:id')
  @UseInterceptors(ClassSerializerInterceptor)
  account(@Param('id', ParseIntPipe) id: number): Account {
    return new Account({ id, password: 'secret' });
  }
  @Get('enveloped/:id')
  @UseInterceptors({ intercept: (_, next) => next.handle().pipe(map((data: unknown) => ({ data, ok: true }))) })
  enveloped(@Param('id') id: string): object {
    return { id };
  }
  @Post('accepted')
  @HttpCode(202)
  accepted(@Body('name') name: string): object {
    return { accepted: name };
  }
  @Get('missing/:id')
  missing(@Param('id') id: string): never {
    throw new NotFoundException(`There is no order ${id}.`);
  }
  @Put('refused/:id')
  refused(@Param('id') id: string): never {
    throw new BadRequestException([`${id} is closed`, 'open it first']);
  }
  @Post('denied')
  denied(): never {
    throw new ForbiddenException('Not today.');
  }
  @Get('files/:name')
  file(@Param('name') name: string): StreamableFile {
    return new StreamableFile(Buffer.from(`contents of ${name}`), { type: 'text/plain' });
  }
  @Get('later/:id')
  later(@Param('id') id: string): Promise<object> {
    return Promise.resolve({ id, later: true });
  }
}

@Controller({ path: 'baskets', scope: Scope.REQUEST })
@Tools()
class BasketsController {
  constructor(@Inject(Basket) private readonly basket: Basket) {}
  @Get(':owner')
  find(@Param('owner') owner: string): object {
    return { owner, basket: this.basket.owner };
  }
}

interface Case {
  tool: string;
  verb?: string;
  path: string;
  body?: object;
  args?: object;
  user?: string;
  /** By a guard that needs the arguments, or by the route itself. */
  refused?: true;
  /** By a guard that needs no arguments: the caller does not see the tool. */
  hidden?: true;
}

const CASES: Case[] = [
  { tool: 'shop_hello', path: 'shop/hello' },
  { tool: 'shop_own_params', path: 'shop/own-params/ann', args: { owner: 'ann' } },
  { tool: 'shop_own_params', path: 'shop/own-params/bob', args: { owner: 'bob' }, refused: true },
  { tool: 'shop_own_number', path: 'shop/own-number/7', args: { id: 7 } },
  { tool: 'shop_own_number', path: 'shop/own-number/9', args: { id: 9 }, refused: true },
  { tool: 'shop_own_query', path: 'shop/own-query?owner=ann', args: { owner: 'ann' } },
  { tool: 'shop_own_query', path: 'shop/own-query?owner=bob', args: { owner: 'bob' }, refused: true },
  { tool: 'shop_own_query', path: 'shop/own-query', args: {}, refused: true },
  { tool: 'shop_own_flag', path: 'shop/own-flag?all=false', args: { all: false } },
  { tool: 'shop_own_flag', path: 'shop/own-flag?all=true', args: { all: true }, refused: true },
  { tool: 'shop_own_body', verb: 'POST', path: 'shop/own-body', body: { owner: 'ann', count: 3 } },
  { tool: 'shop_own_body', verb: 'POST', path: 'shop/own-body', body: { owner: 'bob', count: 3 }, refused: true },
  { tool: 'shop_admins', verb: 'DELETE', path: 'shop/admins/a', args: { id: 'a' }, user: 'root:admin' },
  { tool: 'shop_admins', verb: 'DELETE', path: 'shop/admins/a', args: { id: 'a' }, hidden: true },
  { tool: 'shop_verb', verb: 'DELETE', path: 'shop/verbs/a', args: { id: 'a' }, user: 'root:admin' },
  { tool: 'shop_verb', verb: 'DELETE', path: 'shop/verbs/a', args: { id: 'a' }, hidden: true },
  { tool: 'shop_user', path: 'shop/user' },
  { tool: 'shop_tenant', path: 'shop/tenant?tenant=t1', args: { tenant: 't1' } },
  { tool: 'shop_pages', path: 'shop/pages?limit=5&text=lamp', args: { limit: 5, text: 'lamp' } },
  { tool: 'shop_pages', path: 'shop/pages?limit=500', args: { limit: 500 }, refused: true },
  { tool: 'shop_pages', path: 'shop/pages?page=1', args: { page: 1 }, refused: true },
  {
    tool: 'shop_order',
    verb: 'PATCH',
    path: 'shop/orders/7',
    args: { id: 7 },
    body: { status: 'open', lines: [{ name: 'lamp', count: 2 }] },
  },
  {
    tool: 'shop_order',
    verb: 'PATCH',
    path: 'shop/orders/7',
    args: { id: 7 },
    refused: true,
    body: { status: 'open', lines: [{ name: 'lamp' }] },
  },
  { tool: 'shop_cached', path: 'shop/cached/7?page=1', args: { id: '7', page: '1' } },
  { tool: 'shop_cached', path: 'shop/cached/8?page=1', args: { id: '8', page: '1' } },
  { tool: 'shop_account', path: 'shop/accounts/7', args: { id: 7 } },
  { tool: 'shop_enveloped', path: 'shop/enveloped/7', args: { id: '7' } },
  { tool: 'shop_accepted', verb: 'POST', path: 'shop/accepted', body: { name: 'lamp' } },
  { tool: 'shop_missing', path: 'shop/missing/7', args: { id: '7' }, refused: true },
  { tool: 'shop_refused', verb: 'PUT', path: 'shop/refused/7', args: { id: '7' }, refused: true },
  { tool: 'shop_denied', verb: 'POST', path: 'shop/denied', refused: true },
  { tool: 'shop_file', path: 'shop/files/a', args: { name: 'a' } },
  { tool: 'shop_later', path: 'shop/later/7', args: { id: '7' } },
  { tool: 'baskets_find', path: 'baskets/ann', args: { owner: 'ann' } },
];

describe.each(ADAPTERS)('the same routes by HTTP and as tools, on %s,', (adapter) => {
  let app: TestApp;
  beforeAll(async () => {
    app = await TestApp.of(
      adapter,
      {
        imports: [McpStreamableModule.forRoot({ serverInfo })],
        controllers: [ShopController, BasketsController],
        providers: [Basket, Cache],
      },
      (nest) => {
        nest.useGlobalPipes(new ValidationPipe({ transform: true, whitelist: true, forbidNonWhitelisted: true }));
      },
    );
  });
  afterAll(() => app.close());

  /** The texts of an error are those that clients read. */
  const textOf = ({ message }: { message: string | string[] }): string => [message].flat().join('; ');

  it.each(CASES.map((each) => [`${each.tool} of ${each.path}`, each] as const))(
    'the same routes by HTTP and as tools decide the same, and answer the same: %s',
    async (_, { tool, verb = 'GET', path, body, args, user = 'ann:user', refused = false, hidden = false }) => {
      const headers = { 'x-user': user };
      const response = await fetch(`${app.base}/${path}`, {
        method: verb,
        headers: { ...headers, ...(body && { 'content-type': 'application/json' }) },
        ...(body && { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      expect(response.ok).toBe(!refused && !hidden);

      // What the client writes into the URL of the endpoint is no argument.
      const client = await app.clientAt('mcp?owner=ann&all=false', headers).initialize('2025-11-25');
      const { result, error } = await (await client.call(tool, { ...args, ...body })).json();
      if (hidden) return expect(error.message).toContain(tool);
      expect(result.isError ?? false).toBe(refused);
      const [content] = result.content as { text?: string; resource?: { text: string } }[];
      const said = content!.text ?? content!.resource!.text;
      if (refused)
        return expect(said.replace(/\.$/, '')).toContain(textOf(JSON.parse(text)).split('; ')[0]!.replace(/\.$/, ''));
      const isJson = response.headers.get('content-type')?.includes('json');
      expect(isJson ? (result.structuredContent ?? JSON.parse(said)) : said).toEqual(isJson ? JSON.parse(text) : text);
    },
  );
});
