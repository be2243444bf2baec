import { describe, expect, it } from 'vitest';

import { paramHeadersOf } from './param-headers.js';

const A = { type: 'string', 'x-mcp-header': 'A' };
const of = (properties: object, more: object = {}): object => ({ type: 'object', properties, ...more });

function faultOf(schema: unknown): string {
  const scan = paramHeadersOf(schema);
  return 'fault' in scan ? scan.fault : '';
}

describe('paramHeadersOf', () => {
  it('paramHeadersOf finds them at any depth, in the order of the properties', () => {
    const schema = of({
      region: { type: 'string', 'x-mcp-header': 'Region' },
      query: { type: 'string' },
      options: of({ limit: { type: 'integer', 'x-mcp-header': 'Max-Rows' }, deep: of({ 'a.b': A }) }),
      dryRun: { type: 'boolean', 'x-mcp-header': "!#$%&'*+-.^_`|~9" },
    });
    expect(paramHeadersOf(schema)).toEqual({
      headers: [
        { path: ['region'], headerName: 'Region', type: 'string' },
        { path: ['options', 'limit'], headerName: 'Max-Rows', type: 'integer' },
        { path: ['options', 'deep', 'a.b'], headerName: 'A', type: 'string' },
        { path: ['dryRun'], headerName: "!#$%&'*+-.^_`|~9", type: 'boolean' },
      ],
    });
  });

  it('paramHeadersOf shares one empty list, and freezes all', () => {
    const [none, empty] = [paramHeadersOf(of({ a: { type: 'string' } })), paramHeadersOf({})] as { headers: object }[];
    expect(none!.headers).toBe(empty!.headers);
    const { headers } = paramHeadersOf(of({ a: A })) as { headers: readonly { path: object }[] };
    for (const frozen of [none!.headers, headers, headers[0], headers[0]!.path]) {
      expect(Object.isFrozen(frozen)).toBe(true);
    }
  });

  it.each([
    ['no schema', undefined],
    ['a boolean', true],
    ['a property of that name', of({ 'x-mcp-header': { type: 'string' } })],
    ['a definition of that name', { $defs: { 'x-mcp-header': { type: 'string' } } }],
    ['data', of({ a: { default: A, const: A, enum: [A], examples: [A] } })],
    ['an extension of somebody else', { 'x-other': A }],
  ])('paramHeadersOf is not misled by %s', (_, schema) => {
    expect(paramHeadersOf(schema)).toEqual({ headers: [] });
  });

  it.each<[string, unknown, string]>([
    ['at the root', { type: 'object', 'x-mcp-header': 'A' }, 'the root'],
    ['in items', of({ list: { type: 'array', items: A } }), '"list.items"'],
    ['in an array of items', of({ list: { items: [{}, A] } }), '"list.items"'],
    ['in prefixItems', of({ list: { prefixItems: [A] } }), '"list.prefixItems"'],
    ['in contains', of({ list: { contains: A } }), '"list.contains"'],
    ['in additionalItems', of({ list: { additionalItems: A } }), '"list.additionalItems"'],
    ['in unevaluatedItems', of({ list: { unevaluatedItems: A } }), '"list.unevaluatedItems"'],
    ['in additionalProperties', { additionalProperties: A }, '"additionalProperties"'],
    ['in unevaluatedProperties', { unevaluatedProperties: A }, '"unevaluatedProperties"'],
    ['in propertyNames', { propertyNames: A }, '"propertyNames"'],
    ['in contentSchema', of({ a: { contentSchema: A } }), '"a.contentSchema"'],
    ['in patternProperties', { patternProperties: { '^a': A } }, '"patternProperties/^a"'],
    ['in dependentSchemas', { dependentSchemas: { a: of({ a: A }) } }, '"dependentSchemas/a.a"'],
    ['in dependencies', { dependencies: { b: ['a'], a: of({ a: A }) } }, '"dependencies/a.a"'],
    ['in oneOf', of({ a: { oneOf: [A] } }), '"a.oneOf"'],
    ['in anyOf, under properties', { anyOf: [of({ a: A })] }, '"anyOf.a"'],
    ['in allOf', { allOf: [of({ a: A })] }, '"allOf.a"'],
    ['in not', { not: of({ a: A }) }, '"not.a"'],
    ['in if', { if: of({ a: A }) }, '"if.a"'],
    // Not a promise.
    // oxlint-disable-next-line unicorn/no-thenable
    ['in then', { then: of({ a: A }) }, '"then.a"'],
    ['in else', { else: of({ a: A }) }, '"else.a"'],
    ['in $defs', of({ a: { $ref: '#/$defs/Named' } }, { $defs: { Named: A } }), '"$defs/Named"'],
    ['in definitions', { definitions: { Named: A } }, '"definitions/Named"'],
  ])('paramHeadersOf refuses one %s', (_, schema, at) => {
    expect(faultOf(schema)).toMatch(/"x-mcp-header" stands at .*"properties" alone/);
    expect(faultOf(schema)).toContain(at);
  });

  it.each(['', 7, null, {}, true])('paramHeadersOf refuses %j for a name', (name) => {
    expect(faultOf(of({ a: { type: 'string', 'x-mcp-header': name } }))).toMatch(/"a" must be a non-empty string/);
  });

  it.each(['A B', 'A:', 'A\r\nB', 'Ä', 'a/b', '(a)', '"a"', ' a', 'a\n'])(
    'paramHeadersOf refuses the name %j',
    (name) => {
      expect(faultOf(of({ a: { type: 'string', 'x-mcp-header': name } }))).toMatch(/cannot be part of the name/);
    },
  );

  it.each(['number', 'object', 'array', 'null', undefined, ['string'], ['string', 'null'], 'toString'])(
    'paramHeadersOf refuses the type %j',
    (type) => {
      expect(faultOf(of({ a: { type, 'x-mcp-header': 'A' } }))).toMatch(/"string", "integer" or "boolean"/);
    },
  );

  it('paramHeadersOf refuses two of one name, in whatever case', () => {
    const fault = faultOf(of({ a: A, b: of({ c: { type: 'integer', 'x-mcp-header': 'a' } }) }));
    expect(fault).toContain('of "b.c" is "a", and so is that of "a"');
  });

  it('paramHeadersOf is not overwhelmed by what servers send', () => {
    let deep: object = A;
    for (let depth = 0; depth < 20_000; depth++) deep = { properties: { a: deep }, anyOf: [{}] };
    expect(paramHeadersOf(deep)).toMatchObject({ headers: [{ headerName: 'A' }] });
    const wide = Object.fromEntries(Array.from({ length: 130_000 }, (_, index) => [`p${index}`, { type: 'string' }]));
    expect(paramHeadersOf(of(wide))).toEqual({ headers: [] });
  });
});
