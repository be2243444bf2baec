// #region resources
import { Inject, Injectable } from '@nestjs/common';
import { McpArgs, Resource, ResourceTemplate } from 'nestjs-mcp-streamable';
import { type Order, Orders } from './orders.service.js';

@Injectable()
export class OrderResources {
  constructor(@Inject(Orders) private readonly orders: Orders) {}

  @Resource({ uri: 'orders://terms', name: 'terms', mimeType: 'text/markdown' })
  terms(): string {
    return '# Terms\n\nPay within 30 days.';
  }

  @ResourceTemplate({
    uriTemplate: 'orders://order/{id}',
    name: 'order',
    mimeType: 'application/json',
  })
  read(@McpArgs('id') id: string): Promise<Order> {
    return this.orders.find(id);
  }
}
// #endregion
