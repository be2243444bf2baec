// #region prompts
import { Inject, Injectable } from '@nestjs/common';
import { Complete, McpArgs, Prompt } from 'nestjs-mcp-streamable';
import { z } from 'zod';
import { Orders } from './orders.service.js';

@Injectable()
export class OrderPrompts {
  constructor(@Inject(Orders) private readonly orders: Orders) {}

  @Prompt({
    name: 'complain',
    description: 'Writes a complaint',
    inputSchema: z.object({ id: z.string() }),
  })
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
