import type { ToolOptions } from '../definitions/handler-options.js';
import { declareHandler } from './handler-declaration.js';

/**
 * Makes a method of a provider or controller a tool.
 *
 * ```ts
 * const orderId = z.object({ id: z.string().describe('The number on the invoice') });
 *
 * @Tool({ name: 'find_order', description: 'Finds an order', inputSchema: orderId })
 * @UseGuards(CanReadOrders)
 * find(@McpArgs() { id }: z.infer<typeof orderId>, @McpCtx() ctx: McpContext) {
 *   return this.orders.find(id, ctx.signal);
 * }
 * ```
 *
 * Without param decorators it is called with `(args, ctx)`; beside decorated parameters, one without a decorator is the
 * context. Without `inputSchema`, the class of the parameter of `@McpArgs()` is the schema. Guards, interceptors, pipes and filters run around it as
 * around a route: guards first, then the check of the arguments.
 *
 * A class inherits the tools of its base class. A method that overrides one is a tool only if it is decorated itself.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools
 * @publicApi
 */
export function Tool(options: ToolOptions): MethodDecorator {
  return declareHandler('Tool', { kind: 'tool', options });
}
