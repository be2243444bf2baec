import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { McpStderrLogger, serveMcpStdio } from 'nestjs-mcp-streamable/stdio';
import { AppModule } from './app.module.js';

// #region serve
const app = await NestFactory.createApplicationContext(AppModule, {
  logger: new McpStderrLogger(),
});
await serveMcpStdio(app);
// #endregion
