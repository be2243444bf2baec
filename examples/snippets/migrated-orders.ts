// #region handlers
import { Inject, Injectable, UseGuards } from '@nestjs/common';
import {
  McpArgs,
  type McpContext,
  McpCtx,
  Prompt,
  ResourceTemplate,
  Tool,
} from 'nestjs-mcp-streamable';
import { z } from 'zod';
import { Roles, RolesGuard } from './order-guards.js';
import { type Order, Orders } from './orders.service.js';

const OrderId = z.object({ id: z.string() });
const OrderShape = z.object({ id: z.string(), item: z.string(), owner: z.string() });

@Injectable()
export class OrderHandlers {
  constructor(@Inject(Orders) private readonly orders: Orders) {}

  @Tool({
    name: 'show_order',
    description: 'Shows an order',
    inputSchema: OrderId,
    outputSchema: OrderShape,
  })
  @UseGuards(RolesGuard)
  @Roles(['staff'])
  async show(
    @McpArgs() { id }: z.infer<typeof OrderId>,
    @McpCtx() ctx: McpContext,
  ): Promise<Order> {
    await ctx.progress(50, 100);
    await ctx.log('info', `${ctx.principal} looks at order ${id}`);
    return this.orders.find(id);
  }

  @ResourceTemplate({
    uriTemplate: 'orders://order/{id}',
    name: 'order',
    mimeType: 'application/json',
  })
  read(@McpArgs('id') id: string): Promise<Order> {
    return this.orders.find(id);
  }

  @Prompt({ name: 'complain', description: 'Writes a complaint', inputSchema: OrderId })
  complain(@McpArgs('id') id: string): string {
    return `Write a polite complaint about order ${id}.`;
  }
}
// #endregion
