// #region handle
import { Injectable } from '@nestjs/common';
import { McpArgs, type McpContext, McpCtx, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';

const Addition = z.object({
  item: z.string(),
  count: z.number().int().positive(),
  cart: z
    .string()
    .optional()
    .describe('The cart to add to, as a former call named it. Without it: a new one'),
});

@Injectable()
export class Carts {
  @Tool({
    name: 'add_to_cart',
    description: 'Puts something into a shopping cart',
    inputSchema: Addition,
  })
  async add(
    @McpArgs() { item, count, cart }: z.infer<typeof Addition>,
    @McpCtx() ctx: McpContext,
  ): Promise<object> {
    const state = await ctx.state(cart);
    const items = await state.patch({ [item]: count });
    return { cart: state.handle, items };
  }
}
// #endregion

// #region principal
@Injectable()
export class Preferences {
  @Tool({
    name: 'speak',
    description: 'Sets the language',
    inputSchema: z.object({ language: z.string() }),
  })
  async speak(
    @McpArgs('language') language: string,
    @McpCtx() ctx: McpContext,
  ): Promise<string> {
    const mine = await ctx.principalState();
    const { language: before } = mine.data;
    await mine.patch({ language });
    return before === language ? 'You spoke it already.' : `From now on in ${language}.`;
  }
}
// #endregion

// #region once
@Injectable()
export class Checkout {
  @Tool({ name: 'begin_checkout', description: 'Begins a checkout' })
  async begin(@McpCtx() ctx: McpContext): Promise<string> {
    // The handler runs again when it has asked: without once() each run would begin
    // another state.
    const handle = await ctx.once('checkout', async () => {
      const state = await ctx.state();
      await state.patch({ step: 'address' });
      return state.handle;
    });
    const requestedSchema = z.object({ street: z.string() });
    const { action, content } = await ctx.elicit('address', {
      message: 'Where to?',
      requestedSchema,
    });
    if (action !== 'accept') return 'No address, no checkout.';
    await (await ctx.state(handle)).patch({ step: 'payment', address: content });
    return `Go on with the checkout ${handle}.`;
  }
}
// #endregion
