import { Injectable, UseGuards } from '@nestjs/common';
import { Confirm, McpArgs, type McpContext, McpCtx, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';
import type { User } from '../accounts/accounts.service.js';
import { ProGuard } from '../accounts/guards.js';
import { Orders, type Order } from './orders.service.js';

const OrderId = z.object({
  id: z.string().describe('The number of the order, such as A-1'),
});
const Refund = OrderId.extend({
  amount: z.number().positive(),
  // It is in no record of the audit.
  iban: z.string().meta({ 'x-mcp-sensitive': true }),
  requestId: z
    .string()
    .describe('A new UUID for each refund; the same one when you repeat a call'),
});

/** The tools that all tenants have. */
@Injectable()
export class OrderTools {
  constructor(private readonly orders: Orders) {}

  @Tool({
    name: 'list_orders',
    description: 'Lists your orders',
    annotations: { readOnlyHint: true },
  })
  list(@McpCtx() ctx: McpContext): { orders: Order[] } {
    return { orders: this.orders.list(tenantOf(ctx)) };
  }

  /** The user is asked before it runs. */
  @Tool({
    name: 'delete_order',
    description: 'Deletes an order',
    inputSchema: OrderId,
    annotations: { destructiveHint: true },
  })
  @Confirm(({ id }: z.infer<typeof OrderId>) => `Delete the order ${id} for good?`)
  remove(@McpArgs() { id }: z.infer<typeof OrderId>, @McpCtx() ctx: McpContext): string {
    this.orders.remove(tenantOf(ctx), id);
    return `Deleted ${id}.`;
  }

  /** A repeated call has one effect; only tenants with the plan "pro" have it. */
  @UseGuards(ProGuard)
  @Tool({
    name: 'refund',
    description: 'Refunds a part of an order',
    inputSchema: Refund,
    idempotency: { argument: 'requestId' },
  })
  refund(
    @McpArgs() { id, amount }: z.infer<typeof Refund>,
    @McpCtx() ctx: McpContext,
  ): string {
    const { refunded } = this.orders.refund(tenantOf(ctx), id, amount);
    return `Refunded ${amount}; ${refunded} in all.`;
  }
}

/**
 * The guard of the endpoint has found the user, and compared the tenant with the path.
 */
export function tenantOf({ request }: McpContext): string {
  return (request as { user: User }).user.tenant;
}
