import type { Tool } from '@modelcontextprotocol/server';
import { describe, expect, it } from 'vitest';
import { diagnoseTools, type McpDoctorRule } from './diagnosis.js';
import { findingLines } from './finding-lines.js';
import { similarTexts } from './similar-texts.js';
import { tokensOfResult } from './tokens.js';

/** A tool without findings. */
const HEALTHY = {
  name: 'find_order',
  title: 'Find an order',
  description: 'Finds an order by its id',
  annotations: { readOnlyHint: true },
  inputSchema: { type: 'object', properties: { id: { type: 'string' } } },
} as const satisfies Tool;

function rulesOf(tool: Partial<Tool>, reads = false): McpDoctorRule[] {
  return diagnoseTools([{ wire: { ...HEALTHY, ...tool }, reads }]).findings.map(({ rule }) => rule);
}

const schema = (inputSchema: object): Partial<Tool> => ({ inputSchema: inputSchema as Tool['inputSchema'] });
const property = (of: object, more: object = {}): Partial<Tool> =>
  schema({ type: 'object', properties: { x: of }, ...more });

const result = (of: object, more: object = {}): Partial<Tool> => ({
  outputSchema: { type: 'object', properties: { x: of }, ...more },
});

describe('the doctor', () => {
  it.each<[string, Partial<Tool>, McpDoctorRule[]]>([
    ['nothing', {}, []],
    ['a missing title', { title: undefined }, ['no-title']],
    ['no title if it is among the hints', { title: undefined, annotations: { title: 'Find', readOnlyHint: true } }, []],
    ['a missing description', { description: ' ' }, ['no-description']],
    ['missing hints', { annotations: { idempotentHint: true } }, ['no-hints']],
    ['a hint that says no', { annotations: { destructiveHint: false } }, []],
    ['hints that contradict', { annotations: { readOnlyHint: true, destructiveHint: true } }, ['hints-contradict']],
    ['a name of 64 characters', { name: 'a'.repeat(64) }, []],
    ['a name of 65 characters', { name: 'a'.repeat(65) }, ['name-too-long']],
    ['a name with a dot', { name: 'orders.find' }, ['name-characters']],
    ['a name that begins with a digit', { name: '2fa' }, ['name-characters']],
    ['anyOf at the top', schema({ type: 'object', anyOf: [{ required: ['a'] }] }), ['schema-root-union']],
    ['anyOf below', property({ anyOf: [{ type: 'string' }, { type: 'number' }] }), []],
    ['a cycle', property({ $ref: '#' }), ['schema-cycle']],
    [
      'a cycle over definitions',
      property(
        { $ref: '#/$defs/A' },
        { $defs: { A: { items: { $ref: '#/$defs/B' } }, B: { not: { $ref: '#/$defs/A' } } } },
      ),
      ['schema-cycle'],
    ],
    [
      'a definition that is used twice',
      property({ allOf: [{ $ref: '#/$defs/A' }, { $ref: '#/$defs/A' }] }, { $defs: { A: {} } }),
      ['schema-ref'],
    ],
    ['a reference to nothing', property({ $ref: '#/$defs/__proto__' }), ['schema-ref']],
    [
      'an array without items',
      property({ type: 'object', properties: { y: { type: ['array', 'null'] } } }),
      ['schema-array-items'],
    ],
    ['an array whose items may be anything', property({ type: 'array', items: {} }), []],
    ['a dialect', property({}, { $schema: 'https://json-schema.org/draft/2020-12/schema' }), ['schema-dialect']],
    ['a dialect of a result', result({}, { $schema: 'http://json-schema.org/draft-07/schema#' }), ['schema-dialect']],
    ['a result with a reference to nothing', result({ $ref: '#/$defs/Screen' }), ['schema-unreadable']],
    ['a result with an empty enum', result({ enum: [] }), ['schema-unreadable']],
    ['a result with a pattern that is none', result({ type: 'string', pattern: '[\\w-.]' }), ['schema-unreadable']],
    ['a result with items beside prefixItems', result({ prefixItems: [{}], items: false }), ['schema-unreadable']],
    ['a result with a tuple', result({ type: 'array', prefixItems: [{}], items: {}, maxItems: 1 }), []],
    ['a result with a reference', result({ $ref: '#' }), []],
    ['a name of an argument', schema({ type: 'object', properties: { 'filter[name]': {} } }), ['schema-property-name']],
    ['a format', property({ type: ['string', 'null'], format: 'uri' }), ['schema-format']],
    ['a common format', property({ type: 'string', format: 'date-time' }), []],
    ['a format of numbers', property({ type: 'integer', format: 'int64' }), []],
    ['a default that looks like a schema', property({ default: { properties: { 'a b': {} } } }), []],
    ['examples that look like schemas', property({ examples: [{ properties: { 'a b': {} } }] }), []],
  ])('the doctor finds %s', (_, tool, rules) => {
    expect(rulesOf(tool)).toEqual(rules);
  });

  it('the doctor finds a GET route that says it destroys something, whatever else it says', () => {
    expect(rulesOf({ annotations: { readOnlyHint: false, destructiveHint: true } }, true)).toEqual([
      'hints-contradict',
    ]);
    expect(rulesOf({ annotations: { readOnlyHint: false, destructiveHint: true } })).toEqual([]);
  });

  it('the doctor names a library of schemas that is outdated once, with its tools', () => {
    const tools = ['find', 'list', 'read'].map((name, at) => ({
      wire: { ...HEALTHY, name, description: `Does ${name} in a way of its own` },
      ...(at > 0 && { outdated: 'Zod 4.4.1' }),
    }));
    const [found, ...others] = diagnoseTools(tools).findings.filter(({ rule }) => rule === 'outdated-library');
    expect(found).toMatchObject({
      tool: undefined,
      severity: 'warning',
      problem: expect.stringMatching(/Zod 4\.4\.1 \(list, read\)/),
    });
    expect(others).toEqual([]);
  });

  it('the doctor examines a schema that is none, and one with very many odd names', () => {
    expect(rulesOf(schema({ type: 'object', properties: null }))).toEqual([]);
    expect(rulesOf(property({ type: 'object', properties: null }))).toEqual([]);
    // More than a function takes as arguments.
    const properties = Object.fromEntries(Array.from({ length: 130_000 }, (_, at) => [`é${at}`, {}]));
    expect(rulesOf(schema({ type: 'object', properties }))).toContain('schema-property-name');
  });

  it('the doctor finds what takes the context of models, and estimates the weight of each tool', () => {
    const heavy = { ...HEALTHY, name: 'heavy', description: 'word '.repeat(8_100) };
    const { findings, tokens, weights } = diagnoseTools([{ wire: HEALTHY }, { wire: heavy }]);
    expect(findings.map(({ rule, tool }) => [rule, tool])).toEqual([
      ['heavy-list', undefined],
      ['heavy-tool', 'heavy'],
    ]);
    expect(findings[0]!.problem).toMatch(/the most of them for heavy \(\d+\), find_order \(\d+\)$/);
    expect(weights.map(({ tool }) => tool)).toEqual(['heavy', 'find_order']);
    expect(weights[1]!.tokens).toBe(Math.ceil(JSON.stringify(HEALTHY).length / 4));
    expect(tokens).toBe(weights[0]!.tokens + weights[1]!.tokens);
    const many = Array.from({ length: 129 }, (_, at) => ({
      wire: { ...HEALTHY, name: `find_${at}`, description: `${at}` },
    }));
    expect(diagnoseTools(many).findings.map(({ rule }) => rule)).toContain('many-tools');
  });

  it('the doctor names the worst first, and each rule once', () => {
    const { findings } = diagnoseTools(
      ['a', 'b', 'c.d', 'e'].map((name) => ({ wire: { name, inputSchema: HEALTHY.inputSchema } })),
    );
    expect(findingLines(findings)).toEqual([
      expect.stringMatching(/^The tool c\.d has a name with characters .* \[name-characters\]$/),
      expect.stringMatching(/^The tool a has no description\. .* Also: b, c\.d, e\. \[no-description\]$/),
      expect.stringMatching(/\[no-hints\]$/),
      expect.stringMatching(/\[no-title\]$/),
    ]);
  });

  it('the doctor counts neither images nor the repetition of structured content as tokens of a result', () => {
    const structuredContent = { text: 'x'.repeat(400) };
    const text = JSON.stringify(structuredContent);
    const image = { type: 'image', data: 'A'.repeat(10_000), mimeType: 'image/png' };
    expect(tokensOfResult({ content: [{ type: 'text', text }, image], structuredContent })).toBe(
      Math.ceil(text.length / 4),
    );
    expect(tokensOfResult({ content: [{ type: 'resource', resource: { uri: 'a:b', text: 'abcd' } }] })).toBe(1);
    expect(tokensOfResult({})).toBe(0);
  });
});

describe('descriptions that are nearly the same', () => {
  const groups = (texts: Record<string, string>): string[][] =>
    similarTexts(Object.entries(texts).map(([name, description]) => ({ name, description })));

  it.each<[string, Record<string, string>, string[][]]>([
    ['equal ones', { search: 'Finds documents', other: 'Lists users', find: 'Finds documents.' }, [['search', 'find']]],
    [
      'some words more',
      {
        get_user: 'Gets the profile of a user by the id of the user',
        user_info: 'Gets the given profile of a user by the id of the user',
      },
      [['get_user', 'user_info']],
    ],
    [
      'another word among ten',
      { a: 'one two three four five six seven eight nine ten', b: 'one two three four five six seven eight nine more' },
      [['a', 'b']],
    ],
    [
      'none that differ in a word of a name',
      {
        list_orders: 'Lists all orders of the customer, newest first, in pages of twenty',
        listInvoices: 'Lists all invoices of the customer, newest first, in pages of twenty',
      },
      [],
    ],
    [
      'none that have little in common',
      { a: 'Finds an order by its id', b: 'Cancels an order, if it was not sent yet' },
      [],
    ],
    [
      'names of Object.prototype',
      { a: 'constructor __proto__ toString', b: 'constructor __proto__ toString' },
      [['a', 'b']],
    ],
    ['none without words', { a: '…', b: '…' }, []],
  ])('descriptions that are nearly the same are found: %s', (_, texts, expected) => {
    expect(groups(texts)).toEqual(expected);
  });

  it('descriptions that are nearly the same are found among many tools with long texts', () => {
    const words = Array.from({ length: 99 }, (_, at) => `w${at}x`).join(' ');
    const letters = (at: number): string => `n${at}`.replace(/\d/g, (digit) => 'abcdefghij'[Number(digit)]!);
    const of = (textOf: (at: number) => string): string[][] =>
      groups(Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`get_${letters(at)}`, textOf(at)])));
    // Each differs in a word of its name.
    expect(of((at) => `${letters(at)} ${words}`)).toEqual([]);
    expect(of((at) => `${letters(at)}x ${words}`).map(({ length }) => length)).toEqual([300]);
    expect(of(() => words).map(({ length }) => length)).toEqual([300]);
  });

  it('descriptions that are nearly the same are found in a chain, as one group', () => {
    const words = 'one two three four five six seven eight nine ten'.split(' ');
    const texts = { x: words.join(' '), y: [...words, 'more'].join(' '), z: [...words, 'more', 'yet'].join(' ') };
    expect(groups(texts)).toEqual([['x', 'y', 'z']]);
  });
});
