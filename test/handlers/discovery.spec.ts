import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { ValidationPipe, type ModuleMetadata } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { JSON_SCHEMA_2020_12 } from '../conformance/everything.data.js';
import { ONE_ADAPTER, TestApp, serverInfo } from '../support/app.js';
import { OrdersController, OrderTools, Prompts } from './offered.js';
import { loneFetch } from '../support/ways.js';

const module = (): ModuleMetadata => ({
  imports: [McpStreamableModule.forRoot({ serverInfo })],
  controllers: [OrdersController],
  providers: [OrderTools, Prompts],
});

describe.each(ONE_ADAPTER)('decorated handlers on %s', (adapter) => {
  let app: TestApp;
  let client: Client;
  beforeEach(async () => {
    app = await TestApp.of(adapter, module());
    client = new Client({ name: 'test', version: '1.0.0' });
    await client.connect(new StreamableHTTPClientTransport(new URL(app.url), { fetch: loneFetch }));
  });
  afterEach(async () => {
    await client.close();
    await app.close();
  });

  const call = async (name: string, args: Record<string, unknown> = {}) => {
    const { content, isError } = await client.callTool({ name, arguments: args });
    return { text: (content as { text: string }[])[0]?.text, isError: isError ?? false };
  };

  it('decorated handlers are listed in the order of the sources, as they were declared', async () => {
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual([
      'zod',
      'arktype',
      'valibot',
      'dto',
      'json_schema_2020_12_tool',
      'structured',
      'ping-me',
    ]);
    const id = { type: 'string', description: 'The number on the invoice' };
    expect(tools[0]).toEqual({
      name: 'zod',
      title: 'Find',
      description: 'Finds an order',
      inputSchema: {
        type: 'object',
        properties: { id, lines: { type: 'number', default: 1 } },
        required: ['id'],
      },
    });
    for (const tool of tools.slice(1, 4)) {
      expect(tool.inputSchema).toMatchObject({
        type: 'object',
        properties: { id: { type: 'string' } },
        required: ['id'],
      });
    }
    const { resources } = await client.listResources();
    expect(resources).toEqual([{ uri: 'orders://all', name: 'all', mimeType: 'application/json', size: 2 }]);
    const { resourceTemplates } = await client.listResourceTemplates();
    expect(resourceTemplates).toEqual([{ uriTemplate: 'orders://{id}/lines{?page}', name: 'lines' }]);
    const { prompts } = await client.listPrompts();
    expect(prompts).toEqual([
      {
        name: 'review',
        arguments: [
          { name: 'code', description: 'What', required: true },
          { name: 'depth', required: false },
        ],
      },
      { name: 'plain', arguments: [{ name: 'code', description: 'What', required: true }] },
    ]);
  });

  it('decorated handlers send a JSON Schema as it was given', async () => {
    const raw = await app.client().initialize();
    const response = await raw.post({ jsonrpc: '2.0', id: 9, method: 'tools/list' });
    const tools = (await response.json()).result.tools as { name: string; inputSchema: object }[];
    const { inputSchema } = tools.find(({ name }) => name === 'json_schema_2020_12_tool')!;
    expect(JSON.stringify(inputSchema)).toBe(JSON.stringify(JSON_SCHEMA_2020_12));
    await raw.delete();
  });

  it('decorated handlers get the arguments as their schema transforms them', async () => {
    expect(await call('zod', { id: 'a' })).toEqual({ text: '{"id":"a","lines":1}', isError: false });
    expect(await call('arktype', { id: 'a', lines: 2 })).toEqual({ text: '{"id":"a","lines":2}', isError: false });
    expect(await call('valibot', { id: 'a' })).toEqual({ text: '{"id":"a","lines":1}', isError: false });
    const dto = await call('dto', { id: 'a', address: { street: 'x' } });
    expect(dto).toEqual({ text: 'OrderDto {"id":"a","address":{"street":"x"}}', isError: false });
    const json = await call('json_schema_2020_12_tool', { name: 'n', email: 'e' });
    expect(json).toEqual({ text: 'n tools/call', isError: false });
    expect(await call('ping-me')).toEqual({ text: 'pong from OrdersController', isError: false });
  });

  it.each(['zod', 'arktype', 'valibot', 'dto'])(
    'decorated handlers give the model the reason when arguments are wrong (%s)',
    async (tool) => {
      const { text, isError } = await call(tool, { id: 5 });
      expect(isError).toBe(true);
      expect(text).toMatch(/^The arguments are not valid: id\b/);
    },
  );

  it('decorated handlers give the model the reason when arguments are wrong (JSON Schema)', async () => {
    const { text, isError } = await call('json_schema_2020_12_tool', { contactMethod: 'phone', email: 'e', x: 1 });
    expect(isError).toBe(true);
    expect(text).toContain("must have required property 'phone'");
    expect(text).toContain('must NOT have additional properties');
  });

  it('decorated handlers send structured content that fits its schema', async () => {
    const { structuredContent, content } = await client.callTool({ name: 'structured', arguments: {} });
    expect(structuredContent).toEqual({ total: 3 });
    expect(content).toEqual([{ type: 'text', text: '{"total":3}' }]);
  });

  it('decorated handlers serve resources and prompts', async () => {
    const { contents } = await client.readResource({ uri: 'orders://all' });
    expect(contents).toEqual([{ uri: 'orders://all', mimeType: 'application/json', text: '[]' }]);
    const lines = await client.readResource({ uri: 'orders://7/lines?page=2' });
    expect(lines.contents).toMatchObject([{ uri: 'orders://7/lines?page=2', text: '{"id":"7","page":"2"}' }]);
    await expect(client.readResource({ uri: 'orders://none' })).rejects.toMatchObject({ code: -32602 });
    const review = await client.getPrompt({ name: 'review', arguments: { code: 'x' } });
    expect(review.messages).toEqual([{ role: 'user', content: { type: 'text', text: 'Review x' } }]);
    const plain = await client.getPrompt({ name: 'plain', arguments: { code: 'x' } });
    expect(plain.messages).toMatchObject([{ content: { text: 'prompts/get x' } }]);
    await expect(client.getPrompt({ name: 'plain', arguments: {} })).rejects.toMatchObject({ code: -32602 });
    await expect(client.getPrompt({ name: 'review', arguments: {} })).rejects.toThrow(/code/);
  });

  it('decorated handlers complete arguments', async () => {
    const { completion } = await client.complete({
      ref: { type: 'ref/prompt', name: 'review' },
      argument: { name: 'depth', value: 'd' },
      context: { arguments: { code: 'c' } },
    });
    expect(completion).toMatchObject({ total: 150, hasMore: true });
    expect(completion.values).toHaveLength(100);
    expect(completion.values[0]).toBe('d-c-completion/complete-0');
    const ref = { type: 'ref/resource' as const, uri: 'orders://{id}/lines{?page}' };
    expect((await client.complete({ ref, argument: { name: 'id', value: '4' } })).completion).toEqual({
      values: ['41', '42'],
      total: 7,
      hasMore: true,
    });
    const none = await client.complete({ ref, argument: { name: 'page', value: '' } });
    expect(none.completion).toEqual({ values: [], total: 0, hasMore: false });
  });

  it('decorated handlers do not change the routes of the app', async () => {
    expect(await (await fetch(`${app.base}/orders`)).text()).toBe('[]');
  });
});

it.each(ONE_ADAPTER)('a ValidationPipe of the app validates the arguments of handlers on %s', async (adapter) => {
  const app = await TestApp.of(adapter, module(), (nest) => {
    nest.useGlobalPipes(new ValidationPipe({ whitelist: true, transform: true, forbidNonWhitelisted: false }));
  });
  const client = await app.client().initialize();
  const call = async (name: string, args: object) => (await (await client.call(name, args)).json()).result;
  expect(await call('dto', { id: 'a', strange: 1 })).toMatchObject({ content: [{ text: 'OrderDto {"id":"a"}' }] });
  expect(await call('dto', { id: 'a', lines: 0 })).toMatchObject({ isError: true });
  expect(await call('zod', { id: 'a' })).toMatchObject({ content: [{ text: '{"id":"a","lines":1}' }] });
  const completion = await client.post({
    jsonrpc: '2.0',
    id: 77,
    method: 'completion/complete',
    params: { ref: { type: 'ref/prompt', name: 'review' }, argument: { name: 'depth', value: '5' } },
  });
  expect((await completion.json()).result.completion.values[0]).toBe('5-undefined-completion/complete-0');
  await client.delete();
  await app.close();
});
