// #region lambda
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { McpArgs, McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import serverless, { type Application, type Handler } from 'serverless-http';
import { z } from 'zod';

@Injectable()
export class OrderTools {
  @Tool({ name: 'find_order', inputSchema: z.object({ id: z.string() }) })
  find(@McpArgs('id') id: string): string {
    return `Order ${id} is on its way.`;
  }
}

@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: { name: 'orders', version: '1.0.0' },
      sessions: 'off',
      responseMode: 'json', // the platform gets the answer as a whole
      allowedHosts: ['mcp.example.com'],
    }),
  ],
  providers: [OrderTools],
})
export class AppModule {}

async function start(): Promise<Handler> {
  const app = await NestFactory.create(AppModule);
  await app.init();
  return serverless(app.getHttpServer() as Application);
}

let started: Promise<Handler> | undefined;

/** The app starts with the first event of a container, and serves those that follow. */
export const handler: Handler = async (event, context) => {
  started ??= start();
  return (await started)(event, context);
};
// #endregion
