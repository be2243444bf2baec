import 'reflect-metadata';
import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { Transform, Type } from 'class-transformer';
import {
  Allow,
  ArrayMaxSize,
  ArrayMinSize,
  ArrayUnique,
  Equals,
  IsArray,
  IsBoolean,
  IsDate,
  IsDateString,
  IsDefined,
  IsDivisibleBy,
  IsEmail,
  IsEnum,
  IsIn,
  IsInt,
  IsIP,
  IsNotEmpty,
  IsNotIn,
  IsNumber,
  IsOptional,
  IsPositive,
  IsString,
  IsUrl,
  IsUUID,
  Length,
  Matches,
  Max,
  MaxLength,
  Min,
  MinLength,
  ValidateIf,
  ValidateNested,
} from 'class-validator';
import { describe, expect, it } from 'vitest';
import { McpArgumentsError } from '../handlers.errors.js';
import { loadClassPackages } from './class-names.js';
import type { McpHandlerSchema, JsonSchema, SchemaUse } from './handler-schema.js';
import { SchemaCompiler } from './schema-compiler.js';

enum Colour {
  Red = 'red',
  Blue = 'blue',
}
enum Level {
  Low,
  High,
}

class Address {
  @IsString()
  street!: string;
  @IsOptional()
  @IsString()
  city?: string;
}

class Base {
  @IsUUID()
  id!: string;
}

class Everything extends Base {
  @MinLength(2) @MaxLength(5) text!: string;
  @Length(1, 3) short!: string;
  @Matches(/^a+$/) pattern!: string;
  @Matches(/^a+$/i) patternWithFlags!: string;
  @IsNotEmpty() something!: string;
  @IsEmail() email!: string;
  @IsUrl() url!: string;
  @IsIP(6) ip!: string;
  @IsNumber() number!: number;
  @IsInt() @Min(1) @Max(9) integer!: number;
  @IsPositive() positive!: number;
  @IsBoolean() flag!: boolean;
  @IsDateString() day!: string;
  @IsDate() @Type(() => Date) at!: Date;
  @IsEnum(Colour) colour!: Colour;
  @IsEnum(Level) level!: Level;
  @IsIn(['a', 1]) choice!: unknown;
  @Equals('x') fixed!: string;
  @IsArray() @ArrayMinSize(1) @ArrayMaxSize(3) @ArrayUnique() @IsString({ each: true }) tags!: string[];
  @ValidateNested() @Type(() => Address) address!: Address;
  @ValidateNested() declared!: Address;
  @ValidateNested({ each: true }) @Type(() => Address) addresses!: Address[];
  @IsDefined() defined!: unknown;
  @IsOptional() @IsString() optional?: string;
  @ValidateIf(() => false) @IsString() sometimes?: string;
  @Allow() allowed?: unknown;
}

const compile = (dto: McpHandlerSchema, use: SchemaUse = 'input') =>
  new SchemaCompiler().compile(dto, use, 'Tools.run');

describe('the JSON Schema of a class', () => {
  const { json } = compile(Everything);
  const properties = json.properties as Record<string, JsonSchema>;
  const address = {
    type: 'object',
    properties: { street: { type: 'string' }, city: { type: 'string' } },
    required: ['street'],
  };

  it.each<[string, JsonSchema]>([
    ['id', { type: 'string', format: 'uuid' }],
    ['text', { type: 'string', minLength: 2, maxLength: 5 }],
    ['short', { type: 'string', minLength: 1, maxLength: 3 }],
    ['pattern', { type: 'string', pattern: '^a+$' }],
    ['patternWithFlags', { type: 'string' }],
    ['something', { type: 'string', minLength: 1 }],
    ['email', { type: 'string', format: 'email' }],
    ['url', { type: 'string', format: 'uri' }],
    ['ip', { type: 'string', format: 'ipv6' }],
    ['number', { type: 'number' }],
    ['integer', { type: 'integer', minimum: 1, maximum: 9 }],
    ['positive', { type: 'number', exclusiveMinimum: 0 }],
    ['flag', { type: 'boolean' }],
    ['day', { type: 'string', format: 'date-time' }],
    ['at', { type: 'string', format: 'date-time' }],
    ['colour', { type: 'string', enum: ['red', 'blue'] }],
    ['level', { type: 'number', enum: [0, 1] }],
    ['choice', { enum: ['a', 1] }],
    ['fixed', { type: 'string', const: 'x' }],
    ['tags', { type: 'array', minItems: 1, maxItems: 3, uniqueItems: true, items: { type: 'string' } }],
    ['address', address],
    ['declared', address],
    ['addresses', { type: 'array', items: address }],
    ['defined', {}],
    ['optional', { type: 'string' }],
    ['sometimes', { type: 'string' }],
    ['allowed', {}],
  ])('the JSON Schema of a class knows %s', (name, schema) => {
    expect(properties[name]).toEqual(schema);
  });

  it('the JSON Schema of a class requires what is not optional', () => {
    const optional = ['optional', 'sometimes', 'allowed'];
    expect([...(json.required as string[]), ...optional].toSorted()).toEqual(Object.keys(properties).toSorted());
  });

  it('the JSON Schema of a class takes descriptions from where Swagger has them', () => {
    class Described {
      @IsString() name!: string;
    }
    Reflect.defineMetadata('swagger/apiModelProperties', { description: 'Who' }, Described.prototype, 'name');
    expect(compile(Described).json.properties).toEqual({ name: { type: 'string', description: 'Who' } });
  });

  it('the JSON Schema of a class has the texts, examples and defaults that Swagger has', () => {
    class Page {
      @ApiProperty({ description: 'How many', default: 10, example: 20 })
      @IsInt()
      limit!: number;
      @ApiProperty({ examples: ['a', 'b'] })
      @IsString()
      after!: string;
      @ApiPropertyOptional({ examples: { open: { value: 'open' }, all: { value: undefined } } })
      @IsOptional()
      @IsString()
      state?: string;
    }
    expect(compile(Page).json).toEqual({
      type: 'object',
      properties: {
        limit: { type: 'integer', description: 'How many', default: 10, examples: [20] },
        after: { type: 'string', examples: ['a', 'b'] },
        state: { type: 'string', examples: ['open'] },
      },
      required: ['limit', 'after'],
    });
  });

  it('the JSON Schema of a class has the values of new instances as defaults, which arguments may leave out', async () => {
    class Page {
      @IsInt() limit = 10;
      @IsString() after!: string;
      @ValidateNested() @Type(() => Address) to = Object.assign(new Address(), { street: 'Main' });
      @IsArray() tags: string[] = [];
      @IsOptional() once = () => 1;
    }
    const { json, validate } = compile(Page);
    expect(json.required).toEqual(['after']);
    expect(json.properties).toEqual({
      limit: { type: 'integer', default: 10 },
      after: { type: 'string' },
      to: { ...address, default: { street: 'Main' } },
      tags: { type: 'array', items: {}, default: [] },
      once: {},
    });
    expect(await validate({ after: 'x' })).toMatchObject({ limit: 10, tags: [], to: { street: 'Main' } });
    expect(compile(Page, 'output').json.required).toEqual(['limit', 'after', 'tags']);
  });

  it('the JSON Schema of a class has no defaults of a class that cannot be made without arguments', () => {
    class Picky {
      @IsInt() count = 1;
      constructor(from: { name: string }) {
        if (from.name === '') this.count = 2;
      }
    }
    expect(compile(Picky).json).toEqual({
      type: 'object',
      properties: { count: { type: 'integer' } },
      required: ['count'],
    });
  });

  describe.each<SchemaUse>(['input', 'output'])(
    'the JSON Schema of a class takes what class-validator does: %s',
    (use) => {
      const both = (one: object) => ({ anyOf: [one, { type: 'array', items: one }] });
      const text = { type: 'string' };

      it('the JSON Schema of a class has one value beside a list where a rule with "each" takes both', () => {
        class OneOrMany {
          @IsString({ each: true }) union!: string | string[];
          @IsString({ each: true }) one!: string;
          @IsString({ each: true }) list!: string[];
          @IsNotEmpty({ each: true }) @IsDefined() anything!: unknown;
        }
        const { union, one, list } = compile(OneOrMany, use).json.properties as Record<string, JsonSchema>;
        expect([union, one, list]).toEqual([both(text), both(text), { type: 'array', items: text }]);
      });

      it('the JSON Schema of a class has lists of lists of objects where the items are arrays', () => {
        class Grid {
          @IsArray() @IsArray({ each: true }) @ValidateNested({ each: true }) @Type(() => Base) rows!: Base[][];
        }
        const item = { type: 'object', properties: { id: expect.objectContaining(text) }, required: ['id'] };
        const items = use === 'input' ? item : { anyOf: [item, { type: 'array', items: {} }] };
        const rows = { type: 'array', items: { type: 'array', items } };
        expect(compile(Grid, use).json.properties).toEqual({ rows });
      });

      it('the JSON Schema of a class has one object beside a list of objects where the type may be both', () => {
        class Union {
          @ValidateNested({ each: true }) @Type(() => Base) to!: Base | Base[];
        }
        const { to } = compile(Union, use).json.properties as { to: { anyOf: JsonSchema[] } };
        expect(to.anyOf.map(({ type }) => type)).toEqual(['object', 'array']);
      });

      it('the JSON Schema of a class has the divisor that class-validator uses', () => {
        class Steps {
          @IsDivisibleBy(2.5) half!: number;
          @IsDivisibleBy(-3) below!: number;
          @IsDivisibleBy(0.5) none!: number;
        }
        expect(compile(Steps, use).json.properties).toEqual({
          half: { type: 'number', multipleOf: 2 },
          below: { type: 'number', multipleOf: 3 },
          none: { type: 'number' },
        });
      });

      it('the JSON Schema of a class demands different items only where class-validator compares them by value', () => {
        class Unique {
          @ArrayUnique() @IsInt({ each: true }) numbers!: number[];
          @ArrayUnique() @ValidateNested({ each: true }) @Type(() => Base) objects!: Base[];
          @ArrayUnique() @IsDate({ each: true }) @Type(() => Date) days!: Date[];
          @ArrayUnique() any!: unknown[];
        }
        const properties = compile(Unique, use).json.properties as Record<string, JsonSchema>;
        const names = Object.keys(properties).filter((name) => properties[name]!.uniqueItems);
        expect(names).toEqual(use === 'input' ? ['numbers'] : []);
      });

      it('the JSON Schema of a class has the items of a Set and the values of a Map', () => {
        class Collections {
          @ValidateNested({ each: true }) @Type(() => Base) set!: Set<Base>;
          @ValidateNested({ each: true }) @Type(() => Base) map!: Map<string, Base>;
          @IsInt({ each: true }) @Type(() => Number) counts!: Map<string, number>;
        }
        expect(compile(Collections, use).json.properties).toMatchObject({
          set: { type: 'array', items: {} },
          map: { type: 'object', additionalProperties: {} },
          counts: { type: 'object', additionalProperties: { type: 'integer' } },
        });
      });
    },
  );

  it('the JSON Schema of a class describes a result by what its rules demand, and nothing narrower', () => {
    class Result {
      @MinLength(1) @MaxLength(5) @Matches(/^.{2}$/) text!: string;
      @IsUUID() id!: string;
      @IsNumber({ allowNaN: true }) ratio!: number;
      @IsDate() at!: Date;
      @Allow() note!: string;
      @IsNotIn(['x']) other!: string;
      @ValidateIf(() => false) @IsString() sometimes!: string;
      @IsString({ validateIf: () => false }) rarely!: string;
      @Transform(({ value }) => Number(value)) @IsString() made!: string;
      @ValidateNested({ each: true }) @Type(() => Base) list!: Base[];
      @ValidateNested() @Type(() => Base) union!: Base | Base[];
    }
    const orNull = (schema: object) => ({ anyOf: [schema, { type: 'null' }] });
    const base = { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] };
    const items = { anyOf: [base, { type: 'array', items: {} }] };
    expect(compile(Result, 'output').json).toEqual({
      type: 'object',
      properties: {
        text: { type: 'string', minLength: 1 },
        id: { type: 'string' },
        ratio: { type: ['number', 'null'] },
        at: { type: 'string', format: 'date-time' },
        note: orNull({ type: 'string' }),
        other: orNull({ type: 'string' }),
        sometimes: {},
        rarely: orNull({ type: 'string' }),
        made: {},
        list: { type: 'array', items },
        union: { anyOf: [base, { type: 'array', items }] },
      },
      required: expect.arrayContaining(['text', 'id', 'ratio', 'at']),
    });
    expect((compile(Result, 'output').json.required as string[]).length).toBe(4);
  });

  it('the JSON Schema of a class needs to know what an array contains', () => {
    class Untyped {
      @ValidateNested({ each: true }) items!: Address[];
    }
    expect(() => compile(Untyped)).toThrow('Untyped.items has @ValidateNested(), but its class is not known');
  });
});

describe('the check of a class', () => {
  class Order {
    @IsInt() count!: number;
    @ValidateNested({ each: true }) @Type(() => Address) to!: Address[];
  }

  it('the check of a class makes an instance', async () => {
    const order = await compile(Order).validate({ count: 1, to: [{ street: 'x' }] });
    expect(order).toBeInstanceOf(Order);
    expect((order as Order).to[0]).toBeInstanceOf(Address);
  });

  it('the check of a class names path and problem', async () => {
    const failing = Promise.resolve(compile(Order).validate({ count: 'x', to: [{ street: 'x' }, { street: 1 }] }));
    await expect(failing).rejects.toThrow(McpArgumentsError);
    await expect(failing).rejects.toThrow(
      'The arguments are not valid: count must be an integer number; to.1.street: street must be a string.',
    );
  });

  it('the check of a class does not take what JSON smuggles in', async () => {
    const raw: unknown = JSON.parse('{ "count": 1, "to": [], "__proto__": { "admin": true } }');
    const order = await compile(Order).validate(raw);
    expect((order as { admin?: boolean }).admin).toBeUndefined();
    expect(order).toBeInstanceOf(Order);
  });

  it('the check of a class makes a result plain again', async () => {
    const result = await compile(Order, 'output').validate({ count: 1, to: [{ street: 'x' }] });
    expect(result).toEqual({ count: 1, to: [{ street: 'x' }] });
    expect(Object.getPrototypeOf(result)).toBe(Object.prototype);
  });
});

it('a class as a schema says what to install when the packages are not there', () => {
  const load = () => {
    throw new Error('Cannot find module');
  };
  expect(() => loadClassPackages(load)).toThrow('npm install class-validator class-transformer');
});
