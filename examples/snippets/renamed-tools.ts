import { McpArgs, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';
// #region plugin
import { Injectable, SetMetadata } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { type McpEndpointPlugin, McpPlugin } from 'nestjs-mcp-streamable/plugins';

/** The tool has this name no more: it can be called, and no list shows it. */
export const FormerName = () => SetMetadata('formerName', true);

@Injectable()
export class FormerNames extends McpPlugin {
  readonly ring = 'app';
  private readonly reflector = new Reflector();

  attach(): McpEndpointPlugin {
    const isFormer = (of: Parameters<Reflector['getAllAndOverride']>[1]) =>
      this.reflector.getAllAndOverride<boolean | undefined>('formerName', of);
    return { handler: ({ metadata }) => ({ hidden: isFormer(metadata) }) };
  }
}
// #endregion

// #region tools
const OrderId = z.object({ id: z.string() });

@Injectable()
export class OrderStatus {
  @Tool({ name: 'track_order', description: 'Tracks an order', inputSchema: OrderId })
  track(@McpArgs('id') id: string): string {
    return `Order ${id} is on its way.`;
  }

  @FormerName()
  @Tool({ name: 'order_status', inputSchema: OrderId })
  status(@McpArgs('id') id: string): string {
    return this.track(id);
  }
}
// #endregion
