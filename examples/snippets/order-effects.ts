// #region confirm
import { Inject, Injectable } from '@nestjs/common';
import { Confirm, McpArgs, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';
import { Shop } from './shop.service.js';

const OrderId = z.object({ id: z.string().regex(/^[A-Z]-\d+$/) });

@Injectable()
export class OrderEffects {
  constructor(@Inject(Shop) private readonly shop: Shop) {}

  @Tool({
    name: 'delete_order',
    description: 'Deletes an order for good',
    inputSchema: OrderId,
  })
  @Confirm(
    ({ id }: z.infer<typeof OrderId>) => `Delete the order ${id}? It cannot be restored.`,
  )
  async remove(@McpArgs('id') id: string): Promise<string> {
    await this.shop.remove(id);
    return `Order ${id} was deleted.`;
  }
  // #endregion

  // #region option
  @Tool({
    name: 'archive_order',
    description: 'Moves an order to the archive',
    inputSchema: OrderId,
    confirm: { message: ({ id }) => `Archive the order ${id}?`, ttlMs: 60_000 },
  })
  async archive(@McpArgs('id') id: string): Promise<string> {
    await this.shop.archive(id);
    return `Order ${id} was archived.`;
  }
  // #endregion

  // #region text
  @Tool({
    name: 'discount_order',
    description: 'Reduces the price of an order',
    inputSchema: OrderId.extend({ percent: z.int().min(1).max(50) }),
    confirm: 'Reduce the price of {id} by {percent} percent?',
  })
  async discount(
    @McpArgs('id') id: string,
    @McpArgs('percent') percent: number,
  ): Promise<string> {
    await this.shop.discount(id, percent);
    return `The price of ${id} was reduced.`;
  }
  // #endregion
}

// #region idempotency
const Payment = z.object({
  requestId: z
    .string()
    .describe('A new random text for each payment; the same one when a call is repeated'),
  account: z.string(),
  cents: z.int().positive(),
});

@Injectable()
export class PaymentTools {
  constructor(@Inject(Shop) private readonly shop: Shop) {}

  @Tool({
    name: 'pay',
    description: 'Pays an amount',
    inputSchema: Payment,
    idempotency: { argument: 'requestId' },
  })
  async pay(@McpArgs() { account, cents }: z.infer<typeof Payment>): Promise<string> {
    const receipt = await this.shop.pay(account, cents);
    return `Paid, receipt ${receipt}.`;
  }
  // #endregion

  // #region key
  @Tool({
    name: 'ship_order',
    description: 'Ships an order',
    inputSchema: OrderId,
    // After an error the key is free: `ship()` throws only before the parcel has left.
    idempotency: { key: ({ id }) => id, ttlMs: 7 * 24 * 3_600_000, errors: 'free' },
    confirm: ({ id }) => `Ship the order ${id} now?`,
  })
  ship(@McpArgs('id') id: string): Promise<string> {
    return this.shop.ship(id);
  }
  // #endregion
}
