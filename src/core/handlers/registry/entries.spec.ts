import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import type {
  PromptOptions,
  ResourceOptions,
  ResourceTemplateOptions,
  ToolOptions,
} from '../decorators/handler-options.js';
import { McpHandlerDefinitionError } from '../handlers.errors.js';
import { SchemaCompiler } from '../schema/schema-compiler.js';
import { type EntrySource, promptEntry, resourceEntry, templateEntry, toolEntry } from './entries.js';

const source = (): EntrySource => ({
  origin: 'OrderTools.find (OrdersModule)',
  compiler: new SchemaCompiler(),
  failures: { errorDetails: false, denials: 'result' },
  runner: () => ({
    run: () => Promise.resolve('done'),
    visible: () => true,
    admits: () => Promise.resolve(true),
    assertAdmits: () => Promise.resolve(),
    permits: () => true,
    assertPermits: () => {},
    guarded: false,
  }),
});

const icons = [{ src: 'https://example.com/a.png', mimeType: 'image/png', sizes: ['48x48'] }];
const described = { title: 'Title', description: 'Description', icons, _meta: { 'a/b': 1 } };
const annotations = { audience: ['user' as const], priority: 0.5, lastModified: '2026-01-01T00:00:00Z' };

describe('the wire part of', () => {
  it('a tool has every field of the specification', () => {
    const options: ToolOptions = {
      name: 'find',
      ...described,
      annotations: {
        title: 'Hint',
        readOnlyHint: true,
        destructiveHint: false,
        idempotentHint: true,
        openWorldHint: false,
      },
      inputSchema: { type: 'object', properties: { id: { type: 'string' } } },
      outputSchema: { type: 'object', properties: { total: { type: 'number' } } },
    };
    expect(toolEntry(options, source()).wire).toEqual(options);
  });

  it('a resource has every field of the specification', () => {
    const options: ResourceOptions = {
      uri: 'a://b',
      name: 'b',
      ...described,
      mimeType: 'text/plain',
      size: 5,
      annotations,
    };
    expect(resourceEntry(options, source()).wire).toEqual(options);
  });

  it('a resource template has every field of the specification', () => {
    const options: ResourceTemplateOptions = {
      uriTemplate: 'a://{b}',
      name: 'b',
      ...described,
      mimeType: 'text/plain',
      annotations,
    };
    expect(templateEntry(options, source()).wire).toEqual(options);
  });

  it('a prompt has every field of the specification', () => {
    const options: PromptOptions = {
      name: 'ask',
      ...described,
      arguments: [{ name: 'x', title: 'X', description: 'An x', required: true }, { name: 'y' }],
    };
    expect(promptEntry(options, source()).wire).toEqual(options);
  });

  it('the wire part of an entry has no fields without a value', () => {
    const tool = { name: 'find', title: undefined, outputSchema: undefined };
    expect(Object.keys(toolEntry(tool, source()).wire)).toEqual(['name', 'inputSchema']);
    expect(toolEntry(tool, source()).wire.inputSchema).toEqual({ type: 'object', properties: {} });
    expect(Object.keys(resourceEntry({ uri: 'a://b', name: 'b' }, source()).wire)).toEqual(['uri', 'name']);
    expect(Object.keys(templateEntry({ uriTemplate: 'a://{b}', name: 'b' }, source()).wire)).toEqual([
      'uriTemplate',
      'name',
    ]);
    expect(Object.keys(promptEntry({ name: 'ask' }, source()).wire)).toEqual(['name']);
  });

  it('the wire part of an entry is frozen, and not the object of the app', () => {
    const _meta = { list: [1] };
    const { wire } = toolEntry({ name: 'find', _meta }, source());
    expect(Object.isFrozen(wire)).toBe(true);
    expect(Object.isFrozen((wire._meta as typeof _meta).list)).toBe(true);
    _meta.list.push(2);
    expect(wire._meta).toEqual({ list: [1] });
  });
});

describe('the arguments of a prompt', () => {
  it('the arguments of a prompt are the properties of its schema', () => {
    const inputSchema = z.object({
      code: z.string().describe('What to review').meta({ title: 'Code' }),
      language: z.string().optional(),
      depth: z.coerce.number().default(1),
    });
    expect(promptEntry({ name: 'review', inputSchema }, source()).wire.arguments).toEqual([
      { name: 'code', title: 'Code', description: 'What to review', required: true },
      { name: 'language', required: false },
      { name: 'depth', required: false },
    ]);
  });
});

describe('arguments in headers', () => {
  it('arguments in headers are known from whatever schema says them', () => {
    const zod = z.object({
      region: z.string().meta({ 'x-mcp-header': 'Region' }),
      limit: z.int().default(3).meta({ 'x-mcp-header': 'Limit' }),
      options: z.object({ dry: z.boolean().meta({ 'x-mcp-header': 'Dry' }).optional() }),
    });
    const { paramHeaders, wire } = toolEntry({ name: 'find', inputSchema: zod }, source());
    expect(paramHeaders).toEqual([
      { path: ['region'], headerName: 'Region', type: 'string' },
      { path: ['limit'], headerName: 'Limit', type: 'integer' },
      { path: ['options', 'dry'], headerName: 'Dry', type: 'boolean' },
    ]);
    expect(Object.isFrozen(paramHeaders)).toBe(true);
    expect(wire.inputSchema.properties!.region).toEqual({ type: 'string', 'x-mcp-header': 'Region' });
    const json = { type: 'object', properties: { region: { type: 'string', 'x-mcp-header': 'Region' } } };
    expect(toolEntry({ name: 'find', inputSchema: json }, source()).paramHeaders).toEqual([paramHeaders[0]]);
  });

  it('arguments in headers are one empty list for tools without', () => {
    const [one, two] = [
      toolEntry({ name: 'a' }, source()),
      toolEntry({ name: 'b', inputSchema: z.object({}) }, source()),
    ];
    expect(one.paramHeaders).toEqual([]);
    expect(two.paramHeaders).toBe(one.paramHeaders);
  });
});

describe('cache hints', () => {
  it('stand in the entry, not on the wire', () => {
    const entry = resourceEntry({ uri: 'a://b', name: 'b', cache: { ttlMs: 5_000 } }, source());
    expect(entry.cache).toEqual({ ttlMs: 5_000, scope: 'private' });
    expect(entry.wire).toEqual({ uri: 'a://b', name: 'b' });
    expect('cache' in resourceEntry({ uri: 'a://b', name: 'b' }, source())).toBe(false);
  });
});

describe('a definition that cannot be served', () => {
  const tool = (options: object) => () => toolEntry(options as ToolOptions, source());
  const resource = (options: object) => () => resourceEntry({ uri: 'a://b', name: 'b', ...options }, source());
  const template = (options: object) => () =>
    templateEntry({ uriTemplate: 'a://{b}', name: 'b', ...options }, source());
  const prompt = (options: object) => () => promptEntry({ name: 'ask', ...options }, source());

  it.each<[string, () => unknown, string]>([
    ['a tool without a name', tool({}), 'its "name" must be a non-empty string; got nothing.'],
    [
      'a tool with an empty name',
      tool({ name: ' ' }),
      'its "name" must be a non-empty string; got " ". Give it a name by which clients and models know it, such as "find_order".',
    ],
    ['a strange title', tool({ name: 'a', title: 5 }), 'it does not match the specification of a Tool: title: '],
    ['an icon without a source', tool({ name: 'a', icons: [{}] }), 'icons.0.src: '],
    ['a strange hint', tool({ name: 'a', annotations: { readOnlyHint: 'yes' } }), 'annotations.readOnlyHint: '],
    ['a schema of a text', tool({ name: 'a', inputSchema: z.string() }), 'its "inputSchema" cannot be used: '],
    ['a result schema of a date', tool({ name: 'a', outputSchema: z.date() }), 'its "outputSchema" cannot be used: '],
    [
      'a list of two result schemas',
      tool({ name: 'a', outputSchema: [z.string(), z.string()] }),
      'a schema is a Standard',
    ],
    [
      'a header of an array',
      tool({ name: 'a', inputSchema: z.object({ b: z.array(z.string().meta({ 'x-mcp-header': 'B' })) }) }),
      'its "inputSchema" cannot be used: "x-mcp-header" stands at "b.items"',
    ],
    [
      'a header of a named schema',
      tool({ name: 'a', inputSchema: z.object({ b: z.string().meta({ id: 'B', 'x-mcp-header': 'B' }) }) }),
      '"x-mcp-header" stands at "$defs/B"',
    ],
    [
      'a header of what may be null',
      tool({ name: 'a', inputSchema: z.object({ b: z.string().nullable().meta({ 'x-mcp-header': 'B' }) }) }),
      '"b" has an "x-mcp-header", so its "type" must be "string", "integer" or "boolean"; got ["string","null"].',
    ],
    ['a resource without a name', resource({ name: undefined }), 'its "name" must be a non-empty string'],
    ['a resource without a URI', resource({ uri: undefined }), 'its "uri" must be a non-empty string'],
    ['a relative URI', resource({ uri: 'terms.md' }), 'its "uri" is "terms.md", which is not an absolute URI'],
    ['a URI with variables', resource({ uri: 'a://{b}' }), 'which has variables. Use @ResourceTemplate().'],
    ['a strange size', resource({ size: '5' }), 'size: '],
    ['a negative lifetime', resource({ cache: { ttlMs: -1 } }), 'its "cache" must be { ttlMs, scope }'],
    ['a strange scope', resource({ cache: { ttlMs: 1, scope: 'shared' } }), 'its "cache" must be'],
    ['a template without variables', template({ uriTemplate: 'a://b' }), 'it has no variables; use @Resource()'],
    ['an unclosed template', template({ uriTemplate: 'a://{b' }), 'an expression is not closed by "}"'],
    ['a variable twice', template({ uriTemplate: 'a://{b}/{b}' }), 'the variable "b" occurs twice'],
    ['a variable called uri', template({ uriTemplate: 'a://{uri}' }), 'would hide the URI itself'],
    [
      'variables in one expression',
      template({ uriTemplate: 'a://{b,c}' }),
      'several variables in one expression, {b,c}',
    ],
    [
      'an expression that is not matched',
      template({ uriTemplate: 'a://{;b}' }),
      'the expression {;b} cannot be matched',
    ],
    ['a prefix', template({ uriTemplate: 'a://{b:3}' }), 'the expression {b:3} cannot be matched'],
    ['an empty expression', template({ uriTemplate: 'a://{}' }), 'the expression {} cannot be matched'],
    [
      'a date',
      tool({ name: 'a', inputSchema: z.object({ at: z.date() }) }),
      'JSON Schema. Clients send dates as texts: use z.iso.',
    ],
    [
      'a date in its result',
      tool({ name: 'a', outputSchema: z.object({ at: z.date() }) }),
      'use z.iso.datetime(), and return date.toISOString()',
    ],
    ['a bigint', tool({ name: 'a', inputSchema: z.object({ id: z.bigint() }) }), 'use z.int(), or z.string()'],
    ...[z.number().min(5), z.boolean(), z.array(z.string())].map((part): [string, () => unknown, string] => [
      `a ${part.type} in a prompt`,
      prompt({ name: 'a', inputSchema: z.object({ part }) }),
      'clients send the arguments of a prompt as texts, so that each call would fail. Convert them: z.coerce.number()',
    ]),
    ['a prompt without a name', prompt({ name: '' }), 'its "name" must be a non-empty string'],
    ['a prompt with both', prompt({ inputSchema: z.object({}), arguments: [] }), 'both "inputSchema" and "arguments"'],
    [
      'alternatives',
      prompt({ inputSchema: z.union([z.object({ a: z.string() }), z.object({ b: z.string() })]) }),
      'which cannot be listed as arguments of a prompt',
    ],
    ['a nameless argument', prompt({ arguments: [{ required: true }] }), 'arguments.0.name: '],
  ])('a definition that cannot be served with %s says why', (_what, define, reason) => {
    expect(define).toThrow(McpHandlerDefinitionError);
    expect(define).toThrow(`The MCP handler OrderTools.find (OrdersModule) cannot be served: `);
    expect(define).toThrow(reason);
  });

  it('a definition that cannot be served does not hit templates that can be matched', () => {
    for (const uriTemplate of ['a://{+path}', 'a://b{/c}{?d,e}', 'a://{b*}', 'a://{b}{&c,d}', 'a://x{.ext}']) {
      expect(template({ uriTemplate })).not.toThrow();
    }
  });
});
