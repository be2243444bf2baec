// #region tool
import { Inject, Injectable } from '@nestjs/common';
import { Confirm, McpArgs, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';
import { Shop } from './shop.service.js';

const OrderId = z.object({ id: z.string() });

@Injectable()
export class OrderTools {
  constructor(@Inject(Shop) private readonly shop: Shop) {}

  @Tool({
    name: 'delete_order',
    description: 'Deletes an order for good',
    inputSchema: OrderId,
  })
  @Confirm(({ id }: z.infer<typeof OrderId>) => `Delete the order ${id}?`, {
    whenUnable: 'url',
    url: (page) => `https://shop.example.com/confirm/${page}`,
  })
  async remove(@McpArgs('id') id: string): Promise<string> {
    await this.shop.remove(id);
    return `Order ${id} was deleted.`;
  }
}
// #endregion
