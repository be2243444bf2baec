import type { INestApplication } from '@nestjs/common';
import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';

const serverInfo = { name: 'orders', version: '1.0.0' };

// #region origins
const endpoint = McpStreamableModule.forRoot({
  serverInfo,
  allowedHosts: ['mcp.example.com'], // as clients name this server
  allowedOrigins: ['https://app.example.com'], // pages that may call it
});
// #endregion

export function configure(app: INestApplication): void {
  // #region cors
  app.enableCors({
    origin: ['https://app.example.com'],
    methods: ['GET', 'POST', 'DELETE'],
    allowedHeaders: ['Content-Type', 'Authorization', 'Mcp-Session-Id', 'MCP-Protocol-Version', 'Last-Event-ID'],
    exposedHeaders: ['Mcp-Session-Id'],
  });
  // #endregion
}

@Module({ imports: [endpoint] })
export class AppModule {}
