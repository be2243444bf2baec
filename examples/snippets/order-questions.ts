// #region ask
import { ConflictException, Injectable } from '@nestjs/common';
import { McpArgs, type McpContext, McpCtx, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';

const OrderId = z.object({ id: z.string() });
const Sure = {
  type: 'object' as const,
  properties: { yes: { type: 'boolean' as const } },
  required: ['yes'],
};

@Injectable()
export class AskingTools {
  @Tool({
    name: 'remove_order',
    description: 'Removes an order, if the user agrees',
    inputSchema: OrderId,
  })
  async remove(@McpArgs('id') id: string, @McpCtx() ctx: McpContext): Promise<string> {
    const { action, content } = await ctx.elicit('sure', {
      message: `Remove order ${id}?`,
      requestedSchema: Sure,
    });
    if (action !== 'accept' || !content.yes)
      throw new ConflictException('The user wants to keep it.');
    await ctx.log('notice', `Order ${id} was removed.`);
    return 'Removed.';
  }
}
// #endregion
