import { describe, expect, it } from 'vitest';
import { BoundedJsonSchemas } from './json-schema.js';
import { sdk } from './spec.js';

const DIALECTS = [
  undefined,
  'https://json-schema.org/draft/2020-12/schema',
  'https://json-schema.org/draft/2019-09/schema',
  'http://json-schema.org/draft-07/schema#',
];
const many = <T>(count: number, item: T): T[] => Array.from({ length: count }, () => item);
const bounded = (schema: object, all = false) => new BoundedJsonSchemas(all).getValidator(schema);

/** Milliseconds of CPU that a piece of work takes. */
function cpuMs(work: () => unknown): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

/** A tree of conditions in so many alternatives, which differ by what comes last, or first. */
const tree = (ops: readonly string[], $schema?: string, first = false): object => ({
  ...($schema && { $schema }),
  type: 'object',
  properties: { filter: { $ref: '#/definitions/node' } },
  definitions: {
    node: {
      anyOf: ops.map((op) => ({
        type: 'object',
        properties: {
          ...(first && { op: { const: op } }),
          items: { type: 'array', items: { $ref: '#/definitions/node' } },
          text: { type: 'string', pattern: '^a*$' },
          numbers: { type: 'array', items: { type: 'number' } },
          names: { type: 'object', additionalProperties: { type: 'number' } },
          things: { type: 'array', uniqueItems: true },
          op: { const: op },
        },
        required: ['op'],
      })),
    },
  },
});
const nested = (leaf: object, levels: number, op: string): object =>
  Array.from({ length: levels }).reduce<object>((inner) => ({ items: [inner], op }), leaf);

describe('a bounded JSON Schema', () => {
  it('D36: a bounded JSON Schema names the first problem of many, and all of them where that is wanted', () => {
    const schema = { type: 'object', properties: { list: { type: 'array', items: { type: 'string' } } } };
    const value = { list: many(50, 1) };
    expect(bounded(schema)(value)).toEqual({
      valid: false,
      data: undefined,
      errorMessage: 'data/list/0 must be string',
    });
    expect(bounded(schema, true)(value).errorMessage?.match(/must be string/g)).toHaveLength(50);
    expect(bounded(schema)({ list: ['a'] })).toMatchObject({ valid: true, data: { list: ['a'] } });
  });

  const TOO_MANY = { valid: false, errorMessage: expect.stringMatching(/^data is nested in too many alternatives/) };

  it('D37: a bounded JSON Schema refuses what would try too many alternatives, whatever the leaf holds', () => {
    const check = bounded(tree(['and', 'or', 'nor']));
    const leaves = [
      { op: 'x' },
      { op: 'x', text: 'a'.repeat(100_000) },
      { op: 'x', numbers: many(5_000, 1) },
      { op: 'x', names: Object.fromEntries(many(2_000, 1).map((one, at) => [`k${at}`, one])) },
      { op: 'x', things: many(500, 1).map((one, at) => ({ one, at })) },
    ];
    for (const leaf of leaves) {
      let outcome: unknown;
      // Without a limit it would be days.
      expect(cpuMs(() => (outcome = check({ filter: nested(leaf, 40, 'x') })))).toBeLessThan(5_000);
      expect(outcome).toMatchObject(TOO_MANY);
    }
    // The next one has all its steps.
    expect(check({ filter: nested({ op: 'or', text: 'a' }, 6, 'or') })).toMatchObject({ valid: true });
  });

  it('D37: a bounded JSON Schema refuses the same in every dialect, and where all problems are wanted', () => {
    const value = { filter: nested({ op: 'x' }, 40, 'x') };
    for (const dialect of DIALECTS) expect(bounded(tree(['and', 'or', 'nor'], dialect))(value)).toMatchObject(TOO_MANY);
    expect(bounded(tree(['and', 'or', 'nor']), true)(value)).toMatchObject(TOO_MANY);
  });

  it('D37: a bounded JSON Schema accepts large values in many alternatives that differ by what comes first', () => {
    const ops = Array.from({ length: 20 }, (_, at) => `op${at}`);
    const node = { op: 'op19', items: many(3, { op: 'op19', text: 'aaa' }) };
    expect(bounded(tree(ops, undefined, true))({ filter: { op: 'op19', items: many(100, node) } }).valid).toBe(true);
    const flat = { op: 'or', items: many(2_000, { op: 'or', text: 'a' }) };
    expect(bounded(tree(['and', 'or']))({ filter: flat }).valid).toBe(true);
  });

  it('D37: a bounded JSON Schema takes "$ref" in data for data', () => {
    const link = { $ref: '#/elsewhere' };
    const check = bounded({
      type: 'object',
      properties: { $ref: { enum: [link] }, link: { const: link, default: link }, node: { $ref: '#/$defs/text' } },
      $defs: { text: { type: 'string' } },
    });
    expect(check({ $ref: link, link, node: 'x' })).toMatchObject({ valid: true });
    expect(check({ node: 1 })).toMatchObject({ errorMessage: 'data/node must be string' });
    expect(check({ link: {} }).valid).toBe(false);
  });

  it('uniqueItems compares as Ajv does, and names the items that are equal', () => {
    const schema = { type: 'array', uniqueItems: true };
    const plain = new sdk.AjvJsonSchemaValidator().getValidator(schema);
    const check = bounded(schema);
    const lists: unknown[][] = [
      [],
      [1, '1', true, null, 'true', 'null', [], {}, '[]', '{}', '"1'],
      [0, -0],
      [1, 1],
      ['a', 'b', 'a'],
      [
        { a: 1, b: [2, { c: 3 }] },
        { b: [2, { c: 3 }], a: 1 },
      ],
      [{ a: 1 }, { a: '1' }],
      [
        [1, 2],
        [2, 1],
      ],
      [
        [1, [2]],
        [1, [2]],
      ],
      [null, null],
      [{ a: null }, {}],
    ];
    for (const list of lists) expect([list, check(list).valid]).toEqual([list, plain(list).valid]);
    expect(check(['a', 'b', 'a']).errorMessage).toBe(
      'data must NOT have duplicate items (items ## 0 and 2 are identical)',
    );
    expect(bounded({ type: 'array', uniqueItems: false })([1, 1]).valid).toBe(true);
  });

  it('uniqueItems of 50,000 objects takes a moment', () => {
    const check = bounded({ type: 'array', uniqueItems: true });
    const items = Array.from({ length: 50_000 }, (_, at) => ({ a: at }));
    // Each with each takes 37 s.
    expect(cpuMs(() => expect(check(items).valid).toBe(true))).toBeLessThan(3_000);
  });
});
