// #region tool
import { Inject, Injectable } from '@nestjs/common';
import { McpArgs, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';
import { type Order, Orders } from './orders.service.js';

const OrderId = z.object({ id: z.string().describe('The number on the invoice') });

@Injectable()
export class ShowOrder {
  constructor(@Inject(Orders) private readonly orders: Orders) {}

  @Tool({
    name: 'show_order',
    title: 'Show an order',
    description: 'Shows an order: what was ordered, and by whom',
    inputSchema: OrderId,
    annotations: { readOnlyHint: true },
  })
  show(@McpArgs('id') id: string): Promise<Order> {
    return this.orders.find(id);
  }
}
// #endregion
