import { type CanActivate, Injectable, UseGuards } from '@nestjs/common';
import { McpArgs, McpCtx, type McpContext, Prompt, Resource, ResourceTemplate, Tool } from 'nestjs-mcp-streamable';
import { RequireScopes } from 'nestjs-mcp-streamable/auth';
import { z } from 'zod';

const line = z.object({
  sku: z.string().describe('Number of the article'),
  count: z.number().int().min(1).max(99).default(1),
});

const order = z.object({
  customer: z.email().describe('Who gets the invoice'),
  lines: z.array(line).min(1).describe('What is ordered'),
  shipping: z
    .object({
      method: z.enum(['standard', 'express', 'pickup']).default('standard'),
      street: z.string().optional(),
      gift: z.boolean().optional(),
    })
    .optional(),
  note: z.string().max(400).optional().describe('A line for the packer'),
  token: z.string().optional(),
});

export class StaffOnly implements CanActivate {
  canActivate(): boolean {
    return true;
  }
}

/** A schema that contains itself thirty times, with names that are no names. */
const TREE = {
  type: 'object',
  properties: JSON.parse(
    `{"__proto__": {"type": "string"}, "constructor": {"type": "string"}, ${Array.from({ length: 30 }, (_, index) => `"child${index}": {"$ref": "#/$defs/node"}`).join()}}`,
  ) as object,
  $defs: {
    node: {
      type: 'object',
      properties: Object.fromEntries(
        Array.from({ length: 30 }, (_, index) => [`child${index}`, { $ref: '#/$defs/node' }]),
      ),
    },
  },
};

/** A shop with everything that the page can show and try. */
@Injectable()
export class WholeShop {
  @Tool({
    name: 'place_order',
    title: 'Place an order',
    description: 'Places an order and answers with its number.\nThe customer gets an invoice by mail within the hour.',
    inputSchema: order,
    outputSchema: z.object({ id: z.string(), lines: z.number() }),
    annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: true },
  })
  @UseGuards(StaffOnly)
  async place(
    @McpArgs() { lines }: z.infer<typeof order>,
    @McpCtx() ctx: McpContext,
  ): Promise<{ id: string; lines: number }> {
    await ctx.progress({ progress: 1, total: 2, message: 'Reserving the articles' });
    await ctx.log('info', { reserved: lines.length });
    await ctx.progress({ progress: 2, total: 2, message: 'Writing the invoice' });
    return { id: 'A-1042', lines: lines.length };
  }

  @Tool({
    name: 'return_order',
    description: 'Refunds an order, after it has asked',
    inputSchema: z.object({ id: z.string() }),
  })
  async refund(@McpArgs() { id }: { id: string }, @McpCtx() ctx: McpContext): Promise<string> {
    const requestedSchema = z.object({ reason: z.enum(['broken', 'late']), percent: z.number() });
    const answer = await ctx.elicit('sure', { message: `Refund the order ${id}?`, requestedSchema });
    if (answer.action !== 'accept') return `Nothing refunded: ${answer.action}`;
    return `${id}: ${answer.content.percent} % refunded, because it was ${answer.content.reason}`;
  }

  @Tool({ name: 'wait', description: 'Waits until it is cancelled', annotations: { readOnlyHint: true } })
  async wait(@McpCtx() ctx: McpContext): Promise<string> {
    await new Promise((resolve) => {
      ctx.signal.addEventListener('abort', resolve);
    });
    return 'over';
  }

  @Tool({ name: 'summarize', description: 'Asks the model of the client', annotations: { readOnlyHint: true } })
  async summarize(@McpCtx() ctx: McpContext): Promise<string> {
    const messages = [{ role: 'user' as const, content: { type: 'text' as const, text: 'Summarize the day' } }];
    const { content } = await ctx.sample('text', { messages, maxTokens: 50 });
    return `The model says: ${JSON.stringify(content)}`;
  }

  @Tool({ name: 'graft', inputSchema: TREE, annotations: { readOnlyHint: true } })
  graft(@McpArgs() args: object): string {
    return JSON.stringify(args);
  }

  @Tool({ name: 'leak', inputSchema: z.object({ id: z.string() }) })
  leak(@McpArgs() { id }: { id: string }): string {
    return JSON.stringify({ password: 'letmein', id });
  }

  @Tool({ name: 'fail', inputSchema: z.object({}) })
  @RequireScopes('shop:write')
  fail(): never {
    throw new Error('The warehouse is closed');
  }

  @Tool({ name: 'draw', description: 'Draws the logo', annotations: { readOnlyHint: true } })
  draw(): object {
    const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="24"><script>parent.document.title = 'owned'</script><rect width="40" height="24" rx="6" fill="#4f46e5"/></svg>`;
    const block = (text: string) => ({
      type: 'image',
      mimeType: 'image/svg+xml',
      data: Buffer.from(text).toString('base64'),
    });
    const resource = { uri: 'shop://logo.svg', mimeType: 'image/svg+xml', text: svg };
    return { content: [block(svg), { type: 'resource', resource }, block('no image')] };
  }

  @Resource({ uri: 'shop://terms', name: 'terms', description: 'The terms of the shop', mimeType: 'text/plain' })
  terms(): string {
    return 'All sales are final.';
  }

  @ResourceTemplate({ uriTemplate: 'shop://orders/{id}', name: 'order', description: 'One order by its number' })
  orderOf(@McpArgs('id') id: string): string {
    return `Order ${id}`;
  }

  @Prompt({
    name: 'apology',
    description: 'A letter to a customer whose order is late',
    arguments: [{ name: 'customer', description: 'The name', required: true }],
  })
  apology(@McpArgs() { customer }: { customer: string }): string {
    return `Write to ${customer}.`;
  }
}
