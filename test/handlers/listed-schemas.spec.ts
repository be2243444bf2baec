import { Body, Controller, Injectable, ParseArrayPipe, Post } from '@nestjs/common';
import { toStandardJsonSchema } from '@valibot/to-json-schema';
import { type } from 'arktype';
import { IsArray, IsDateString, IsInt, IsOptional, IsString, IsUrl, Matches } from 'class-validator';
import {
  McpArgs,
  McpCatalogue,
  type McpCatalogueTool,
  type McpContext,
  McpCtx,
  Prompt,
  Tool,
} from 'nestjs-mcp-streamable';
import { diagnose } from 'nestjs-mcp-streamable/testing';
import * as v from 'valibot';
import { beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ONE_ADAPTER, type TestApp } from '../support/app.js';
import { type Official, OFFICIAL_KINDS, textOf } from '../support/official-kinds.js';
import { testApps } from '../support/test-apps.js';

const Order = z.object({ id: z.string() }).meta({ id: 'Order', title: 'An order' });
const Node = z
  .object({
    name: z.string(),
    get parts() {
      return z.array(Node);
    },
  })
  .meta({ id: 'Node' });
const Pair = z.object({ pair: z.tuple([z.string(), z.number()]), row: z.tuple([z.string()]).rest(z.number()) });
const ID = { type: 'object', title: 'An order', properties: { id: { type: 'string' } }, required: ['id'] };

class OrderBody {
  static readonly schema = Order;
}
class Table {
  @IsArray() rows!: number[][];
}

/** Each of its values passes the rules, and not the format that stands for them in arguments. */
class Visit {
  @IsDateString() day!: string;
  @IsUrl() page!: string;
  @IsOptional() @IsInt() room?: number | null;
  /** Its pattern is one of JavaScript without the flag `u`. */
  @Matches(/^[\w-.]+$/) code!: string;
}
const VISIT = { day: '2026-01-31', page: 'example.com', room: null, code: 'a-1' };
const Code = z.object({ code: z.string().regex(/^[\w-.]+$/) });
class Line {
  @IsString() item!: string;
}

/** A tool that answers with its arguments, of each kind of schema. */
@Injectable()
class Tools {
  @Tool({ name: 'order', inputSchema: Order, outputSchema: Order })
  order(@McpArgs() order: z.infer<typeof Order>): z.infer<typeof Order> {
    return order;
  }
  @Tool({ name: 'node', inputSchema: Node })
  node(@McpArgs() node: object): object {
    return node;
  }
  @Tool({ name: 'pair', inputSchema: Pair, outputSchema: Pair })
  pair(@McpArgs() pair: z.infer<typeof Pair>): z.infer<typeof Pair> {
    return pair;
  }
  @Tool({ name: 'long_pair', outputSchema: Pair })
  longPair(): z.infer<typeof Pair> {
    return { pair: ['a', 1, 2] as never, row: ['a'] };
  }
  @Tool({ name: 'table', inputSchema: Table })
  table(@McpArgs() { rows }: Table): string {
    return `${rows.length} rows`;
  }
  @Tool({ name: 'visit', outputSchema: Visit })
  visit(@McpArgs() visit: Visit): Visit {
    return visit;
  }
  @Tool({ name: 'code', inputSchema: Code, outputSchema: Code })
  code(@McpArgs() code: z.infer<typeof Code>): z.infer<typeof Code> {
    return code;
  }
  @Tool({ name: 'arktype', inputSchema: type({ 'any?': 'unknown[]', 'none?': 'never' }) })
  arktype(@McpArgs() args: object): object {
    return args;
  }
  @Tool({
    name: 'valibot',
    inputSchema: toStandardJsonSchema(v.object({ none: v.optional(v.picklist([])), loose: v.tuple([v.string()]) })),
    outputSchema: toStandardJsonSchema(v.object({ none: v.optional(v.picklist([])) })),
  })
  valibot(): object {
    return {};
  }
  @Tool({
    name: 'written',
    inputSchema: {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      properties: { all: true, none: false, list: { type: 'array' }, end: { type: 'array', items: false } },
    },
    outputSchema: { $ref: '#/$defs/Any', $defs: { Any: { type: 'object', properties: { all: true } } } },
  })
  written(@McpArgs() args: object): object {
    return args;
  }
  @Tool({ name: 'ask' })
  async ask(@McpCtx() ctx: McpContext): Promise<string> {
    const count = z.int().min(1).meta({ id: 'Count' });
    const requestedSchema = z.object({ count }).meta({ id: 'Form' });
    const { content } = await ctx.elicit('form', { message: 'How many?', requestedSchema });
    return `${content?.count}`;
  }
  @Tool({ name: 'ask_written' })
  async askWritten(@McpCtx() ctx: McpContext): Promise<string> {
    const Form = { type: 'object', properties: { count: { type: 'integer' } }, required: ['count'] };
    const requestedSchema = { $ref: '#/$defs/Form', $defs: { Form } } as never;
    const { content } = await ctx.elicit('form', { message: 'How many?', requestedSchema });
    return JSON.stringify(content);
  }
  @Prompt({ name: 'order', inputSchema: Order })
  prompt(): string {
    return 'Order.';
  }
}

@Controller('orders')
class Routes {
  @Post()
  @Tool({ name: 'route' })
  route(@Body() order: OrderBody): object {
    return order;
  }
  @Post('lines')
  @Tool({ name: 'lines' })
  lines(@Body('lines', new ParseArrayPipe({ items: Line })) lines: Line[], @Body('tags') tags: string[]): object {
    return { items: lines.map((line) => line instanceof Line && line.item), tags };
  }
}

@McpCatalogue()
@Injectable()
class Plugins {
  list(): McpCatalogueTool[] {
    const outputSchema = { properties: { all: true } };
    return [{ name: 'plugin', inputSchema: { type: 'object', properties: { all: true } }, outputSchema }];
  }
  call(): string {
    return 'called';
  }
}

interface Listed {
  readonly name: string;
  readonly inputSchema: object;
  readonly outputSchema?: object;
}

describe.each(ONE_ADAPTER)('listed schemas on %s', (adapter) => {
  const start = testApps(adapter, {
    eras: 'both',
    shared: true,
    providers: [Tools, Plugins],
    module: { controllers: [Routes] },
  });

  it('D38: the doctor names what is listed as it was written', async () => {
    const { findings } = await diagnose((await start()).app);
    const rulesOf = (name: string): string[] =>
      findings.filter(({ rule, tool }) => tool === name && rule.startsWith('schema-')).map(({ rule }) => rule);
    expect(rulesOf('written')).toEqual(['schema-array-items', 'schema-dialect']);
    expect(rulesOf('order')).toEqual([]);
    expect(rulesOf('pair')).toEqual([]);
  });

  describe.each(OFFICIAL_KINDS)('for $name', ({ connect }) => {
    let app: TestApp;
    let client: Official;
    let tools: Record<string, Listed>;
    let forms: object[];

    beforeEach(async () => {
      app = await start();
      forms = [];
      const elicit = (params: object): object => {
        forms.push((params as { requestedSchema: object }).requestedSchema);
        return { action: 'accept', content: { count: 3 } };
      };
      client = await connect(app, {}, { elicit });
      const listed = (await client.client.listTools()).tools as unknown as Listed[];
      tools = Object.fromEntries(listed.map((tool) => [tool.name, tool]));
      return () => client.close();
    });

    it('D38: the default dialect is left out where a library has written it, and stays where the developer has', () => {
      const { inputSchema, outputSchema } = tools['order']!;
      expect(inputSchema).not.toHaveProperty('$schema');
      expect(outputSchema).not.toHaveProperty('$schema');
      expect(tools['written']!.inputSchema).toHaveProperty('$schema');
    });

    it('D38: what the root refers to stands at the root, in tools, prompts, routes and forms', async () => {
      expect(tools['order']!.inputSchema).toEqual(ID);
      expect(tools['order']!.outputSchema).toEqual({ ...ID, additionalProperties: false });
      expect(tools['route']!.inputSchema).toMatchObject({ properties: ID.properties, required: ID.required });
      const { prompts } = await client.client.listPrompts();
      expect(prompts).toMatchObject([{ name: 'order', arguments: [{ name: 'id', required: true }] }]);
      const node = {
        type: 'object',
        properties: { name: { type: 'string' }, parts: { type: 'array', items: { $ref: '#/$defs/Node' } } },
        required: ['name', 'parts'],
      };
      expect(tools['node']!.inputSchema).toEqual({ ...node, $defs: { Node: node } });
      expect(textOf(await client.call('ask'))).toBe('3');
      expect(textOf(await client.call('ask_written'))).toBe('{"count":3}');
      expect(forms[0]).toEqual({
        type: 'object',
        properties: { count: { type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER } },
        required: ['count'],
      });
      expect(forms[1]).toMatchObject({ type: 'object', properties: { count: { type: 'integer' } } });
    });

    it('D38: a schema in "properties" is an object, and an empty list of alternatives is written as a schema that nothing fits', () => {
      const { inputSchema, outputSchema } = tools['written']!;
      expect(inputSchema).toMatchObject({ properties: { all: {}, none: { not: {} } } });
      expect(outputSchema).toEqual({ type: 'object', properties: { all: {} } });
      for (const schema of [tools['plugin']!.inputSchema, tools['plugin']!.outputSchema])
        expect(schema).toEqual({ type: 'object', properties: { all: {} } });
      expect(tools['arktype']!.inputSchema).toMatchObject({ properties: { none: { not: {} } } });
      for (const schema of [tools['valibot']!.inputSchema, tools['valibot']!.outputSchema])
        expect(schema).toMatchObject({ properties: { none: { type: 'string', not: {} } } });
    });

    it('D38: a client accepts all results that the rules of a class let pass', async () => {
      const string = { type: 'string' };
      expect(tools['visit']!.outputSchema).toEqual({
        type: 'object',
        properties: {
          day: string,
          page: string,
          room: { anyOf: [{ type: 'integer' }, { type: 'null' }] },
          code: string,
        },
        required: ['day', 'page', 'code'],
      });
      expect(tools['visit']!.inputSchema).toMatchObject({
        properties: { day: { format: 'date-time' }, page: { format: 'uri' }, room: { type: 'integer' } },
      });
      expect((await client.call('visit', VISIT)).structuredContent).toEqual(VISIT);
    });

    it('D38: a pattern that is none of JSON Schema is not listed, and still checked', async () => {
      for (const schema of [tools['code']!.inputSchema, tools['code']!.outputSchema])
        expect(schema).toMatchObject({ properties: { code: { type: 'string' } } });
      expect(JSON.stringify([tools['code'], tools['visit']])).not.toContain('"pattern"');
      expect((await client.call('code', { code: 'a-1' })).structuredContent).toEqual({ code: 'a-1' });
      expect(await client.call('code', { code: 'a b' })).toMatchObject({ isError: true });
      expect(await client.call('visit', { ...VISIT, code: 'a b' })).toMatchObject({ isError: true });
    });

    it('D38: a list of a route has the schema of its items, as its pipe names it', async () => {
      const item = { type: 'object', properties: { item: { type: 'string' } }, required: ['item'] };
      expect(tools['lines']!.inputSchema).toMatchObject({
        properties: { lines: { type: 'array', items: item }, tags: { type: 'array', items: {} } },
      });
      const result = await client.call('lines', { lines: [{ item: 'lamp' }], tags: ['a'] });
      expect(result.structuredContent).toEqual({ items: ['lamp'], tags: ['a'] });
    });

    it('D38: a client of either draft accepts a result with a tuple, and the tool still cannot return a longer one', async () => {
      const pair = { pair: ['a', 1], row: ['a', 1, 2] };
      expect((await client.call('pair', pair)).structuredContent).toEqual(pair);
      expect(await client.call('long_pair')).toMatchObject({ isError: true });
      const [string, number] = [{ type: 'string' }, { type: 'number' }];
      const tuple = { type: 'array', prefixItems: [string, number], items: {}, minItems: 2, maxItems: 2 };
      const row = { type: 'array', prefixItems: [string], minItems: 1 };
      expect(tools['pair']!.inputSchema).toMatchObject({ properties: { pair: tuple, row: { ...row, items: number } } });
      expect(tools['pair']!.outputSchema).toMatchObject({ properties: { pair: tuple, row: { ...row, items: {} } } });
      expect(tools['written']!.inputSchema).toMatchObject({ properties: { end: { items: {}, maxItems: 0 } } });
    });

    it('D38: an array of a class or a library has "items", and one that was written goes as it was written', () => {
      expect(tools['table']!.inputSchema).toMatchObject({ properties: { rows: { type: 'array', items: {} } } });
      expect(tools['arktype']!.inputSchema).toMatchObject({ properties: { any: { type: 'array', items: {} } } });
      expect(tools['valibot']!.inputSchema).toMatchObject({ properties: { loose: { items: {} } } });
      expect(tools['written']!.inputSchema).toMatchObject({ properties: { list: { type: 'array' } } });
      expect(tools['written']!.inputSchema).not.toHaveProperty('properties.list.items');
    });
  });
});
