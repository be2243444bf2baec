// #region module
import { Injectable, Module } from '@nestjs/common';
import { McpArgs, McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';

const OrderId = z.object({ id: z.string().describe('The number, such as A-1042') });

@Injectable()
export class OrderTools {
  @Tool({
    name: 'find_order',
    title: 'Find an order',
    description: 'Finds an order',
    inputSchema: OrderId,
    annotations: { readOnlyHint: true },
  })
  find(@McpArgs() { id }: z.infer<typeof OrderId>): string {
    return `Order ${id} is on its way.`;
  }
}

@Module({
  imports: [
    McpStreamableModule.forRoot({ serverInfo: { name: 'orders', version: '1.0.0' } }),
  ],
  providers: [OrderTools],
})
export class OrdersModule {}
// #endregion
