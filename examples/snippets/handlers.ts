import { McpServer } from '@modelcontextprotocol/server';
import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { z } from 'zod';
import { deleteOrder } from './call-context.js';

const serverInfo = { name: 'orders', version: '1.0.0' };

function exportPage(_page: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  return Promise.resolve();
}

export function makeServer(): McpServer {
  const server = new McpServer(serverInfo);

  // #region progress
  server.registerTool(
    'export_orders',
    { description: 'Exports all orders' },
    async ({ mcpReq }) => {
      const progressToken = mcpReq._meta?.progressToken;
      for (let page = 1; page <= 10; page++) {
        // The signal aborts when the client cancels or the session ends.
        await exportPage(page, mcpReq.signal);
        if (progressToken === undefined) continue;
        await mcpReq.notify({
          method: 'notifications/progress',
          params: { progressToken, progress: page, total: 10 },
        });
      }
      return { content: [{ type: 'text', text: 'Done.' }] };
    },
  );
  // #endregion

  server.registerTool(
    'delete_order',
    { inputSchema: z.object({ id: z.string() }) },
    async ({ id }) => {
      await deleteOrder(id);
      return { content: [{ type: 'text', text: 'Deleted.' }] };
    },
  );
  return server;
}

@Module({ imports: [McpStreamableModule.forRoot({ serverInfo, server: makeServer })] })
export class AppModule {}
