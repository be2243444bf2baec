import { toStandardJsonSchema } from '@valibot/to-json-schema';
import { BadRequestException } from '@nestjs/common';
import { type } from 'arktype';
import * as v from 'valibot';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { McpArgumentsError, McpHandlerDefinitionError } from '../handlers.errors.js';
import type { McpHandlerSchema, SchemaUse } from './handler-schema.js';
import { SchemaCompiler } from './schema-compiler.js';

const compile = (schema: unknown, use: SchemaUse = 'input') =>
  new SchemaCompiler().compile(schema as McpHandlerSchema, use, 'OrderTools.find');

const refusal = (schema: unknown, use: SchemaUse = 'input'): string => {
  try {
    compile(schema, use);
  } catch (error) {
    expect(error).toBeInstanceOf(McpHandlerDefinitionError);
    expect(error).toMatchObject({ origin: 'OrderTools.find', code: 'HANDLER_DEFINITION' });
    return (error as Error).message;
  }
  throw new Error('The schema was taken.');
};

const failure = async (schema: unknown, raw: unknown): Promise<McpArgumentsError> => {
  try {
    await compile(schema).validate(raw);
  } catch (error) {
    expect(error).toBeInstanceOf(McpArgumentsError);
    return error as McpArgumentsError;
  }
  throw new Error('The arguments were taken.');
};

const LIBRARIES: Record<string, McpHandlerSchema> = {
  zod: z.object({ id: z.string(), count: z.number().optional() }),
  arktype: type({ id: 'string', 'count?': 'number' }),
  valibot: toStandardJsonSchema(v.object({ id: v.string(), count: v.optional(v.number()) })),
  'JSON Schema': {
    type: 'object',
    properties: { id: { type: 'string' }, count: { type: 'number' } },
    required: ['id'],
  },
};

describe.each(Object.entries(LIBRARIES))('a schema of %s', (_library, schema) => {
  it('a schema is an object of JSON Schema, frozen throughout', () => {
    const { json } = compile(schema);
    expect(json).toMatchObject({
      type: 'object',
      properties: { id: { type: 'string' }, count: { type: 'number' } },
      required: ['id'],
    });
    expect(Object.isFrozen(json)).toBe(true);
    expect(Object.isFrozen((json.properties as { id: object }).id)).toBe(true);
  });

  it('a schema gives the value back', async () => {
    expect(await compile(schema).validate({ id: 'a', count: 2 })).toEqual({ id: 'a', count: 2 });
  });

  it('a schema names path and problem', async () => {
    const error = await failure(schema, { id: 'a', count: 'many' });
    expect(error.problems).toHaveLength(1);
    expect(error.problems[0]!.path).toBe('count');
    expect(error.message).toMatch(/^The arguments are not valid: count.+\.$/);
    expect(error.message.match(/count/g)!.length).toBeLessThan(3);
  });

  it('a schema names all problems', async () => {
    const { message } = await failure(schema, { count: 'many' });
    expect(message).toContain('id');
    expect(message).toContain('count');
  });
});

describe('validation', () => {
  it('validation fails as a ValidationPipe does', async () => {
    const error = await failure(LIBRARIES['zod'], {});
    expect(error).toBeInstanceOf(BadRequestException);
    expect(error).toMatchObject({ name: 'McpArgumentsError', code: 'ARGUMENTS' });
    expect(error.getStatus()).toBe(400);
  });

  it('validation gives the handler what the schema makes of the arguments', async () => {
    const schema = z.object({ page: z.coerce.number().default(1), when: z.string().optional() });
    expect(await compile(schema).validate({ page: '3', strange: true })).toEqual({ page: 3 });
    expect(await compile(schema).validate({})).toEqual({ page: 1 });
  });

  it('validation waits for asynchronous checks', async () => {
    const schema = z.object({ id: z.string().refine(async (id) => id !== 'taken', 'is taken') });
    expect(await compile(schema).validate({ id: 'free' })).toEqual({ id: 'free' });
    expect((await failure(schema, { id: 'taken' })).message).toBe('The arguments are not valid: id: is taken.');
  });

  it('validation says where in nested values', async () => {
    const nested = z.object({ lines: z.array(z.object({ sku: z.string() })) });
    expect((await failure(nested, { lines: [{ sku: 'a' }, {}] })).problems[0]!.path).toBe('lines.1.sku');
    const plain = {
      type: 'object',
      properties: { lines: { type: 'array', items: { type: 'object', required: ['sku'] } }, n: { type: 'integer' } },
    };
    expect((await failure(plain, { lines: [{}], n: 1.5 })).problems).toEqual([
      { path: 'lines.0', message: "must have required property 'sku'" },
      { path: 'n', message: 'must be integer' },
    ]);
  });

  it('validation shortens', async () => {
    const fields = Array.from({ length: 20 }, (_, index) => [`field${index}`, z.string('x'.repeat(500))]);
    const { message, problems } = await failure(z.object(Object.fromEntries(fields)), {});
    expect(problems).toHaveLength(20);
    expect(message).toContain('; and 12 more.');
    expect(message.length).toBeLessThan(2_000);
  });

  it('validation stays synchronous where the schema is', () => {
    expect(compile(LIBRARIES['zod']).validate({ id: 'a' })).toEqual({ id: 'a' });
  });

  it('validation of results is no fault of the client', async () => {
    const { validate } = compile(z.object({ id: z.string() }), 'output');
    expect(() => validate({})).toThrow(/^The result is not valid: id: /);
    expect(() => validate({})).not.toThrow(McpArgumentsError);
    expect(await validate({ id: 'a', secret: 1 })).toEqual({ id: 'a' });
  });
});

describe('the JSON Schema', () => {
  it('the JSON Schema of what goes out is another than of what comes in', () => {
    const schema = z.object({ page: z.number().default(1) });
    expect(compile(schema).json.required).toBeUndefined();
    expect(compile(schema, 'output').json.required).toEqual(['page']);
  });

  it('the JSON Schema that was given as such goes out as it is, in another object', () => {
    const given = {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      $defs: { a: { $anchor: 'x', type: 'string', 'x-own': [1] } },
      properties: { b: { $ref: '#/$defs/a' } },
      if: { required: ['b'] },
      // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema
      then: { minProperties: 1 },
      additionalProperties: false,
    };
    const { json } = compile(given);
    expect(JSON.stringify(json)).toBe(JSON.stringify(given));
    expect(json).not.toBe(given);
    expect(Object.isFrozen(given)).toBe(false);
  });

  it('the JSON Schema of a union of objects says that it is an object', () => {
    const union = z.discriminatedUnion('kind', [
      z.object({ kind: z.literal('a') }),
      z.object({ kind: z.literal('b'), b: z.string() }),
    ]);
    expect(compile(union).json).toMatchObject({ type: 'object', oneOf: [{}, {}] });
  });

  it.each(Object.entries(LIBRARIES))('the JSON Schema is made once for all tools of %s', (_library, schema) => {
    const compiler = new SchemaCompiler();
    const [first, second] = [1, 4].map((maxValues) =>
      compiler.compile(schema, 'input', 'OrderTools.find', { maxValues }),
    );
    expect(second!.json).toBe(first!.json);
    // What is kept has neither the limit of one tool nor the use of another.
    expect(() => first!.validate({ id: 'x', count: 1 })).toThrow(McpArgumentsError);
    expect(second!.validate({ id: 'x', count: 1 })).toEqual({ id: 'x', count: 1 });
    expect(compiler.compile(schema, 'output', 'OrderTools.find').json).not.toBe(first!.json);
  });

  it('the JSON Schema may have the $id of another one', async () => {
    const compiler = new SchemaCompiler();
    const at = 'x';
    const one = { $id: 'https://example.com/same', type: 'object', properties: { a: { type: 'string' } } };
    const two = { $id: 'https://example.com/same', type: 'object', properties: { a: { type: 'number' } } };
    expect(compiler.compile(one, 'input', at).validate({ a: 'text' })).toEqual({ a: 'text' });
    expect(compiler.compile(two, 'input', at).validate({ a: 1 })).toEqual({ a: 1 });
    expect(() => compiler.compile(two, 'input', at).validate({ a: 'text' })).toThrow(McpArgumentsError);
  });
});

describe('an unsuitable schema', () => {
  class Bare {}
  const legacyZod = { '~standard': { version: 1, vendor: 'zod', validate: () => ({ value: 1 }) } };
  const other = { '~standard': { version: 1, vendor: 'mine', validate: () => ({ value: 1 }) } };

  it.each<[string, unknown, string]>([
    ['a text', 'x', 'a schema is a Standard Schema (such as z.object({ … }))'],
    ['a text for its root', z.string(), 'its root must be an object, not "string". Wrap it: z.object'],
    ['an array for its root', type('string[]'), 'its root must be an object, not "array"'],
    ['no type at its root', { properties: {} }, 'its root has no type. Add "type": "object".'],
    ['two types at its root', { type: ['object', 'null'] }, 'its root must be an object, not ["object","null"]'],
    ['a date', z.object({ at: z.date() }), 'Date cannot be represented in JSON Schema'],
    ['a date of Valibot', toStandardJsonSchema(v.object({ at: v.date() })), 'The "date" schema cannot be converted'],
    ['a shape', { id: z.string() }, 'it is an object of schemas. Combine them into one schema: z.object({ … }).'],
    ['an old Zod', legacyZod, 'Install zod 4.2 or later'],
    ['Valibot alone', v.object({ id: v.string() }), 'toStandardJsonSchema(schema) of "@valibot/to-json-schema"'],
    ['a library without conversion', other, 'the schema library "mine" does not convert to JSON Schema'],
    ['an unknown type', { type: 'object', properties: { a: { type: 'strng' } } }, 'type must be JSONType'],
    ['a broken reference', { type: 'object', properties: { a: { $ref: '#/$defs/a' } } }, "can't resolve reference"],
    ['a broken pattern', { type: 'object', properties: { a: { pattern: '(' } } }, 'Invalid regular expression'],
    ['another dialect', { $schema: 'https://example.com/x', type: 'object' }, 'unsupported dialect'],
    ['a bigint', { type: 'object', properties: { a: { const: 1n } } }, 'BigInt'],
    ['a class without rules', Bare, 'the class Bare has no decorators of class-validator'],
    ['a function', () => {}, 'has no decorators of class-validator'],
  ])('an unsuitable schema with %s says what is wrong', (_what, schema, reason) => {
    const message = refusal(schema);
    expect(message).toMatch(/^The MCP handler OrderTools\.find cannot be served: its "inputSchema" cannot be used: /);
    expect(message).toContain(reason);
  });

  it('an unsuitable schema of a result says what is wrong, too', () => {
    expect(refusal(z.object({ n: z.string().transform(Number) }), 'output')).toContain(
      'Transforms cannot be represented',
    );
  });
});
