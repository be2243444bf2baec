import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import type { INestApplication, Type } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';

const opened: { close(): Promise<unknown> }[] = [];

/** To be called after each test. */
export async function closeOpened(): Promise<void> {
  for (const one of opened.splice(0).toReversed()) await one.close();
}

export async function start(
  module: Type,
  adapter = 'express',
  configureApp = (_app: INestApplication) => {},
): Promise<INestApplication> {
  const testing = await Test.createTestingModule({ imports: [module] }).compile();
  const httpAdapter = adapter === 'express' ? new ExpressAdapter() : new FastifyAdapter();
  const app = testing.createNestApplication(httpAdapter, { logger: false });
  configureApp(app);
  await app.listen(0, '127.0.0.1');
  opened.push(app);
  return app;
}

export async function connect(
  url: string | URL,
  headers: Record<string, string> = {},
  era: 'legacy' | 'modern' = 'legacy',
): Promise<Client> {
  const mode = era === 'modern' ? { pin: '2026-07-28' } : era;
  const options = { capabilities: { elicitation: {} }, versionNegotiation: { mode } };
  const client = new Client({ name: 'snippets', version: '1.0.0' }, options);
  client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { yes: true } }));
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  opened.push(client);
  return client;
}

export const urlOf = async (app: INestApplication, path = 'mcp'): Promise<string> => `${await app.getUrl()}/${path}`;

export async function call(client: Client, name: string, args: Record<string, unknown> = {}): Promise<string> {
  const { content } = await client.callTool({ name, arguments: args });
  return (content as { text: string }[])[0]!.text;
}
