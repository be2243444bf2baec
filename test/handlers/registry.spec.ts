import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Injectable } from '@nestjs/common';
import { McpRegistry, McpStreamableModule, Tool, type McpStreamableOptions } from 'nestjs-mcp-streamable';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ONE_ADAPTER, TestApp, serverInfo } from '../support/app.js';
import { eventually } from '../support/test-apps.js';
import { loneFetch } from '../support/ways.js';

@Injectable()
class Declared {
  @Tool({ name: 'declared' })
  run(): string {
    return 'declared';
  }
}

type List = 'tools' | 'resources' | 'prompts';
const LISTS: readonly List[] = ['tools', 'resources', 'prompts'];

describe.each(ONE_ADAPTER)('the registry of a running endpoint on %s', (adapter) => {
  let app: TestApp;
  const clients: Client[] = [];
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.close();
    await app.close();
  });

  const start = async (options: Partial<McpStreamableOptions> = {}): Promise<McpRegistry> => {
    const imports = [McpStreamableModule.forRoot({ serverInfo, ...options })];
    app = await TestApp.of(adapter, { imports, providers: [Declared] });
    return app.app.get(McpRegistry, { strict: false });
  };

  /** A client that listens, and what it was told. */
  const connect = async (): Promise<{ client: Client; told: List[] }> => {
    const client = new Client({ name: 'test', version: '1.0.0' });
    const told: List[] = [];
    for (const list of LISTS)
      client.setNotificationHandler(`notifications/${list}/list_changed`, () => void told.push(list));
    await client.connect(new StreamableHTTPClientTransport(new URL(app.url), { fetch: loneFetch }));
    clients.push(client);
    await eventually(async () => expect((await app.service.counts()).readers).toBe(clients.length));
    return { client, told };
  };
  const namesOf = async (client: Client): Promise<string[]> => (await client.listTools()).tools.map(({ name }) => name);

  it('the registry of a running endpoint announces tools that are added, changed and removed to every session', async () => {
    const registry = await start();
    const [one, two] = [await connect(), await connect()];
    expect(await namesOf(one.client)).toEqual(['declared']);

    const tool = registry.registerTool({
      name: 'late',
      inputSchema: z.object({ n: z.number() }),
      handler: ({ n }: { n: number }) => n + 1,
    });
    await eventually(() => expect([one.told, two.told]).toEqual([['tools'], ['tools']]));
    expect(await namesOf(two.client)).toEqual(['declared', 'late']);
    expect((await one.client.callTool({ name: 'late', arguments: { n: 1 } })).content).toMatchObject([{ text: '2' }]);

    tool.update({ title: 'Later' });
    await eventually(() => expect(two.told).toHaveLength(2));
    expect((await two.client.listTools()).tools[1]).toMatchObject({ name: 'late', title: 'Later' });

    expect(tool.remove()).toBe(true);
    await eventually(() => expect(two.told).toHaveLength(3));
    expect(await namesOf(two.client)).toEqual(['declared']);
    await expect(two.client.callTool({ name: 'late', arguments: { n: 1 } })).rejects.toMatchObject({ code: -32602 });
  });

  it('the registry of a running endpoint announces each list once, however much of it changes at a time', async () => {
    const registry = await start();
    const { client, told } = await connect();
    for (let index = 0; index < 50; index++) registry.registerTool({ name: `t${index}`, handler: () => '' });
    registry.registerResource({ uri: 'a://b', name: 'b', handler: () => 'text' });
    registry.registerResourceTemplate({ uriTemplate: 'a://x/{y}', name: 'y', handler: ({ y }) => y });
    registry.registerPrompt({ name: 'ask', handler: () => 'asked' });
    await eventually(() => expect(told.toSorted()).toEqual(['prompts', 'resources', 'tools']));
    expect(await namesOf(client)).toHaveLength(51);
    expect((await client.readResource({ uri: 'a://x/z' })).contents).toMatchObject([{ text: 'z' }]);
    expect((await client.getPrompt({ name: 'ask' })).messages).toMatchObject([{ content: { text: 'asked' } }]);
    expect(told).toHaveLength(3);
  });

  it('the registry of a running endpoint does not announce handlers found at the start', async () => {
    await start();
    const { told } = await connect();
    expect(told).toEqual([]);
  });

  it('the registry of a running endpoint is listed page by page', async () => {
    const registry = await start({ pageSize: 2 });
    const tools = ['a', 'b', 'c', 'd'].map((name) => registry.registerTool({ name, handler: () => name }));
    const client = await app.client().initialize();
    const page = async (cursor?: string): Promise<{ names: string[]; nextCursor?: string }> => {
      const params = cursor === undefined ? {} : { cursor };
      const response = await client.post({ jsonrpc: '2.0', id: client.nextId(), method: 'tools/list', params });
      const { result } = (await response.json()) as { result: { tools: { name: string }[]; nextCursor?: string } };
      return {
        names: result.tools.map(({ name }) => name),
        ...(result.nextCursor && { nextCursor: result.nextCursor }),
      };
    };
    const first = await page();
    expect(first.names).toEqual(['declared', 'a']);
    // What comes and goes meanwhile neither shifts nor repeats the rest.
    tools[0]!.remove();
    registry.registerTool({ name: 'e', handler: () => '' });
    const second = await page(first.nextCursor);
    expect(second.names).toEqual(['b', 'c']);
    expect(await page(second.nextCursor)).toEqual({ names: ['d', 'e'] });
    // The official client collects all pages.
    const { client: official } = await connect();
    expect(await namesOf(official)).toEqual(['declared', 'b', 'c', 'd', 'e']);
  });
});
