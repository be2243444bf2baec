import {
  Body,
  type CanActivate,
  Controller,
  DefaultValuePipe,
  Delete,
  type DynamicModule,
  Get,
  type INestApplication,
  Injectable,
  Module,
  Param,
  ParseArrayPipe,
  ParseBoolPipe,
  ParseDatePipe,
  ParseEnumPipe,
  ParseFloatPipe,
  ParseIntPipe,
  ParseUUIDPipe,
  Patch,
  type PipeTransform,
  Post,
  Put,
  Query,
  Req,
  Res,
  SerializeOptions,
  Session,
  type Type,
  UseGuards,
  ValidationPipe,
} from '@nestjs/common';
import { RouterModule } from '@nestjs/core';
import { ApiOkResponse, ApiOperation, ApiParam, ApiProperty, ApiQuery, getSchemaPath } from '@nestjs/swagger';
import { IsBoolean, IsInt, IsNotEmpty, IsOptional, IsString, MaxLength } from 'class-validator';
import { Transform, Type as TypeOf } from 'class-transformer';
import { McpHandlers, McpRegistry, McpStreamableModule, Tool, Tools } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ProductsController } from '../../examples/snippets/products.controller.js';
import { ONE_ADAPTER, TestApp, type TestAppOptions, serverInfo, startFailure } from '../support/app.js';
import { testApps } from '../support/test-apps.js';

enum Status {
  Open = 'open',
  Closed = 'closed',
}
enum Level {
  Low,
  High,
}

class UpdateOrderDto {
  @IsString() @MaxLength(20) status!: string;
  @IsOptional() @IsString() note?: string;
}
class PageDto {
  @IsInt() @TypeOf(() => Number) page: number = 1;
  @IsOptional() @IsBoolean() @Transform(({ value }) => value === 'true') archived?: boolean;
}
class MoveDto {
  @IsString() id!: string;
}
/** As `createZodDto()` of nestjs-zod makes it. */
class ZodDto {
  static isZodDto = true;
  static schema = z.object({ title: z.string().min(1), stars: z.number().int().default(3) });
}
const filter = z.object({ text: z.string().optional(), max: z.coerce.number().max(50).default(10) });

class Entity {
  constructor(readonly key: string) {}
}
@Injectable()
class LoadEntity implements PipeTransform<string, Entity> {
  transform(key: string): Entity {
    return new Entity(`loaded ${key}`);
  }
}

@Controller('orders')
class OrdersController {
  @Patch(':id')
  @Tool()
  update(@Param('id', ParseIntPipe) id: number, @Body() dto: UpdateOrderDto): object {
    return { id, status: dto.status, isDto: dto instanceof UpdateOrderDto };
  }
  @Get('typed/:key/:on')
  @Tool()
  typed(
    @Param('key') key: string,
    @Param('on') on: boolean,
    @Query('count') count: number,
    @Query('since') since: Date,
    @Query('any') any: string | number,
  ): object {
    return { key, on, count, since, any };
  }
  @Get('piped/:uuid')
  @Tool()
  piped(
    @Param('uuid', ParseUUIDPipe) uuid: string,
    @Query('price', ParseFloatPipe) price: number,
    @Query('open', new ParseBoolPipe({ optional: true })) open: boolean | undefined,
    @Query('status', new ParseEnumPipe(Status)) status: Status,
    @Query('level', new ParseEnumPipe(Level, { optional: true })) level: Level | undefined,
    @Query('day', new ParseDatePipe({ optional: true })) day: Date | undefined,
    @Query('ids', new ParseArrayPipe({ items: Number, optional: true })) ids: number[] | undefined,
    @Query('limit', new DefaultValuePipe(5), ParseIntPipe) limit: number,
  ): object {
    return { uuid, price, open, status, level, year: day?.getUTCFullYear(), ids, limit };
  }
  @Get()
  @Tool()
  list(@Query() page: PageDto): object {
    return { page: page.page, archived: page.archived };
  }
  @Post('filter/:tenant')
  @Tool({ name: 'filter' })
  filter(@Param() params: Record<string, string>, @Query({ schema: filter }) query: z.infer<typeof filter>): object {
    return { params, query };
  }
  @Post('zod')
  @Tool()
  zod(@Body() dto: ZodDto): object {
    return dto;
  }
  @Post(':id/move')
  @Tool({ rename: { 'body.id': 'newId' } })
  move(@Param('id') id: string, @Body() dto: MoveDto): object {
    return { id, newId: dto.id };
  }
  @Get('by-hand/:id')
  @Tool({ inputSchema: z.object({ id: z.string().describe('By hand') }) })
  byHand(@Param('id') id: string): object {
    return { id };
  }
  @Get('entities/:key')
  @Tool()
  entities(@Param('key', LoadEntity) one: Entity, @Query('other', LoadEntity) other: Entity): object {
    return { one: one.key, other: other.key };
  }
  @Get('http')
  @Tool()
  http(
    @Req() request: object,
    @Session() session: object | undefined,
    @Res({ passthrough: true }) response: Answer,
  ): object {
    response.status(200);
    return { request: typeof request, session: typeof session };
  }
  @Put(':id')
  @Tool({ annotations: { idempotentHint: false, openWorldHint: false } })
  replace(@Param('id') id: string): object {
    return { id };
  }
  @Delete(':id')
  @Tool()
  remove(@Param('id') id: string): object {
    return { id };
  }
}
interface Answer {
  status(code: number): unknown;
}

class OrderDto {
  @ApiProperty({ description: 'The number on the invoice' }) id!: number;
  @ApiProperty({ required: false, enum: Status }) status?: Status;
  @ApiProperty({ type: [UpdateOrderDto] }) changes!: UpdateOrderDto[];
}

@Controller('docs')
class DocumentedController {
  @Get(':id')
  @ApiOperation({ summary: 'An order', description: 'Finds an order by its number.' })
  @ApiParam({ name: 'id', description: 'The number', example: 7 })
  @ApiQuery({ name: 'status', enum: Status, description: 'Only of this status' })
  @ApiOkResponse({ type: OrderDto })
  @Tool({ outputSchema: 'route' })
  find(@Param('id', ParseIntPipe) id: number, @Query('status') status: Status): object {
    return { id, status: status ?? 'open', changes: [], more: 1 };
  }
  @Get()
  @ApiOperation({ summary: 'Counts orders.' })
  @SerializeOptions({ schema: z.object({ count: z.number() }) })
  @Tool({ outputSchema: 'route', title: 'Counts' })
  count(): object {
    return { count: 3 };
  }
}

@Controller('notes')
@Tools()
class NotesController {
  @Get()
  list(): object {
    return {};
  }
  @Get(':id')
  @Tool({ name: 'read_note' })
  find(@Param('id') id: string): object {
    return { id };
  }
  @Post()
  @Tool(false)
  create(): void {}
  @Delete(':id')
  remove(@Param('id') id: string): object {
    return { id };
  }
  helper(): void {}
}
@Controller('only')
@Tools({ only: ['one'] })
class OnlyController {
  @Get('one')
  one(): void {}
  @Get('two')
  two(): void {}
}
@Controller('except')
@Tools({ except: ['one'] })
class ExceptController extends OnlyController {}

interface Requested {
  readonly params: Record<string, unknown>;
  readonly query: Record<string, unknown>;
}

interface Listed {
  name: string;
  title?: string;
  description?: string;
  inputSchema: { properties: Record<string, object>; required?: string[]; additionalProperties?: boolean };
  outputSchema?: object;
  annotations?: object;
}

const ADAPTER = ONE_ADAPTER[0]!;
const startShared = testApps(ADAPTER, { shared: true, guards: [] });
/** For what an app logs at its start. */
const startOwn = testApps(ADAPTER, { guards: [] });

async function start(
  controllers: Type[],
  options: Partial<TestAppOptions> = {},
  imports: (Type | DynamicModule)[] = [],
  startApp = startShared,
) {
  const app = await startApp({ ...options, module: { controllers, imports } });
  const client = await app.client().initialize('2025-11-25');
  const { result } = await (await client.post({ jsonrpc: '2.0', id: client.nextId(), method: 'tools/list' })).json();
  const tools = result.tools as Listed[];
  return {
    app,
    names: tools.map(({ name }) => name),
    tool: (name: string) => tools.find((each) => each.name === name)!,
    raw: async (name: string, args: object = {}) => (await client.call(name, args)).json(),
    call: async (name: string, args: object = {}) => {
      const answer = await (await client.call(name, args)).json();
      if (answer.error) return answer.error.message as string;
      const { isError, content, structuredContent } = answer.result;
      return isError ? (content[0].text as string) : (structuredContent ?? JSON.parse(content[0].text));
    },
  };
}

describe('a route is a tool by @Tool() alone:', () => {
  const dates = { examples: ['2026-01-31', '2026-01-31T12:00:00Z'] };
  const pipes: Record<string, Partial<TestAppOptions>> = {
    'without pipes': {},
    'with a ValidationPipe': {
      configure: (nest: INestApplication) =>
        void nest.useGlobalPipes(new ValidationPipe({ transform: true, whitelist: true })),
    },
  };

  it.each(Object.entries(pipes))(
    'its parameters are the schema and get the arguments, %s of the app',
    async (_, pipe) => {
      const { tool, call } = await start([OrdersController], pipe);
      expect(tool('orders_update').inputSchema).toEqual({
        type: 'object',
        properties: { id: { type: 'integer' }, status: { type: 'string', maxLength: 20 }, note: { type: 'string' } },
        required: ['id', 'status'],
      });
      expect(await call('orders_update', { id: 7, status: 'sent' })).toEqual({ id: 7, status: 'sent', isDto: true });
      expect(await call('orders_update', { id: 7, status: 'x'.repeat(30) })).toContain('status');
      expect(await call('orders_update', { id: 'x', status: 'sent' })).toContain('id: must be integer');
      expect(await call('orders_update', { status: 'sent' })).toContain('id: is missing');

      expect(tool('orders_typed').inputSchema).toEqual({
        type: 'object',
        properties: {
          key: { type: 'string' },
          on: { type: 'boolean' },
          count: { type: 'number' },
          since: { type: 'string', ...dates },
          any: {},
        },
        required: ['key', 'on'],
      });
      const typed = { key: 'a', on: false, count: 2 };
      const since = '2026-01-02T03:04:05Z';
      expect(await call('orders_typed', { ...typed, since, any: 3 })).toEqual({ ...typed, since, any: 3 });

      const uuid = '6f1f3b0e-0e8f-4d5b-9a39-0f6a4a9d1c11';
      expect(tool('orders_piped').inputSchema).toEqual({
        type: 'object',
        properties: {
          uuid: { type: 'string', format: 'uuid' },
          price: { type: 'number' },
          open: { type: 'boolean' },
          status: { type: 'string', enum: ['open', 'closed'] },
          level: { type: 'number', enum: [0, 1] },
          day: { type: 'string', ...dates },
          ids: { type: 'array', items: { type: 'number' } },
          limit: { type: 'integer', default: 5 },
        },
        required: ['uuid', 'price', 'status'],
      });
      expect(await call('orders_piped', { uuid, price: 1.5, status: 'open' })).toEqual({
        uuid,
        price: 1.5,
        status: 'open',
        limit: 5,
      });
      const all = { uuid, price: 1.5, open: false, status: 'closed', level: 1, ids: [1, 2], limit: 9 };
      expect(await call('orders_piped', { ...all, day: since })).toEqual({ ...all, year: 2026 });
      expect(await call('orders_piped', { uuid: 'x', price: 1, status: 'open' })).toContain('uuid');

      expect(tool('orders_list').inputSchema).toEqual({
        type: 'object',
        properties: { page: { type: 'integer', default: 1 }, archived: { type: 'boolean' } },
      });
      expect(await call('orders_list', { page: 2 })).toMatchObject({ page: 2 });
    },
  );

  it('a query is in the request as in a URL, so that what its class does to texts is done', async () => {
    const { call } = await start([OrdersController], pipes['with a ValidationPipe']);
    expect(await call('orders_list', { page: 2, archived: true })).toEqual({ page: 2, archived: true });
  });

  it('Standard Schemas of parameters and of classes are part of its schema, and are checked', async () => {
    const { tool, call } = await start([OrdersController]);
    expect(tool('filter').inputSchema).toMatchObject({
      properties: { tenant: { type: 'string' }, text: { type: 'string' }, max: { type: 'number', maximum: 50 } },
      required: ['tenant'],
    });
    expect(await call('filter', { tenant: 't', text: 'x' })).toEqual({
      params: { tenant: 't' },
      query: { text: 'x', max: 10 },
    });
    expect(await call('filter', { tenant: 't', max: 51 })).toContain('max');
    expect(tool('orders_zod').inputSchema).toMatchObject({
      properties: { title: {}, stars: { default: 3 } },
      required: ['title'],
    });
    expect(await call('orders_zod', { title: 'a' })).toEqual({ title: 'a', stars: 3 });
    expect(await call('orders_zod', { title: '' })).toContain('title');
  });

  it('an argument has another name by "rename", and a schema by hand wins', async () => {
    const { tool, call } = await start([OrdersController]);
    expect(Object.keys(tool('orders_move').inputSchema.properties)).toEqual(['id', 'newId']);
    expect(await call('orders_move', { id: 'a', newId: 'b' })).toEqual({ id: 'a', newId: 'b' });
    expect(await call('orders_move', { id: 'a', newId: 7 })).toContain('newId');
    expect(tool('orders_by_hand').inputSchema.properties).toEqual({ id: { type: 'string', description: 'By hand' } });
  });

  it('a pipe of the app gets the text of an argument, whatever it makes of it', async () => {
    const { tool, call } = await start([OrdersController]);
    expect(tool('orders_entities').inputSchema).toMatchObject({
      properties: { key: { type: 'string' }, other: { type: 'string' } },
      required: ['key'],
    });
    expect(await call('orders_entities', { key: 'a', other: 'b' })).toEqual({ one: 'loaded a', other: 'loaded b' });
  });

  it('a path has all its parameters, and none of them is empty', async () => {
    const { call } = await start([OrdersController]);
    expect(await call('filter', {})).toContain('tenant: is missing');
    expect(await call('filter', { tenant: '' })).toContain('tenant: must not be empty');
    expect(await call('orders_remove', { id: '' })).toContain('id: must not be empty');
  });

  it('an argument in a path is a text: never null, and a list as its pipe splits it', async () => {
    class OptionalDto {
      @IsOptional() @IsString() id?: string;
    }
    const seen: unknown[] = [];
    @Controller('paths')
    @UseGuards({ canActivate: (context) => seen.push(context.switchToHttp().getRequest<Requested>().params) > 0 })
    @Tools()
    class PathsController {
      @Get('whole/:id')
      whole(@Param() params: Record<string, string>): object {
        return { ...params };
      }
      @Get('dto/:id')
      dto(@Param() { id }: OptionalDto): object {
        return { id };
      }
      @Get('bare/:id')
      bare(): object {
        return { bare: true };
      }
      @Get('list/:ids')
      list(@Param('ids', new ParseArrayPipe({ items: Number })) ids: number[]): object {
        return { ids };
      }
      @Get('lines/:names')
      lines(@Param('names', new ParseArrayPipe({ separator: ';' })) names: string[]): object {
        return { names };
      }
    }
    const { call } = await start([PathsController]);
    for (const name of ['whole', 'dto', 'bare']) {
      expect(await call(`paths_${name}`, { id: null })).toContain('id: must be a text');
      expect(await call(`paths_${name}`, { id: 'a' })).toEqual(name === 'bare' ? { bare: true } : { id: 'a' });
    }
    seen.length = 0;
    expect(await call('paths_list', { ids: [1, 2] })).toEqual({ ids: [1, 2] });
    expect(await call('paths_lines', { names: ['a', 'b'] })).toEqual({ names: ['a', 'b'] });
    expect(seen).toEqual([{ ids: '1,2' }, { names: 'a;b' }]);
    expect(await call('paths_list', { ids: [] })).toContain('ids: must not be empty');
  });

  it('a class for the parameters requires the names in the path, and of the names of other routes what its rules require', async () => {
    class SharedDto {
      @IsOptional() @IsString() id?: string;
      @IsOptional() @IsString() part?: string;
    }
    @Controller('wholes')
    @Tools()
    class WholesController {
      @Get(':id')
      one(@Param() params: SharedDto): object {
        return params;
      }
      @Get(':id/parts/:part')
      part(@Param() params: SharedDto): object {
        return params;
      }
    }
    const { tool, call } = await start([WholesController]);
    expect(tool('wholes_one').inputSchema.required).toEqual(['id']);
    expect(tool('wholes_part').inputSchema.required).toEqual(['id', 'part']);
    expect(await call('wholes_one', { id: 'a' })).toEqual({ id: 'a' });
  });

  it('all names in the path are arguments, as guards read them on the route, also those that no parameter takes', async () => {
    const ofOrg = ({ params }: Requested): boolean => params['org'] === undefined || params['org'] === 'mine';
    @Controller('items/:shop')
    @UseGuards({ canActivate: (context) => ofOrg(context.switchToHttp().getRequest()) })
    @Tools()
    class ItemsController {
      @Get(':id')
      find(@Param('id') id: string): object {
        return { id };
      }
      @Get()
      list(@Req() { params }: Requested): object {
        return { ...params };
      }
      @Get('bare/:x')
      bare(): object {
        return { bare: true };
      }
    }
    @Controller('by-hand')
    @UseGuards({ canActivate: (context) => ofOrg(context.switchToHttp().getRequest()) })
    class ByHandController {
      @Get(':org')
      @Tool({ inputSchema: z.object({ org: z.string() }) })
      find(): object {
        return { found: true };
      }
    }
    @Module({ controllers: [ItemsController] })
    class ItemsModule {}
    const { tool, call } = await start([ByHandController], {}, [
      ItemsModule,
      RouterModule.register([{ path: 'orgs/:org', module: ItemsModule }]),
    ]);
    expect(tool('items_find').inputSchema).toEqual({
      type: 'object',
      properties: { id: { type: 'string' }, org: { type: 'string' }, shop: { type: 'string' } },
      required: ['id', 'org', 'shop'],
    });
    const known = { org: 'mine', shop: 's' };
    expect(await call('items_find', { ...known, id: 'a' })).toEqual({ id: 'a' });
    expect(await call('items_find', { ...known, id: 'a', org: 'other' })).toContain('Forbidden');
    expect(await call('items_find', { shop: 's', id: 'a' })).toContain('org: is missing');
    expect(await call('items_list', known)).toEqual(known);
    // No parameter asks for the arguments.
    expect(await call('items_bare', { ...known, x: '' })).toContain('x: must not be empty');
    expect(await call('items_bare', { ...known, x: 'y' })).toEqual({ bare: true });
    expect(await call('by_hand_find', { org: 'mine' })).toEqual({ found: true });
    expect(await call('by_hand_find', { org: 'other' })).toContain('Forbidden');
  });

  it('a name that a path of the route does without is not required', async () => {
    @Controller('a')
    @Tools()
    class OptionalController {
      @Get(['list', 'list/:id'])
      list(@Param('id') id?: string): object {
        return { id: id ?? 'none' };
      }
    }
    const { tool, call } = await start([OptionalController]);
    expect(tool('optional_list').inputSchema).toEqual({ type: 'object', properties: { id: { type: 'string' } } });
    expect(await call('optional_list')).toEqual({ id: 'none' });
    expect(await call('optional_list', { id: 'a' })).toEqual({ id: 'a' });
    expect(await call('optional_list', { id: '' })).toContain('id: must not be empty');
  });

  it.each(Object.entries(pipes))(
    'no URL has an object: neither has a path or a query, %s of the app',
    async (_, pipe) => {
      class LooseDto {
        @IsNotEmpty() id!: string;
      }
      @Controller('a')
      @Tools()
      class LooseController {
        @Get('whole/:id')
        whole(@Param() params: Record<string, string>): object {
          return params;
        }
        @Get('dto/:id')
        dto(@Param() { id }: LooseDto): object {
          return { id };
        }
        @Get('untyped/:id')
        untyped(@Param('id') id: unknown): object {
          return { id };
        }
        @Get('query')
        query(@Query() { id }: LooseDto): object {
          return { id };
        }
        @Get('list')
        list(@Query('id') id: string[]): object {
          return { id };
        }
        @Get('nested')
        nested(@Query({ schema: z.object({ id: z.object({ a: z.string() }) }) }) query: object): object {
          return query;
        }
      }
      const { call } = await start([LooseController], pipe);
      for (const name of ['whole', 'dto', 'untyped', 'query']) {
        expect(await call(`loose_${name}`, { id: 'a' })).toEqual({ id: 'a' });
        expect(await call(`loose_${name}`, { id: { $ne: null } })).toContain('id: must be a text');
      }
      expect(await call('loose_whole', { id: ['a'] })).toContain('id: must be a text');
      expect(await call('loose_list', { id: ['a'] })).toEqual({ id: ['a'] });
      expect(await call('loose_list', { id: [{ $ne: null }] })).toContain('id: must be a text or a list of texts');
      expect(await call('loose_nested', { id: { a: 'b' } })).toEqual({ id: { a: 'b' } });
    },
  );

  it('a guard reads and writes the values that the method gets, whatever is renamed', async () => {
    class OwnerDto {
      @IsString() owner!: string;
    }
    const filter = z.object({ filter: z.object({ owner: z.string() }), ids: z.array(z.string()) });
    const forced: CanActivate = {
      canActivate: (context) => {
        const { query } = context.switchToHttp().getRequest<{ query: z.infer<typeof filter> }>();
        query.filter.owner = 'ann';
        query.ids.pop();
        return true;
      },
    };
    @Controller('own')
    class OwnController {
      @Get()
      @UseGuards({
        canActivate: (context) => context.switchToHttp().getRequest<Requested>().query['owner'] === 'ann',
      })
      @Tool({ rename: { 'query.owner': 'who' } })
      find(@Query() query: OwnerDto): object {
        return { owner: query.owner };
      }
      @Get('forced')
      @UseGuards(forced)
      @Tool()
      forced(@Query({ schema: filter }) query: object): object {
        return query;
      }
      @Get('by-hand')
      @UseGuards(forced)
      @Tool({ inputSchema: filter })
      byHand(@Query() query: object): object {
        return query;
      }
    }
    const { call } = await start([OwnController]);
    expect(await call('own_find', { who: 'ann' })).toEqual({ owner: 'ann' });
    expect(await call('own_find', { who: 'bob', owner: 'ann' })).toContain('Forbidden');
    for (const name of ['own_forced', 'own_by_hand']) {
      const given = { filter: { owner: 'bob' }, ids: ['a', 'b'] };
      expect(await call(name, given)).toEqual({ filter: { owner: 'ann' }, ids: ['a'] });
    }
  });

  it('parameters that exist in HTTP alone are no arguments', async () => {
    const { tool, call } = await start([OrdersController]);
    expect(tool('orders_http').inputSchema.properties).toEqual({});
    expect(await call('orders_http')).toEqual({ request: 'object', session: 'undefined' });
  });

  it('arguments that an attacker adds reach neither prototypes nor parameters', async () => {
    const { call } = await start([OrdersController]);
    const args = JSON.parse('{"id":"a","newId":"b","__proto__":{"x":1},"constructor":"c","body.id":"d"}') as object;
    expect(await call('orders_move', args)).toEqual({ id: 'a', newId: 'b' });
  });
});

describe('a tool gets from its route:', () => {
  it('hints of its verb, which annotations override', async () => {
    const { tool } = await start([OrdersController]);
    expect(tool('orders_list').annotations).toEqual({ readOnlyHint: true });
    expect(tool('orders_remove').annotations).toEqual({ idempotentHint: true, destructiveHint: true });
    expect(tool('orders_replace').annotations).toEqual({ idempotentHint: false, openWorldHint: false });
    expect(tool('orders_update').annotations).toBeUndefined();
  });

  it('texts and results of @nestjs/swagger and @SerializeOptions()', async () => {
    const { tool, call } = await start([DocumentedController]);
    expect(tool('documented_find')).toMatchObject({
      title: 'An order',
      description: 'Finds an order by its number.',
      inputSchema: {
        properties: {
          id: { type: 'integer', description: 'The number', examples: [7] },
          status: { type: 'string', enum: ['open', 'closed'], description: 'Only of this status' },
        },
      },
      outputSchema: {
        type: 'object',
        properties: {
          id: { type: 'number', description: 'The number on the invoice' },
          status: { enum: ['open', 'closed'] },
          changes: { type: 'array' },
        },
        required: ['id', 'changes'],
      },
    });
    expect(await call('documented_find', { id: 7 })).toMatchObject({ id: 7, status: 'open' });
    expect(await call('documented_find', { id: 7, status: 'lost' })).toContain('status');
    expect(tool('documented_count')).toMatchObject({
      title: 'Counts',
      description: 'Counts orders.',
      outputSchema: { properties: { count: { type: 'number' } } },
    });
  });

  it("a result that is the route's is checked as it is sent: a date is a text", async () => {
    class NoteDto {
      @ApiProperty() at!: Date;
    }
    @Controller('a')
    class DatedController {
      @Get()
      @ApiOkResponse({ type: NoteDto })
      @Tool({ outputSchema: 'route' })
      find(@Query('at') at: string): object {
        return { at: at === 'now' ? new Date(0) : 7 };
      }
    }
    const { call } = await start([DatedController]);
    expect(await call('dated_find', { at: 'now' })).toEqual({ at: '1970-01-01T00:00:00.000Z' });
    expect(await call('dated_find', { at: 'never' })).toContain('does not match its output schema');
  });

  it('no texts of @nestjs/swagger that refer to its document', async () => {
    const items = { $ref: getSchemaPath(OrderDto) };
    class PageOfOrders {
      @ApiProperty({ type: 'array', items }) orders!: OrderDto[];
    }
    @Controller('a')
    class ReferringController {
      @Get()
      @ApiQuery({ name: 'filter', schema: { type: 'array', items }, description: 'Some' })
      @ApiOkResponse({ type: PageOfOrders })
      @Tool({ outputSchema: 'route' })
      list(@Query('filter') _filter: string): object {
        return { orders: [] };
      }
    }
    const { tool, call } = await start([ReferringController]);
    expect(tool('referring_list').outputSchema).toMatchObject({ properties: { orders: { type: 'array' } } });
    expect(tool('referring_list').inputSchema.properties).toEqual({ filter: { type: 'string', description: 'Some' } });
    expect(await call('referring_list')).toEqual({ orders: [] });
  });

  it('a log line at the start when it has no description', async () => {
    const { app } = await start([NotesController, DocumentedController], {}, [], startOwn);
    const lines = app.log
      .texts('warn')
      .filter((line) => line.includes('Models choose tools by their descriptions, and these have none'));
    expect(lines).toEqual([
      'Models choose tools by their descriptions, and these have none: notes_list, read_note, notes_remove. Give @Tool({ description }), or @ApiOperation({ summary }) of @nestjs/swagger on a route.',
    ]);
  });
});

describe('@Tools() makes the routes of a controller tools:', () => {
  it('all of them, but those with @Tool(false)', async () => {
    const { names, call } = await start([NotesController]);
    expect(names).toEqual(['notes_list', 'read_note', 'notes_remove']);
    expect(await call('notes_remove', { id: 'a' })).toEqual({ id: 'a' });
  });

  it('@Tools() makes the routes of a controller tools, as getting started shows it', async () => {
    const { names, tool, call } = await start([ProductsController]);
    expect(names).toEqual(['products_find', 'products_update']);
    expect(Object.keys(tool('products_update').inputSchema.properties)).toEqual(['id', 'price', 'note']);
    expect(await call('products_update', { id: 7, price: 30 })).toEqual({ id: 7, price: 30 });
  });

  it('those in "only", or all but those in "except"', async () => {
    const { names } = await start([OnlyController, ExceptController]);
    expect(names).toEqual(['only_one', 'except_two']);
  });

  it('none in "except", also if the base class has made it a tool', async () => {
    class BaseController {
      @Get()
      list(): void {}
      @Delete()
      @Tool()
      clear(): void {}
    }
    @Controller('cats')
    @Tools({ except: ['clear'] })
    class CatsController extends BaseController {}
    const { names } = await start([CatsController]);
    expect(names).toEqual(['cats_list']);
  });

  it('D34: @Tools() makes only the routes that read tools where "readOnly" is set: others do not exist', async () => {
    const { app, names, raw } = await start([NotesController], { readOnly: true }, [], startOwn);
    expect(names).toEqual(['notes_list', 'read_note']);
    const [hidden, missing] = [await raw('notes_remove', { id: 'a' }), await raw('notes_x', { id: 'a' })];
    expect(hidden.error.message).toBe(missing.error.message.replace('notes_x', 'notes_remove'));
    expect(hidden.error.code).toBe(missing.error.code);
    const registry = app.app.get(McpRegistry);
    expect(() => registry.registerTool({ name: 'more', handler: () => 'done' })).toThrow('the option "readOnly"');
    const more = registry.registerTool({ name: 'more', annotations: { readOnlyHint: true }, handler: () => 'done' });
    expect(() => more.update({ annotations: {} })).toThrow('the option "readOnly"');
    expect(app.log.texts('log').filter((line) => line.includes('left out'))).toHaveLength(1);
  });

  it('D34: an endpoint that only reads stands beside one with all tools', async () => {
    @Controller('shared')
    @Tools()
    @McpHandlers({ endpoint: ['full', 'public'] })
    class Shared extends NotesController {}
    const app = await TestApp.of(ADAPTER, {
      imports: [
        McpStreamableModule.forRoot({ serverInfo, name: 'full', path: 'full' }),
        McpStreamableModule.forRoot({ serverInfo, name: 'public', path: 'public', readOnly: true }),
      ],
      controllers: [Shared],
    });
    const namesAt = async (path: string): Promise<string[]> => {
      const client = await app.clientAt(path).initialize('2025-11-25');
      const { result } = await (
        await client.post({ jsonrpc: '2.0', id: client.nextId(), method: 'tools/list' })
      ).json();
      return (result.tools as Listed[]).map(({ name }) => name);
    };
    expect(await namesAt('full')).toEqual(['shared_list', 'read_note', 'shared_remove']);
    expect(await namesAt('public')).toEqual(['shared_list', 'read_note']);
    await app.close();
  });
});

describe('a route that is a tool stops the start,', () => {
  const failureOf = async (...controllers: Type[]): Promise<string> => {
    const imports = [McpStreamableModule.forRoot({ serverInfo })];
    return (await startFailure(ADAPTER, () => ({ imports, controllers }))).message;
  };

  it('a route that is a tool stops the start when one name stands in two places, of which "rename" resolves one', async () => {
    @Controller('orders')
    class Twice {
      @Patch(':id')
      @Tool()
      move(@Param('id') _id: string, @Body() _dto: MoveDto): void {}
    }
    @Controller('orders')
    class Misnamed {
      @Patch(':id')
      @Tool({ rename: { 'query.id': 'other' } })
      move(@Param('id') _id: string): void {}
    }
    expect(await failureOf(Twice)).toContain(
      "two of its parameters are the argument \"id\": params.id and body.id. Give one another name: @Tool({ rename: { 'body.id': 'other_id' } }).",
    );
    expect(await failureOf(Misnamed)).toContain(
      'its "rename" names "query.id", which the route does not have. Available: "params.id".',
    );
  });

  it('a route that is a tool stops the start when nothing is known of a body, or it is a list', async () => {
    @Controller('a')
    class Untyped {
      @Post()
      @Tool()
      post(@Body() _body: { x: string }): void {}
    }
    @Controller('a')
    class List {
      @Post()
      @Tool()
      post(@Body() _body: string[]): void {}
    }
    class Bare {}
    @Controller('a')
    class NoRules {
      @Post()
      @Tool()
      post(@Body() _body: Bare): void {}
    }
    expect(await failureOf(Untyped)).toContain('its @Body() has a type that is not known at run time');
    expect(await failureOf(List)).toContain('its @Body() is a list, while the arguments of a tool are an object.');
    expect(await failureOf(NoRules)).toContain('its @Body() has the class Bare, which is no schema');
  });

  it('a route that is a tool stops the start when "outputSchema" is that of a route which says none', async () => {
    @Controller('a')
    class Silent {
      @Get()
      @Tool({ outputSchema: 'route' })
      get(): object {
        return {};
      }
    }
    expect(await failureOf(Silent)).toContain('the route does not say what it returns');
  });

  it('a route that is a tool stops the start when @Tools() names no route, or is on a class without routes', async () => {
    @Controller('a')
    @Tools({ only: ['finde'] })
    class Misspelt {
      @Get()
      find(): void {}
    }
    @Controller('a')
    @Tools()
    class Empty {
      helper(): void {}
    }
    expect(await failureOf(Misspelt)).toContain('@Tools() names "finde", which is no route of it. Available: "find".');
    expect(await failureOf(Empty)).toContain('it has @Tools(), but no routes');
    expect(() => Tools({ only: ['a'], except: ['b'] })(class X {})).toThrow('takes "only" or "except", not both');
    expect(() => Tools({ onyl: ['a'] } as never)(class X {})).toThrow(
      '@Tools() has no option "onyl". Did you mean "only"?',
    );
  });

  it('a tool that is no route needs a name, and has no use for "rename"', async () => {
    @Injectable()
    class Nameless {
      @Tool()
      find(): void {}
    }
    @Injectable()
    class Renamed {
      @Tool({ name: 'a', rename: { 'body.id': 'x' } })
      find(): void {}
    }
    const failing = async (provider: Type): Promise<string> =>
      (
        await startFailure(ADAPTER, () => ({
          imports: [McpStreamableModule.forRoot({ serverInfo })],
          providers: [provider],
        }))
      ).message;
    expect(await failing(Nameless)).toContain('its "name" must be a non-empty string; got nothing.');
    expect(await failing(Renamed)).toContain('it has "rename", which only a route');
  });
});
