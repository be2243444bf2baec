// #region module
import { McpServer } from '@modelcontextprotocol/server';
import { Injectable, Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { z } from 'zod';

const serverInfo = { name: 'orders', version: '1.0.0' };

@Injectable()
export class OrdersServer {
  /** The endpoint calls this once for each session. */
  create(): McpServer {
    const server = new McpServer(serverInfo);
    server.registerTool(
      'find_order',
      { description: 'Finds an order', inputSchema: z.object({ id: z.string() }) },
      ({ id }) => ({ content: [{ type: 'text', text: `Order ${id} is on its way.` }] }),
    );
    return server;
  }
}

@Module({ providers: [OrdersServer], exports: [OrdersServer] })
export class OrdersModule {}

@Module({
  imports: [
    McpStreamableModule.forRootAsync({
      imports: [OrdersModule],
      inject: [OrdersServer],
      useFactory: (orders: OrdersServer) => ({
        serverInfo,
        server: () => orders.create(),
      }),
    }),
  ],
})
export class AppModule {}
// #endregion
