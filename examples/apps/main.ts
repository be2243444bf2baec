// An MCP App: a tool whose result hosts such as Claude, ChatGPT, VS Code or Goose show as a chart.
//
//   npm run x -- start:apps
import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';

const { PORT = '3000' } = process.env;

const app = await NestFactory.create(AppModule, { logger: ['error', 'warn'], forceCloseConnections: true });
app.enableShutdownHooks();
await app.listen(Number(PORT), '127.0.0.1');
console.log(`Listens on ${await app.getUrl()}/mcp`);
