import type { INestApplication } from '@nestjs/common';
import { Module } from '@nestjs/common';
import { mcpCors, McpStreamableModule } from 'nestjs-mcp-streamable';

const serverInfo = { name: 'orders', version: '1.0.0' };

// #region origins
const endpoint = McpStreamableModule.forRoot({
  serverInfo,
  allowedHosts: ['mcp.example.com'], // the host in the URL that clients use
  allowedOrigins: ['https://app.example.com'], // pages that may call it
});
// #endregion

export function configure(app: INestApplication): void {
  // #region cors
  app.enableCors({
    origin: ['https://app.example.com'],
    credentials: true,
    ...mcpCors(),
  });
  // #endregion
}

@Module({ imports: [endpoint] })
export class AppModule {}
