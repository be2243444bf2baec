import type { StandardSchemaWithJSON } from '@modelcontextprotocol/server';
import { toStandardJsonSchema } from '@valibot/to-json-schema';
import { type } from 'arktype';
import * as v from 'valibot';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { standardCheck } from './standard-check.js';

const checkOf = (schema: unknown) => {
  const standard = schema as StandardSchemaWithJSON;
  return standardCheck(standard, standard['~standard'].jsonSchema.input({ target: 'draft-2020-12' }));
};
const many = <T>(count: number, item: T): T[] => Array.from({ length: count }, () => item);
/** Acts as a schema of an older Zod. */
const ofZod44 = <T extends z.ZodType>(schema: T): T => {
  Object.defineProperty(schema._zod, 'version', { value: { major: 4, minor: 4, patch: 1 } });
  return schema;
};
const issuesOf = async (schema: unknown, value: unknown): Promise<number> =>
  (await checkOf(schema).check(value)).issues?.length ?? 0;

describe('whether a library stops at the first problem', () => {
  const text = z.string();
  const inList = (item: z.ZodType): z.ZodType => z.object({ list: z.array(item) });

  it.each<[string, z.ZodType]>([
    ['texts', inList(text)],
    ['objects', inList(z.object({ a: text, b: z.number().optional(), c: z.enum(['x']).default('x') }))],
    ['alternatives', inList(z.union([text, z.null(), z.discriminatedUnion('t', [z.object({ t: z.literal('a') })])]))],
    ['lists', inList(z.array(z.array(z.number()).readonly().catch([])))],
    ['tuples', inList(z.tuple([text], z.number()))],
    [
      'checks beside it',
      z.object({ a: text.min(3).regex(/x/), b: z.email(), list: z.array(text).max(9) }).refine(() => true),
    ],
    ['strict objects and transforms around it', z.strictObject({ list: z.array(text).transform((all) => all.length) })],
    ['records of anything', z.object({ a: z.record(text, z.unknown()), b: z.record(z.string(), z.any()) })],
    ['one text that two fields share', z.object({ a: text.min(1), b: text.min(1), c: z.array(text) })],
    ['loose objects', inList(z.looseObject({ a: text }))],
  ])('Zod stops in %s', (_, schema) => {
    expect(checkOf(schema)).toMatchObject({ stops: true, outdated: undefined });
  });

  const node: z.ZodType = z.lazy(() => z.object({ name: z.string().min(1), next: z.array(node) }));
  const link = z.object({
    name: z.string().min(1),
    get next() {
      return link.optional();
    },
  });
  it.each<[string, z.ZodType]>([
    ['texts with a check', inList(text.min(1))],
    ['formats', inList(z.email())],
    ['integers', inList(z.int())],
    ['refined objects', inList(z.object({}).refine(() => false))],
    ['strict objects', inList(z.strictObject({ a: text }))],
    ['tuples whose further items have a check', inList(z.tuple([text], text.min(1)))],
    ['a list of lists with a check', inList(z.array(text).max(3))],
    ['transforms', inList(text.transform(Number).pipe(z.number()))],
    ['records', z.object({ a: z.record(text, z.number()) })],
    ['records whose names have a check', z.object({ a: z.record(text.min(2), z.any()) })],
    ['intersections', z.object({ a: z.record(text, z.any()).and(z.object({})) })],
    ['what other members are', z.object({}).catchall(text.min(1))],
    ['a tree', z.object({ node })],
    ['a chain', z.object({ link })],
  ])('Zod does not stop in %s', (_, schema) => {
    expect(checkOf(schema).stops).toBe(false);
  });

  it('ArkType stops, Valibot and older versions of Zod do not', () => {
    expect(checkOf(type({ list: 'string[]' })).stops).toBe(true);
    expect(checkOf(toStandardJsonSchema(v.object({ list: v.array(v.string()) }))).stops).toBe(false);
    expect(checkOf(ofZod44(inList(text)))).toMatchObject({ stops: false, outdated: 'Zod 4.4.1' });
  });
});

describe('the check of many values', () => {
  it.each<[string, unknown, number]>([
    ['Zod', z.object({ list: z.array(z.string()) }), 1],
    [
      'Zod with an asynchronous check',
      z.object({ list: z.array(z.string()) }).refine(async () => Promise.resolve(true)),
      1,
    ],
    ['ArkType', type({ list: 'string[]' }), 1],
    ['Valibot', toStandardJsonSchema(v.object({ list: v.array(v.string()) })), 2_000],
  ])(
    'D36: the check of many values by %s names the first problem where it can, and all of a few',
    async (_, schema, first) => {
      expect(await issuesOf(schema, { list: many(900, 1) })).toBe(900);
      expect(await issuesOf(schema, { list: many(2_000, 1) })).toBe(first);
      expect(await issuesOf(schema, { list: many(2_000, 'x') })).toBe(0);
    },
  );

  it('the check of many values fails like that of a few where a refinement throws', async () => {
    const schema = z.object({
      list: z.array(z.string()).refine(() => {
        throw new Error('refined');
      }),
    });
    for (const count of [1, 2_000])
      await expect(checkOf(schema).check({ list: many(count, 'x') })).rejects.toThrow('refined');
  });
});

describe('a schema that refers to itself', () => {
  interface Tree {
    items?: Tree[] | undefined;
    text?: string | undefined;
    op: string;
  }
  const valibotTree: v.GenericSchema<Tree> = v.union(
    ['and', 'or', 'nor'].map((op) =>
      v.object({
        items: v.optional(v.array(v.lazy(() => valibotTree))),
        text: v.optional(v.pipe(v.string(), v.regex(/^a*$/))),
        op: v.literal(op),
      }),
    ),
  );
  const asyncTree: v.GenericSchemaAsync<Tree> = v.unionAsync(
    ['and', 'or', 'nor'].map((op) =>
      v.objectAsync({ items: v.optionalAsync(v.arrayAsync(v.lazyAsync(() => asyncTree))), op: v.literal(op) }),
    ),
  );
  const nested = (leaf: object, levels: number, op: string): object =>
    Array.from({ length: levels }).reduce<object>((inner) => ({ items: [inner], op }), leaf);
  const schema = toStandardJsonSchema(v.object({ filter: valibotTree }));
  const TOO_MANY = { issues: [{ message: expect.stringContaining('too many alternatives') }] };

  it('D37: a schema that refers to itself refuses what would try too many alternatives, whatever the leaf holds', async () => {
    const { check } = checkOf(schema);
    for (const leaf of [
      { op: 'x' },
      { op: 'x', text: 'a'.repeat(1_000_000) },
      { op: 'x', items: many(3_000, { op: 'x' }) },
    ])
      expect(await check({ filter: nested(leaf, 60, 'x') })).toMatchObject(TOO_MANY);
    const json = { type: 'object', properties: { filter: { $ref: '#' } } };
    const slow = standardCheck({ '~standard': v.objectAsync({ filter: asyncTree })['~standard'] } as never, json);
    expect(await slow.check({ filter: nested({ op: 'x' }, 60, 'x') })).toMatchObject(TOO_MANY);
  });

  it('D37: a schema that refers to itself gives plain values, and names what does not fit', async () => {
    const { check } = checkOf(schema);
    const value = { filter: nested({ op: 'or', text: 'aa' }, 5, 'or') };
    expect(await check(value)).toEqual({ typed: true, value });
    expect((await check({ filter: 1 })).issues).toHaveLength(1);
    expect((await check({ filter: { op: 'or', items: many(500, { op: 'or' }) } })).issues).toBeUndefined();
  });
});
