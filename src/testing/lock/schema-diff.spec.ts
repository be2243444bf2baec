import { describe, expect, it } from 'vitest';
import { type Direction, schemaChanges } from './schema-diff.js';

type Schema = Record<string, unknown>;

/** Returns the changes as lines, such as `breaking a.b: is required now`. */
function diff(before: unknown, after: unknown, direction: Direction = 'input'): string[] {
  return schemaChanges(before, after, direction, 'a').map(({ severity, text }) => `${severity} ${text}`);
}

const object = (properties: Schema, more: Schema = {}): Schema => ({ type: 'object', properties, ...more });
const text = { type: 'string' };

describe('a change of a schema', () => {
  /** [what, before, after, as arguments, as a result] */
  const CASES: [string, unknown, unknown, string[], string[]][] = [
    ['property gone', object({ b: text }), object({}), ['breaking a.b: is gone'], ['breaking a.b: is gone']],
    ['property new', object({}), object({ b: text }), ['additive a.b: is new'], ['additive a.b: is new']],
    [
      'required property new',
      object({}),
      object({ b: text }, { required: ['b'] }),
      ['breaking a.b: is new, and required'],
      ['additive a.b: is new, and required'],
    ],
    [
      'required added',
      object({ b: text }),
      object({ b: text }, { required: ['b'] }),
      ['breaking a.b: is required now'],
      ['additive a.b: is required now'],
    ],
    [
      'required removed',
      object({ b: text }, { required: ['b'] }),
      object({ b: text }),
      ['additive a.b: is not required any more'],
      ['breaking a.b: is not required any more'],
    ],
    [
      'closed',
      object({}),
      object({}, { additionalProperties: false }),
      ['breaking a: refuses other properties now'],
      ['additive a: refuses other properties now'],
    ],
    [
      'opened',
      object({}, { additionalProperties: false }),
      object({}, { additionalProperties: true }),
      ['additive a: accepts other properties now'],
      ['breaking a: accepts other properties now'],
    ],
    [
      'additionalProperties narrowed',
      object({}, { additionalProperties: text }),
      object({}, { additionalProperties: { type: 'string', maxLength: 3 } }),
      ['breaking a.*: maxLength 3 is new'],
      ['additive a.*: maxLength 3 is new'],
    ],
    [
      'enum narrowed and widened',
      { enum: ['new', 'lost'] },
      { enum: ['new', 'sent'] },
      ['breaking a: "lost" is gone from the values', 'additive a: "sent" is new among the values'],
      ['additive a: "lost" is gone from the values', 'breaking a: "sent" is new among the values'],
    ],
    [
      'const became an enum',
      { type: 'string', const: 'x' },
      { type: 'string', enum: ['x', 'y'] },
      ['additive a: "y" is new among the values'],
      ['breaking a: "y" is new among the values'],
    ],
    [
      'enum in another order',
      { enum: [1, 2] },
      { enum: [2, 1] },
      ['look a: the values have another order'],
      ['look a: the values have another order'],
    ],
    [
      'type changed',
      text,
      { type: 'number' },
      ['breaking a: the type was string, and is number'],
      ['breaking a: the type was string, and is number'],
    ],
    [
      'type narrowed',
      { type: ['string', 'number'] },
      text,
      ['breaking a: the type was string or number, and is string'],
      ['additive a: the type was string or number, and is string'],
    ],
    [
      'number to integer',
      { type: 'number' },
      { type: 'integer' },
      ['breaking a: the type was number, and is integer'],
      ['additive a: the type was number, and is integer'],
    ],
    [
      'integer to number',
      { type: 'integer' },
      { type: 'number' },
      ['additive a: the type was integer, and is number'],
      ['breaking a: the type was integer, and is number'],
    ],
    [
      'nullable, as zod writes it',
      text,
      { anyOf: [text, { type: 'null' }] },
      ['additive a: the type was string, and is string or null'],
      ['breaking a: the type was string, and is string or null'],
    ],
    [
      'nullable of OpenAPI is that of JSON Schema',
      { type: 'string', nullable: true },
      { type: ['string', 'null'] },
      [],
      [],
    ],
    [
      'minimum raised',
      { minimum: 1 },
      { minimum: 2 },
      ['breaking a: minimum was 1, and is 2'],
      ['additive a: minimum was 1, and is 2'],
    ],
    [
      'maximum raised',
      { maximum: 1 },
      { maximum: 2 },
      ['additive a: maximum was 1, and is 2'],
      ['breaking a: maximum was 1, and is 2'],
    ],
    [
      'maxLength removed',
      { maxLength: 1 },
      {},
      ['additive a: maxLength 1 is gone'],
      ['breaking a: maxLength 1 is gone'],
    ],
    [
      'a bound of another draft',
      { exclusiveMinimum: true },
      { exclusiveMinimum: 1 },
      ['look a: "exclusiveMinimum" was true, and is 1'],
      ['look a: "exclusiveMinimum" was true, and is 1'],
    ],
    ['pattern added', {}, { pattern: '^x' }, ['breaking a: pattern "^x" is new'], ['additive a: pattern "^x" is new']],
    [
      'pattern changed',
      { pattern: '^x' },
      { pattern: '^y' },
      ['breaking a: pattern was "^x", and is "^y"'],
      ['breaking a: pattern was "^x", and is "^y"'],
    ],
    [
      'format removed',
      { format: 'uri' },
      {},
      ['additive a: format "uri" is gone'],
      ['breaking a: format "uri" is gone'],
    ],
    [
      'uniqueItems',
      { type: 'array' },
      { type: 'array', uniqueItems: true },
      ['breaking a: uniqueItems is true now'],
      ['additive a: uniqueItems is true now'],
    ],
    [
      'items',
      { items: { type: 'object', properties: { b: text } } },
      { items: { type: 'object', properties: {} } },
      ['breaking a[].b: is gone'],
      ['breaking a[].b: is gone'],
    ],
    [
      'a tuple',
      { prefixItems: [text] },
      { prefixItems: [{ type: 'number' }] },
      ['breaking a[0]: the type was string, and is number'],
      ['breaking a[0]: the type was string, and is number'],
    ],
    [
      'allOf has one more part',
      { allOf: [text] },
      { allOf: [text, { minLength: 1 }] },
      ['breaking a: allOf has 1 new parts, and 0 are gone'],
      ['additive a: allOf has 1 new parts, and 0 are gone'],
    ],
    [
      'allOf has a part more and others less',
      { allOf: [text, { minLength: 1 }, { maxLength: 9 }] },
      { allOf: [{ maxLength: 9 }, { pattern: 'x' }] },
      ['breaking a: allOf has 1 new parts, and 2 are gone'],
      ['breaking a: allOf has 1 new parts, and 2 are gone'],
    ],
    [
      'allOf in another order',
      { allOf: [text, { minLength: 1 }] },
      { allOf: [{ minLength: 1 }, text] },
      ['look a: "allOf" has changed'],
      ['look a: "allOf" has changed'],
    ],
    [
      'alternatives gone and new',
      { anyOf: [text, { type: 'number' }, { type: 'boolean' }] },
      { anyOf: [{ type: 'boolean' }, text, { type: 'array' }] },
      [
        'breaking a: the type was boolean or number or string, and is array or boolean or string',
        'breaking a(number): this alternative is gone',
        'additive a(array): this alternative is new',
      ],
      [
        'breaking a: the type was boolean or number or string, and is array or boolean or string',
        'additive a(number): this alternative is gone',
        'breaking a(array): this alternative is new',
      ],
    ],
    [
      'an alternative that accepts nothing is gone',
      { oneOf: [text, { type: 'number' }, false] },
      { oneOf: [text, { type: 'number' }] },
      ['breaking a(nothing): this alternative is gone'],
      ['additive a(nothing): this alternative is gone'],
    ],
    [
      'an alternative is known by its constants',
      { oneOf: [object({ by: { const: 'card' }, no: text }), object({ by: { const: 'bill' } })] },
      { oneOf: [object({ by: { const: 'bill' } }), object({ by: { const: 'card' } })] },
      ['breaking a(by="card").no: is gone'],
      ['breaking a(by="card").no: is gone'],
    ],
    [
      'a text',
      { description: 'x' },
      { description: 'y' },
      ['look a: "description" was "x", and is "y"'],
      ['look a: "description" was "x", and is "y"'],
    ],
    [
      'a keyword that no rule knows',
      { 'x-mcp-header': 'A' },
      {},
      ['look a: "x-mcp-header" was "A", and is absent'],
      ['look a: "x-mcp-header" was "A", and is absent'],
    ],
    [
      'nothing is accepted',
      object({ b: true }),
      object({ b: false }),
      ['breaking a.b: accepts nothing'],
      ['additive a.b: accepts nothing'],
    ],
    [
      'a reference to elsewhere',
      { $ref: 'https://x.org/a' },
      { $ref: 'https://x.org/b' },
      ['look a: "$ref" was "https://x.org/a", and is "https://x.org/b"'],
      ['look a: "$ref" was "https://x.org/a", and is "https://x.org/b"'],
    ],
  ];

  it.each(CASES)('a change of a schema is judged by its direction: %s', (_, before, after, input, output) => {
    expect(diff(before, after, 'input')).toEqual(input);
    expect(diff(before, after, 'output')).toEqual(output);
    expect(diff(before, before)).toEqual([]);
    expect(diff(after, after)).toEqual([]);
  });

  it('a change of a long text shows where it begins to differ', () => {
    const of = (end: string): Schema => ({ description: `${'Finds orders. '.repeat(20)}Never ${end}` });
    expect(diff(of('sent ones.'), of('lost ones.'))).toEqual([
      'look a: "description" was …s orders. Finds orders. Never sent ones.", and is …s orders. Finds orders. Never lost ones."',
    ]);
  });

  it('a change of a schema is found behind a reference, beside whose texts it stands', () => {
    const of = (size: Schema): Schema => ({
      ...object({ size: { $ref: '#/$defs/Size', description: 'in cm' } }),
      $defs: { Size: size },
    });
    expect(diff(of({ type: 'number' }), of({ type: 'number', maximum: 5 }))).toEqual([
      'breaking a.size: maximum 5 is new',
    ]);
    expect(diff(of({ type: 'number' }), object({ size: { type: 'number', description: 'in cm' } }))).toEqual([]);
  });

  it('a change of a schema is found where only a keyword that no rule knows refers to it', () => {
    const of = (word: string): Schema => ({ not: { $ref: '#/$defs/Word' }, $defs: { Word: { const: word } } });
    expect(diff(of('x'), of('y'))).toEqual(['look a: "not" has changed']);
  });

  it('a change of a schema is found beside a reference with constraints of its own', () => {
    const of = (more: Schema): Schema => ({ $ref: '#/$defs/N', maximum: 9, $defs: { N: { type: 'number', ...more } } });
    expect(diff(of({}), of({ maximum: 3 }))).toEqual(['breaking a: maximum 3 is new']);
  });

  it('a change of a schema is found in a schema that refers to itself, once', () => {
    const tree = (more: Schema): Schema => ({
      ...object({ root: { $ref: '#/$defs/Node' } }),
      $defs: { Node: object({ name: text, children: { type: 'array', items: { $ref: '#/$defs/Node' } }, ...more }) },
    });
    expect(diff(tree({}), tree({}))).toEqual([]);
    expect(diff(tree({}), tree({ name: { type: 'number' } }))).toEqual([
      'breaking a.root.name: the type was string, and is number',
    ]);
    const self = { $ref: '#' };
    expect(diff(self, self)).toEqual([]);
    const nullable = { $ref: '#/$defs/A', $defs: { A: { anyOf: [{ $ref: '#/$defs/A' }, { type: 'null' }] } } };
    expect(diff(nullable, text)).not.toEqual([]);
    const others = diff({ $ref: '#/$defs/A', $defs: { A: { $ref: '#/$defs/B' }, B: { $ref: '#/$defs/A' } } }, text);
    expect(others).not.toEqual([]);
  });

  it('a change of a schema is found at properties with names of Object.prototype', () => {
    const of = (properties: string): unknown => JSON.parse(`{"type":"object","properties":${properties}}`);
    expect(diff(of('{"__proto__":{"type":"string"},"constructor":{"type":"string"}}'), of('{}'))).toEqual([
      'breaking a.__proto__: is gone',
      'breaking a.constructor: is gone',
    ]);
    expect(diff(of('{}'), of('{"toString":{"type":"string"}}'))).toEqual(['additive a.toString: is new']);
    expect(({} as Schema)['type']).toBeUndefined();
  });

  it('a change of a schema is found among a hundred thousand values and required names', () => {
    const names = Array.from({ length: 100_000 }, (_, at) => `v${at}`);
    const others = [...names.slice(1), 'new'];
    expect(diff({ enum: names }, { enum: others })).toEqual([
      'breaking a: "v0" is gone from the values',
      'additive a: "new" is new among the values',
    ]);
    expect(diff({ required: names }, { required: others })).toEqual([
      'additive a.v0: is not required any more',
      'breaking a.new: is required now',
    ]);
  });

  it('a change in a schema that is too deep or too large is reported to be looked at, not passed over', () => {
    const deep = (levels: number, leaf: Schema): Schema => {
      let schema = leaf;
      for (let level = 0; level < levels; level++) schema = { type: 'array', items: schema };
      return schema;
    };
    for (const levels of [300, 5_000]) {
      expect(diff(deep(levels, text), deep(levels, { type: 'number' }))).toContain(
        'look a: is too large or too deep to be compared as a whole',
      );
    }
    // Each level has two references to the next: 2^40 paths.
    const levels = Array.from({ length: 40 }, (_, at): [string, Schema] => [
      `L${at}`,
      object({ x: { $ref: `#/$defs/L${at + 1}` }, y: { $ref: `#/$defs/L${at + 1}` } }),
    ]);
    const fanned = (leaf: Schema): Schema => ({
      $ref: '#/$defs/L0',
      $defs: { ...Object.fromEntries(levels), L40: leaf },
    });
    expect(diff(fanned(text), fanned({ type: 'number' })).some((line) => line.startsWith('breaking'))).toBe(true);
  });
});
