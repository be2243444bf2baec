import 'reflect-metadata';
import { ValidationPipe } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { measureSelf } from './measured.js';
import { OtherHandlers, SchemaTools, WideController } from './tools.js';

class NodeModule {}

/** An app with the default options in a process of its own, which measures itself from one message to the next. */
const app = await NestFactory.create(
  {
    module: NodeModule,
    imports: [McpStreamableModule.forRoot({ serverInfo: { name: 'node', version: '1.0.0' } })],
    providers: [SchemaTools, OtherHandlers],
    controllers: [WideController],
  },
  new FastifyAdapter(),
  { logger: false },
);
app.useGlobalPipes(new ValidationPipe());
await app.listen(0, '127.0.0.1');

measureSelf();
process.send!(await app.getUrl());
