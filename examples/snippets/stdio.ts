// #region main
import { NestFactory } from '@nestjs/core';
import { McpStderrLogger, serveMcpStdio } from 'nestjs-mcp-streamable/stdio';
import { OrdersModule } from './orders.module.js';

const app = await NestFactory.createApplicationContext(OrdersModule, {
  logger: new McpStderrLogger(),
});
await serveMcpStdio(app);
// #endregion
