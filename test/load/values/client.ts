import 'reflect-metadata';
import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { getMcpToken, McpClient, McpClientModule, type McpClientOptions } from 'nestjs-mcp-streamable/client';
import { measureSelf } from './measured.js';

/** What the parent orders. */
export type Order =
  { readonly does: 'open'; readonly options: McpClientOptions } | { readonly does: 'call' | 'list' | 'close' };

/** What came of it: the answer, or the error; cut. */
export interface Outcome {
  readonly outcome: string;
}

/** An app with a client in a process of its own, which does what its parent orders. */
let app: INestApplicationContext;

async function done(order: Order): Promise<unknown> {
  if (order.does === 'open') {
    const orders: McpClientOptions = {
      ...order.options,
      client: { ...order.options.client, capabilities: { elicitation: { form: {} } } },
      terminateOnClose: false,
      configure: (client) => client.setRequestHandler('elicitation/create', () => ({ action: 'decline' })),
    };
    app = await NestFactory.createApplicationContext(McpClientModule.forRoot({ clients: { orders } }), {
      logger: false,
    });
    return undefined;
  }
  const client = app.get<McpClient>(getMcpToken(McpClient, 'orders'));
  if (order.does === 'close') return app.close();
  if (order.does === 'call') return client.callTool('tool');
  return (await (await client.client()).listTools()).tools.length;
}

process.on('message', (order: Order | string) => {
  if (typeof order === 'string') return;
  void done(order)
    .then((answer) => JSON.stringify(answer) ?? 'done', String)
    .then((outcome) => process.send!({ outcome: outcome.slice(0, 1_000) } satisfies Outcome));
});
measureSelf();
process.send!('ready');
