// #region kinds
import { Inject, Injectable } from '@nestjs/common';
import { Complete, McpArgs, Prompt, Resource, ResourceTemplate, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';
import { type Order, Orders } from './orders.service.js';

const OrderId = z.object({ id: z.string() });

@Injectable()
export class OrderHandlers {
  constructor(@Inject(Orders) private readonly orders: Orders) {}

  @Tool({ name: 'show_order', description: 'Shows an order', inputSchema: OrderId })
  show(@McpArgs('id') id: string): Promise<Order> {
    return this.orders.find(id);
  }

  @Resource({ uri: 'orders://terms', name: 'terms', mimeType: 'text/markdown' })
  terms(): string {
    return '# Terms\n\nPay within 30 days.';
  }

  @ResourceTemplate({ uriTemplate: 'orders://order/{id}', name: 'order', mimeType: 'application/json' })
  read(@McpArgs('id') id: string): Promise<Order> {
    return this.orders.find(id);
  }

  @Prompt({ name: 'complain', description: 'Writes a complaint', inputSchema: OrderId })
  async complain(@McpArgs('id') id: string): Promise<string> {
    const { item } = await this.orders.find(id);
    return `Write a polite complaint: the ${item} of order ${id} has not arrived.`;
  }

  @Complete({ prompt: 'complain', argument: 'id' })
  @Complete({ template: 'orders://order/{id}', argument: 'id' })
  async ids(value: string): Promise<string[]> {
    return (await this.orders.ids()).filter((id) => id.startsWith(value));
  }
}
// #endregion
