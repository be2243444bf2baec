import { Controller, Get, Injectable } from '@nestjs/common';
import { ApiOkResponse } from '@nestjs/swagger';
import { Test } from '@nestjs/testing';
import { IsInt, IsOptional, ValidateNested } from 'class-validator';
import { Type } from 'class-transformer';
import {
  getMcpToken,
  McpArgs,
  type McpCallEnd,
  McpCatalogue,
  type McpCatalogueTool,
  McpSessionService,
  McpStreamableModule,
  McpToolCaller,
  Tool,
} from 'nestjs-mcp-streamable';
import { McpClient, McpClientModule } from 'nestjs-mcp-streamable/client';
import { McpTasksModule } from 'nestjs-mcp-streamable/tasks';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { serverInfo, TestApp } from '../support/app.js';
import { ModernClient } from '../support/modern-client.js';
import { OFFICIAL_KINDS } from '../support/official-kinds.js';
import { eventually } from '../support/test-apps.js';
import { as, trustingGuard } from '../support/users.js';
import { loneFetch } from '../support/ways.js';
import { type Era, ERAS } from './callers.js';

const TASKS = 'io.modelcontextprotocol/tasks';
const Key = z.object({ key: z.string() });
const Chosen = z.object({ value: z.json() });
const Order = z.object({ id: z.int() });

class NodeDto {
  @IsInt()
  id!: number;
  @IsOptional()
  @ValidateNested()
  @Type(() => NodeDto)
  inner?: NodeDto;
}

@Injectable()
class Values {
  runs = 0;

  @Tool({ name: 'list', outputSchema: z.array(z.int()), inputSchema: Chosen })
  list(@McpArgs('value') value: never): number[] {
    return value;
  }
  @Tool({ name: 'text', outputSchema: z.string() })
  text(): string {
    return 'a "text"';
  }
  @Tool({ name: 'number', outputSchema: z.number() })
  number(): number {
    return 0;
  }
  @Tool({ name: 'nothing', outputSchema: z.null() })
  nothing(): null {
    return null;
  }
  @Tool({ name: 'maybe', outputSchema: Order.nullable(), inputSchema: Chosen })
  maybe(@McpArgs('value') value: never): z.infer<typeof Order> | null {
    return value;
  }
  @Tool({ name: 'written', outputSchema: { enum: ['open', 'closed'] } })
  written(): string {
    return 'open';
  }
  @Tool({ name: 'nodes', outputSchema: [NodeDto] })
  nodes(): NodeDto[] {
    return [{ id: 1, inner: { id: 2 } }];
  }
  @Tool({ name: 'union', outputSchema: z.union([Order, z.object({ name: z.string() })]) })
  union(): z.infer<typeof Order> {
    return { id: 1 };
  }
  @Tool({ name: 'silent', outputSchema: z.array(z.int()), textMirror: false })
  silent(): number[] {
    return [1];
  }
  @Tool({ name: 'whole' })
  whole(): object {
    return { content: [{ type: 'text', text: 'two' }], structuredContent: [1, 2] };
  }
  @Tool({ name: 'once', outputSchema: z.array(z.int()), inputSchema: Key, idempotency: { argument: 'key' } })
  once(): number[] {
    return [++this.runs];
  }
  @Tool({
    name: 'later',
    outputSchema: z.array(z.int()),
    inputSchema: Key,
    idempotency: { argument: 'key' },
    task: 'optional',
  })
  later(): number[] {
    return [++this.runs];
  }
}

@McpCatalogue()
@Injectable()
class Plugins {
  list(): McpCatalogueTool[] {
    return [{ name: 'plugin', outputSchema: { type: 'array', items: { type: 'string' } } }];
  }
  call(): string[] {
    return ['plugged'];
  }
}

@Controller('orders')
class Orders {
  @Get()
  @ApiOkResponse({ type: [NodeDto] })
  @Tool({ name: 'route', outputSchema: 'route' })
  all(): NodeDto[] {
    return [{ id: 1 }];
  }
}

const INTS = { type: 'array', items: { type: 'integer' } };
const wrapped = (result: unknown): object => ({ type: 'object', properties: { result }, required: ['result'] });

describe('D18: structured content of any type', () => {
  let app: TestApp;
  beforeAll(async () => {
    app = await TestApp.of('fastify', {
      imports: [McpStreamableModule.forRoot({ serverInfo, guards: [trustingGuard] }), McpTasksModule.forRoot()],
      providers: [Values, Plugins],
      controllers: [Orders],
    });
  });
  afterEach(() => app.expectNothingLeft());
  afterAll(() => app.stop());

  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
  const ask = async (era: Era, method: string, params: Record<string, unknown> = {}): Promise<any> => {
    if (era === 'modern') return (await new ModernClient(app.url, as('ann')).ask(method, params)).result;
    const client = await app.client(as('ann')).initialize();
    const { result } = await (await client.post({ jsonrpc: '2.0', id: 7, method, params })).json();
    await client.delete();
    return result;
  };
  const call = (era: Era, name: string, args: object = {}) => ask(era, 'tools/call', { name, arguments: args });
  const schemaOf = async (era: Era, wanted: string) => {
    const { tools } = await ask(era, 'tools/list');
    return tools.find(({ name }: { name: string }) => name === wanted).outputSchema;
  };

  it.each<[what: string, tool: string, args: object, value: unknown]>([
    ['a list', 'list', { value: [1, 2] }, [1, 2]],
    ['an empty list', 'list', { value: [] }, []],
    ['a text', 'text', {}, 'a "text"'],
    ['a number', 'number', {}, 0],
    ['always null', 'nothing', {}, null],
    ['null in place of an object', 'maybe', { value: null }, null],
    ['an object that may be null', 'maybe', { value: { id: 1 } }, { id: 1 }],
    ['a word of a JSON Schema', 'written', {}, 'open'],
    ['a list of a class', 'nodes', {}, [{ id: 1, inner: { id: 2 } }]],
    ['that of a catalogue', 'plugin', {}, ['plugged']],
    ['the list of a route', 'route', {}, [{ id: 1 }]],
  ])('structured content, %s, is the value, and "result" for a client of 2025', async (_, tool, args, value) => {
    const content = [{ type: 'text', text: JSON.stringify(value) }];
    expect(await call('modern', tool, args)).toMatchObject({ content, structuredContent: value });
    expect(await call('legacy', tool, args)).toEqual({ content, structuredContent: { result: value } });
  });

  it.each<[tool: string, schema: object]>([
    ['list', INTS],
    ['text', { type: 'string' }],
    ['maybe', { anyOf: [{ type: 'object' }, { type: 'null' }] }],
    ['written', { enum: ['open', 'closed'] }],
    ['plugin', { type: 'array', items: { type: 'string' } }],
    ['route', { type: 'array', items: { type: 'object', properties: { id: { type: 'integer' } } } }],
  ])(
    'structured content of the tool "%s" has its schema in the list, and for a client of 2025 that of "result"',
    async (tool, schema) => {
      expect(await schemaOf('modern', tool)).toMatchObject(schema);
      expect(await schemaOf('legacy', tool)).toMatchObject(wrapped(schema));
    },
  );

  it('structured content has references that lead to the same place in both forms of its schema', async () => {
    const items = (at: string) => ({
      properties: { inner: { anyOf: [{ $ref: `${at}/$defs/NodeDto` }, { type: 'null' }] } },
      $defs: { NodeDto: {} },
    });
    expect(await schemaOf('modern', 'nodes')).toMatchObject({ type: 'array', items: items('#/items') });
    const legacy = { type: 'array', items: items('#/properties/result/items') };
    expect(await schemaOf('legacy', 'nodes')).toMatchObject(wrapped(legacy));
  });

  it('structured content is not wrapped where alternatives are objects', async () => {
    for (const era of ERAS) {
      expect(await schemaOf(era, 'union')).toMatchObject({ type: 'object', anyOf: [{}, {}] });
      expect((await call(era, 'union')).structuredContent).toEqual({ id: 1 });
    }
  });

  it('structured content needs no schema in a result of the protocol, whose text stays', async () => {
    const content = [{ type: 'text', text: 'two' }];
    expect(await call('modern', 'whole')).toMatchObject({ content, structuredContent: [1, 2] });
    expect(await call('legacy', 'whole')).toEqual({ content, structuredContent: { result: [1, 2] } });
  });

  it('structured content has no text where the tool wants none', async () => {
    expect(await call('modern', 'silent')).toMatchObject({ content: [], structuredContent: [1] });
    expect(await call('legacy', 'silent')).toEqual({ content: [], structuredContent: { result: [1] } });
  });

  it.each(ERAS)('structured content that does not fit its schema is a failure, in the %s era', async (era) => {
    for (const value of [['a'], { id: 1 }, null, 'a'])
      expect(await call(era, 'list', { value })).toMatchObject({ isError: true });
    expect(await call(era, 'maybe', { value: [] })).toMatchObject({ isError: true });
  });

  it('structured content of a repeat has the form of its era, whichever era has run the tool', async () => {
    const forms = { modern: (value: unknown) => value, legacy: (result: unknown) => ({ result }) };
    for (const [first, other] of [['legacy', 'modern'] as const, ['modern', 'legacy'] as const]) {
      const { structuredContent } = await call(first, 'once', { key: first });
      const value = [app.nodes[0]!.app.get(Values).runs];
      expect(structuredContent).toEqual(forms[first](value));
      for (const era of [other, first])
        expect((await call(era, 'once', { key: first })).structuredContent).toEqual(forms[era](value));
    }
  });

  it('structured content of a task is the value, and a repeat by a client of 2025 has it as "result"', async () => {
    const client = new ModernClient(app.url, as('ann'));
    const capabilities = { extensions: { [TASKS]: {} } };
    const params = { name: 'later', arguments: { key: 'task' } };
    const { taskId } = (await client.ask('tools/call', params, { capabilities })).result;
    const about = { capabilities, headers: { 'mcp-name': taskId } };
    const value = [app.nodes[0]!.app.get(Values).runs];
    const task = async () => (await client.ask('tasks/get', { taskId }, about)).result;
    await eventually(async () => expect(await task()).toMatchObject({ status: 'completed' }));
    expect((await task()).result.structuredContent).toEqual(value);
    expect((await call('legacy', 'later', { key: 'task' })).structuredContent).toEqual({ result: value });
    await client.ask('tasks/cancel', { taskId }, about);
  });

  it('structured content is the value for the app: observers of calls, and its own calls', async () => {
    const ends: McpCallEnd[] = [];
    const { app: nest } = app.nodes[0]!;
    const seen = nest.get(McpSessionService, { strict: false }).calls$.subscribe((end) => ends.push(end));
    for (const era of ERAS) await call(era, 'text');
    seen.unsubscribe();
    const results = ends.filter(({ call: { method } }) => method === 'tools/call').map(({ result }) => result);
    expect(results).toMatchObject([{ structuredContent: 'a "text"' }, { structuredContent: 'a "text"' }]);
    const caller = nest.get(McpToolCaller, { strict: false });
    expect((await caller.callTool('text')).structuredContent).toBe('a "text"');
    const listed = (await caller.listTools()).find(({ name }) => name === 'list');
    expect(listed?.outputSchema).toMatchObject(INTS);
  });

  it.each(OFFICIAL_KINDS)('structured content fits the listed schema for $name', async ({ era, connect }) => {
    const official = await connect(app, as('ann'));
    await official.client.listTools();
    const sent = (value: unknown): unknown => (era === 'modern' ? value : { result: value });
    for (const [tool, value] of [['text', 'a "text"'] as const, ['nodes', [{ id: 1, inner: { id: 2 } }]] as const])
      expect((await official.call(tool)).structuredContent).toEqual(sent(value));
    await official.close();
  });

  it.each(ERAS)('structured content is read by our client, in the %s era', async (era) => {
    const mode = era === 'modern' ? { pin: '2026-07-28' } : era;
    const values = { url: app.url, fetch: loneFetch, client: { versionNegotiation: { mode } } };
    const module = await Test.createTestingModule({
      imports: [McpClientModule.forRoot({ clients: { values } })],
    }).compile();
    const client = module.get<McpClient>(getMcpToken(McpClient, 'values'));
    await (await client.client()).listTools();
    const value = [{ id: 1, inner: { id: 2 } }];
    const { structuredContent } = await client.callTool('nodes');
    expect(structuredContent).toEqual(era === 'modern' ? value : { result: value });
    await module.close();
  });
});
