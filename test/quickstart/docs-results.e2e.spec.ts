import { readdirSync, readFileSync } from 'node:fs';
import type { Client } from '@modelcontextprotocol/client';
import { Module } from '@nestjs/common';
import { afterEach, describe, expect, it } from 'vitest';
import { ChartTools } from '../../examples/snippets/chart-tools.js';
import { AppModule as HandlersApp } from '../../examples/snippets/handlers-app.js';
import { OrdersController } from '../../examples/snippets/orders.controller.js';
import { OrderTools } from '../../examples/snippets/orders.module.js';
import { ProductsController } from '../../examples/snippets/products.controller.js';
import { closeOpened, connect, start, urlOf } from './snippet-apps.js';

@Module({
  imports: [HandlersApp],
  providers: [ChartTools, OrderTools],
  controllers: [OrdersController, ProductsController],
})
class DocsApp {}

const docs = new URL('../../docs/', import.meta.url);
/** A result below an example: the request, the role of the caller if it has one, and the JSON that the page shows. */
const RESULT = /<!-- result: (?<method>\S+) (?<params>\{.*\}) ?(?<role>\w*) -->\n\n```json\n(?<json>[^]*?)```/g;
const RESULTS = readdirSync(docs)
  .filter((name) => name.endsWith('.md'))
  .flatMap((page) =>
    [...readFileSync(new URL(page, docs), 'utf8').matchAll(RESULT)].map(({ groups }) => ({ page, ...groups! })),
  ) as { page: string; method: string; params: string; role: string; json: string }[];

afterEach(closeOpened);

async function resultOf(client: Client, method: string, params: Record<string, unknown>): Promise<object> {
  switch (method) {
    case 'tools/call':
      return client.callTool({ arguments: {}, ...params } as unknown as Parameters<Client['callTool']>[0]);
    case 'resources/read':
      return client.readResource(params as Parameters<Client['readResource']>[0]);
    case 'prompts/get':
      return client.getPrompt(params as Parameters<Client['getPrompt']>[0]);
    default:
      return client.complete(params as Parameters<Client['complete']>[0]);
  }
}

describe('a page shows below an example what a client gets', () => {
  it('at least five pages show below an example what a client gets', () => {
    expect(new Set(RESULTS.map(({ page }) => page)).size).toBeGreaterThanOrEqual(5);
  });

  it.each(RESULTS)('$page: $method $params', async ({ method, params, role, json }) => {
    const headers = { 'x-user': 'ann', 'x-tenant': 'acme', ...(role !== '' && { 'x-role': role }) };
    const client = await connect(await urlOf(await start(DocsApp)), headers);
    const result = await resultOf(client, method, JSON.parse(params) as Record<string, unknown>);
    expect(JSON.parse(JSON.stringify(result))).toEqual(JSON.parse(json));
  });
});
