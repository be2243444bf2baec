import { type CallToolResult, Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Body, Controller, Injectable, Post, type Type, ValidationPipe } from '@nestjs/common';
import { IntersectionType, OmitType, PartialType, PickType } from '@nestjs/swagger';
import { Exclude, Expose, plainToInstance, Transform, Type as TypeOf } from 'class-transformer';
import {
  Allow,
  ArrayUnique,
  Equals,
  IsArray,
  IsBoolean,
  IsDate,
  IsDateString,
  IsEnum,
  IsIn,
  IsInt,
  IsIP,
  IsDivisibleBy,
  IsNotEmpty,
  IsNotEmptyObject,
  IsNotIn,
  IsNumber,
  IsOptional,
  IsString,
  Matches,
  MaxLength,
  Min,
  Validate,
  ValidateIf,
  ValidateNested,
  ValidatorConstraint,
  type ValidatorConstraintInterface,
} from 'class-validator';
import { McpArgs, McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, serverInfo, TestApp } from '../support/app.js';
import { sharedApp } from '../support/test-apps.js';
import { loneFetch } from '../support/ways.js';

/** The same classes by HTTP and as tools: the same values are taken and refused, and reach the method as the same. */

enum Colour {
  Red = 'red',
  Blue = 'blue',
}
class Leaf {
  @IsString() name!: string;
  @IsOptional() @IsInt() size?: number;
}
class Count {
  @IsInt() count!: number;
}
class Order extends Leaf {
  @ValidateNested() @TypeOf(() => Leaf) leaf!: Leaf;
  @Expose({ name: 'sent_by' }) @IsOptional() @IsString() sentBy?: string;
}
abstract class Pet {
  @IsString() name!: string;
}
class Cat extends Pet {
  @Min(0) lives!: number;
}
class Dog extends Pet {
  @IsString() bark!: string;
}
const discriminator = {
  property: 'kind',
  subTypes: [
    { name: 'cat', value: Cat },
    { name: 'dog', value: Dog },
  ],
};
@ValidatorConstraint({ name: 'even' })
class Even implements ValidatorConstraintInterface {
  validate(value: unknown): boolean {
    return value === undefined || (typeof value === 'number' && value % 2 === 0);
  }
}

class Texts {
  @IsString() text!: string;
  @IsNotEmpty() something!: string;
}
class OneOrMany {
  @IsString({ each: true }) x!: string | string[];
}
class Matrix {
  @IsArray() @IsArray({ each: true }) x!: number[][];
}
class Nested {
  @ValidateNested() @TypeOf(() => Order) x!: Order;
}
class Leaves {
  @ValidateNested({ each: true }) @TypeOf(() => Leaf) x!: Leaf[];
}
class LeafOrLeaves {
  @ValidateNested({ each: true }) @TypeOf(() => Leaf) x!: Leaf | Leaf[];
}
class Rows {
  @IsArray({ each: true }) @ValidateNested({ each: true }) @TypeOf(() => Leaf) x!: Leaf[][];
}
class LeafSet {
  @ValidateNested({ each: true }) @TypeOf(() => Leaf) x!: Set<Leaf>;
}
class LeafMap {
  @ValidateNested({ each: true }) @TypeOf(() => Leaf) x!: Map<string, Leaf>;
}
class Counts {
  @IsInt({ each: true }) @TypeOf(() => Number) x!: Map<string, number>;
}
class UniqueLeaves {
  @ArrayUnique() @ValidateNested({ each: true }) @TypeOf(() => Leaf) x!: Leaf[];
}
class Tree {
  @IsOptional() @ValidateNested() @TypeOf(() => Tree) next?: Tree;
  @IsInt() n!: number;
}
class Home {
  @ValidateNested() @TypeOf(() => Pet, { discriminator }) x!: Cat | Dog;
}
class Pets {
  @ValidateNested({ each: true }) @TypeOf(() => Pet, { discriminator }) x!: (Cat | Dog)[];
}
class Colours {
  @IsEnum(Colour) one!: Colour;
  @IsOptional() @IsEnum(Colour, { each: true }) many?: Colour[];
}
class Dates {
  @IsOptional() @IsDate() @TypeOf(() => Date) date?: Date;
  @IsOptional() @IsDateString() text?: string;
}
class Transformed {
  @Transform(({ value }: { value: unknown }) => (Array.isArray(value) ? value : String(value).split(',')))
  @IsString({ each: true })
  x!: string[];
}
class Converted {
  @IsNumber() @TypeOf(() => Number) n!: number;
  @IsOptional() @IsBoolean() @TypeOf(() => Boolean) b?: boolean;
}
class Choices {
  @IsIn(['a', 1, null]) x!: unknown;
  @IsOptional() @Equals('q') y?: string;
}
class Conditional {
  @ValidateIf(({ kind }: Conditional) => kind === 'text') @IsString() x!: unknown;
  @IsString() kind!: string;
}
class Lenient {
  @Allow() allowed!: string;
  @IsNotIn(['x']) other!: string;
  @Validate(Even) even!: number;
}
class Numbers {
  @IsOptional() @IsDivisibleBy(2.5) x?: number;
  @IsOptional() @IsInt({ each: true }) @ArrayUnique() list?: number[];
}
class Lengths {
  @IsOptional() @MaxLength(2) short?: string;
  @IsOptional() @Matches(/^.{2}$/) pair?: string;
  @IsOptional() @IsIP('6') ip?: string;
}
class Objects {
  @IsNotEmptyObject() x!: object;
}
class Defaults {
  @IsInt() x = 10;
  @Exclude() @IsOptional() secret?: string;
}

const leaf = { name: 'a' };
const order = { ...leaf, leaf, sent_by: 'b' };
const cat = { kind: 'cat', name: 'a', lives: 1 };
const dog = { kind: 'dog', name: 'b', bark: 'w' };

const CASES: readonly (readonly [Type<object>, ...object[]])[] = [
  [Texts, { text: 'a', something: 'b' }, { text: 1, something: 'b' }, { text: 'a', something: '' }, {}],
  [OneOrMany, { x: 'a' }, { x: ['a'] }, { x: [] }, { x: 1 }, { x: [['a']] }, { x: null }],
  [Matrix, { x: [[1]] }, { x: [] }, { x: [1] }],
  [Nested, { x: order }, { x: { ...order, leaf: null } }, { x: { ...order, more: 1 } }, {}, { x: null }, { x: 'a' }],
  [Leaves, { x: [leaf] }, { x: [] }, { x: [[leaf]] }, { x: [[{ name: 1 }]] }, { x: [null] }, { x: ['a'] }],
  [LeafOrLeaves, { x: leaf }, { x: [leaf] }, { x: 1 }],
  [Rows, { x: [[leaf]] }, { x: [leaf] }, { x: [[{ name: 1 }]] }],
  [LeafSet, { x: [leaf] }, { x: [{ name: 1 }] }],
  [LeafMap, { x: { a: leaf } }, { x: { a: { name: 1 } } }],
  [Counts, { x: { a: 1 } }, { x: { a: 'x' } }],
  [UniqueLeaves, { x: [leaf, leaf] }],
  [Tree, { n: 1 }, { n: 1, next: { n: 2, next: { n: 3 } } }, { n: 1, next: { n: 'x' } }],
  [Home, { x: cat }, { x: dog }, { x: { ...cat, lives: -1 } }, { x: { ...cat, kind: 'dog' } }],
  [Pets, { x: [cat, dog] }, { x: [] }, { x: [{ kind: 'cat' }] }],
  [Colours, { one: 'red' }, { one: 'red', many: ['blue'] }, { one: 'green' }, { one: 'red', many: ['x'] }, { one: '' }],
  [Dates, { date: '2026-01-31' }, { date: 1_767_225_600_000 }, { date: 'no' }, { text: '2026-01-31' }, { text: 'no' }],
  [Transformed, { x: 'a,b' }, { x: ['a'] }],
  [Converted, { n: '1' }, { n: 1, b: 'x' }, { n: 'a' }, {}],
  [Choices, { x: 'a' }, { x: 1 }, { x: null }, { x: 'b' }, { x: 1, y: 'q' }, { x: 1, y: 'r' }],
  [Conditional, { kind: 'text', x: 'a' }, { kind: 'number', x: 5 }, { kind: 'none' }, { kind: 'text', x: 5 }],
  [Lenient, {}, { allowed: null, other: null, even: 2 }, { even: 3 }, { other: 'x' }],
  [Numbers, { x: 4 }, { x: 2.5 }, { list: [1, 2] }, { list: [1, 1] }],
  [Lengths, { short: '❤️❤️' }, { short: 'abc' }, { pair: '😀' }, { pair: 'a' }, { ip: 'fe80::1%eth0' }, { ip: 'x' }],
  [Objects, { x: { a: 1 } }, { x: {} }, { x: [] }],
  [Defaults, {}, { x: 2 }, { x: null }, { x: 1, secret: 's' }],
  [PartialType(Order), {}, order, { leaf: { name: 1 } }, { name: null }],
  [PickType(Order, ['name', 'sentBy']), leaf, order, { sent_by: 'b' }],
  [OmitType(Order, ['leaf']), leaf, { sentBy: 'b' }],
  [IntersectionType(Leaf, Count), { ...leaf, count: 1 }, leaf],
];

/** Describes a value with its classes. */
function seen(value: unknown): unknown {
  if (value instanceof Date) return `Date ${value.getTime()}`;
  if (value instanceof Set || value instanceof Map) return [value.constructor.name, ...[...value].map(seen)];
  if (Array.isArray(value)) return value.map(seen);
  if (typeof value !== 'object' || value === null) return value === undefined ? 'undefined' : value;
  const fields = Object.entries(value).map(([name, each]) => [name, seen(each)] as const);
  return { class: value.constructor.name, ...Object.fromEntries(fields) };
}

/** Returns a controller and a provider that take the class, the latter also as the result of a tool. */
function handlersOf([dto, ...given]: (typeof CASES)[number], index: number): { route: Type; tools: Type } {
  @Controller('take')
  class Routes {
    @Post(String(index))
    @Tool({ name: `route${index}` })
    take(value: unknown): object {
      return { seen: seen(value) };
    }
  }
  @Injectable()
  class Tools {
    @Tool({ name: `tool${index}`, inputSchema: dto })
    take(value: unknown): object {
      return { seen: seen(value) };
    }
    @Tool({ name: `result${index}`, inputSchema: { type: 'object' }, outputSchema: dto })
    give({ at }: { at: number }): object {
      return plainToInstance(dto, structuredClone(given[at]));
    }
  }
  for (const [host, takes] of [
    [Routes, Body()],
    [Tools, McpArgs()],
  ] as const) {
    Reflect.defineMetadata('design:paramtypes', [dto], host.prototype, 'take');
    takes(host.prototype, 'take', 0);
  }
  return { route: Routes, tools: Tools };
}

interface Called {
  call(name: string, args: object): Promise<{ json(): Promise<{ result: CallToolResult }> }>;
}

describe.each(ONE_ADAPTER)('classes of routes and tools, on %s', (adapter) => {
  const handlers = CASES.map(handlersOf);
  const started = sharedApp(() =>
    TestApp.of(
      adapter,
      {
        imports: [McpStreamableModule.forRoot({ serverInfo })],
        controllers: handlers.map(({ route }) => route),
        providers: handlers.map(({ tools }) => tools),
      },
      (nest) => void nest.useGlobalPipes(new ValidationPipe({ transform: true })),
    ),
  );

  /** Returns the structured content of a call, or that it failed. */
  async function called(client: Called, name: string, args: object): Promise<unknown> {
    const { result } = await (await client.call(name, args)).json();
    return result.isError ? 'refused' : result.structuredContent;
  }

  describe.each(['legacy', 'modern'])('in a session or without one: %s', (era) => {
    const connect = async (app: TestApp): Promise<Called> =>
      era === 'modern' ? app.modern() : app.client().initialize('2025-11-25');

    it('a value of a class reaches a tool as it reaches the route, or both refuse it', async () => {
      const app = await started();
      const client = await connect(app);
      for (const [index, [dto, ...given]] of CASES.entries()) {
        for (const value of given) {
          const headers = { 'content-type': 'application/json' };
          const init = { method: 'POST', headers, body: JSON.stringify(value) };
          const response = await fetch(`${app.base}/take/${index}`, init);
          const routed: unknown = response.ok ? await response.json() : (await response.text()) && 'refused';
          const both = [await called(client, `route${index}`, value), await called(client, `tool${index}`, value)];
          expect([dto.name, value, ...both]).toEqual([dto.name, value, routed, routed]);
        }
      }
    });

    it('a result that the rules of its class take is valid for clients', async () => {
      const { url } = await started();
      const mode = era === 'modern' ? { pin: '2026-07-28' } : 'legacy';
      const client = new Client({ name: 'official', version: '1.0.0' }, { versionNegotiation: { mode } });
      await client.connect(new StreamableHTTPClientTransport(new URL(url), { fetch: loneFetch }));
      // The client checks results by the schemas of the list.
      await client.listTools();
      for (const [index, [dto, ...given]] of CASES.entries()) {
        for (const at of given.keys()) {
          const call = client.callTool({ name: `result${index}`, arguments: { at } });
          const outcome = await call.then(() => 'valid', String);
          expect([dto.name, given[at], outcome]).toEqual([dto.name, given[at], 'valid']);
        }
      }
      await client.close();
    });
  });
});
