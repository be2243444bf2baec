import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import {
  LEGACY_REVISIONS,
  McpServer,
  MODERN_REVISIONS,
} from 'nestjs-mcp-streamable/server';
import { z } from 'zod';

export function makeServer(): McpServer {
  // #region server
  const server = new McpServer(
    { name: 'orders', version: '1.0.0' },
    { supportedProtocolVersions: [...LEGACY_REVISIONS, ...MODERN_REVISIONS] },
  );
  // #endregion
  server.registerTool(
    'find_order',
    { inputSchema: z.object({ id: z.string() }) },
    ({ id }) => ({
      content: [{ type: 'text', text: `Order ${id} is on its way.` }],
    }),
  );
  return server;
}

@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: { name: 'orders', version: '1.0.0' },
      server: makeServer,
    }),
  ],
})
export class BothErasModule {}
