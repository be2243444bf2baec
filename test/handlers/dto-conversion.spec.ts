import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import {
  Body,
  ClassSerializerInterceptor,
  Controller,
  createParamDecorator,
  type ExecutionContext,
  Injectable,
  Post,
  SerializeOptions,
  UnprocessableEntityException,
  UseInterceptors,
  UsePipes,
  ValidationPipe,
} from '@nestjs/common';
import { APP_INTERCEPTOR, Reflector } from '@nestjs/core';
import { Exclude, Expose, Transform, Type } from 'class-transformer';
import { Allow, IsDate, IsDefined, IsInt, IsOptional, IsString, Min, ValidateNested } from 'class-validator';
import { McpArgs, McpContext, McpCtx, McpRegistry, McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { afterEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, serverInfo, startFailure, TestApp } from '../support/app.js';
import { sharedApp } from '../support/test-apps.js';
import { loneFetch } from '../support/ways.js';

class AddressDto {
  @Expose({ name: 'zip_code' }) @IsString() zipCode!: string;
}
class UserDto {
  @Expose({ name: 'user_id' }) @IsInt() userId!: number;
  @Expose({ name: 'nick_name' }) @IsOptional() @IsString() nickName?: string;
  @Exclude() @IsOptional() @IsString() password?: string;
  @Expose({ groups: ['admin'] }) @IsOptional() @IsInt() salary?: number;
  @IsOptional() @ValidateNested() @Type(() => AddressDto) address?: AddressDto;
}
/** A field that class-transformer sets to nothing where it is exposed and not sent. */
class PageDto {
  @IsInt() size = 10;
  @Expose() @IsInt() number = 1;
}
abstract class Pet {
  @IsString() name!: string;
}
class Cat extends Pet {
  @Min(0) lives!: number;
}
class Dog extends Pet {
  @IsString() @Expose({ name: 'bark_text' }) bark!: string;
}
const DISCRIMINATOR = {
  property: 'kind',
  subTypes: [
    { name: 'cat', value: Cat },
    { name: 'dog', value: Dog },
  ],
};
class HomeDto {
  @ValidateNested() @Type(() => Pet, { discriminator: DISCRIMINATOR }) first!: Cat | Dog;
  @IsOptional()
  @ValidateNested({ each: true })
  @Type(() => Pet, { discriminator: DISCRIMINATOR })
  others?: (Cat | Dog)[];
}
/** Rules hold for the values before `@Transform()`. */
class PriceDto {
  @Transform(({ value }: { value: number }) => value / 100, { toPlainOnly: true }) @IsInt() cents!: number;
  @Transform(({ value }: { value: Set<string> }) => [...value], { toPlainOnly: true }) @Allow() tags!: Set<string>;
}
class PricesDto {
  @ValidateNested({ each: true }) @Type(() => PriceDto) prices!: PriceDto[];
}
class CategoryDto {
  @IsString() name!: string;
  @IsOptional() @ValidateNested({ each: true }) @Type(() => CategoryDto) children?: CategoryDto[];
}
class ShopDto {
  @ValidateNested() @Type(() => CategoryDto) category!: CategoryDto;
}

class AccountDto {
  @Expose() @IsInt() id!: number;
  @IsString() secret!: string;
}
/** Texts of a client become numbers and dates by the types of the fields. */
class VisitDto {
  @IsInt() count!: number;
  @IsDate() at!: Date;
}
class VisitTimeDto {
  @IsInt() count?: number;
  @IsDefined() @IsString() place!: string;
}
class ItemDto {
  @IsString() item!: string;
}
class StepDto {
  @IsString({ groups: ['create'] }) name!: string;
  @IsInt({ groups: ['update'] }) id!: number;
}
class NoteDto {
  @Expose({ name: 'note_text' }) @IsString() text!: string;
  @Expose() @IsInt() size = 10;
  @IsOptional() @IsString() hidden?: string;
}

const CONVERTING = new ValidationPipe({ transform: true, transformOptions: { enableImplicitConversion: true } });
const CREATING = new ValidationPipe({ transform: true, groups: ['create'] });
const LENIENT = new ValidationPipe({ transform: true, skipMissingProperties: true });
const EXPOSING = new ValidationPipe({
  transform: true,
  transformOptions: { excludeExtraneousValues: true, exposeDefaultValues: true },
  exceptionFactory: (errors) => new UnprocessableEntityException(`Wrong: ${errors.map(({ property }) => property)}`),
});
const CUSTOM = new ValidationPipe({ transform: true, validateCustomDecorators: true });
const Caller = createParamDecorator((_: unknown, context: ExecutionContext) => {
  return { zip_code: context.switchToHttp().getRequest<Request>().headers['x-zip'] };
});
interface Request {
  readonly headers: Readonly<Record<string, string | undefined>>;
}

const STRICT = new ValidationPipe({ whitelist: true, forbidNonWhitelisted: true, transform: true });
const USER = { userId: 7, nickName: 'Ann', password: 'secret', salary: 5, address: { zipCode: '10115' } };
const USER_AS_SENT = { user_id: 7, nick_name: 'Ann', address: { zip_code: '10115' } };

const made = (pet: Cat | Dog): string =>
  `${pet.constructor.name} ${pet.name} ${pet instanceof Cat ? pet.lives : pet.bark}`;

@Injectable()
class Tools {
  @Tool({ name: 'user' })
  user(@McpArgs() { userId, nickName, password, salary, address }: UserDto): string {
    return JSON.stringify([userId, nickName, password, salary, address?.zipCode]);
  }
  @Tool({ name: 'user_piped' })
  userPiped(@McpArgs(STRICT) { userId, nickName }: UserDto): string {
    return JSON.stringify([userId, nickName]);
  }
  @Tool({ name: 'user_id', inputSchema: UserDto })
  userId(@McpArgs('userId') userId: number): string {
    return String(userId);
  }
  @Tool({ name: 'plain_user', outputSchema: UserDto })
  plainUser(): UserDto {
    return structuredClone(USER);
  }
  @Tool({ name: 'made_user', outputSchema: UserDto })
  madeUser(): UserDto {
    const address = Object.assign(new AddressDto(), USER.address);
    return Object.assign(new UserDto(), { ...USER, address });
  }
  @Tool({ name: 'serialized_user', outputSchema: UserDto })
  @UseInterceptors(ClassSerializerInterceptor)
  serializedUser(): UserDto {
    return Object.assign(new UserDto(), USER);
  }
  @Tool({ name: 'admin_user', outputSchema: UserDto })
  @SerializeOptions({ groups: ['admin'] })
  @UseInterceptors(ClassSerializerInterceptor)
  adminUser(): UserDto {
    return Object.assign(new UserDto(), USER);
  }
  @Tool({ name: 'account', outputSchema: AccountDto })
  @UseInterceptors(new ClassSerializerInterceptor(new Reflector(), { strategy: 'excludeAll' }))
  account(): AccountDto {
    return Object.assign(new AccountDto(), { id: 1, secret: 'x' });
  }
  @Tool({ name: 'prices', outputSchema: PricesDto })
  prices(): PricesDto {
    return Object.assign(new PricesDto(), { prices: [this.price()] });
  }
  @Tool({ name: 'literal_prices', outputSchema: PricesDto })
  literalPrices(): PricesDto {
    return { prices: [this.price()] };
  }
  @Tool({ name: 'plain_prices', outputSchema: PricesDto })
  plainPrices(): PricesDto {
    return { prices: [{ cents: 250, tags: ['new'] as never }] };
  }
  @Tool({ name: 'serialized_prices', outputSchema: PricesDto })
  @UseInterceptors(ClassSerializerInterceptor)
  serializedPrices(): PricesDto {
    return this.prices();
  }
  private price(): PriceDto {
    return Object.assign(new PriceDto(), { cents: 250, tags: new Set(['new']) });
  }
  @Tool({ name: 'page' })
  page(@McpArgs() { size, number }: PageDto): string {
    return `${size} ${number}`;
  }
  @Tool({ name: 'visit' })
  visit(@McpArgs(CONVERTING) { count, at }: VisitDto): string {
    return `${count + 1} ${at.getUTCFullYear()}`;
  }
  @Tool({ name: 'step' })
  step(@McpArgs(CREATING) { name }: StepDto): string {
    return name;
  }
  @Tool({ name: 'skipped' })
  skipped(@McpArgs(LENIENT) { count = 0 }: VisitTimeDto): string {
    return `${count}`;
  }
  @Tool({ name: 'note' })
  note(@McpArgs(EXPOSING) { text, size, hidden }: NoteDto): string {
    return JSON.stringify([text, size, hidden]);
  }
  @Tool({ name: 'called' })
  @UsePipes(CUSTOM)
  called(@McpArgs() { item }: ItemDto, @Caller() { zipCode }: AddressDto, @McpCtx() ctx: McpContext): string {
    return `${item} ${zipCode} ${ctx instanceof McpContext}`;
  }
  @Tool({ name: 'home' })
  home(@McpArgs() { first, others = [] }: HomeDto): string {
    return [first, ...others].map(made).join();
  }
  @Tool({ name: 'home_piped' })
  homePiped(@McpArgs(STRICT) { first, others = [] }: HomeDto): string {
    return [first, ...others].map(made).join();
  }
  @Tool({ name: 'get_home', outputSchema: HomeDto })
  getHome(): HomeDto {
    const first = Object.assign(new Cat(), { name: 'Tom', lives: 9 });
    const second = Object.assign(new Dog(), { name: 'Rex', bark: 'wuff' });
    return Object.assign(new HomeDto(), { first, others: [second] });
  }
  @Tool({ name: 'category', outputSchema: CategoryDto })
  category(@McpArgs() category: CategoryDto): CategoryDto {
    return category;
  }
  @Tool({ name: 'shop' })
  shop(@McpArgs() { category }: ShopDto): string {
    return category.children?.[0]?.name ?? 'none';
  }
}

@Controller('categories')
class CategoryRoutes {
  @Post(':id')
  @Tool({ name: 'route_field' })
  field(@Body('category') { name }: CategoryDto): string {
    return name;
  }
  @Post()
  @Tool({ name: 'route_user' })
  user(@Body(STRICT) { userId, nickName }: UserDto): string {
    return JSON.stringify([userId, nickName]);
  }
}

describe.each(ONE_ADAPTER)('the conversion of DTOs, on %s', (adapter) => {
  const app = sharedApp(() =>
    TestApp.start({ adapter, providers: [Tools], module: { controllers: [CategoryRoutes] } }),
  );
  const clients: Client[] = [];
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.close();
  });

  async function connect({ url }: TestApp, era: 'legacy' | 'modern' = 'legacy', headers = {}): Promise<Client> {
    const mode = era === 'modern' ? { pin: '2026-07-28' } : 'legacy';
    const client = new Client({ name: 'official', version: '1.0.0' }, { versionNegotiation: { mode } });
    clients.push(client);
    await client.connect(
      new StreamableHTTPClientTransport(new URL(url), { fetch: loneFetch, requestInit: { headers } }),
    );
    return client;
  }
  async function schemasOf(client: Client, name: string): Promise<Record<string, unknown>> {
    const { tools } = await client.listTools();
    const { inputSchema, outputSchema } = tools.find((tool) => tool.name === name)!;
    return { inputSchema, outputSchema };
  }
  async function call(client: Client, name: string, args: Record<string, unknown> = {}): Promise<string> {
    const { content } = await client.callTool({ name, arguments: args });
    return (content as { text: string }[]).map(({ text }) => text).join();
  }

  const input = {
    type: 'object',
    properties: {
      user_id: { type: 'integer' },
      nick_name: { type: 'string' },
      address: { type: 'object', properties: { zip_code: { type: 'string' } }, required: ['zip_code'] },
    },
    required: ['user_id'],
  };
  const orNull = (schema: object): object => ({ anyOf: [schema, { type: 'null' }] });
  const output = {
    ...input,
    properties: {
      user_id: { type: 'integer' },
      nick_name: orNull({ type: 'string' }),
      address: orNull(input.properties.address),
    },
  };

  it('the list has the names of @Expose(), without what @Exclude() and groups leave out', async () => {
    const client = await connect(await app());
    expect(await schemasOf(client, 'user')).toMatchObject({ inputSchema: input });
    expect(await schemasOf(client, 'plain_user')).toMatchObject({ outputSchema: output });
    expect((await schemasOf(client, 'plain_user'))['outputSchema']).not.toHaveProperty('properties.password');
    expect(await schemasOf(client, 'admin_user')).toMatchObject({
      outputSchema: { ...output, properties: { ...output.properties, salary: orNull({ type: 'integer' }) } },
    });
  });

  it('arguments are taken under the names of @Expose(), and messages name these', async () => {
    const client = await connect(await app());
    const sent = { ...USER_AS_SENT, password: 'x', salary: 5 };
    expect(await call(client, 'user', sent)).toBe(JSON.stringify([7, 'Ann', undefined, undefined, '10115']));
    for (const name of ['user_piped', 'route_user']) {
      expect(await call(client, name, { user_id: 7, nick_name: 'Ann' })).toBe('[7,"Ann"]');
    }
    expect(await call(client, 'user_id', { user_id: 7 })).toBe('7');
    const wrong = { user_id: 'x', address: { zip_code: 1 } };
    expect(await call(client, 'user', wrong)).toBe(
      'The arguments are not valid: user_id must be an integer number; address.zip_code: zip_code must be a string.',
    );
    for (const name of ['user_piped', 'route_user']) {
      const text = 'user_id must be an integer number\naddress.zip_code must be a string';
      expect(await call(client, name, wrong)).toBe(text);
    }
  });

  it.each(['legacy', 'modern'] as const)(
    '%s: a result is sent under the names of @Expose(), however it was made',
    async (era) => {
      const client = await connect(await app(), era);
      await client.listTools();
      for (const name of ['plain_user', 'made_user', 'serialized_user']) {
        const { structuredContent, content } = await client.callTool({ name, arguments: {} });
        expect(structuredContent).toEqual(USER_AS_SENT);
        expect(JSON.parse((content as { text: string }[])[0]!.text)).toEqual(USER_AS_SENT);
      }
      const { structuredContent } = await client.callTool({ name: 'admin_user', arguments: {} });
      expect(structuredContent).toEqual({ ...USER_AS_SENT, salary: 5 });
    },
  );

  it.each(['legacy', 'modern'] as const)(
    '%s: @Transform() runs once for a result, whoever runs it, and rules hold for the values before it',
    async (era) => {
      const client = await connect(await app(), era);
      await client.listTools();
      for (const name of ['prices', 'literal_prices', 'plain_prices', 'serialized_prices']) {
        const { structuredContent } = await client.callTool({ name, arguments: {} });
        expect([name, structuredContent]).toEqual([name, { prices: [{ cents: 2.5, tags: ['new'] }] }]);
      }
    },
  );

  it.each([
    ['an instance, behind a global ClassSerializerInterceptor', true, { cents: 250, tags: new Set(['new']) }],
    ['an object of no class', false, { cents: 250, tags: ['new'] }],
  ])('@Transform() runs once for the result of a registered tool that is %s', async (_what, serialized, price) => {
    const providers = serialized ? [{ provide: APP_INTERCEPTOR, useClass: ClassSerializerInterceptor }] : [];
    const started = await TestApp.start({ adapter, providers });
    try {
      started.app.get(McpRegistry, { strict: false }).registerTool({
        name: 'price',
        outputSchema: PriceDto,
        handler: () => (serialized ? Object.assign(new PriceDto(), price) : price) as PriceDto,
      });
      const client = await connect(started);
      const { structuredContent } = await client.callTool({ name: 'price', arguments: {} });
      expect(structuredContent).toEqual({ cents: 2.5, tags: ['new'] });
    } finally {
      await started.stop();
    }
  });

  it('the options of a ClassSerializerInterceptor decide what the list and the result have', async () => {
    const client = await connect(await app());
    expect((await schemasOf(client, 'account'))['outputSchema']).toEqual({
      type: 'object',
      properties: { id: { type: 'integer' } },
      required: ['id'],
    });
    const { structuredContent } = await client.callTool({ name: 'account', arguments: {} });
    expect(structuredContent).toEqual({ id: 1 });
  });

  it('a default is listed where class-transformer keeps it', async () => {
    const client = await connect(await app());
    expect(await schemasOf(client, 'page')).toMatchObject({
      inputSchema: {
        properties: { size: { type: 'integer', default: 10 }, number: { type: 'integer' } },
        required: ['number'],
      },
    });
    expect(await call(client, 'page', { number: 2 })).toBe('10 2');
  });

  const closed = { type: 'object', additionalProperties: false };
  const alternatives = (also: object) => [
    {
      ...also,
      properties: {
        name: { type: 'string' },
        lives: { type: 'number', minimum: 0 },
        kind: { type: 'string', const: 'cat' },
      },
      required: ['kind', 'lives', 'name'],
    },
    {
      ...also,
      properties: { name: { type: 'string' }, bark_text: { type: 'string' }, kind: { type: 'string', const: 'dog' } },
      required: ['kind', 'bark_text', 'name'],
    },
  ];

  it('a discriminator is listed as the alternatives of its subtypes, each with its value', async () => {
    const client = await connect(await app());
    for (const [name, also] of [
      ['home', { type: 'object' }],
      ['home_piped', closed],
    ] as const) {
      expect((await schemasOf(client, name))['inputSchema']).toMatchObject({
        properties: {
          first: { oneOf: alternatives(also) },
          others: { type: 'array', items: { oneOf: alternatives(also) } },
        },
        required: ['first'],
      });
    }
  });

  it('a discriminator chooses the class of an argument, also with a pipe, and that of a result', async () => {
    const client = await connect(await app());
    const first = { kind: 'cat', name: 'Tom', lives: 9 };
    const others = [{ kind: 'dog', name: 'Rex', bark_text: 'wuff' }];
    for (const name of ['home', 'home_piped']) {
      expect(await call(client, name, { first, others })).toBe('Cat Tom 9,Dog Rex wuff');
      expect(await call(client, name, { first: { ...first, lives: -1 } })).toContain('lives must not be less than 0');
    }
    await client.listTools();
    const { structuredContent } = await client.callTool({ name: 'get_home', arguments: {} });
    expect(structuredContent).toEqual({ first, others });
  });

  const tree = { name: 'a', children: [{ name: 'b', children: [{ name: 'c' }] }] };

  it.each(['legacy', 'modern'] as const)(
    '%s: a class that contains itself is listed as recursion, and checked at each level',
    async (era) => {
      const client = await connect(await app(), era);
      const category = {
        type: 'object',
        properties: { name: { type: 'string' }, children: { type: 'array', items: { $ref: '#/$defs/CategoryDto' } } },
        required: ['name'],
      };
      const root = { ...category, $defs: { CategoryDto: category } };
      const { items } = category.properties.children;
      const children = orNull({ type: 'array', items: { anyOf: [items, { type: 'array', items: {} }] } });
      const result = { ...category, properties: { ...category.properties, children } };
      const outputSchema = { ...result, $defs: { CategoryDto: result } };
      expect(await schemasOf(client, 'category')).toMatchObject({ inputSchema: root, outputSchema });
      const $defs = { CategoryDto: category };
      const ref = { $ref: '#/$defs/CategoryDto' };
      expect(await schemasOf(client, 'shop')).toMatchObject({ inputSchema: { properties: { category: ref }, $defs } });
      expect(await schemasOf(client, 'route_field')).toMatchObject({
        inputSchema: { properties: { category }, $defs },
      });
      const { structuredContent } = await client.callTool({ name: 'category', arguments: tree });
      expect(structuredContent).toEqual(tree);
      expect(await call(client, 'shop', { category: tree })).toBe('b');
      expect(await call(client, 'route_field', { id: '1', category: tree })).toBe('a');
      const wrong = { name: 'a', children: [{ name: 'b', children: [{ name: 1 }] }] };
      expect(await call(client, 'category', wrong)).toContain('children.0.children.0.name: name must be a string');
    },
  );

  it('the check of a class takes the texts that the pipe converts', async () => {
    const client = await connect(await app());
    expect(await call(client, 'visit', { count: '5', at: '2026-07-28T00:00:00Z' })).toBe('6 2026');
    expect(await call(client, 'visit', { count: 'x', at: 'y' })).toBe(
      'count must be an integer number\nat must be a Date instance',
    );
  });

  it('the schema and the check of a class know the groups of the pipe', async () => {
    const client = await connect(await app());
    const { inputSchema } = await schemasOf(client, 'step');
    expect(inputSchema).toMatchObject({ properties: { name: { type: 'string' } }, required: ['name'] });
    expect(inputSchema).not.toHaveProperty('properties.id');
    expect(await call(client, 'step', { name: 'first' })).toBe('first');
  });

  it('the schema and the check of a class require nothing that the pipe skips when it is missing', async () => {
    const client = await connect(await app());
    expect(await schemasOf(client, 'skipped')).toMatchObject({ inputSchema: { required: ['place'] } });
    expect(await call(client, 'skipped', { place: 'here' })).toBe('0');
    expect(await call(client, 'skipped')).toContain('place should not be null or undefined');
  });

  it('the schema and the check of a class have what the pipe exposes, with its defaults', async () => {
    const client = await connect(await app());
    const { inputSchema } = await schemasOf(client, 'note');
    expect(inputSchema).toEqual({
      type: 'object',
      properties: { note_text: { type: 'string' }, size: { type: 'integer', default: 10 } },
      required: ['note_text'],
    });
    expect(await call(client, 'note', { note_text: 'x', hidden: 'y' })).toBe(JSON.stringify(['x', 10, undefined]));
  });

  it('arguments that do not fit get the error of the exceptionFactory, with the names that the client sent', async () => {
    const client = await connect(await app());
    expect(await call(client, 'note', { note_text: 1 })).toBe('Wrong: note_text');
  });

  it('a pipe with validateCustomDecorators checks what a decorator of the app gives, and leaves the context alone', async () => {
    const client = await connect(await app(), 'legacy', { 'x-zip': '10115' });
    expect(await call(client, 'called', { item: 'lamp' })).toBe('lamp 10115 true');
    expect(await call(await connect(await app()), 'called', { item: 'lamp' })).toBe('zipCode must be a string');
  });

  it('a date that no argument can be stops the start', async () => {
    class Dateless {
      @Tool({ name: 'visit' })
      visit(@McpArgs() _visit: VisitDto): void {}
    }
    const imports = [McpStreamableModule.forRoot({ serverInfo })];
    const { message } = await startFailure(adapter, () => ({ imports, providers: [Dateless] }));
    expect(message).toContain(
      'VisitDto.at has @IsDate(), while clients send dates as texts. Add @Type(() => Date) of class-transformer.',
    );
  });
});
