// #region relay
import { Injectable } from '@nestjs/common';
import {
  McpArgs,
  McpCtx,
  type McpContext,
  Tool,
  toolResult,
} from 'nestjs-mcp-streamable';
import { McpCallRelay, McpClient } from 'nestjs-mcp-streamable/client';
import { z } from 'zod';

const Order = z.object({ id: z.string() });

@Injectable()
export class Orders {
  private readonly relay = new McpCallRelay();
  private readonly orders = McpClient.create('orders', {
    url: 'https://orders.example.com/mcp',
    client: { capabilities: { elicitation: { form: {} } } },
    configure: this.relay.configure,
  });

  @Tool({ description: 'Cancels an order', inputSchema: Order })
  async cancelOrder(@McpArgs() order: z.infer<typeof Order>, @McpCtx() ctx: McpContext) {
    const client = await (await this.orders).client();
    const result = await this.relay.call(ctx, (params, options) =>
      client.callTool({ name: 'cancel', arguments: order, ...params }, options),
    );
    return 'content' in result ? toolResult(result as never) : result;
  }
}
// #endregion
