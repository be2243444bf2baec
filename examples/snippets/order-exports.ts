// #region bounded
import { Inject, Injectable } from '@nestjs/common';
import { McpArgs, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';
import { Orders } from './orders.service.js';

const Filter = z.object({
  status: z.string().optional(),
  limit: z.number().int().max(1_000).default(100),
});

@Injectable()
export class OrderLists {
  constructor(@Inject(Orders) private readonly orders: Orders) {}

  @Tool({
    name: 'list_orders',
    description: 'Lists orders',
    inputSchema: Filter,
    maxResultBytes: 100_000,
  })
  async list(@McpArgs() { limit }: z.infer<typeof Filter>): Promise<object> {
    return { orders: (await this.orders.ids()).slice(0, limit) };
  }
}
// #endregion
