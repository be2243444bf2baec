import { type Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Module } from '@nestjs/common';
import { afterEach, describe, expect, it } from 'vitest';
import { AppModule as EndpointsApp } from '../../examples/snippets/endpoint-handlers.js';
import { AppModule as HandlersApp, globally } from '../../examples/snippets/handlers-app.js';
import { AppModule as MigratedApp } from '../../examples/snippets/migrated-app.js';
import { BackOffice } from '../../examples/snippets/order-guards.js';
import { AppModule as EnvelopedApp } from '../../examples/snippets/envelope.interceptor.js';
import { Orders } from '../../examples/snippets/orders.service.js';
import { Plugins } from '../../examples/snippets/plugins.service.js';
import { AppModule as ExtensionApp } from '../../examples/snippets/search-app.js';
import { client as shelf, search } from '../../examples/snippets/search-client.js';
import { ONE_ADAPTER } from '../support/adapters.js';
import { call, closeOpened, connect, start, urlOf } from './snippet-apps.js';

@Module({ imports: globally.imports, providers: [...globally.providers, BackOffice, Orders] })
class GloballyGuardedApp {}

afterEach(closeOpened);

async function tools(client: Client): Promise<string[]> {
  return (await client.listTools()).tools.map(({ name }) => name);
}

describe.each(ONE_ADAPTER)('the code of the guide to handlers, on %s', (adapter) => {
  const asCaller = async (headers: Record<string, string> = {}): Promise<Client> =>
    connect(await urlOf(await start(HandlersApp, adapter)), headers);

  it('kinds', async () => {
    const client = await asCaller();
    expect(await call(client, 'show_order', { id: '7' })).toBe('{"id":"7","item":"lamp","owner":"ann"}');
    expect((await client.readResource({ uri: 'orders://terms' })).contents).toMatchObject([
      { mimeType: 'text/markdown' },
    ]);
    const [order] = (await client.readResource({ uri: 'orders://order/8' })).contents as { text: string }[];
    expect(JSON.parse(order!.text)).toMatchObject({ item: 'chair' });
    const { messages } = await client.getPrompt({ name: 'complain', arguments: { id: '7' } });
    expect(messages[0]).toMatchObject({ role: 'user', content: { text: expect.stringContaining('lamp') } });
    const completed = await client.complete({
      ref: { type: 'ref/prompt', name: 'complain' },
      argument: { name: 'id', value: '8' },
    });
    expect(completed.completion.values).toEqual(['8']);
  });

  it('parameters', async () => {
    const client = await asCaller({ 'x-user': 'ann' });
    expect(await call(client, 'list_mine', { limit: '5' })).toBe('At most 5 orders of ann');
    expect(await call(client, 'who_am_i')).toBe('You use snippets.');
  });

  it('arguments in headers', async () => {
    const client = await asCaller();
    expect(await call(client, 'order_in_region', { item: 'lamp', region: 'eu' })).toBe('1 × lamp in eu');
    const { tools } = await client.listTools();
    const { inputSchema } = tools.find(({ name }) => name === 'order_in_region')!;
    expect(inputSchema.properties!.region).toEqual({ type: 'string', 'x-mcp-header': 'Region' });
  });

  it('results', async () => {
    const client = await asCaller();
    const steps: number[] = [];
    const onprogress = ({ progress }: { progress: number }): unknown => steps.push(progress);
    const { content } = await client.callTool({ name: 'export_orders', arguments: {} }, { onprogress });
    expect(content).toEqual([{ type: 'text', text: 'https://example.com/orders.csv' }]);
    expect(steps).toEqual([50]);
    expect(await call(client, 'check_orders')).toBe('All orders are fine.');
    expect((await client.callTool({ name: 'total', arguments: {} })).structuredContent).toEqual({
      count: 2,
      currency: 'EUR',
    });
  });

  it.each(['zod', 'arktype', 'valibot', 'json', 'dto'])('a schema of %s', async (library) => {
    const client = await asCaller();
    expect(await call(client, `order_${library}`, { item: 'lamp', count: 2 })).toBe('2 × lamp');
    expect(await call(client, `order_${library}`, { item: 'lamp' })).toBe('1 × lamp');
    expect(await call(client, `order_${library}`, { item: 3 })).toContain('The arguments are not valid');
  });

  it('guards', async () => {
    const app = await start(HandlersApp, adapter);
    const url = await urlOf(app);
    const visitor = await connect(url, { 'x-user': 'ann' });
    const member = await connect(url, { 'x-user': 'ann', 'x-role': 'staff' });
    expect(await tools(visitor)).not.toContain('refund_order');
    expect(await tools(visitor)).toContain('cancel_order');
    expect(await tools(member)).toContain('refund_order');
    await expect(call(visitor, 'refund_order', { id: '7' })).rejects.toThrow('Tool "refund_order" not found');
    expect(await call(member, 'refund_order', { id: '7' })).toBe('Order 7 is paid back.');
    expect(await call(visitor, 'cancel_order', { id: '7' })).toBe('Order 7 is cancelled.');
    expect(await call(visitor, 'cancel_order', { id: '8' })).toBe('Forbidden resource');
  });

  it('an envelope for routes that leaves handlers alone', async () => {
    const client = await connect(await urlOf(await start(EnvelopedApp, adapter)));
    const { structuredContent } = await client.callTool({ name: 'total', arguments: {} });
    expect(structuredContent).toEqual({ count: 2, currency: 'EUR' });
    const { messages } = await client.getPrompt({ name: 'complain', arguments: { id: '7' } });
    expect(messages).toHaveLength(1);
  });

  it('a global guard that hides', async () => {
    const client = await connect(await urlOf(await start(GloballyGuardedApp, adapter)));
    expect(await tools(client)).toEqual(['cancel_order']);
  });

  it('questions', async () => {
    expect(await call(await asCaller(), 'remove_order', { id: '7' })).toBe('Removed.');
  });

  it('request scope', async () => {
    expect(await call(await asCaller({ 'x-tenant': 'acme' }), 'my_tenant')).toBe('acme');
  });

  it('registration at run time', async () => {
    const app = await start(HandlersApp, adapter);
    const client = await connect(await urlOf(app));
    const plugins = app.get(Plugins);
    const schema = { type: 'object', properties: { to: { type: 'string' } }, required: ['to'] };
    plugins.load({ name: 'greet', description: 'Greets', schema, run: async ({ to }) => `Hello, ${String(to)}!` });
    expect(await call(client, 'greet', { to: 'you' })).toBe('Hello, you!');
    plugins.unload('greet');
    expect(await tools(client)).not.toContain('greet');
    await client.subscribeResource({ uri: 'orders://terms' });
    expect(await plugins.termsChanged()).toBe(1);
  });

  it('several endpoints', async () => {
    const app = await start(EndpointsApp, adapter);
    expect(await tools(await connect(await urlOf(app)))).toEqual(['opening_hours']);
    expect(await tools(await connect(await urlOf(app, 'staff/mcp')))).toEqual(['revenue', 'opening_hours']);
  });
});

it('the code of the guide to extensions', async () => {
  await shelf.connect(new StreamableHTTPClientTransport(new URL(await urlOf(await start(ExtensionApp)))));
  expect(shelf.getServerCapabilities()?.extensions).toEqual({ 'com.acme/search': { languages: ['en'] } });
  expect(await search('tea')).toEqual(['A history of tea', 'Tea and its leaves']);
  await shelf.close();
});

it('the code of the migration guide', async () => {
  const url = await urlOf(await start(MigratedApp), 'ai/mcp');
  await expect(connect(url)).rejects.toThrow('Unauthorized');
  const client = await connect(url, { authorization: 'Bearer secret' });
  // Who the token belongs to is no member of the staff.
  expect(await tools(client)).toEqual([]);
  expect((await client.readResource({ uri: 'orders://order/7' })).contents).toHaveLength(1);
});
