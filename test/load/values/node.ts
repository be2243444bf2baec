import 'reflect-metadata';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type ModuleMetadata, ValidationPipe } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { createMcpSession, serveMcpSession } from 'nestjs-mcp-streamable/standalone';
import { serveMcpStdio } from 'nestjs-mcp-streamable/stdio';
import { measureSelf } from './measured.js';
import { OtherHandlers, SchemaTools, serverOfSdk, WideController } from './tools.js';

/** The ways from a client to a handler: one is the argument of this program. */
export type Kind = 'fastify' | 'express' | 'stdio' | 'server' | 'session';

class NodeModule {}
const serverInfo = { name: 'node', version: '1.0.0' };
const handlers: ModuleMetadata = {
  imports: [McpStreamableModule.forRoot({ serverInfo })],
  providers: [SchemaTools, OtherHandlers],
  controllers: [WideController],
};
const endpointOfSdk: ModuleMetadata = { imports: [McpStreamableModule.forRoot({ serverInfo, server: serverOfSdk })] };

/** Starts what a kind is, with the default options. @returns the URL of the endpoint; a text for one without */
const START: Readonly<Record<Kind, () => Promise<string>>> = {
  fastify: () => listening(handlers, new FastifyAdapter()),
  express: () => listening(handlers, new ExpressAdapter()),
  server: () => listening(endpointOfSdk, new FastifyAdapter()),
  stdio: async () => {
    const app = await NestFactory.createApplicationContext({ module: NodeModule, ...handlers }, { logger: false });
    await serveMcpStdio(app);
    return 'stdio';
  },
  session: async () => {
    const http = createServer(serveMcpSession(await createMcpSession(serverOfSdk())));
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`;
  },
};

async function listening(module: ModuleMetadata, adapter: FastifyAdapter | ExpressAdapter): Promise<string> {
  const app = await NestFactory.create({ module: NodeModule, ...module }, adapter, { logger: false });
  app.useGlobalPipes(new ValidationPipe());
  await app.listen(0, '127.0.0.1');
  return `${await app.getUrl()}/mcp`;
}

const url = await START[process.argv[2] as Kind]();
measureSelf();
process.send!(url);
