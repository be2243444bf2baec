import { describe, expect, it } from 'vitest';
import { choicesOf, treeOf, typeOf } from './schema.js';

describe('a schema as a tree', () => {
  it('a schema as a tree says type, need, bounds and defaults of each property', () => {
    const { children } = treeOf({
      type: 'object',
      required: ['query'],
      properties: {
        query: { type: 'string', description: 'What to find', minLength: 1 },
        limit: { type: 'integer', default: 10, minimum: 1, maximum: Number.MAX_SAFE_INTEGER },
        order: { enum: ['asc', 'desc'] },
      },
    });
    expect(children.map(({ name, type, required, notes }) => [name, type, required, notes.join(', ')])).toEqual([
      ['query', 'string', true, 'characters, at least 1'],
      ['limit', 'integer', false, 'at least 1, default 10'],
      ['order', '"asc" | "desc"', false, ''],
    ]);
    expect(children[0]!.description).toBe('What to find');
  });

  it('a schema as a tree follows references, and shows the properties of the entries of arrays', () => {
    const root = {
      type: 'object',
      properties: { lines: { type: 'array', items: { $ref: '#/$defs/line' } } },
      $defs: { line: { type: 'object', properties: { sku: { type: 'string' } } } },
    };
    const [lines] = treeOf(root).children;
    expect(lines!.type).toBe('object[]');
    expect(lines!.children.map(({ name }) => name)).toEqual(['sku']);
  });

  it('a schema as a tree ends for a schema that contains itself', () => {
    const names = Array.from({ length: 30 }, (_, index) => `child${index}`);
    const properties = Object.fromEntries(names.map((name) => [name, { $ref: '#/$defs/node' }]));
    const root = { $ref: '#/$defs/node', $defs: { node: { type: 'object', properties } } };
    const { children } = treeOf(root);
    expect(children.map(({ name }) => name)).toEqual(names);
    expect(children[0]!.children).toEqual([]);
    expect(treeOf({ type: 'object', properties: { child: { $ref: '#' } } }).children[0]!.children).toEqual([]);
    const loop = { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } };
    expect(treeOf(loop).type).toBe('any');
  });

  it('a choice of constants is a choice', () => {
    const schema = { oneOf: [{ const: 'a', title: 'A' }, { const: 'b' }] };
    expect(choicesOf(schema, schema)).toEqual(['a', 'b']);
    expect(typeOf({ anyOf: [{ type: 'string' }, { type: 'null' }] }, {})).toBe('string | null');
  });
});
