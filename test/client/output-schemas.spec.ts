import { Test, type TestingModule } from '@nestjs/testing';
import type { Tool } from '@modelcontextprotocol/client';
import {
  getMcpToken,
  McpClient,
  McpClientModule,
  type McpClientOptions,
  McpOutputSchemaError,
} from 'nestjs-mcp-streamable/client';
import { lastValueFrom } from 'rxjs';
import { afterEach, describe, expect, it } from 'vitest';
import { result } from '../support/fake-mcp-server.js';
import { loneFetch } from '../support/ways.js';
import { fakes } from './transports.js';

type Schema = Record<string, unknown>;

const many = <T>(count: number, item: (at: number) => T): T[] => Array.from({ length: count }, (_, at) => item(at));
const nested = (levels: number, leaf: Schema, wrap: (inner: Schema) => Schema): Schema =>
  many(levels, () => wrap).reduce((inner, each) => each(inner), leaf);
const text = (pattern: string): Schema => ({ properties: { text: { type: 'string', pattern } } });

/** A tree of conditions, in three alternatives that differ by what comes last. */
const TREE: Schema = {
  properties: { filter: { $ref: '#/$defs/node' } },
  $defs: {
    node: {
      anyOf: ['and', 'or', 'not'].map((op) => ({
        type: 'object',
        properties: { items: { type: 'array', items: { $ref: '#/$defs/node' } }, op: { const: op } },
        required: ['op'],
      })),
    },
  },
};

describe('the check of results by output schemas', () => {
  const { server } = fakes();
  let module: TestingModule;
  afterEach(() => module.close());

  /** A client of a server with tools of these output schemas, which all answer the same; it has listed them. */
  async function clientOf(
    schemas: Readonly<Record<string, Schema>>,
    structuredContent: unknown,
    options: Partial<McpClientOptions> = {},
  ): Promise<McpClient> {
    const tools = Object.entries(schemas).map(([name, schema]): Tool => ({
      name,
      inputSchema: { type: 'object' },
      outputSchema: { type: 'object', ...schema },
    }));
    const fake = (await server()).begins().on({ rpc: 'tools/list' }, result({ tools }));
    fake.on({ rpc: 'tools/call' }, result({ content: [], structuredContent }), Infinity);
    const orders = { url: fake.url, fetch: loneFetch, terminateOnClose: false, ...options };
    module = await Test.createTestingModule({ imports: [McpClientModule.forRoot({ clients: { orders } })] }).compile();
    const client = module.get<McpClient>(getMcpToken(McpClient, 'orders'));
    expect((await (await client.client()).listTools()).tools.map(({ name }) => name)).toEqual(Object.keys(schemas));
    return client;
  }

  it.each<[what: string, schema: Schema, value: unknown, reason: string]>([
    [
      'many alternatives that refer to themselves',
      TREE,
      { filter: nested(40, { op: 'x' }, (inner) => ({ items: [inner], op: 'x' })) },
      'more than 30000 steps, and 30 for each value',
    ],
    ['a regular expression that never ends', text('^(a+)+$'), { text: `${'a'.repeat(60)}!` }, 'more than 1000 ms'],
    ['a regular expression that is none', text('('), { text: 'a' }, 'Invalid regular expression'],
    ['a reference to nothing', { $ref: '#/nothing' }, {}, "can't resolve reference #/nothing"],
    ['a dialect of its own', { $schema: 'https://example.com/mine' }, {}, 'https://example.com/mine'],
    [
      'more values than are compiled',
      { properties: Object.fromEntries(many(6_000, (at) => [`p${at}`, { type: 'string' }])) },
      {},
      'the schema has more than 10000 values',
    ],
    [
      'references to one large schema, which would be copied',
      {
        $defs: { large: { properties: Object.fromEntries(many(2_000, (at) => [`p${at}`, { type: 'string' }])) } },
        allOf: many(2_000, () => ({ $ref: '#/$defs/large' })),
      },
      {},
      'more than 1000 ms',
    ],
    [
      'many schemas for each of many values',
      { properties: { list: { allOf: many(2_000, (at) => ({ items: { maximum: at + 10 } })) } } },
      { list: many(50_000, () => 1) },
      'more than 1000 ms',
    ],
  ])('C15 D37: the client gives up a schema with %s, and names the tool', async (_, schema, value, reason) => {
    const client = await clientOf({ hostile: schema, plain: {} }, value);
    const error = await client.callTool('hostile').catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(McpOutputSchemaError);
    expect(error).toMatchObject({ tool: 'hostile', message: expect.stringContaining('The tool "hostile" has run') });
    expect((error as Error).message).toContain(reason);
    await expect(lastValueFrom(client.callTool$('plain'))).resolves.toMatchObject({ type: 'result' });
  });

  it('C15: a result is checked by the schema of its own tool, whatever "$id" others have', async () => {
    const $id = 'https://example.com/schema';
    const schemas = { first: { $id, required: ['a'] }, second: { $id, required: ['b'] } };
    const client = await clientOf(schemas, { a: 1 });
    await expect(client.callTool('first')).resolves.toMatchObject({ structuredContent: { a: 1 } });
    await expect(client.callTool('second')).rejects.toThrow("must have required property 'b'");
  });

  it('C15: an app checks results by a validator of its own', async () => {
    const getValidator = () => () => ({ valid: false as const, data: undefined, errorMessage: 'never' });
    const client = await clientOf({ tool: {} }, {}, { client: { jsonSchemaValidator: { getValidator } } });
    await expect(client.callTool('tool')).rejects.toThrow('never');
  });
});
