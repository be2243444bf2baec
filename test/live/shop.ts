import { Injectable } from '@nestjs/common';
import { McpArgs, McpCtx, type McpContext, Resource, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';

/** What holds the calls of `reindex` until the test lets them go. */
export const held = {
  release: (): void => {},
  promise: Promise.resolve(),
  begin(): void {
    held.promise = new Promise((resolve) => (held.release = resolve));
  },
};

/** Tools as an operator sees them called. */
@Injectable()
export class ShopTools {
  @Tool({
    name: 'find_order',
    description: 'Finds an order by its number',
    inputSchema: z.object({ id: z.string().optional() }),
  })
  find(@McpArgs() _: object): string {
    return 'secret result';
  }

  @Tool({ name: 'price_quote', description: 'Quotes the price of an article today', inputSchema: z.object({}) })
  async quote(@McpArgs() _: object): Promise<string> {
    // Real time: the page of screenshots shows how long calls take.
    await new Promise((resolve) => setTimeout(resolve, 3 + 20 * Math.random() ** 3));
    return '12';
  }

  @Tool({ name: 'refund', description: 'Pays an order back', inputSchema: z.object({}) })
  refund(@McpArgs() _: object): string {
    throw new Error('secret failure');
  }

  @Tool({ name: 'reindex', description: 'Builds the index of the catalog anew' })
  async reindex(@McpCtx() ctx: McpContext): Promise<string> {
    await Promise.race([
      held.promise,
      new Promise((resolve) => {
        ctx.signal.addEventListener('abort', resolve);
      }),
    ]);
    return 'done';
  }

  @Resource({ uri: 'shop://catalog', name: 'catalog' })
  catalog(): string {
    return 'everything';
  }
}
